"""`decide`: the events that follow from a command, or the reason for its refusal.

A person, the agent and the engine send commands. `decide` checks each of them: the agent cannot
skip an evaluation, a person cannot answer a gate that is not open, the engine cannot settle a
round that is not ready. Transitions without a command are `akg_tui.core.effects.Step`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import asdict

from akg_tui.core import commands as cmd
from akg_tui.core import effects
from akg_tui.core import events as ev
from akg_tui.core.commands import Events, Made, Refusal, Rejected
from akg_tui.core.measurement import Outcome
from akg_tui.core.phases import Phase, Verdict
from akg_tui.core.plan.revision import measured_already, revised, taken_up
from akg_tui.core.plan.submission import check_plan, check_report
from akg_tui.core.plan.trial_budget import check_trial, outcome_words
from akg_tui.core.questions import DECIDE_QUESTIONS
from akg_tui.core.sanitize import Said
from akg_tui.core.state import RunState
from akg_tui.core.user_commands import DECIDE_USER_COMMANDS

__all__ = ["Rejected", "decide"]


def decide(state: RunState, command: cmd.Command, now: float) -> Events | Rejected:
    """Return the events of `command`, or `Rejected`; `now` is seconds since the epoch."""
    if state.finished and not isinstance(command, cmd.Observe | cmd.UndoKeep | cmd.GoOn):
        return Rejected(Said("the run is over: {why}", why=state.finished))
    try:
        made = _DECIDE[type(command)](state, command, now)
    except Refusal as refusal:
        return Rejected(refusal.said)
    return (made,) if isinstance(made, ev.Event) else made


def _needs(state: RunState, phase: Phase, what: str) -> None:
    if state.phase is not phase:
        raise Refusal(f"{what} belongs to phase {phase}; the run is in {state.phase}")


def _start_eval(state: RunState, command: cmd.StartEval, now: float) -> Made:
    effect = effects.next_effect(state, now)
    same = (
        isinstance(effect, effects.Measure)
        and effect.purpose is command.purpose
        and effect.attempt == command.attempt
        and effect.blob == command.blob
    )
    if not same or state.running is not None:
        raise Refusal(f"no {command.purpose} evaluation of attempt {command.attempt} is due")
    return ev.EvalStarted(**asdict(command))


def _finish_eval(state: RunState, command: cmd.FinishEval, now: float) -> Made:
    running = state.running
    if running is None:
        raise Refusal("no evaluation is running")
    purpose = ev.Purpose(running.purpose)
    measurement = command.measurement
    return ev.EvalFinished(attempt=running.attempt, purpose=purpose, measurement=measurement)


def _accept_baseline(state: RunState, command: cmd.AcceptBaseline, now: float) -> Made:
    correct = state.baseline is not None and state.baseline.outcome is Outcome.CORRECT
    if state.phase is not Phase.BASELINE or not correct or state.best is not None:
        raise Refusal("there is no correct baseline to accept")
    return ev.BaselineAccepted(commit=command.commit, blob=state.seed_blob)


def _settle(state: RunState, command: cmd.Settle, now: float) -> Made:
    effect = effects.next_effect(state, now)
    if not isinstance(effect, effects.Commit) or state.active is None or state.measured is None:
        raise Refusal("no round is ready to be settled")
    untimed = effect.decision.verdict is Verdict.FAIL
    return ev.Decided(
        round=state.round,
        attempt=effect.attempt,
        item=state.active,
        verdict=effect.decision.verdict,
        reason=effect.decision.reason,
        commit=command.commit,
        blob=effect.blob,
        ratio=None if untimed else state.measured.ratio,
    )


def _submit_plan(state: RunState, command: cmd.SubmitPlan, now: float) -> Made:
    _needs(state, Phase.PLAN, "submit_plan")
    check_plan(state, command.items)
    first = len(state.items) + 1
    items = tuple(
        ev.PlannedItem(f"p{first + offset}", item.text, item.rationale)
        for offset, item in enumerate(command.items)
    )
    submitted = ev.PlanSubmitted(items=items, summary=command.summary)
    # A new plan must not drop items that a person added or pinned, or that wait to be measured.
    if replaced := state.replaceable:
        return ev.ItemsDropped(items=replaced, reason="replaced by a new plan"), submitted
    return (submitted,)


def _revise_plan(state: RunState, command: cmd.RevisePlan, now: float) -> Made:
    if state.phase not in (Phase.PLAN, Phase.EDIT):
        raise Refusal(f"revise_plan belongs to PLAN and EDIT; the run is in {state.phase}")
    return revised(state, command)


def _edit(state: RunState, command: cmd.Edit, now: float) -> Made:
    facts = {**asdict(command), "item": ""}
    if state.phase is Phase.WRITE:
        return ev.KernelEdited(**facts)
    _needs(state, Phase.EDIT, "editing the kernel")
    if state.active is None:
        raise Refusal("no plan item is active")
    if again := measured_already(state, command.blob):
        raise Refusal(again)
    if command.item in ("", state.active):
        return ev.KernelEdited(**{**facts, "item": state.active})
    return *taken_up(state, command.item), ev.KernelEdited(**{**facts, "item": command.item})


def _record_trial(state: RunState, command: cmd.RecordTrial, now: float) -> Made:
    check_trial(state, command.sweep)
    assert state.active is not None
    return ev.KernelTried(
        trial=len(state.trials) + 1,
        item=state.active,
        told=outcome_words(command.measurement),
        **asdict(command),
    )


def _report(state: RunState, command: cmd.ReportDiagnosis, now: float) -> Made:
    _needs(state, Phase.DIAGNOSE, "report_diagnosis")
    if state.diagnosed_here:
        raise Refusal("the diagnosis was reported already")
    check_report(command)
    return ev.DiagnosisReported(**asdict(command))


def _request_finish(state: RunState, command: cmd.RequestFinish, now: float) -> Made:
    _needs(state, Phase.PLAN, "finish")
    least = min(state.task.policy.min_rounds, state.task.policy.max_rounds)
    if state.rounds < least and not state.finish_agreed:
        raise Refusal(f"too early: {state.rounds} of at least {least} rounds are settled")
    if left := ", ".join(item.id for item in state.pending if item.pinned):
        raise Refusal(f"too early: a person wants {left} tried; submit a plan to go on to them")
    if left := ", ".join(item.id for item in state.pending if state.waiting(item)):
        raise Refusal(f"too early: {left} is to be measured again; submit a plan to go on to it")
    return ev.FinishRequested(reason=command.reason)


_DECIDE: dict[type, Callable[[RunState, Any, float], Made]] = {
    cmd.Observe: lambda state, command, now: command.event,
    cmd.StartEval: _start_eval,
    cmd.FinishEval: _finish_eval,
    cmd.AcceptBaseline: _accept_baseline,
    cmd.Settle: _settle,
    cmd.SubmitPlan: _submit_plan,
    cmd.RevisePlan: _revise_plan,
    cmd.Edit: _edit,
    cmd.RecordTrial: _record_trial,
    cmd.ReportDiagnosis: _report,
    cmd.RequestFinish: _request_finish,
    **DECIDE_QUESTIONS,
    **DECIDE_USER_COMMANDS,
}
