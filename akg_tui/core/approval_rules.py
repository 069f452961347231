"""Approval rules: a person's answer "always" approves all later requests of one scope.

Pure. Defines the scope of a rule, as values and in words, and the start and end of a rule: a
person's answer starts it; a person's command, a gate that is set again or a fork ends it. The
agent has no command here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.commands import Made, Refusal
from akg_tui.core.phases import Gate, Phase
from akg_tui.core.sanitize import Said, one_line
from akg_tui.core.state import OpenGate, OutOfOrder, Rule, RunState

INTERPRETERS = {"python": "Python", "sh": "sh", "bash": "bash"}


def covering(state: RunState, scope: ev.Scope) -> Rule | None:
    """Return the rule that answers a request of this scope, or None.

    A rule covers exactly its scope. No rule covers a KEEP with a finding of the static guard that
    the seed did not have, because no request has shown this finding to a person.
    """
    if scope.gate == "keep" and warnings(state):
        return None
    return in_force(state, scope)


def in_force(state: RunState, scope: ev.Scope) -> Rule | None:
    """Return the rule in force with this scope, or None."""
    return next((rule for rule in state.rules_in_force if rule.scope == scope), None)


def warnings(state: RunState) -> tuple[str, ...]:
    """Return the guard's findings in the measured candidate whose rule the seed did not break."""
    if state.measured is None:
        return ()
    known = {found.rule for found in state.baseline.findings} if state.baseline else set()
    return tuple(str(found) for found in state.measured.findings if found.rule not in known)


def scope_of(state: RunState, gate: OpenGate) -> ev.Scope:
    """Return the scope of the waiting request; its phase is the current one, which it blocks."""
    return ev.Scope(gate.kind, state.phase, gate.agent, gate.interpreter)  # type: ignore[arg-type]


def rule_fault(state: RunState, gate: OpenGate) -> str | None:
    """Return why an answer to this request cannot become a rule, or None."""
    if gate.kind == "script" and gate.interpreter not in INTERPRETERS:
        return "this request does not say what would run the script: it is answered by itself"
    if rule := in_force(state, scope_of(state, gate)):
        return Said(
            "rule {n} says so already; what the guard warns of is always for a person",
            n=rule.number,
        )
    return None


def in_words(scope: ev.Scope) -> str:
    """Return a clause for the person that describes the requests approved by such a rule."""
    match scope.gate:
        case "plan":
            return "every later plan of the agent is worked on unasked"
        case "edit" if scope.phase is Phase.WRITE:
            return (
                "every later try of the agent to write the kernel is built, run in the sandbox and "
                "timed unasked"
            )
        case "edit":
            return "every later edit of the agent is built, run in the sandbox and timed unasked"
        case "keep":
            return (
                "every later KEEP becomes the best unasked, but for one that the static guard "
                "warns of"
            )
        case _:
            interpreter = INTERPRETERS.get(scope.interpreter, scope.interpreter)
            agent = f"a {scope.agent}" if scope.agent else "the agent"
            return Said(
                "every {interpreter} script of {who} in phase {phase}, whatever its text, "
                "arguments and input, runs confined, unasked",
                interpreter=interpreter,
                who=agent,
                phase=scope.phase,
            )


def told(rule: Rule) -> str:
    """Return a rule in one line: its number, its scope, its number of uses, and why it ended."""
    used = Said("used {n} time" if rule.used == 1 else "used {n} times", n=rule.used)
    state = Said("ended: {why}", why=rule.ended) if rule.ended else "in force"
    return Said(
        "rule {n}, {how}: {what} ({more})",
        n=rule.number,
        how=state,
        what=in_words(rule.scope),
        more=used,
    )


def applied_in_words(event: ev.RuleApplied) -> str:
    """Return one line that names the rule and the request that it approved."""
    what = {
        "plan": "the plan",
        "edit": Said("the edit of attempt {n}", n=event.attempt)
        if event.attempt
        else "the written kernel",
        "keep": Said("the KEEP of attempt {n}", n=event.attempt),
        "script": Said("the script {line}", line=one_line(event.detail.partition(chr(10))[0], 80)),
    }
    return Said("rule {n} approved {what}", n=event.rule, what=what[event.scope.gate])


def approved(state: RunState, scope: ev.Scope, **about: Any) -> ev.GateOpened | ev.RuleApplied:
    """Return the event of a request for approval: approved by a rule, or sent to a person.

    `about` are fields of both `GateOpened` and `RuleApplied`.
    """
    number = state.gates_opened + 1
    if rule := covering(state, scope):
        return ev.RuleApplied(rule=rule.number, scope=scope, gate=number, **about)
    return ev.GateOpened(
        gate=number, kind=scope.gate, agent=scope.agent, interpreter=scope.interpreter, **about
    )


def answer_gate(state: RunState, command: cmd.AnswerGate, now: float) -> Made:
    """Apply a person's answer to the waiting request; "always" also makes a rule of the answer."""
    gate = state.gate
    if gate is None or gate.answer or gate.gate != command.gate:
        raise Refusal("gate {n} is not open", n=command.gate)
    answered = ev.GateAnswered(
        gate=gate.gate, answer="approve" if command.approve else "reject", comment=command.comment
    )
    if not command.always:
        return answered
    if not command.approve:
        raise Refusal("a rule approves: what is rejected is rejected one by one")
    if fault := rule_fault(state, gate):
        raise Refusal(fault)
    # The answer comes first: a crash between the two events loses the rule but not the answer.
    learned = ev.RuleLearned(rule=len(state.rules) + 1, scope=scope_of(state, gate), gate=gate.gate)
    return answered, learned


def revoke_rule(state: RunState, command: cmd.RevokeRule, now: float) -> Made:
    """Revoke a rule that is in force."""
    if not 1 <= command.rule <= len(state.rules):
        there = Said("rules 1 to {n}", n=len(state.rules)) if state.rules else "no rules"
        raise Refusal("there is no rule {n}: the run has {what}", n=command.rule, what=there)
    rule = state.rules[command.rule - 1]
    if rule.ended:
        raise Refusal("rule {n} is not in force: {why}", n=rule.number, why=rule.ended)
    return ev.RuleRevoked(rule=rule.number)


def ended_by(
    state: RunState, gates: Iterable[Gate], source: str, why: str
) -> tuple[ev.RuleRevoked, ...]:
    """Return the events that end the rules of newly set gates, so that a person is asked again."""
    newly = {gate.value for gate in gates} - {gate.value for gate in state.gates}
    return tuple(
        ev.RuleRevoked(rule=rule.number, source=source, reason=why)
        for rule in state.rules_in_force
        if rule.scope.gate in newly
    )


# The effects of the events on the state; `akg_tui.core.fold` calls these functions.


def rule_learned(state: RunState, event: ev.RuleLearned, at: float) -> RunState:
    if event.rule != len(state.rules) + 1:
        raise OutOfOrder(f"rule {event.rule} follows rule {len(state.rules)}")
    rule = Rule(event.rule, event.scope, event.gate, at)
    return replace(state, rules=(*state.rules, rule))


def rule_applied(state: RunState, event: ev.RuleApplied, at: float) -> RunState:
    rule = _standing(state, event.rule)
    if rule.scope != event.scope:
        raise OutOfOrder(f"rule {event.rule} does not cover what it is said to have approved")
    state = _changed(state, replace(rule, used=rule.used + 1))
    state = replace(state, gates_opened=event.gate)
    match event.scope.gate:
        case "plan":
            return replace(state, plan_approved=True)
        case "edit":
            return replace(state, approved_blob=state.work_blob)
        case "keep":
            return replace(state, gate=OpenGate(event.gate, event.attempt, "approve"))
        case _:  # approves this call only: no script is stored, so that a rule can be revoked
            return state


def rule_revoked(state: RunState, event: ev.RuleRevoked, at: float) -> RunState:
    rule = _standing(state, event.rule)
    return _changed(state, replace(rule, ended=event.reason or "taken back"))


def all_ended(state: RunState, why: str) -> RunState:
    """Return the state with all rules ended, because they were made for another run."""
    rules = tuple(rule if rule.ended else replace(rule, ended=why) for rule in state.rules)
    return replace(state, rules=rules)


def _standing(state: RunState, number: int) -> Rule:
    if not 1 <= number <= len(state.rules) or state.rules[number - 1].ended:
        raise OutOfOrder(f"rule {number} is not in force")
    return state.rules[number - 1]


def _changed(state: RunState, rule: Rule) -> RunState:
    at = rule.number - 1
    return replace(state, rules=(*state.rules[:at], rule, *state.rules[at + 1 :]))
