"""`settle`: measures the shortlist of an estimate run, here or on another machine."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from akg_tui.cli.run_options import options_at_fault
from akg_tui.cli.tune import add_watching, watch
from akg_tui.cli.usage_error import UsageError

if TYPE_CHECKING:
    from akg_tui.store.run_folder import RunFolder


def add_settle(add: Callable[..., Any]) -> None:
    """Declare `settle`; `add` creates a command."""
    settle = add("settle", _settle, "measure the shortlist of an estimate run with the judge")
    settle.add_argument("run_folder", type=Path, metavar="RUN", help="made by tune --estimate")
    where = settle.add_mutually_exclusive_group(required=True)
    where.add_argument("--here", action="store_true", help="on this machine, which has the device")
    where.add_argument(
        "--on", metavar="HOST", help="on another machine, by ssh; its result is brought back"
    )
    settle.add_argument(
        "--command",
        dest="program",
        metavar="PATH",
        default="akg-tui",
        help="with --on: akg-tui on that machine, if its shell does not find it",
    )
    add_watching(settle)


def _settle(arguments: argparse.Namespace) -> int:
    from akg_tui.store.fork import check_can_settle

    run: Path = arguments.run_folder
    check_can_settle(run)
    if arguments.on is None:
        return watch(lambda: _open_here(arguments), arguments)
    from akg_tui.engine.remote_settling import RemoteFault, settle_on

    words = ["--mode", arguments.mode] if arguments.mode else []
    words += ["--require-sandbox"] if arguments.require_sandbox else []
    try:
        settled = settle_on(arguments.on, run, arguments.program, words, tell=_told(arguments))
    except RemoteFault as fault:
        raise UsageError(f"--on {arguments.on}: {fault}") from fault
    return _show(settled, arguments)


def _open_here(arguments: argparse.Namespace) -> RunFolder:
    """Return the run that settles, with the device checked: one that is not over, or a new one."""
    from akg_tui.core.phases import Mode
    from akg_tui.engine.run_service import check_sandbox, check_target, resume
    from akg_tui.evaluate.estimate.estimator import estimator_for
    from akg_tui.evaluate.targets import TARGETS
    from akg_tui.store.fork import (
        check_can_settle,
        settle_run,
        settling_task,
        unfinished_settling,
    )

    run = arguments.run_folder
    state = check_can_settle(run)
    required = arguments.require_sandbox
    with options_at_fault(arguments):
        if (left := unfinished_settling(run, state)) is not None:
            return resume(left, mode=arguments.mode, require_sandbox=required)
        backend = estimator_for(state.task.estimate).backend
        if backend not in TARGETS:
            raise UsageError(f"{run}: this akg-tui cannot measure on the target {backend}")
        task = settling_task(state, backend)
        check_target(task, run)
        check_sandbox(task, required=required)
    return settle_run(run, task.target.backend, Mode(arguments.mode or "auto"))


def _told(arguments: argparse.Namespace) -> Callable[[dict[str, Any]], None]:
    """Return what shows an event of the other machine: its line of JSON, or its words."""
    import json

    import msgspec

    from akg_tui.core.events import AnyEvent
    from akg_tui.view.event_words import line_texts

    def in_words(told: dict[str, Any]) -> None:
        try:
            event = msgspec.convert(told, AnyEvent)
        except msgspec.ValidationError:
            return
        for line in line_texts(event, "headless", str):
            print(line, flush=True)

    return (lambda told: print(json.dumps(told), flush=True)) if arguments.json else in_words


def _show(settled: Path, arguments: argparse.Namespace) -> int:
    """Print the result that was brought back; return the exit code of the run."""
    from akg_tui.cli.usage_error import EXIT_BAD_INPUT, EXIT_OK
    from akg_tui.core.plan.plan_document import render_plan
    from akg_tui.core.summary import summarize
    from akg_tui.store.run_list import read_state

    state = read_state(settled)
    if arguments.json:
        import json

        print(json.dumps({**summarize(state), "run": str(settled)}))
    else:
        print(render_plan(state, whole=True), end="")
        print(f"run: {settled}")
    return EXIT_OK if state.ok and state.finished else EXIT_BAD_INPUT
