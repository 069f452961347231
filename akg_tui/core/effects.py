"""The next effect of a run, as a value: a step inside core, or work outside core.

`due` returns the transition that the state is ready for; `next_effect` returns the effect to
run now, overlays included. A `Step` carries its events: the driver of the run appends them and
calls `next_effect` again. Both functions depend only on the state and the time, so a resumed run
continues exactly where the journal ends. Nothing in this module has a side effect.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from akg_tui.core import events as ev
from akg_tui.core.approval_rules import approved
from akg_tui.core.commands import Events
from akg_tui.core.events import Purpose
from akg_tui.core.kernel.knobs import Value
from akg_tui.core.measurement import FailureKind, Outcome
from akg_tui.core.phases import (
    ADVANCES,
    MAX_MEASUREMENTS,
    Gate,
    Mode,
    Overlay,
    Phase,
    Verdict,
)
from akg_tui.core.plan.submission import MAX_CAUSE
from akg_tui.core.questions import default_answer
from akg_tui.core.sanitize import one_line
from akg_tui.core.state import Attempt, Demand, Incumbent, Item, RunState, Trial
from akg_tui.core.stopping.limits import (
    GUARDRAIL,
    blocked_plans,
    ends_unmeasured,
    goals_reached,
    stop_reasons,
    time_is_up,
)
from akg_tui.core.verdict import Decision, decide_verdict, not_proved

MAX_EVAL_ERRORS = 3
PLAN_DONE = "the workflow ends with its plan"
"""Why a run ends whose workflow plans once."""


class Hold(Struct, frozen=True):
    """Wait for a person or the model's server. `due` is the phase of a waiting transition.

    `until` is the time at which the wait ends by itself, in seconds since the epoch; None: never.
    """

    overlay: Overlay
    due: Phase | None = None
    until: float | None = None


class Step(Struct, frozen=True):
    """A step that needs no outside work. The driver appends `events`, then calls `next_effect`."""

    events: Events


class Measure(Struct, frozen=True):
    """Measure `blob` against `incumbent`, or against the reference when `incumbent` is None.

    For COMPILE and MAX_AUTOTUNE `blob` is "": the judge makes the kernel of the reference.
    `prior` are the log ratios of the earlier measurements of this kernel against this incumbent.
    For SETTING the knobs of `blob` have the values of `setting`.
    """

    purpose: Purpose
    attempt: int
    blob: str
    incumbent: str | None
    prior: tuple[float, ...] = ()
    setting: tuple[tuple[str, Value], ...] = ()


class CommitSeed(Struct, frozen=True):
    blob: str


class SubmitTrial(Struct, frozen=True):
    """Make a trial of the agent, which it had not submitted, the edit of the active item."""

    trial: int
    blob: str


class RunAgent(Struct, frozen=True):
    phase: Phase


class Commit(Struct, frozen=True):
    """Commit the attempt to the run's Git history, then settle the round with this decision."""

    decision: Decision
    attempt: int
    blob: str


Effect = Hold | Step | Measure | CommitSeed | SubmitTrial | RunAgent | Commit


def propose(state: RunState) -> Decision:
    """Return the verdict for the measured candidate.

    A person's rejection makes a KEEP a DISCARD; so does the last permitted measurement with an
    INCONCLUSIVE. Raises `ValueError` without a measurement.
    """
    if state.measured is None:
        raise ValueError("there is no measurement to decide from")
    decision = decide_verdict(state.measured, state.task.timing.min_gain)
    if decision.verdict in ADVANCES and state.gate and state.gate.answer == "reject":
        why = f": {state.gate.comment}" if state.gate.comment else ""
        return Decision(Verdict.DISCARD, f"rejected in review{why}")
    if decision.verdict is Verdict.INCONCLUSIVE and (times := _measured_in_vain(state)):
        return not_proved(state.measured, times)
    return decision


def _measured_in_vain(state: RunState) -> int:
    """Return how often the active kernel was measured, if that was the last permitted time."""
    earlier = state.measured_again
    if earlier is None or state.item(earlier.item).unproved + 1 < MAX_MEASUREMENTS:
        return 0
    same = (earlier.item, earlier.blob, earlier.incumbent)
    return 1 + sum((a.item, a.blob, a.incumbent) == same for a in state.attempts)


def baseline_failed(state: RunState) -> str:
    """Return why the baseline ends the run, or "" when it does not, or was not measured."""
    measured = state.baseline
    if measured is None:
        return ""
    if measured.outcome is Outcome.CORRECT:
        untuned = measured.timed or Phase.EVAL not in state.workflow.rows
        return "" if untuned else f"there is nothing to tune by: {measured.message}"
    if measured.failure is FailureKind.JUDGE and state.eval_errors < MAX_EVAL_ERRORS:
        return ""
    if measured.outcome is Outcome.ERROR:
        return measured.message
    if Phase.WRITE in state.workflow.rows:
        return f"the kernel is not correct: {measured.message}"
    match measured.failure:
        case FailureKind.WRONG:
            return f"the kernel is not correct before any change: {measured.message}"
        case FailureKind.TIMEOUT:
            return f"the kernel ran out of time before any change: {measured.message}"
        case FailureKind.GUARD | FailureKind.IMPOSSIBLE:
            return f"the kernel is refused before any change: {measured.message}"
    return f"the kernel does not run before any change: {measured.message}"


def compile_owed(state: RunState) -> Purpose | None:
    """Return the next measurement of torch.compile that the task wants; None if there is none."""
    if state.compile_left_out or Phase.EVAL not in state.workflow.rows:
        return None
    if "compile" in state.task.baselines and state.compiled is None:
        return Purpose.COMPILE
    wanted = "max-autotune" in state.task.baselines and state.autotuned is None
    return Purpose.MAX_AUTOTUNE if wanted else None


def _compile_due(state: RunState) -> Purpose | None:
    """Return the measurement of torch.compile to make now, or None.

    It takes longer than a round, so it waits until the first KEEP is settled, or the run ends.
    """
    kept = state.best is not None and state.best.attempt > 0
    due_now = (state.phase is Phase.DECIDE and kept) or state.phase is Phase.DONE
    return compile_owed(state) if due_now and not state.stop_reason else None


def _evals_exhausted(state: RunState) -> bool:
    return state.eval_errors >= MAX_EVAL_ERRORS


def due(state: RunState, now: float) -> tuple[Phase, str] | None:
    """Return the next phase and the reason to enter it; None while work remains in this phase."""
    stops = stop_reasons(state, now)
    match state.phase:
        case Phase.INIT:
            return Phase.BASELINE, ""
        case Phase.BASELINE:
            return _due_in_baseline(state, stops)
        case Phase.WRITE if not state.turn_open:
            if state.edited:
                return Phase.BASELINE, "kernel written"
            return (Phase.DONE, stops[0]) if stops else None
        case Phase.PLAN if not state.turn_open:
            return _due_in_plan(state, now, stops)
        case Phase.EDIT if not state.turn_open:
            return _due_in_edit(state, now, stops)
        case Phase.EVAL:
            if _evals_exhausted(state) and state.measured:
                return Phase.DONE, state.measured.message
            measured = state.measured is not None and state.measured.outcome is not Outcome.ERROR
            return (Phase.DECIDE, "evaluated") if measured else None
        case Phase.DECIDE if state.decided_here:
            ends = bool(stops)  # the best kernel is measured afresh first
            return _due_in_decide(state, now, stops) if ends or not _compile_due(state) else None
        case Phase.DIAGNOSE if not state.turn_open:
            if state.stop_reason or state.call_refused or time_is_up(state, now):
                if again := _last_measured(state, now, stops):
                    return Phase.PLAN, _before_the_end(again)
                return Phase.DONE, stops[0]
            return (Phase.PLAN, "diagnosis reported") if state.diagnosed_here else None
    return None


def _due_in_baseline(state: RunState, stops: tuple[str, ...]) -> tuple[Phase, str] | None:
    failed = baseline_failed(state)
    wrong = state.baseline is not None and state.baseline.outcome is Outcome.FAILED
    if wrong and Phase.WRITE in state.row.to:
        return (Phase.DONE, stops[0]) if stops else (Phase.WRITE, "not correct yet")
    if failed:
        return Phase.DONE, failed
    if state.api_failure and stops and state.baseline is None:
        return Phase.DONE, stops[0]
    if state.best is None:
        return None
    if Phase.PLAN in state.row.to:
        return Phase.PLAN, "baseline measured"
    return Phase.DONE, "the kernel is correct"


def _last_measured(state: RunState, now: float, stops: tuple[str, ...]) -> Item | None:
    """Return an item whose kernel waits to be measured again, and is so before the run ends.

    None if nothing ends the run, if its end was wanted or its time is up, or if a person is asked.
    """
    if not stops or _asks(state) or ends_unmeasured(state):
        return None
    way = Phase.PLAN if state.phase is Phase.DIAGNOSE else Phase.EDIT
    if way not in (state.phase, *state.row.to):  # by the workflow's own table
        return None
    found = next((item for item in state.pending if state.waiting(item)), None)
    return None if time_is_up(state, now) else found


def _asks(state: RunState) -> bool:
    """Return whether a question or a request waits for a person."""
    return state.question is not None or (state.gate is not None and not state.gate.answer)


def _before_the_end(item: Item) -> str:
    return f"{item.id} is measured again before the end"


def _unsubmitted(state: RunState, stops: tuple[str, ...]) -> Trial | None:
    """Return the trial that the harness takes for the agent's edit, since none comes any more.

    The agent's turns are used up, or a limit ends the run. None if a person is to approve edits.
    """
    if state.turn_open or state.edited or Gate.EDIT in state.gates or _asks(state):
        return None
    ends = state.visit_failed_here or (stops and not ends_unmeasured(state))
    return state.proved_trial if ends else None


def _due_in_decide(state: RunState, now: float, stops: tuple[str, ...]) -> tuple[Phase, str]:
    if again := _last_measured(state, now, stops):
        return Phase.EDIT, _before_the_end(again)
    if stops:
        return Phase.DONE, stops[0]
    wished = (each for each in _wished_after_a_round(state) if each[0] in state.row.to)
    return next(wished, (Phase.DONE, PLAN_DONE))


def _wished_after_a_round(state: RunState) -> Iterator[tuple[Phase, str]]:
    """Yield the phases that may follow, the most urgent first; a workflow need not allow each."""
    policy = state.task.policy
    if state.fail_streak >= policy.fail_streak:
        yield Phase.DIAGNOSE, f"{state.fail_streak} failures in a row"
    if state.discard_limit and state.discard_streak >= state.discard_limit:
        why = f"{state.discard_streak} attempts were discarded since the last gain"
        yield (Phase.DIAGNOSE if policy.on_discards == "diagnose" else Phase.PLAN), why
    if state.demand:
        yield demanded(state.demand)
    if state.pending:
        yield Phase.EDIT, "next item"
    yield Phase.PLAN, "plan settled"


def demanded(demand: Demand) -> tuple[Phase, str]:
    """Return the phase that a person's or agent's demand leads to, with its reason."""
    if demand.kind == "diagnosis":
        return Phase.DIAGNOSE, demand.reason or "a person called for a diagnosis"
    return Phase.PLAN, f"a person wants a new plan{': ' if demand.reason else ''}{demand.reason}"


def _due_in_plan(state: RunState, now: float, stops: tuple[str, ...]) -> tuple[Phase, str] | None:
    if again := _last_measured(state, now, stops):
        return Phase.EDIT, _before_the_end(again)
    if stops:
        return Phase.DONE, stops[0]
    if state.demand and (wish := demanded(state.demand))[0] in state.row.to:
        return wish
    if not state.pending:
        return None
    if not state.plan_owed:
        return Phase.EDIT, "plan ready"
    return (Phase.EDIT, "no new plan came") if state.visit_failed_here else None


def _due_in_edit(state: RunState, now: float, stops: tuple[str, ...]) -> tuple[Phase, str] | None:
    if state.edited and state.active:
        if state.measured_again:
            return Phase.EVAL, f"{state.active} is measured again"
        return Phase.EVAL, f"{state.active} edited"
    if _unsubmitted(state, stops) or _last_measured(state, now, stops):
        return None
    if stops:
        return Phase.DONE, stops[0]
    # A person also asked for the pinned item, and work on it has begun: it is settled first.
    pinned = state.active is not None and state.item(state.active).pinned
    if state.demand and not pinned and (wish := demanded(state.demand))[0] in state.row.to:
        return wish
    if state.active is None and not state.pending:
        if Phase.PLAN not in state.row.to:
            return Phase.DONE, PLAN_DONE
        return Phase.PLAN, "no item left"
    return None


def _asks_first(state: RunState, now: float, to: Phase) -> Effect | None:
    """Return the effect for a question or gate that must be answered before phase `to`, or None."""
    if question := state.question:
        if not question.attended or (question.until is not None and now >= question.until):
            return Step((default_answer(question),))
        return Hold(Overlay.WAIT_USER, to, question.until)
    if state.gate and not state.gate.answer:
        return Hold(Overlay.WAIT_USER, to)
    planned = to is Phase.EDIT and state.phase is Phase.PLAN and not state.plan_approved
    if planned and not _last_measured(state, now, stop_reasons(state, now)):
        return _ask_leave(state, "plan") if Gate.PLAN in state.gates else None
    new_code = (state.phase, to) in ((Phase.EDIT, Phase.EVAL), (Phase.WRITE, Phase.BASELINE))
    if new_code and state.approved_blob != state.work_blob:
        if state.measured_again:  # it has run before
            return None
        return _ask_leave(state, "edit") if Gate.EDIT in state.gates else None
    return None


def visit_over(state: RunState, now: float) -> bool:
    """Return whether the agent's visit ends after this turn: finished, blocked, or waiting."""
    if due(state, now) is not None or state.blocked:
        return True
    return _asks(state) or not isinstance(_work(state, now), RunAgent)


def wait_over(state: RunState, now: float) -> bool:
    """Return whether a wait for the model's server must end: a pause, a transition, or a stop.

    During a turn, `due` returns None, so the stop conditions are checked separately.
    """
    if state.paused or due(state, now) is not None:
        return True
    ends = state.phase in (Phase.WRITE, Phase.PLAN, Phase.EDIT)
    return ends and bool(stop_reasons(state, now))


def visit_is_void(began: RunState, now: RunState) -> bool:
    """Return whether a visit that began in the state `began` must be cut off in the state `now`.

    A person dropped its item, stopped it, undid a KEEP, demanded a plan or a diagnosis, or began a
    new session.
    """
    whose = (began.active, began.recalls, began.sessions)
    return whose != (now.active, now.recalls, now.sessions)


def undo_waits(state: RunState) -> bool:
    """Return whether work that builds on the best kernel is to be settled before it is undone."""
    measuring = state.running is not None and state.running.purpose not in ev.COMPILED
    unsettled = state.phase is Phase.DECIDE and not state.decided_here
    return measuring or state.phase is Phase.EVAL or unsettled


def undone(state: RunState, attempt: int, comment: str) -> Events:
    """Return the events that undo the KEEP of `attempt`, and first each KEEP that builds on it."""
    assert state.best is not None
    kept = [each.attempt for each in (*state.former, state.best)]
    return tuple(
        ev.KeepUndone(
            attempt=kept[at], item=state.attempts[kept[at]].item, best=kept[at - 1], comment=comment
        )
        for at in range(len(kept) - 1, kept.index(attempt) - 1, -1)
    )


def next_effect(state: RunState, now: float) -> Effect | None:
    """Return the effect to run now; None when the run is over.

    In a pause no new work begins; in step mode work continues, and each transition waits.
    """
    if state.finished:
        return None
    if (queued := state.undo_queued) and not undo_waits(state):
        return Step(undone(state, queued.attempt, queued.comment))
    stepping = state.paused or state.mode is Mode.STEP
    transition = due(state, now)
    if transition is not None:
        to, reason = transition
        if stepping and not state.granted:
            return Hold(Overlay.PAUSED if state.paused else Overlay.WAIT_STEP, to)
        # A run ends without waiting for an open question or gate.
        asked = None if to is Phase.DONE else _asks_first(state, now, to)
        return asked or Step(_entering(state, now, to, reason))
    if state.phase is not Phase.DONE and (asked := _asks_first(state, now, state.phase)):
        return replace(asked, due=None) if isinstance(asked, Hold) else asked
    if state.paused and not state.granted:
        return Hold(Overlay.PAUSED)
    # Nothing is measured for a model that cannot be used.
    if state.api_failure and (state.row.agent or state.phase is Phase.BASELINE):
        return Hold(Overlay.WAIT_API)
    return _work(state, now)


def under_way(state: RunState) -> bool:
    """Return whether an evaluation or a turn of the agent is at work, which a pause lets end."""
    return state.running is not None or state.turn_open or bool(state.subagents)


def in_sight(state: RunState, now: float) -> Effect | None:
    """Return the effect to display: the next effect, or what is still under way in a pause, or a
    visit's wait for the model's server.

    This wait is part of the visit, ends by itself, and delays no later effect.
    """
    effect = next_effect(state, now)
    if isinstance(effect, Hold) and effect.overlay is Overlay.PAUSED and under_way(state):
        effect = _work(state, now)
    if isinstance(effect, RunAgent) and state.api_wait is not None:
        return Hold(Overlay.WAIT_API)
    return effect


def waits_for(state: RunState) -> str:
    """Return what a person has to do before the run goes on, in a word or two; "" for nothing.

    It is ``KEEP p7``, ``edit p7``, ``plan``, ``script``, ``question 2``, ``model`` (it cannot be
    used), ``pause`` or ``step``.
    """
    hold = in_sight(state, state.last_at)
    if not isinstance(hold, Hold):
        return ""
    match hold.overlay:
        case Overlay.WAIT_USER if state.question is not None:
            return f"question {state.question.number}"
        case Overlay.WAIT_USER if state.gate is not None:
            kind = "KEEP" if state.gate.kind == "keep" else state.gate.kind
            return f"{kind} {state.active}" if state.active and kind in ("KEEP", "edit") else kind
        case Overlay.WAIT_API:
            return "model" if state.api_failure else ""
    return "pause" if hold.overlay is Overlay.PAUSED else "step"


def _work(state: RunState, now: float) -> Effect | None:
    stops = stop_reasons(state, now) if state.phase is Phase.EDIT else ()
    match state.phase:
        case Phase.BASELINE:
            if state.baseline is None or state.baseline.outcome is Outcome.ERROR:
                return Measure(Purpose.BASELINE, 0, state.seed_blob, None)
            return CommitSeed(state.seed_blob)
        case Phase.EDIT if trial := _unsubmitted(state, stops):
            return SubmitTrial(trial.number, trial.blob)
        case Phase.EDIT if again := _last_measured(state, now, stops):
            return Step((ev.ItemActivated(item=again.id, round=state.settled + 1),))
        case Phase.EDIT if state.active is None:
            item = state.pending[0].id
            return Step((ev.ItemActivated(item=item, round=state.settled + 1),))
        case Phase.EDIT if state.blocked_item:
            assert state.active is not None
            return Step((ev.ItemsSuspended(items=(state.active,), reason=state.blocked_item),))
        case Phase.EDIT if state.visit_failed_here:
            assert state.active is not None
            why = "the agent made no edit"
            return Step((ev.ItemsDropped(items=(state.active,), reason=why),))
        case Phase.DIAGNOSE if state.diagnosis_attempts >= state.task.policy.diagnosis_attempts:
            return Step((_plain_diagnosis(state),))
        case Phase.WRITE | Phase.PLAN | Phase.EDIT | Phase.DIAGNOSE:
            return RunAgent(state.phase)
        case Phase.EVAL:
            assert state.best is not None
            if (earlier := state.measured_again) is not None:
                return measure_again(state, earlier)
            return Measure(Purpose.CANDIDATE, state.next_attempt, state.work_blob, state.best.blob)
        case Phase.DECIDE:
            return _work_in_decide(state)
        case Phase.DONE:
            return _work_in_done(state)
    return None


def _work_in_decide(state: RunState) -> Effect:
    if state.decided_here and (compiled := _compile_due(state)) is not None:
        return _taken(state, Measure(compiled, 0, "", None))
    decision = propose(state)
    asks = Gate.KEEP in state.gates and state.gate is None
    if decision.verdict in ADVANCES and asks:
        return _ask_leave(state, "keep")
    return Commit(decision, state.next_attempt, state.work_blob)


def _work_in_done(state: RunState) -> Effect:
    failed = baseline_failed(state)
    if failed or state.best is None:
        ended = state.finish_reason
        told = f"{ended}; {failed}" if failed and ended != failed else ended
        return _finish(told, ok=False)
    lost = state.measured is not None and state.measured.outcome is Outcome.ERROR
    unmeasured = state.final is None or state.final.outcome is Outcome.ERROR
    if state.best.attempt and unmeasured and not _evals_exhausted(state) and not lost:
        return _taken(state, final(state.best, state.seed_blob))
    fresh = state.final is not None and state.final.outcome is Outcome.CORRECT
    if fresh and "eager" in state.task.baselines and state.final_eager is None:
        return Measure(Purpose.EAGER, state.best.attempt, state.best.blob, None)
    if not lost and (compiled := _compile_due(state)) is not None:
        return _taken(state, Measure(compiled, 0, "", None))
    return _finish(state.finish_reason, ok=not lost)


def final(best: Incumbent, seed: str) -> Measure:
    """Return the measurement of the figure that a run ends with."""
    return Measure(Purpose.FINAL, best.attempt, best.blob, seed)


def measure_again(state: RunState, earlier: Attempt) -> Measure:
    """Return the measurement that goes on with those of an attempt which was not decided."""
    assert state.best is not None
    prior = earlier.measurement.log_ratios
    found = state.found_idle(Purpose.CANDIDATE, earlier.blob, state.best.blob)
    if found is not None and len(found.log_ratios) > len(prior):
        prior = found.log_ratios
    return Measure(Purpose.CANDIDATE, state.next_attempt, earlier.blob, state.best.blob, prior)


def _taken(state: RunState, wanted: Measure) -> Effect:
    """Return a measurement, or the step that takes its result if it was made while idle."""
    found = state.found_idle(wanted.purpose, wanted.blob, wanted.incumbent)
    if found is None:
        return wanted
    attempt, purpose = wanted.attempt, wanted.purpose
    return Step(
        (
            ev.EvalStarted(attempt=attempt, purpose=purpose, blob=wanted.blob),
            ev.EvalFinished(attempt=attempt, purpose=purpose, measurement=found),
        )
    )


def _finish(reason: str, *, ok: bool) -> Step:
    return Step((ev.RunFinished(reason=reason, ok=ok),))


def _ask_leave(state: RunState, gate: ev.GateKind) -> Step:
    """Return the step that asks a person for approval, or that applies a rule."""
    scope = ev.Scope(gate, state.phase)
    # A kernel that the agent writes before there is a correct one is to be attempt 0.
    attempt = 0 if state.best is None else state.next_attempt
    return Step((approved(state, scope, attempt=attempt),))


def _entering(state: RunState, now: float, to: Phase, reason: str) -> Events:
    """Return the events of the transition to `to`: first those of open items, then the phase."""
    entered = ev.PhaseEntered(phase=to, previous=state.phase, reason=reason)
    active = () if state.active is None else (state.active,)
    if to is Phase.DIAGNOSE:
        ids = (*active, *state.replaceable)
        suspended = ev.ItemsSuspended(items=ids, reason=reason)
        return (suspended, entered) if ids else (entered,)
    if to is Phase.PLAN and active:
        return ev.ItemsDropped(items=active, reason=reason), entered
    # After a crash between the two events, `StopConditionsMet` must not be journaled again.
    stops = stop_reasons(state, now) if to is Phase.DONE else ()
    if reason in stops and not state.stop_conditions:
        met = ev.StopConditionsMet(
            reasons=stops,
            primary=reason,
            goals_met=goals_reached(state),
            blocked=blocked_plans(state) if GUARDRAIL in stops else "",
        )
        return met, entered
    return (entered,)


def _plain_diagnosis(state: RunState) -> ev.DiagnosisReported:
    """Return a diagnosis made from the last failures, for an agent that reported none."""
    tried = [attempt for attempt in state.attempts if attempt.number]
    failed = tried[-(state.fail_streak or min(3, state.discard_streak) or 1) :]
    cause = one_line("; ".join(f"{a.item}: {a.reason}" for a in failed), MAX_CAUSE)
    return ev.DiagnosisReported(cause=cause or "no report was given", source="fallback")
