"""The permissions that the user gave: `rules RUN` to requests of a run, `trust` to folders.

`rules` lists the rules that approve requests for a person, makes or ends one. It works on a run at
rest and, through its socket, on a run at work. A rule is made by the number of
the waiting request, so that it never applies to another request.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from akg_tui.cli.run_options import positive
from akg_tui.cli.usage_error import EXIT_OK, UsageError, fail, print_json

if TYPE_CHECKING:
    from akg_tui.core.commands import Command
    from akg_tui.core.state import OpenGate, Rule, RunState


def add_rules(add: Callable[..., Any]) -> None:
    """Declare `rules`; `add` creates a command."""
    rules = add("rules", _rules, "list, make or end approval rules")
    rules.add_argument("run_folder", type=Path, metavar="RUN")
    what = rules.add_mutually_exclusive_group()
    what.add_argument(
        "--always",
        type=positive,
        metavar="REQUEST",
        help="approve waiting request REQUEST and make a rule for later requests of its kind",
    )
    what.add_argument("--revoke", type=positive, metavar="RULE", help="end this rule")
    rules.add_argument("--json", action="store_true", help="print one JSON object")


def add_trust_commands(add: Callable[..., Any]) -> None:
    """Declare `trust list` and `trust revoke`; `add` creates a command."""
    listed = add("trust list", _trusted, "list the folders that you trust, and with what")
    listed.add_argument("--json", action="store_true", help="one JSON object per folder")
    revoke = add("trust revoke", _revoke, "trust a folder no more, nor what is below it")
    revoke.add_argument("folder", type=Path, metavar="FOLDER")


def _trusted(arguments: argparse.Namespace) -> int:
    from msgspec import to_builtins

    from akg_tui.core.sanitize import clean
    from akg_tui.engine.trust import read_trust

    for folder, told in sorted(read_trust().items()):
        if arguments.json:
            print_json("trusted", folder=folder, **to_builtins(told))
            continue
        print(clean(folder))
        if told.made:
            print("  made by akg-tui new: what its own files say")
        for act in told.acts:
            print(f"  {act}")
    return EXIT_OK


def _revoke(arguments: argparse.Namespace) -> int:
    from akg_tui.engine.trust import revoke

    if not revoke(arguments.folder):
        raise UsageError(f"{arguments.folder}: is not trusted; akg-tui trust list names what is")
    return EXIT_OK


def _rules(arguments: argparse.Namespace) -> int:
    from akg_tui.core import commands as cmd
    from akg_tui.core.events import COMMAND_LINE
    from akg_tui.store.run_list import read_state

    run: Path = arguments.run_folder
    read_state(run)  # raises for a folder that is not a run, or a damaged one, before any write
    if arguments.always is not None:
        _send(run, cmd.AnswerGate(arguments.always, True, always=True, source=COMMAND_LINE))
    elif arguments.revoke is not None:
        _send(run, cmd.RevokeRule(arguments.revoke, COMMAND_LINE))
    state = read_state(run)
    waits = state.gate if state.gate and not (state.gate.answer or state.finished) else None
    if arguments.json:
        rules = [_plain(rule) for rule in state.rules]
        asks = _plain_gate(state, waits) if waits else None
        print_json("rules", run=str(run), rules=rules, waits=asks)
    else:
        print("\n".join(_lines(run, state, waits)))
    return EXIT_OK


def _send(run: Path, command: Command) -> None:
    """Send the run a command. Raises `UsageError` if it is refused, or if no answer confirms it."""
    from akg_tui.engine.attach import NotAttached, send_to_run
    from akg_tui.store.run_at_rest import Refused

    try:
        send_to_run(run, command)
    except NotAttached as error:
        fail(error)
    except Refused as error:
        raise UsageError(f"{run}: {error}") from None


def _plain(rule: Rule) -> dict[str, Any]:
    from akg_tui.core.approval_rules import in_words

    scope = rule.scope
    return {
        "rule": rule.number,
        "gate": scope.gate,
        "phase": scope.phase.value,
        "agent": scope.agent,
        "interpreter": scope.interpreter,
        "approves": in_words(scope),
        "learned_from": rule.gate,
        "learned_at": rule.at,
        "by": rule.source,
        "used": rule.used,
        "in_force": not rule.ended,
        "ended": rule.ended,
    }


def _plain_gate(state: RunState, gate: OpenGate) -> dict[str, Any]:
    from akg_tui.core.approval_rules import in_words, rule_fault, scope_of

    fault = rule_fault(state, gate)
    approves = "" if fault else in_words(scope_of(state, gate))
    return {
        "request": gate.gate,
        "gate": gate.kind,
        "attempt": gate.attempt,
        "detail": gate.detail,
        "always_approves": approves,
        "no_rule_because": fault or "",
    }


def _lines(run: Path, state: RunState, waits: OpenGate | None) -> list[str]:
    import time

    from akg_tui.core.approval_rules import in_words, rule_fault, scope_of, told
    from akg_tui.core.sanitize import clean, one_line

    lines: list[str] = []
    for rule in state.rules:
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(rule.at))
        lines.append(one_line(told(rule), 500))
        lines.append(f"  learned {at} from request {rule.gate}, by the {one_line(rule.source)}")
    if not lines:
        lines.append("no rules: each request waits for a person, or for nobody")
    if waits is None:
        return lines
    what = {"plan": "the plan", "script": "a script"}
    about = what.get(waits.kind, f"the {waits.kind} of attempt {waits.attempt}")
    lines.append(f"request {waits.gate} waits: {about}")
    lines += [f"  | {clean(line)}" for line in waits.detail.split("\n") if waits.detail]
    if fault := rule_fault(state, waits):
        lines.append(f"  {fault}")
    else:
        lines.append(f"  always would approve: {in_words(scope_of(state, waits))}")
        lines.append(
            f"  make that rule with: akg-tui rules {quote(str(run))} --always {waits.gate}"
        )
    return lines
