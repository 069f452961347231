"""The commands on runs: list, show, and view them in the workbench."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from akg_tui.cli.appearance_options import add_appearance, no_screen, show_workbench, wanted
from akg_tui.cli.usage_error import EXIT_BAD_INPUT, EXIT_OK, UsageError

if TYPE_CHECKING:
    from akg_tui.engine.follower import Followed


def add_run_commands(add: Callable[..., Any]) -> None:
    """Declare `runs` and `show`; `add` creates a command."""
    runs = add("runs", _runs, "list the runs of a task folder, or of all below a folder")
    runs.add_argument("folder", type=Path, nargs="?", default=Path())
    runs.add_argument("--json", action="store_true")

    show = add("show", _show, "print the plan of a run, or its summary as JSON")
    show.add_argument("run_folder", type=Path, metavar="RUN")
    show.add_argument("--json", action="store_true")


def _runs(arguments: argparse.Namespace) -> int:
    import json

    from akg_tui.store.run_list import list_runs

    found = list_runs(arguments.folder)
    for run in found:
        if arguments.json:
            print(json.dumps(run.as_json()))
        else:
            print(run.line())
    if not found and not arguments.json:
        print(f"no run below {arguments.folder}")
    return EXIT_OK


def _show(arguments: argparse.Namespace) -> int:
    import json

    from akg_tui.core.plan.plan_document import render_plan
    from akg_tui.core.summary import summarize
    from akg_tui.store.run_list import read_state

    state = read_state(arguments.run_folder)
    if arguments.json:
        print(json.dumps({**summarize(state), "run": str(arguments.run_folder)}))
    else:
        print(render_plan(state, whole=True), end="")
    return EXIT_OK


def add_views(add: Callable[..., Any]) -> None:
    """Declare `replay` and `attach`; `add` creates a command."""
    replay, attach = partial(_watch, steer=False), partial(_watch, steer=True)
    view = add("replay", replay, "step through the events of a run; read-only")
    view.add_argument("run_folder", type=Path, metavar="RUN")
    add_appearance(view)
    view = add("attach", attach, "watch and steer a run that works in another process")
    view.add_argument(
        "run_folder",
        nargs="?",
        metavar="RUN",
        help="a run's folder or the begin of its name; without it the one at work, or a list",
    )
    add_appearance(view)


def browse(arguments: argparse.Namespace) -> int:
    """Run `akg-tui` without a command: show the runs below the current folder."""
    if why := no_screen():
        raise UsageError(
            f"{why} to show the runs on; list them with: akg-tui runs, "
            "and see all commands with: akg-tui --help"
        )
    return show_workbench(None, browse=Path())


def _watch(arguments: argparse.Namespace, *, steer: bool) -> int:
    """Show the workbench on a run that this process does not work on."""
    from akg_tui.cli.run_control import target
    from akg_tui.store.errors import StoreError
    from akg_tui.store.run_list import check_is_run

    if steer:
        found = target(arguments.run_folder) if arguments.run_folder else _the_one_at_work()
        if found is None:
            return browse(arguments)
        path = found
    else:
        path = arguments.run_folder
        check_is_run(path)
    if why := no_screen():
        run = quote(str(path))
        raise UsageError(
            f"{arguments.command} needs a screen, and {why}; for scripts: "
            f"akg-tui show {run} --json, or akg-tui report {run} --format json"
        )
    looks = wanted(arguments)
    broken: list[Exception] = []

    async def open_handle() -> Followed:
        import asyncio

        from akg_tui.engine.follower import Followed

        try:
            return await asyncio.to_thread(Followed, path, steer=steer)
        except StoreError as error:
            broken.append(error)
            raise

    code = show_workbench(open_handle, wanted=looks, past=not steer)
    if broken:
        raise broken[0]
    return EXIT_OK if code == 0 else EXIT_BAD_INPUT


def _the_one_at_work() -> Path | None:
    """Return the only known run at work, None for several. Raises `UsageError` for none."""
    from akg_tui.engine.detached import known_runs
    from akg_tui.store.lock import holder

    found = [run for run in known_runs(Path()) if holder(run) is not None]
    if not found:
        raise UsageError(
            "no run is at work below this folder, and none that was detached; "
            "name one: akg-tui attach RUN"
        )
    return found[0] if len(found) == 1 else None
