"""The commands that look at runs on a screen: all of them, one at rest, one at work elsewhere."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from akg_tui.cli.looks import add_looks, wanted
from akg_tui.cli.serving import is_served
from akg_tui.cli.usage import EXIT_BAD_INPUT, EXIT_OK, UsageError, fail

if TYPE_CHECKING:
    from akg_tui.engine.follow import Followed


def add_watching(add: Callable[..., Any]) -> None:
    """Declare `replay` and `attach`; `add` makes one command."""
    replay = add("replay", _replay, "look at a run from its first event to its last; read-only")
    replay.add_argument("run_folder", type=Path, metavar="RUN")
    add_looks(replay)

    attach = add("attach", _attach, "watch and steer a run that another process works on")
    attach.add_argument("run_folder", type=Path, metavar="RUN")
    add_looks(attach)


def browse(arguments: argparse.Namespace) -> int:
    """`akg-tui` without a command: the runs below this folder."""
    if not (is_served() or (sys.stdout.isatty() and sys.stdin.isatty())):
        raise UsageError(
            "there is no terminal to show the runs on; list them with: akg-tui runs, "
            "and see all commands with: akg-tui --help"
        )
    from akg_tui.tui.garbage import hold

    hold()
    from akg_tui.tui.app import WorkbenchApp

    code = WorkbenchApp(None, browse=Path()).run()
    return EXIT_BAD_INPUT if code is None else code


def _replay(arguments: argparse.Namespace) -> int:
    return _watch(arguments, "replay", steer=False)


def _attach(arguments: argparse.Namespace) -> int:
    return _watch(arguments, "attach", steer=True)


def _watch(arguments: argparse.Namespace, command: str, *, steer: bool) -> int:
    """The workbench on a run that this process does not work on."""
    path: Path = arguments.run_folder
    from akg_tui.store.errors import StoreError
    from akg_tui.store.run_list import check_is_run

    try:
        check_is_run(path)
    except StoreError as error:
        fail(error)
    if not sys.stdout.isatty():
        raise UsageError(
            f"{command} needs a terminal; for scripts: akg-tui show {path} --json, "
            f"or akg-tui report {path} --format json"
        )
    looks = wanted(arguments)
    from akg_tui.tui.garbage import hold

    hold()
    from akg_tui.tui.app import WorkbenchApp

    broken: list[Exception] = []

    async def open_handle() -> Followed:
        import asyncio

        from akg_tui.engine.follow import Followed

        try:
            return await asyncio.to_thread(Followed, path, steer=steer)
        except StoreError as error:
            broken.append(error)
            raise

    code = WorkbenchApp(open_handle, wanted=looks, past=not steer).run()
    if broken:
        fail(broken[0])
    return EXIT_OK if code == 0 else EXIT_BAD_INPUT
