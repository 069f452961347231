"""The commands on tasks and runs at rest: make, list, show."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from akg_tui.cli.usage import EXIT_OK, fail


def add_run_commands(add: Callable[..., Any]) -> None:
    """Declare `new`, `runs` and `show`; `add` makes one command."""
    new = add("new", _new, "make a task folder from a reference and a kernel")
    new.add_argument("folder", type=Path, metavar="DIR")
    new.add_argument("--reference", type=Path, required=True)
    new.add_argument("--kernel", type=Path, required=True)
    new.add_argument("--backend", choices=["cpu", "cuda"], default="cpu")
    new.add_argument("--dsl", choices=["cpp", "torch", "triton"], default="cpp")
    new.add_argument("--arch", default="", help="free text, for the reader")

    runs = add("runs", _runs, "list the runs of a task folder, or of all below a folder")
    runs.add_argument("folder", type=Path, nargs="?", default=Path())
    runs.add_argument("--json", action="store_true")

    show = add("show", _show, "print the plan of a run, or its summary as JSON")
    show.add_argument("run_folder", type=Path, metavar="RUN")
    show.add_argument("--json", action="store_true")


def _new(arguments: argparse.Namespace) -> int:
    import sys

    from akg_tui.evaluate.adapters import lacking
    from akg_tui.store.errors import StoreError
    from akg_tui.store.task_folder import write_task

    try:
        made = write_task(
            arguments.folder,
            reference=arguments.reference,
            kernel=arguments.kernel,
            backend=arguments.backend,
            dsl=arguments.dsl,
            arch=arguments.arch,
        )
    except StoreError as error:
        fail(error)
    if why := lacking(made.task):
        print(f"akg-tui: note: not here: {why}", file=sys.stderr)
    print(f"made {arguments.folder}; check it with: akg-tui eval {arguments.folder}")
    return EXIT_OK


def _runs(arguments: argparse.Namespace) -> int:
    import json

    from akg_tui.store.errors import StoreError
    from akg_tui.store.run_folder import list_runs

    try:
        found = list_runs(arguments.folder)
    except StoreError as error:
        fail(error)
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

    from akg_tui.core.plan_view import render_plan
    from akg_tui.core.summary import summarize
    from akg_tui.store.errors import StoreError
    from akg_tui.store.run_folder import read_state

    try:
        state = read_state(arguments.run_folder)
    except StoreError as error:
        fail(error)
    if arguments.json:
        print(json.dumps({**summarize(state), "run": str(arguments.run_folder)}))
    else:
        print(render_plan(state), end="")
    return EXIT_OK
