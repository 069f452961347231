"""The commands on a run at rest: fork it, undo its last KEEP, adopt a hand edit of PLAN.md."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from akg_tui.cli.run_options import natural
from akg_tui.cli.usage_error import EXIT_OK, UsageError, print_json

if TYPE_CHECKING:
    from akg_tui.core.events import PlanChange


def add_run_changes(add: Callable[..., Any]) -> None:
    """Declare `fork`, `undo` and `adopt`; `add` creates a command."""
    fork = add("fork", _fork, "a new run with the history of another, up to the end of a round")
    fork.add_argument(
        "--round",
        type=natural,
        metavar="N",
        help="0 is the accepted baseline; default: the last round, of a damaged run the last sound",
    )

    undo = add("undo", _undo, "undo the last KEEP; the previous best kernel becomes the best again")
    undo.add_argument("--comment", default="", metavar="TEXT", help="why, for the agent to read")

    adopt = add("adopt", _adopt, "show the changes of a hand edit of PLAN.md; --yes applies them")
    adopt.add_argument(
        "--edit",
        metavar="NAME",
        help="name of the edit, such as PLAN.md.edited-1 (default: the newest)",
    )
    adopt.add_argument("--yes", action="store_true", help="apply the edit")
    for command in (fork, undo, adopt):
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


def _adopt(arguments: argparse.Namespace) -> int:
    from akg_tui.core import commands as cmd
    from akg_tui.store.run_at_rest import apply_at_rest, read_kept_edit
    from akg_tui.store.run_folder import RunFolder

    path = arguments.run_folder
    with contextlib.closing(RunFolder.open(path)) as run:
        left = [e.kept for e in run.state.plan_edits if e.kept not in run.state.adopted]
        if arguments.edit is None and not left:
            raise UsageError(f"{path}: has no hand edit of PLAN.md to take over")
        kept = arguments.edit or left[-1]
        change = read_kept_edit(path, kept, run.state)
        if arguments.yes:
            apply_at_rest(run, cmd.AdoptPlanEdit(kept, change))
    _tell(arguments, kept, change)
    return EXIT_OK


def _tell(arguments: argparse.Namespace, kept: str, change: PlanChange) -> None:
    import msgspec

    from akg_tui.core.sanitize import one_line

    if arguments.json:
        told = msgspec.to_builtins(change)
        print_json("adopt", edit=kept, adopted=arguments.yes, change=told)
        return
    lines = [f"add   {item.id}: {one_line(item.text)}" for item in change.added]
    lines += [f"edit  {item.id}: {one_line(item.text)}" for item in change.edited]
    lines += [f"drop  {item_id}" for item_id in change.dropped]
    if change.order:
        lines.append(f"order {', '.join(change.order)}")
    print("\n".join(lines) or f"{kept} changes no item")
    for item_id in change.fixed:
        print(f"keep  {item_id}: it is under work, so its text cannot change")
    if arguments.yes:
        print(f"{kept} is taken over")
    elif lines:
        command = f"akg-tui adopt {quote(str(arguments.run_folder))} --edit {kept} --yes"
        print(f"nothing was changed; take it over with: {command}")
