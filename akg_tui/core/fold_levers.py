"""What the hands on a run do to its state: gates, items, demands, undo, questions, a fork.

One half of `akg_tui.core.fold`, which owns the other: what the harness and the agent do.
Each event stands for itself, so that a crash between two of them leaves nothing half done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from akg_tui.core import events as ev
from akg_tui.core.items import OutOfOrder, added, changed, moved, ordered, reworded
from akg_tui.core.machine import AGENT_PHASES, MODE_GATES, Gate, ItemState, Phase
from akg_tui.core.rules import all_ended, rule_applied, rule_learned, rule_revoked
from akg_tui.core.state import Demand, OpenGate, Question, RunState

REMEMBERED = 20  # questions and scripts


def _with_comment(text: str, comment: str) -> str:
    return f"{text}: {comment}" if comment else text


def _hinted(state: RunState, text: str) -> RunState:
    return replace(state, hints=(*state.hints, text), closing_reply="")


def recalled(state: RunState) -> RunState:
    """The agent's visit, if there is one, has lost its ground."""
    if state.phase not in AGENT_PHASES:
        return state
    return replace(state, recalls=state.recalls + 1, api_wait=None)


def _mode_changed(state: RunState, event: ev.ModeChanged, at: float) -> RunState:
    return replace(state, mode=event.mode, gates=MODE_GATES[event.mode], granted=0)


def _gate_changed(state: RunState, event: ev.GateChanged, at: float) -> RunState:
    others = {gate for gate in state.gates if gate is not event.gate}
    on = others | {event.gate} if event.on else others
    return replace(state, gates=tuple(gate for gate in Gate if gate in on))


def _gate_opened(state: RunState, event: ev.GateOpened, at: float) -> RunState:
    gate = OpenGate(
        event.gate,
        event.attempt,
        kind=event.kind,
        subject=event.subject,
        detail=event.detail,
        agent=event.agent,
        interpreter=event.interpreter,
        since=at,
    )
    return replace(state, gate=gate, gates_opened=event.gate)


def _gate_answered(state: RunState, event: ev.GateAnswered, at: float) -> RunState:
    gate = state.gate
    assert gate is not None
    approved, comment = event.answer == "approve", event.comment
    if gate.kind == "keep":  # asked for and settled in one phase: the answer waits there
        return replace(state, gate=replace(gate, answer=event.answer, comment=comment))
    state = replace(state, gate=None)
    if gate.kind == "script":
        scripts = (*state.scripts[1 - REMEMBERED :], (gate.subject, approved))
        told = f"the script {gate.subject[:12]} {'may' if approved else 'may not'} run"
        return _hinted(replace(state, scripts=scripts), _with_comment(told, comment))
    if gate.kind == "plan":
        if approved:
            return replace(state, plan_approved=True)
        why = _with_comment("rejected in review", comment)
        free = tuple(item.id for item in state.pending if not item.pinned)
        state = moved(state, free, ItemState.DROPPED, reason=why)
        state = replace(state, plan_owed=True, plan_approved=False, visit_failed_here=False)
        return _hinted(state, _with_comment("the plan was rejected", comment))
    if approved:
        return replace(state, approved_blob=state.work_blob)
    assert state.best is not None
    state = replace(state, edited=False, work_blob=state.best.blob, visit_failed_here=False)
    told = f"the edit for {state.active} was rejected before it ran"
    return _hinted(state, _with_comment(told, comment))


def _item_added(state: RunState, event: ev.ItemAdded, at: float) -> RunState:
    return added(state, (event.item,), pinned=True, before=event.before)


def _item_edited(state: RunState, event: ev.ItemEdited, at: float) -> RunState:
    return reworded(state, event.item)


def _items_reordered(state: RunState, event: ev.ItemsReordered, at: float) -> RunState:
    return ordered(state, event.order)


def _item_pinned(state: RunState, event: ev.ItemPinned, at: float) -> RunState:
    pending = [item.id for item in state.pending]
    if event.item not in pending:
        raise OutOfOrder(f"{event.item} is not pending")
    if event.pinned:
        others = (item_id for item_id in pending if item_id != event.item)
        state = ordered(state, (event.item, *others))
    return changed(state, event.item, pinned=event.pinned)


def _plan_edit_adopted(state: RunState, event: ev.PlanEditAdopted, at: float) -> RunState:
    change = event.change
    state = added(state, change.added, pinned=True)
    for planned in change.edited:
        state = reworded(state, planned)
    state = moved(state, change.dropped, ItemState.DROPPED, reason="dropped by a person in PLAN.md")
    if change.order:
        state = ordered(state, change.order)
    return replace(state, adopted=(*state.adopted, event.kept))


def _replan_forced(state: RunState, event: ev.ReplanForced, at: float) -> RunState:
    state = _hinted(state, _with_comment("a person wants a new plan", event.reason))
    if state.phase is Phase.PLAN:
        state = replace(state, plan_owed=True, plan_approved=False, visit_failed_here=False)
        gate = state.gate if state.gate and state.gate.kind != "plan" else None
        return replace(state, gate=gate)
    return _demanded(state, Demand("plan", event.reason))


def _diagnosis_forced(state: RunState, event: ev.DiagnosisForced, at: float) -> RunState:
    state = _hinted(state, _with_comment("a person wants a diagnosis", event.reason))
    return _demanded(state, Demand("diagnosis", event.reason))


def _demanded(state: RunState, demand: Demand) -> RunState:
    """The agent is called away, unless what it does now comes first: an edit, a pinned item."""
    state = replace(state, demand=demand)
    busy = state.edited or (state.active is not None and state.item(state.active).pinned)
    return state if busy else recalled(state)


def _keep_undone(state: RunState, event: ev.KeepUndone, at: float) -> RunState:
    if state.best is None or not state.former or state.best.attempt != event.attempt:
        raise OutOfOrder(f"attempt {event.attempt} is not the best one, or none was before it")
    best = state.former[-1]
    was = state.item(event.item).reason
    reason = _with_comment("undone by a person", event.comment)
    state = changed(state, event.item, undone=True, reason=f"{reason} (was {was})")
    state = replace(
        state,
        best=best,
        former=state.former[:-1],
        undone=(*state.undone, event.attempt),
        work_blob=best.blob,
        edited=False,
        final=None,
        approved_blob="",
        gate=None if state.gate and state.gate.kind == "edit" else state.gate,
    )
    return recalled(state)


def _question_asked(state: RunState, event: ev.QuestionAsked, at: float) -> RunState:
    asked = Question(
        number=event.question,
        text=event.text,
        choices=event.choices,
        default=event.default,
        until=None if event.timeout_s is None else at + event.timeout_s,
        attended=event.attended,
        since=at,
    )
    return replace(state, questions=(*state.questions[1 - REMEMBERED :], asked))


def _question_answered(state: RunState, event: ev.QuestionAnswered, at: float) -> RunState:
    last = state.questions[-1] if state.questions else None
    if last is None or last.number != event.question or last.answer is not None:
        raise OutOfOrder(f"question {event.question} is not open")
    answered = replace(last, answer=event.answer, source=event.source)
    return replace(state, questions=(*state.questions[:-1], answered), closing_reply="")


def _blocked_reported(state: RunState, event: ev.BlockedReported, at: float) -> RunState:
    why = f"the agent is blocked ({event.kind}): {event.text}"
    state = replace(state, blocked=True)
    if event.leads_to == "stop":
        return replace(state, stop_reason=why)
    if state.phase is Phase.DIAGNOSE:
        attempts = state.diagnosis_attempts + 1
        return replace(state, visit_failed_here=True, diagnosis_attempts=attempts)
    # Saying so is no progress: an agent that says nothing else comes to an end.
    state = replace(state, visits_failed=state.visits_failed + 1)
    if event.leads_to == "diagnosis":
        return replace(state, demand=Demand("diagnosis", why))
    return replace(state, visit_failed_here=event.leads_to == "failed visit")


def _policy_changed(state: RunState, event: ev.PolicyChanged, at: float) -> RunState:
    task = replace(state.task, policy=event.policy)
    return replace(state, task=task, stop_conditions=(), goals_met=False, call_refused="")


def _forked(state: RunState, event: ev.Forked, at: float) -> RunState:
    """The history is the parent's; what had been about to end the parent is not the fork's."""
    return replace(
        all_ended(state, "a fork begins without rules"),
        run_id=event.run_id,
        forked=event,
        started_at=at,
        phase_since=at,
        paused=False,
        granted=0,
        demand=None,
        stop_reason="",
        finish_reason="",
        stop_conditions=(),
        goals_met=False,
        call_refused="",
        visits_failed=0,
        plan_edits=(),
        adopted=(),
    )


APPLY_LEVERS: dict[type, Callable[[RunState, Any, float], RunState]] = {
    ev.ModeChanged: _mode_changed,
    ev.GateChanged: _gate_changed,
    ev.GateOpened: _gate_opened,
    ev.GateAnswered: _gate_answered,
    ev.RuleLearned: rule_learned,
    ev.RuleApplied: rule_applied,
    ev.RuleRevoked: rule_revoked,
    ev.Paused: lambda s, e, at: replace(s, paused=True, granted=0),
    ev.Unpaused: lambda s, e, at: replace(s, paused=False, api_wait=None, api_failure=""),
    ev.StepGranted: lambda s, e, at: replace(s, granted=1),
    ev.HintGiven: lambda s, e, at: _hinted(s, e.text),
    ev.StopRequested: lambda s, e, at: replace(s, stop_reason=e.reason),
    ev.PolicyChanged: _policy_changed,
    ev.PlanEdited: lambda s, e, at: replace(s, plan_edits=(*s.plan_edits, e)),
    ev.ItemAdded: _item_added,
    ev.ItemEdited: _item_edited,
    ev.ItemsReordered: _items_reordered,
    ev.ItemPinned: _item_pinned,
    ev.PlanEditAdopted: _plan_edit_adopted,
    ev.ReplanForced: _replan_forced,
    ev.DiagnosisForced: _diagnosis_forced,
    ev.KeepUndone: _keep_undone,
    ev.QuestionAsked: _question_asked,
    ev.QuestionAnswered: _question_answered,
    ev.BlockedReported: _blocked_reported,
    ev.CallRefused: lambda s, e, at: replace(s, call_refused=e.reason),
    ev.Forked: _forked,
}
