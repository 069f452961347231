"""`ctl`: a line of control for scripts and other agents. Lists runs, reads one, gives it a command.

The commands are those of a person in the workbench (`akg_tui.core.commands`), through the same
socket; a run at rest takes them in its journal. Exit codes: 0 done, 2 bad input or no single run,
3 the run does not allow it now, 4 no process takes commands for the run.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from akg_tui.cli.run_options import positive
from akg_tui.cli.usage_error import EXIT_NOBODY, EXIT_OK, EXIT_REFUSED, UsageError, print_json

if TYPE_CHECKING:
    from akg_tui.core.commands import Command
    from akg_tui.core.state import RunState
    from akg_tui.engine.follower import Followed
    from akg_tui.store.run_list import RunSummary

POLL_S = 0.1
GRACE_S = 30.0  # a run that changes its process is at rest for a moment
MOST_TOLD = 8  # candidates that a message names


def add_control(add: Callable[..., Any]) -> None:
    """Declare the verbs of `ctl`; `add` creates a command."""
    listing = add("ctl list", _list, "list the detached runs, and the runs at work below a folder")
    listing.add_argument("folder", type=Path, nargs="?", default=Path(), metavar="FOLDER")
    listing.add_argument("--all", action="store_true", help="also the other runs below the folder")
    _with_run(add("ctl show", _show, "the state of a run: what it does, and what it waits for"))
    events = add("ctl events", _events, "the events of a run, by their numbers in its journal")
    _with_run(events)
    events.add_argument(
        "--cursor", type=int, default=0, metavar="N", help="only the events after number N"
    )
    events.add_argument(
        "--follow", action="store_true", help="and those to come, until the run is over"
    )
    listing.add_argument("--json", action="store_true", help="print one JSON object a run")

    _change(add, "pause", "pause after the work under way")
    _change(add, "resume", "let a paused run go on; one at rest goes on in a detached engine")
    _change(add, "step", "take one transition, in mode step or while paused")
    _change(add, "stop", "end the run; its best kernel is measured afresh", text="REASON", lacks="")
    _change(add, "hint", "a hint to the agent", text="TEXT")
    answer = _change(add, "answer", "answer the agent's open question", text="TEXT")
    answer.add_argument("--question", type=int, metavar="N", help="only if question N is open")
    for verb, about in (("approve", "approve what waits"), ("reject", "reject what waits")):
        gate = _change(add, verb, f"{about} for a review", text="COMMENT", lacks="")
        gate.add_argument("--gate", type=int, metavar="N", help="only if request N is open")
        if verb == "approve":
            gate.add_argument(
                "--always", action="store_true", help="and all later requests of its scope: a rule"
            )
    revoke = _change(add, "revoke", "end an approval rule, by its number in `ctl show`")
    revoke.add_argument("rule", type=positive, metavar="RULE")
    _change(
        add, "limit", "other limits from now on, as rounds=40 hours=+2 cost=none", text="LIMITS"
    )
    _change(add, "undo", "take the last KEEP back", text="COMMENT", lacks="")
    _change(add, "detach", "the run leaves the terminal that it is at work in, and goes on")


def _with_run(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "run_folder",
        metavar="RUN",
        help="a run's folder, a folder with one run (at work) below, or the begin of a run's name",
    )
    command.add_argument("--json", action="store_true", help="print JSON")


def _change(
    add: Callable[..., Any], verb: str, about: str, *, text: str = "", lacks: str | None = None
) -> argparse.ArgumentParser:
    """Declare a verb that changes a run; its `text` may be missing if `lacks` stands for it."""
    command: argparse.ArgumentParser = add(f"ctl {verb}", partial(_send, verb), about)
    _with_run(command)
    command.add_argument(
        "--take", action="store_true", help="steer the run in place of another process"
    )
    if text:
        nargs = "+" if lacks is None else "*"
        command.add_argument("text", nargs=nargs, metavar=text)
    return command


def target(word: str) -> Path:
    """Return the run that a word names. Raises `UsageError`, with the candidates if several."""
    from akg_tui.core.sanitize import one_line
    from akg_tui.engine.detached import known_runs
    from akg_tui.store.lock import holder
    from akg_tui.store.run_list import JOURNAL, check_is_run, find_runs

    path = Path(word)
    if (path / JOURNAL).exists():
        return path
    if path.is_dir():
        found = list(find_runs(path))
        if not found:
            check_is_run(path)
    else:
        found = [run for run in known_runs(Path()) if run.name.startswith(word) and word]
        exact = [run for run in found if run.name == word]
        found = exact or found
        if not found and "/" in word:
            check_is_run(path)
        if not found:
            what = f"expected a folder with {JOURNAL}, or the begin of a known run's name"
            raise UsageError(f"{one_line(word)}: is not a run, {what}")
    at_work = [run for run in found if holder(run) is not None]
    if len(at_work or found) == 1:
        return (at_work or found)[0]
    raise UsageError(f"{one_line(word)} may be: {candidates(at_work or found)}")


def candidates(runs: list[Path]) -> str:
    """Return the paths of runs as words of a shell, the newest names last."""
    told = [quote(str(run)) for run in sorted(runs, key=lambda run: run.name)]
    return ", ".join((["…"] if len(told) > MOST_TOLD else []) + told[-MOST_TOLD:])


def _list(arguments: argparse.Namespace) -> int:
    from akg_tui.core.sanitize import one_line
    from akg_tui.engine.detached import known_runs, registered
    from akg_tui.evaluate.targets.lease import held_leases
    from akg_tui.store.run_list import summarize_run

    now = time.time()
    held = held_leases().items()
    timing = {Path(each.folder).resolve(): device for device, each in held if each.folder}
    detached = {each.run: each for each in registered()}
    shown = 0
    for path in known_runs(arguments.folder):
        noted = detached.get(str(path.resolve()))
        run = summarize_run(path)
        if noted is None and run.pid is None and not arguments.all:
            continue
        shown += 1
        host = noted.host if noted is not None and noted.elsewhere else ""
        times_on = timing.get(path.resolve(), "")
        if arguments.json:
            print_json("run", **_plain(run, now), host=host, times_on=times_on)
        else:
            lines = (
                run.line(),
                _idle(run, now),
                f"detached on {host}" if host else "",
                f"times on {one_line(times_on)}" if times_on else "",
            )
            print("  ".join(filter(None, lines)))
    if not shown and not arguments.json:
        print(f"no run is at work below {arguments.folder}, and none was detached")
    return EXIT_OK


def _plain(run: RunSummary, now: float) -> dict[str, Any]:
    idle = None if run.damaged or run.finished else round(run.idle_s(now), 1)
    return {**run.as_json(), "idle_s": idle}


def _idle(run: RunSummary, now: float) -> str:
    from akg_tui.view.run_rows import idle_told

    return idle_told(run, now)


def _show(arguments: argparse.Namespace) -> int:
    from msgspec import to_builtins

    from akg_tui.core.approval_rules import told as rule_told
    from akg_tui.core.sanitize import split_clean
    from akg_tui.core.summary import summarize
    from akg_tui.store.lock import holder
    from akg_tui.store.run_list import read_state, summary_of

    path = target(arguments.run_folder)
    state, now = read_state(path), time.time()
    run = summary_of(str(path), state, None if state.finished else holder(path))
    question, gate = _open(state)
    if arguments.json:
        told = {**summarize(state), **_plain(run, now), "cursor": state.seq}
        print_json("run", **told, question=question, gate=gate, rules=to_builtins(state.rules))
        return EXIT_OK
    print(run.line())
    detail = gate.pop("detail") if gate else ""
    for line in (_idle(run, now), _asked(question), _asked(gate)):
        if line:
            print(line)
    for line in split_clean(detail) if detail else ():
        print(f"  | {line}")
    for rule in state.rules:
        print(rule_told(rule))
    return EXIT_OK


def _open(state: RunState) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Return the open question and the open request of a run, as JSON values."""
    from akg_tui.core.approval_rules import in_words, rule_fault, scope_of

    question = gate = None
    if (asked := state.question) is not None and not state.finished:
        question = {
            "question": asked.number,
            "text": asked.text,
            "choices": list(asked.choices),
            "default": asked.default,
            "until": asked.until,
        }
    if (waits := state.gate) is not None and not waits.answer and not state.finished:
        gate = {
            "gate": waits.gate,
            "kind": waits.kind,
            "attempt": waits.attempt,
            "item": state.active,
            "detail": waits.detail,
            "always": "" if rule_fault(state, waits) else in_words(scope_of(state, waits)),
        }
    return question, gate


def _asked(values: dict[str, Any] | None) -> str:
    from akg_tui.core.sanitize import one_line

    told = [
        f"{name} {one_line(str(value), 500)}" for name, value in (values or {}).items() if value
    ]
    return ", ".join(told)


def _events(arguments: argparse.Namespace) -> int:
    from akg_tui.core.events import RunFinished, RunReopened
    from akg_tui.engine.run_handle import unread
    from akg_tui.headless.watched_run import JsonLines
    from akg_tui.store.journal_reader import JournalTail
    from akg_tui.store.lock import holder
    from akg_tui.store.run_list import JOURNAL
    from akg_tui.view.event_words import line_texts

    path = target(arguments.run_folder)
    tail = JournalTail(path / JOURNAL)
    lines = JsonLines(sys.stdout, arguments.cursor)
    seen, over, grace = 0, False, 0.0
    while True:
        at_work = holder(path) is not None  # looked at first: what it wrote before its end is read
        while tail.more():
            pass
        for record in unread(tail.records, seen):
            if isinstance(record.event, RunFinished | RunReopened):
                over = isinstance(record.event, RunFinished)
            if not arguments.json and record.seq > arguments.cursor:
                for line in line_texts(record.event, "plain", str):
                    print(f"{record.seq}\t{line}")
        seen = len(tail.records)
        if arguments.json:
            lines.write(tail.records)
        sys.stdout.flush()
        if over or not arguments.follow:
            return EXIT_OK
        if at_work:
            grace = time.monotonic() + GRACE_S
        elif time.monotonic() >= grace:
            raise UsageError(f"{path}: {_at_rest(path)}", EXIT_NOBODY)
        time.sleep(POLL_S)


def _at_rest(path: Path) -> str:
    how = f"akg-tui ctl resume {quote(str(path))}"
    return f"nobody is at work on it; let it go on with: {how}"


def _send(verb: str, arguments: argparse.Namespace) -> int:
    from akg_tui.engine.attach import NotAttached
    from akg_tui.engine.detached import registered
    from akg_tui.engine.follower import Followed
    from akg_tui.store.run_at_rest import Refused

    path = target(arguments.run_folder)
    run = Followed(path)
    if run.pid is None:
        for noted in registered():
            if noted.elsewhere and noted.run == str(path.resolve()):
                how = f"akg-tui resume {quote(str(path))} --detach"
                why = f"it was detached on {noted.host}: steer it there, or go on here with: {how}"
                raise UsageError(f"{path}: {why}", EXIT_NOBODY)
    try:
        if verb == "resume" and run.pid is None and not run.state.finished:
            return _resume(path, run, arguments)
        _give(verb, run, arguments)
    except NotAttached as error:
        raise UsageError(f"{path}: {error}", EXIT_NOBODY) from None
    except Refused as error:
        raise UsageError(f"{path}: {error}", EXIT_REFUSED) from None
    if arguments.json:
        print_json("ctl", verb=verb, run=str(path), cursor=run.state.seq)
    return EXIT_OK


def _resume(path: Path, run: Followed, arguments: argparse.Namespace) -> int:
    """Let a run at rest go on in a detached engine."""
    from akg_tui.core import commands as cmd
    from akg_tui.engine.attach import send_to_run
    from akg_tui.engine.detached import NotStarted, start

    if run.state.paused:
        send_to_run(path, cmd.Unpause())
    try:
        made = start(path)
    except NotStarted as error:
        raise UsageError(f"{path}: {error}", EXIT_NOBODY) from error
    if arguments.json:
        print_json(
            "ctl", verb="resume", run=str(path), cursor=run.state.seq,
            pid=made.pid or None, socket=made.socket or None,
        )  # fmt: skip
    return EXIT_OK


def _give(verb: str, run: Followed, arguments: argparse.Namespace) -> None:
    """Give the run the command of a verb. Raises `Refused`, `NotAttached` and `UsageError`."""
    from akg_tui.engine.attach import ask_to_detach, send_to_run
    from akg_tui.store.run_at_rest import Refused

    path = Path(run.path)
    if run.pid is None and verb in ("step", "detach") and not run.state.finished:
        raise UsageError(f"{path}: {_at_rest(path)}", EXIT_NOBODY)
    if verb == "detach":
        if (refused := ask_to_detach(path, take=arguments.take)) is not None:
            raise Refused(refused.why)
        return
    command = _command(verb, run, " ".join(getattr(arguments, "text", ())), arguments)
    send_to_run(path, command, take=arguments.take)


def _command(verb: str, run: Followed, text: str, arguments: argparse.Namespace) -> Command:
    """Return the command of a verb. Raises `Refused` if nothing is open that it would answer."""
    from akg_tui.core import commands as cmd
    from akg_tui.store.run_at_rest import Refused
    from akg_tui.view.controls.completion import HintRefused, hint_command
    from akg_tui.view.controls.policy_words import BadLimit, limited

    state = run.state
    match verb:
        case "pause":
            return cmd.Pause()
        case "resume":
            return cmd.Unpause()
        case "step":
            return cmd.Step()
        case "stop":
            return cmd.Stop(text) if text else cmd.Stop()
        case "undo":
            return cmd.UndoKeep(text, queue=True)
        case "answer":
            if state.question is None:
                raise Refused("no question is open")
            return cmd.AnswerQuestion(arguments.question or state.question.number, text)
        case "approve" | "reject":
            if state.gate is None or state.gate.answer:
                raise Refused("nothing waits for a review")
            number = arguments.gate or state.gate.gate
            always = verb == "approve" and arguments.always
            return cmd.AnswerGate(number, verb == "approve", text, always)
        case "revoke":
            return cmd.RevokeRule(arguments.rule)
        case "hint":
            best = None
            if state.standing_blob:
                best = run.kernel(state.standing_blob)
            try:
                return hint_command(text, state, best)[0]
            except HintRefused as error:
                raise UsageError(f"hint: {error}") from None
    try:
        settled = state.rounds if state.finished else None
        policy = limited(state.task.policy, text, settled=settled, metrics=state.task.metrics)
    except BadLimit as error:
        raise UsageError(f"limit: {error}") from None
    return cmd.GoOn(policy) if state.finished else cmd.ChangePolicy(policy)
