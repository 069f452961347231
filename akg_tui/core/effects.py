"""What a run does next, as a value: a step of core's own, or work that touches the world.

`due` says which transition the state is ready for; `next_effect` says what to do now,
overlays included. A `Step` carries its events: the driver of the run appends them and asks
again. Both are functions of the state and the clock alone, so a resumed run goes on exactly
where the journal ends. Nothing here does anything.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from akg_tui.core import events as ev
from akg_tui.core.approval_rules import approved
from akg_tui.core.commands import Events
from akg_tui.core.events import Purpose
from akg_tui.core.measurement import FailureKind, Outcome
from akg_tui.core.phases import AGENT_PHASES, Gate, Mode, Overlay, Phase, Verdict
from akg_tui.core.plan.submission import MAX_CAUSE
from akg_tui.core.questions import default_answer
from akg_tui.core.sanitize import one_line
from akg_tui.core.state import Demand, RunState
from akg_tui.core.stopping.limits import goals_reached, stop_reasons
from akg_tui.core.verdict import Decision, decide_verdict

MAX_EVAL_ERRORS = 3


class Hold(Struct, frozen=True):
    """Wait for a person. `due` is the transition that waits, when one does.

    `until` is when the wait ends by itself, in seconds since the epoch; None for never.
    """

    overlay: Overlay
    due: Phase | None = None
    until: float | None = None


class Step(Struct, frozen=True):
    """A step that follows from the state alone. Append `events`, then ask for the next effect."""

    events: Events


class Measure(Struct, frozen=True):
    """Measure `blob` against `incumbent`, or against the reference when that is None."""

    purpose: Purpose
    attempt: int
    blob: str
    incumbent: str | None


class CommitSeed(Struct, frozen=True):
    blob: str


class RunAgent(Struct, frozen=True):
    phase: Phase


class Commit(Struct, frozen=True):
    """Write the attempt into history, then settle the round with this decision."""

    decision: Decision
    attempt: int
    blob: str


Effect = Hold | Step | Measure | CommitSeed | RunAgent | Commit


def propose(state: RunState) -> Decision:
    """The verdict for the measured candidate, a person's answer included.

    Raises `ValueError` when nothing was measured.
    """
    if state.measured is None:
        raise ValueError("there is no measurement to decide from")
    decision = decide_verdict(state.measured, state.task.timing.min_gain)
    if decision.verdict is Verdict.KEEP and state.gate and state.gate.answer == "reject":
        why = f": {state.gate.comment}" if state.gate.comment else ""
        return Decision(Verdict.DISCARD, f"rejected in review{why}")
    return decision


def baseline_failed(state: RunState) -> str:
    """Why the baseline cannot carry a run, or "" when it can (or was not measured)."""
    measured = state.baseline
    if measured is None:
        return ""
    if measured.outcome is Outcome.CORRECT:
        return "" if measured.timed else f"there is nothing to tune by: {measured.message}"
    if measured.failure is FailureKind.JUDGE and state.eval_errors < MAX_EVAL_ERRORS:
        return ""
    if measured.outcome is Outcome.ERROR:
        return measured.message
    return f"the kernel is not correct before any change: {measured.message}"


def _evals_exhausted(state: RunState) -> bool:
    return state.eval_errors >= MAX_EVAL_ERRORS


def due(state: RunState, now: float) -> tuple[Phase, str] | None:
    """The transition that the state is ready for, with its reason; None while work remains."""
    stops = stop_reasons(state, now)
    match state.phase:
        case Phase.INIT:
            return Phase.BASELINE, ""
        case Phase.BASELINE:
            failed = baseline_failed(state)
            if failed:
                return Phase.DONE, failed
            return (Phase.PLAN, "baseline measured") if state.best else None
        case Phase.PLAN if not state.turn_open:
            return _due_in_plan(state, stops)
        case Phase.EDIT if not state.turn_open:
            return _due_in_edit(state, stops)
        case Phase.EVAL:
            if _evals_exhausted(state) and state.measured:
                return Phase.DONE, state.measured.message
            measured = state.measured is not None and state.measured.outcome is not Outcome.ERROR
            return (Phase.DECIDE, "evaluated") if measured else None
        case Phase.DECIDE if state.decided_here:
            if stops:
                return Phase.DONE, stops[0]
            if state.fail_streak >= state.task.policy.fail_streak:
                return Phase.DIAGNOSE, f"{state.fail_streak} failures in a row"
            if state.demand:
                return demanded(state.demand)
            return (Phase.EDIT, "next item") if state.pending else (Phase.PLAN, "plan settled")
        case Phase.DIAGNOSE if not state.turn_open:
            if ended := state.stop_reason or state.call_refused:
                return Phase.DONE, ended
            return (Phase.PLAN, "diagnosis reported") if state.diagnosed_here else None
    return None


def demanded(demand: Demand) -> tuple[Phase, str]:
    """The phase that a demand leads to, with its reason."""
    if demand.kind == "diagnosis":
        return Phase.DIAGNOSE, demand.reason or "a person called for a diagnosis"
    return Phase.PLAN, f"a person wants a new plan{': ' if demand.reason else ''}{demand.reason}"


def _due_in_plan(state: RunState, stops: tuple[str, ...]) -> tuple[Phase, str] | None:
    if stops:
        return Phase.DONE, stops[0]
    if state.demand and state.demand.kind == "diagnosis":
        return demanded(state.demand)
    if not state.pending:
        return None
    if not state.plan_owed:
        return Phase.EDIT, "plan ready"
    return (Phase.EDIT, "no new plan came") if state.visit_failed_here else None


def _due_in_edit(state: RunState, stops: tuple[str, ...]) -> tuple[Phase, str] | None:
    if state.edited and state.active:
        return Phase.EVAL, f"{state.active} edited"
    if stops:
        return Phase.DONE, stops[0]
    # A pinned item is a person's wish too, and under work already: it is settled first.
    if state.demand and not (state.active and state.item(state.active).pinned):
        return demanded(state.demand)
    if state.active is None and not state.pending:
        return Phase.PLAN, "no item left"
    return None


def _asks_first(state: RunState, now: float, to: Phase) -> Effect | None:
    """The question or gate that a person answers before the run goes on to `to`, or None."""
    if question := state.question:
        if not question.attended or (question.until is not None and now >= question.until):
            return Step((default_answer(question),))
        return Hold(Overlay.WAIT_USER, to, question.until)
    if state.gate and not state.gate.answer:
        return Hold(Overlay.WAIT_USER, to)
    if to is Phase.EDIT and state.phase is Phase.PLAN and not state.plan_approved:
        return _ask_leave(state, "plan") if Gate.PLAN in state.gates else None
    if to is Phase.EVAL and state.phase is Phase.EDIT and state.approved_blob != state.work_blob:
        return _ask_leave(state, "edit") if Gate.EDIT in state.gates else None
    return None


def visit_over(state: RunState, now: float) -> bool:
    """Whether the agent's visit ends here, its turn being over: done, blocked, or waiting."""
    if due(state, now) is not None or state.blocked:
        return True
    waits = state.question is not None or (state.gate is not None and not state.gate.answer)
    return waits or not isinstance(_work(state), RunAgent)


def wait_over(state: RunState, now: float) -> bool:
    """Whether the wait for a model's server has to end: the run is paused, or is to end.

    Nothing is due in the turn of a subagent's caller, so the stop conditions are asked apart.
    """
    if state.paused or due(state, now) is not None:
        return True
    return state.phase in (Phase.PLAN, Phase.EDIT) and bool(stop_reasons(state, now))


def visit_is_void(began: RunState, now: RunState) -> bool:
    """Whether a visit that began in the state `began` has to be cut off in the state `now`.

    A person has dropped its item, undone the kernel under it, or demanded something else.
    """
    return began.active != now.active or began.recalls != now.recalls


def next_effect(state: RunState, now: float) -> Effect | None:
    """What to do now; None when the run is over.

    While paused nothing new begins; in step mode work goes on, and each transition waits.
    """
    if state.finished:
        return None
    stepping = state.paused or state.mode is Mode.STEP
    transition = due(state, now)
    if transition is not None:
        to, reason = transition
        if stepping and not state.granted:
            return Hold(Overlay.PAUSED if state.paused else Overlay.WAIT_STEP, to)
        # The end of a run waits for no answer.
        asked = None if to is Phase.DONE else _asks_first(state, now, to)
        return asked or Step(_entering(state, now, to, reason))
    if state.phase is not Phase.DONE and (asked := _asks_first(state, now, state.phase)):
        return replace(asked, due=None) if isinstance(asked, Hold) else asked
    if state.paused and not state.granted:
        return Hold(Overlay.PAUSED)
    if state.phase in AGENT_PHASES and state.api_failure:
        return Hold(Overlay.WAIT_API)
    return _work(state)


def in_sight(state: RunState, now: float) -> Effect | None:
    """The effect to show: the next one, or a visit's wait for the model's server.

    That wait belongs to the visit and ends by itself; it holds nothing that is still to begin.
    """
    effect = next_effect(state, now)
    if isinstance(effect, RunAgent) and state.api_wait is not None:
        return Hold(Overlay.WAIT_API)
    return effect


def _work(state: RunState) -> Effect | None:
    match state.phase:
        case Phase.BASELINE:
            if state.baseline is None or state.baseline.outcome is Outcome.ERROR:
                return Measure(Purpose.BASELINE, 0, state.seed_blob, None)
            return CommitSeed(state.seed_blob)
        case Phase.EDIT if state.active is None:
            item = state.pending[0].id
            return Step((ev.ItemActivated(item=item, round=state.settled + 1),))
        case Phase.EDIT if state.visit_failed_here:
            assert state.active is not None
            why = "the agent made no edit"
            return Step((ev.ItemsDropped(items=(state.active,), reason=why),))
        case Phase.DIAGNOSE if state.diagnosis_attempts >= state.task.policy.diagnosis_attempts:
            return Step((_plain_diagnosis(state),))
        case Phase.PLAN | Phase.EDIT | Phase.DIAGNOSE:
            return RunAgent(state.phase)
        case Phase.EVAL:
            assert state.best is not None
            return Measure(Purpose.CANDIDATE, state.next_attempt, state.work_blob, state.best.blob)
        case Phase.DECIDE:
            return _work_in_decide(state)
        case Phase.DONE:
            return _work_in_done(state)
    return None


def _work_in_decide(state: RunState) -> Effect:
    decision = propose(state)
    asks = Gate.KEEP in state.gates and state.gate is None
    if decision.verdict is Verdict.KEEP and asks:
        return _ask_leave(state, "keep")
    return Commit(decision, state.next_attempt, state.work_blob)


def _work_in_done(state: RunState) -> Effect:
    failed = baseline_failed(state)
    if failed or state.best is None:
        return _finish(failed or state.finish_reason, ok=False)
    lost = state.measured is not None and state.measured.outcome is Outcome.ERROR
    unmeasured = state.final is None or state.final.outcome is Outcome.ERROR
    if state.best.attempt and unmeasured and not _evals_exhausted(state) and not lost:
        return Measure(Purpose.FINAL, state.best.attempt, state.best.blob, state.seed_blob)
    return _finish(state.finish_reason, ok=not lost)


def _finish(reason: str, *, ok: bool) -> Step:
    return Step((ev.RunFinished(reason=reason, ok=ok),))


def _ask_leave(state: RunState, gate: ev.GateKind) -> Step:
    """Ask a person for leave, unless a rule gives it."""
    scope = ev.Scope(gate, state.phase)
    return Step((approved(state, scope, attempt=state.next_attempt),))


def _entering(state: RunState, now: float, to: Phase, reason: str) -> Events:
    """The events of the transition to `to`: what becomes of open items, then the phase."""
    entered = ev.PhaseEntered(phase=to, previous=state.phase, reason=reason)
    active = () if state.active is None else (state.active,)
    if to is Phase.DIAGNOSE:
        ids = (*active, *(item.id for item in state.pending if not item.pinned))
        suspended = ev.ItemsSuspended(items=ids, reason=reason)
        return (suspended, entered) if ids else (entered,)
    if to is Phase.PLAN and active:
        return ev.ItemsDropped(items=active, reason=reason), entered
    # Journaled once: a crash between the two events must not journal it again.
    stops = stop_reasons(state, now) if to is Phase.DONE else ()
    if reason in stops and not state.stop_conditions:
        met = ev.StopConditionsMet(reasons=stops, primary=reason, goals_met=goals_reached(state))
        return met, entered
    return (entered,)


def _plain_diagnosis(state: RunState) -> ev.DiagnosisReported:
    """A diagnosis made of the last failures, where the agent reported none."""
    tried = [attempt for attempt in state.attempts if attempt.number]
    failed = tried[-max(1, state.fail_streak) :]
    cause = one_line("; ".join(f"{a.item}: {a.reason}" for a in failed), MAX_CAUSE)
    return ev.DiagnosisReported(cause=cause or "no report was given", source="fallback")
