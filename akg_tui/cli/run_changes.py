"""The commands on a run at rest: fork it, undo its last KEEP."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import Any

from akg_tui.cli.run_options import natural
from akg_tui.cli.usage_error import EXIT_OK, print_json


def add_run_changes(add: Callable[..., Any]) -> None:
    """Declare `fork` and `undo`; `add` creates a command."""
    fork = add("fork", _fork, "a new run with the history of another, up to the end of a round")
    fork.add_argument(
        "--round",
        type=natural,
        metavar="N",
        help="0 is the accepted baseline; default: the last round, of a damaged run the last sound",
    )

    undo = add("undo", _undo, "undo the last KEEP; the previous best kernel becomes the best again")
    undo.add_argument("--comment", default="", metavar="TEXT", help="why, for the agent to read")

    for command in (fork, undo):
        command.add_argument("run_folder", type=Path, metavar="RUN")
        command.add_argument("--json", action="store_true", help="print one JSON object")


def _fork(arguments: argparse.Namespace) -> int:
    import time

    from akg_tui.core.stopping.limits import stop_reasons
    from akg_tui.store.fork import fork_run

    run = arguments.run_folder
    made = fork_run(run, arguments.round)
    number = made.origin.round
    lost = [attempt.number for attempt in made.state.attempts if attempt.lost]
    stops = stop_reasons(made.state, time.time())
    if arguments.json:
        about = {"seq": made.origin.seq, "hash": made.origin.hash, "stops": stops}
        about |= {"damage": made.damage, "lost": lost}
        print_json("fork", run=str(made.path), parent=str(run), round=number, **about)
        return EXIT_OK
    print(f"forked {run} at the end of round {number}: {made.path}")
    if made.damage:
        print(f"the journal of {run} is damaged behind that: {made.damage}")
    if lost:
        print(f"the kernel's text is lost of attempt {', '.join(map(str, lost))}")
    if stops:
        print(f"it would end at once ({stops[0]}): resume it with another limit")
    print(f"go on with: akg-tui resume {quote(str(made.path))}{' --max-rounds N' if stops else ''}")
    return EXIT_OK


def _undo(arguments: argparse.Namespace) -> int:
    from akg_tui.core import commands as cmd
    from akg_tui.store.run_at_rest import apply_at_rest
    from akg_tui.store.run_folder import RunFolder

    with contextlib.closing(RunFolder.open(arguments.run_folder)) as run:
        before = run.state.best
        apply_at_rest(run, cmd.UndoKeep(arguments.comment))
        state, after = run.state, run.state.best
    assert before is not None
    assert after is not None
    if arguments.json:
        best = {"best_attempt": after.attempt, "best_commit": after.commit}
        print_json("undo", run=str(arguments.run_folder), undone=before.attempt, **best)
        return EXIT_OK
    again = f"attempt {after.attempt}" if after.attempt else "the seed"
    print(f"the KEEP of attempt {before.attempt} is undone; the best kernel is {again} again")
    if state.finished:
        print(
            f"the run is over; to go on from here: akg-tui fork {quote(str(arguments.run_folder))} "
            f"--round {state.attempts[before.attempt].round - 1}"
        )
    return EXIT_OK
