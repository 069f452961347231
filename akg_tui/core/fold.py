"""`evolve`: the state after one more event, checked against the tables of `core.phases`.

Every reader of a journal folds with `evolve`, which refuses a journal that breaks a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from msgspec.structs import asdict, replace

from akg_tui.core import events as ev
from akg_tui.core.approval_rules import all_ended, rule_applied, rule_learned, rule_revoked
from akg_tui.core.measurement import Outcome
from akg_tui.core.model_info import add_call
from akg_tui.core.phases import (
    ADVANCES,
    ITEM_AFTER,
    MODE_GATES,
    Gate,
    ItemState,
    Phase,
    Verdict,
    check_phase,
)
from akg_tui.core.state import (
    UNMEASURED,
    Attempt,
    Demand,
    Draft,
    Incumbent,
    Item,
    OpenGate,
    OutOfOrder,
    Question,
    Running,
    RunState,
    Subagent,
    Trial,
    added,
    changed,
    moved,
    ordered,
    reworded,
)
from akg_tui.core.usage import usage_of

__all__ = ["OutOfOrder", "evolve", "fold"]

RECENT_CALLS = 20


def evolve(state: RunState | None, record: ev.Record) -> RunState:
    """Return the state after `record`.

    Raises `OutOfOrder` if the record's number is not the next one, or the event does not fit the
    state. Raises `IllegalTransition` if the event breaks a table.
    """
    event = record.event
    if state is None:
        if not isinstance(event, ev.RunCreated) or record.seq != 1:
            raise OutOfOrder(f"a journal begins with RunCreated, not {type(event).__name__}")
        return _created(event, record.at)
    if record.seq != state.seq + 1:
        raise OutOfOrder(f"event {record.seq} follows event {state.seq}")
    at, worked = record.at, state.worked_s
    if at > state.last_at and not _rested(state, event):
        slept = event.seconds if isinstance(event, ev.MachineSlept) else 0.0
        worked += max(0.0, at - state.last_at - slept)
    state = replace(state, seq=record.seq, last_at=at, worked_s=worked)
    return _APPLY[type(event)](state, event, at)


def _rested(state: RunState, event: ev.AnyEvent) -> bool:
    """Return whether the time since the previous event is not worked time."""
    if event.at_rest or state.queued:
        return True
    # The sleep is journaled before the act of a person that ends the wait.
    if state.resting and (event.by_a_person or isinstance(event, ev.MachineSlept)):
        return True
    return event.from_a_terminal and getattr(event, "source", "") == ev.COMMAND_LINE


def fold(records: Iterable[ev.Record]) -> RunState | None:
    """Return the state after all `records`, which begin with the first of a journal."""
    state: RunState | None = None
    for record in records:
        state = evolve(state, record)
    return state


def _created(event: ev.RunCreated, at: float) -> RunState:
    return RunState(
        run_id=event.run_id,
        task=event.task,
        mode=event.mode,
        gates=MODE_GATES[event.mode],
        agent=event.agent,
        seed_blob=event.kernel_blob,
        reference_sha256=event.reference_sha256,
        seq=1,
        started_at=at,
        last_at=at,
        phase_since=at,
        work_blob=event.kernel_blob,
    )


def _phase_entered(state: RunState, event: ev.PhaseEntered, at: float) -> RunState:
    check_phase(state.workflow, state.phase, event.phase)
    state = replace(
        state,
        phase=event.phase,
        phase_since=at,
        phase_reason=event.reason,
        granted=0,
        turn_open=False,
        visit_failed_here=False,
        decided_here=False,
        diagnosed_here=False,
        diagnosis_attempts=0,
        blocked=False,
        blocked_item="",
        discards_ended=False,
        reopened=(),
        api_wait=None,
    )
    if event.phase is Phase.BASELINE and state.edited:  # the agent wrote a kernel: the next seed
        seed = state.work_blob
        return replace(state, seed_blob=seed, edited=False, baseline=None, eval_errors=0)
    if event.phase is Phase.WRITE:
        return replace(state, round=state.settled + 1)
    if event.phase is Phase.PLAN:
        # A demanded diagnosis still follows; a demanded plan begins now.
        demand = state.demand if state.demand and state.demand.kind != "plan" else None
        limit = state.discard_limit
        if event.previous is Phase.DECIDE and limit and state.discard_streak >= limit:
            state = replace(state, discard_streak=0, discards_ended=True)
        return replace(state, plan_owed=True, plan_approved=False, demand=demand)
    if event.phase is Phase.DIAGNOSE:
        return replace(state, demand=None)
    if event.phase is Phase.EVAL:
        return replace(state, measured=None, gate=None, eval_errors=0)
    if event.phase is Phase.DONE:
        return replace(state, finish_reason=event.reason, eval_errors=0, gate=None)
    return state


def _eval_finished(state: RunState, event: ev.EvalFinished, at: float) -> RunState:
    state = replace(state, running=None)
    measurement = event.measurement
    if event.purpose is ev.Purpose.COMPILE:
        return replace(state, compiled=measurement)
    if event.purpose is ev.Purpose.MAX_AUTOTUNE:
        return replace(state, autotuned=measurement)
    if event.purpose is ev.Purpose.EAGER:
        return replace(state, final_eager=measurement)
    if measurement.outcome is Outcome.ERROR:
        state = replace(state, eval_errors=state.eval_errors + 1)
    if event.purpose is ev.Purpose.BASELINE:
        state = replace(state, baseline=measurement)
        if measurement.outcome is Outcome.ERROR or state.round == state.settled:
            return state
        # A try to write the kernel.
        drafts = state.drafts
        if measurement.outcome is Outcome.FAILED:
            drafts = (*drafts, Draft(state.round, state.seed_blob, measurement))
        return replace(state, settled=state.round, visits_failed=0, drafts=drafts)
    if event.purpose is ev.Purpose.FINAL:
        return replace(state, final=measurement)
    return replace(state, measured=measurement)


def _idle_measured(state: RunState, event: ev.IdleMeasured, at: float) -> RunState:
    return replace(state, idle=(*state.idle_found, event))


def _compile_left_out(state: RunState, event: ev.CompileLeftOut, at: float) -> RunState:
    ends = state.running is not None and state.running.purpose in ev.COMPILED
    return replace(state, compile_left_out=True, running=None if ends else state.running)


def _baseline_accepted(state: RunState, event: ev.BaselineAccepted, at: float) -> RunState:
    assert state.baseline is not None
    seed = Attempt(
        number=0,
        round=state.settled,
        item="",
        blob=event.blob,
        commit=event.commit,
        verdict=Verdict.KEEP,
        reason="seed",
        measurement=state.baseline,
        over_seed=1.0,
        at=at,
        tokens=state.tokens,
    )
    best = Incumbent(attempt=0, blob=event.blob, commit=event.commit)
    return replace(state, attempts=(seed,), best=best, work_blob=event.blob, eval_errors=0)


def _item_activated(state: RunState, event: ev.ItemActivated, at: float) -> RunState:
    if state.active is not None:
        state = _set_aside(state, event.item)
    state = moved(state, (event.item,), ItemState.ACTIVE, round=event.round)
    state = replace(state, active=event.item, round=event.round)
    item = state.item(event.item)
    again = state.waiting(item)
    if blob := again.blob if again else item.blob:
        return replace(state, edited=True, work_blob=blob, visit_failed_here=False)
    return replace(state, edited=False, visit_failed_here=False)


def _set_aside(state: RunState, other: str) -> RunState:
    """Put the active item back to the pending ones, as the first: `other` is worked on before."""
    aside = state.active
    assert aside is not None
    if state.edited or aside == other:
        raise OutOfOrder(f"{other} cannot be activated while {aside} is active")
    state = moved(state, (aside,), ItemState.PENDING)
    return ordered(state, (aside, *(item.id for item in state.pending if item.id != aside)))


def _items_dropped(state: RunState, event: ev.ItemsDropped, at: float) -> RunState:
    dropped = moved(state, event.items, ItemState.DROPPED, reason=event.reason)
    if dropped.active is not None:
        return dropped
    # The dropped item may leave an edit behind, and an open gate for it.
    gate = None if state.gate and state.gate.kind == "edit" else state.gate
    blob = state.best.blob if state.best else state.work_blob
    return replace(dropped, visit_failed_here=False, edited=False, work_blob=blob, gate=gate)


def _kernel_tried(state: RunState, event: ev.KernelTried, at: float) -> RunState:
    ratio = event.measurement.ratio
    tried = Trial(
        number=event.trial,
        item=event.item,
        blob=event.blob,
        told=event.told,
        sweep=event.sweep,
        incumbent=state.best.blob if state.best else "",
        faster=ratio.low if ratio is not None else 0.0,
    )
    return replace(state, trials=(*state.trials, tried))


def _model_replied(state: RunState, event: ev.ModelReplied, at: float) -> RunState:
    state = replace(
        _charged(state, event),
        recent_calls=(*state.recent_calls[1 - RECENT_CALLS :], usage_of(event)),
        api_wait=None,
    )
    if event.source and any(one.id == event.source and one.call for one in state.subagents):
        return state  # a separate turn, inside the caller's turn
    return replace(
        state,
        turn_open=True,
        blocked=False,
        hints=state.hints[len(state.hints) if event.hints_told is None else event.hints_told :],
        closing_reply="" if event.tool_calls else event.text,
    )


def _charged(state: RunState, event: ev.ModelReplied | ev.ReplyLost) -> RunState:
    said = isinstance(event, ev.ModelReplied)
    hints = event.own_hints_told if isinstance(event, ev.ModelReplied) else 0

    def charged(one: Subagent) -> Subagent:
        return replace(
            one,
            calls=one.calls + said,
            prompt_tokens=one.prompt_tokens + event.prompt_tokens,
            output_tokens=one.output_tokens + event.output_tokens,
            hints=one.hints[hints:],
        )

    return replace(
        _with_subagent(state, event.source, charged),
        input_tokens=state.input_tokens + event.prompt_tokens,
        output_tokens=state.output_tokens + event.output_tokens,
        usage=add_call(state.usage, usage_of(event)),
    )


def _subagent_started(state: RunState, event: ev.SubagentStarted, at: float) -> RunState:
    begun = Subagent(event.subagent, event.agent, event.call)
    started = state.subagents_started + 1
    return replace(state, subagents=(*state.subagents, begun), subagents_started=started)


def _subagent_ended(state: RunState, event: ev.SubagentEnded, at: float) -> RunState:
    left = tuple(one for one in state.subagents if one.id != event.subagent)
    return replace(state, subagents=left, api_wait=None)


def _subagent_stopped(state: RunState, event: ev.SubagentStopped, at: float) -> RunState:
    visits = any(one.id == event.subagent and not one.call for one in state.subagents)
    stopped = partial(replace, stopped=True, stop_reason=event.reason)
    state = _with_subagent(state, event.subagent, stopped)
    if not visits:
        return state
    # The subagent is the visit: the visit ends, and no further diagnosis is attempted.
    tried = state.task.policy.diagnosis_attempts
    return replace(state, recalls=state.recalls + 1, diagnosis_attempts=tried)


def _with_subagent(state: RunState, name: str, change: Callable[[Subagent], Subagent]) -> RunState:
    subagents = tuple(change(one) if one.id == name else one for one in state.subagents)
    return replace(state, subagents=subagents)


PLAN_FAULTS = 3


def _tool_answered(state: RunState, event: ev.ToolAnswered, at: float) -> RunState:
    left = tuple(call for call in state.open_calls if call[0] != event.call)
    refused, attempts, faults = state.plans_refused, state.diagnosis_attempts, state.plan_faults
    if event.tool == "submit_plan" and not event.source:
        refused = refused + 1 if event.status == "error" else 0
        others = [each for each in faults if each != event.error_information]
        faults = (*others[1 - PLAN_FAULTS :], event.error_information) if refused else ()
    if event.tool == "report_diagnosis" and event.status == "error":
        attempts += state.phase is Phase.DIAGNOSE
    return replace(
        state,
        open_calls=left,
        plans_refused=refused,
        plan_faults=faults,
        diagnosis_attempts=attempts,
    )


def _turn_interrupted(state: RunState, event: ev.TurnInterrupted, at: float) -> RunState:
    state = replace(state, turn_open=False, api_wait=None)
    if state.phase in (Phase.EDIT, Phase.WRITE):
        return replace(state, edited=False, work_blob=state.standing_blob)
    return state


def _visit_failed(state: RunState, event: ev.VisitFailed, at: float) -> RunState:
    state = replace(state, visit_failed_here=True, visit_failure=event.reason, api_wait=None)
    if state.phase is Phase.DIAGNOSE:  # has its own limit, after which a plain diagnosis follows
        return replace(state, diagnosis_attempts=state.diagnosis_attempts + 1)
    return replace(state, visits_failed=state.visits_failed + 1)


def _decided(state: RunState, event: ev.Decided, at: float) -> RunState:
    assert state.best is not None
    assert state.measured is not None
    # Candidate over seed: the incumbent's estimate times this ratio.
    ratio = None if state.task.estimate else state.measured.ratio
    speedup = state.best.speedup.chained(ratio) if ratio else None
    over_seed = speedup.ratio if speedup else None
    earlier = state.measured_again
    attempt = Attempt(
        number=event.attempt,
        round=event.round,
        item=event.item,
        blob=event.blob,
        commit=event.commit,
        verdict=event.verdict,
        reason=event.reason,
        measurement=state.measured,
        over_seed=over_seed,
        at=at,
        speedup=speedup,
        tokens=state.tokens,
        incumbent=state.best.blob,
        again_of=earlier.number if earlier else None,
    )
    best, former = state.best, state.former
    if event.verdict in ADVANCES:
        former = (*former, best)
        gained = speedup or best.speedup
        best = Incumbent(event.attempt, event.blob, event.commit, gained.ratio, gained)
    unproved = 0
    if event.verdict is Verdict.INCONCLUSIVE:
        unproved = 1 + (state.item(event.item).unproved if earlier else 0)
    state = moved(
        state,
        (event.item,),
        ITEM_AFTER[event.verdict],
        attempt=event.attempt,
        ratio=event.ratio,
        reason=event.reason,
        commit=event.commit,
        verdict=event.verdict,
        unproved=unproved,
    )
    if event.verdict is Verdict.INCONCLUSIVE:
        others = (item.id for item in state.pending if item.id != event.item)
        state = ordered(state, (*others, event.item))
    return replace(
        state,
        attempts=state.attempts + (attempt,),  # noqa: RUF005  one copy of a long tuple, not two
        next_attempt=event.attempt + 1,
        best=best,
        former=former,
        work_blob=best.blob,
        edited=False,
        settled=state.settled + 1,
        measured_anew=state.measured_anew + (earlier is not None),
        fail_streak=state.fail_streak + 1 if event.verdict is Verdict.FAIL else 0,
        discard_streak=_discards(state, event.verdict),
        finish_agreed=False,
        visits_failed=0,
        decided_here=True,
        gate=None,
    )


def _discards(state: RunState, verdict: Verdict) -> int:
    if verdict in ADVANCES:
        return 0
    return state.discard_streak + (verdict is Verdict.DISCARD)


def _plan_revised(state: RunState, event: ev.PlanRevised, at: float) -> RunState:
    why = f"dropped by the agent: {event.reason}"
    state = moved(state, event.dropped, ItemState.DROPPED, reason=why)
    for item_id in event.reopened:
        # The agent makes a kernel anew: what was measured before belongs to its attempts.
        state = moved(
            state,
            (item_id,),
            ItemState.PENDING,
            **UNMEASURED,
            rationale=event.reason,
            reopened=state.item(item_id).reopened + 1,
        )
    if event.order:
        state = ordered(state, event.order)
    owed = state.plan_owed and not (state.phase is Phase.PLAN and event.ready)
    return replace(state, plan_owed=owed, reopened=(*state.reopened, *event.reopened))


def _items_suspended(state: RunState, event: ev.ItemsSuspended, at: float) -> RunState:
    state = moved(state, event.items, ItemState.SUSPENDED, reason=event.reason)
    return replace(state, blocked_item="")


def _run_salvaged(state: RunState, event: ev.RunSalvaged, at: float) -> RunState:
    commits = dict(event.commits)
    attempts = tuple(
        replace(a, commit=commits.get(a.number, a.commit), lost=a.lost or a.number in event.lost)
        for a in state.attempts
    )
    items = tuple(
        replace(item, commit=commits.get(item.attempt or 0, item.commit)) if item.attempt else item
        for item in state.items
    )
    former = tuple(
        replace(each, commit=commits.get(each.attempt, each.commit))
        for each in state.former
        if each.attempt not in event.lost
    )
    # The lost part of the journal may have contained the end of a rule.
    state = all_ended(state, "a salvaged run begins without rules")
    state = replace(state, run_id=event.run_id, attempts=attempts, items=items, former=former)
    if state.best is None:
        return state
    if event.best is None:
        if state.best.attempt in event.lost:
            raise OutOfOrder(f"attempt {state.best.attempt} cannot be the best: it is lost")
        commit = commits.get(state.best.attempt, state.best.commit)
        return replace(state, best=replace(state.best, commit=commit))
    while former and former[-1].attempt != event.best:
        former = former[:-1]
    if not former:
        raise OutOfOrder(f"attempt {event.best} cannot be the best: it never was, or is lost")
    best, former = former[-1], former[:-1]
    work = best.blob
    state = replace(state, final=None, final_eager=None, measured=None)
    return replace(state, best=best, former=former, work_blob=work, edited=False)


REMEMBERED = 20  # the last questions and scripts that a state stores


def _with_comment(text: str, comment: str) -> str:
    return f"{text}: {comment}" if comment else text


def _hinted(state: RunState, text: str) -> RunState:
    return replace(state, hints=(*state.hints, text), closing_reply="")


def recalled(state: RunState) -> RunState:
    """Return the state with a request to cut off the agent's visit, if there is one."""
    if not state.row.agent:
        return state
    return replace(state, recalls=state.recalls + 1, api_wait=None)


def _gate_changed(state: RunState, event: ev.GateChanged, at: float) -> RunState:
    others = {gate for gate in state.gates if gate is not event.gate}
    on = others | {event.gate} if event.on else others
    return replace(state, gates=tuple(gate for gate in Gate if gate in on))


def _gate_answered(state: RunState, event: ev.GateAnswered, at: float) -> RunState:
    gate = state.gate
    assert gate is not None
    approved, comment = event.answer == "approve", event.comment
    if gate.kind == "keep":  # DECIDE opens and settles this gate: the answer stays for `propose`
        return replace(state, gate=replace(gate, answer=event.answer, comment=comment))
    state = replace(state, gate=None)
    if gate.kind == "script":
        scripts = (*state.scripts[1 - REMEMBERED :], (gate.subject, approved))
        hint = f"the script {gate.subject[:12]} {'may' if approved else 'may not'} run"
        return _hinted(replace(state, scripts=scripts), _with_comment(hint, comment))
    if gate.kind == "plan":
        if approved:
            return replace(state, plan_approved=True)
        why = _with_comment("rejected in review", comment)
        state = replace(state, reopened=())
        state = moved(state, state.replaceable, ItemState.DROPPED, reason=why)
        state = replace(state, plan_owed=True, plan_approved=False, visit_failed_here=False)
        return _hinted(state, _with_comment("the plan was rejected", comment))
    if approved:
        return replace(state, approved_blob=state.work_blob)
    state = replace(state, edited=False, work_blob=state.standing_blob, visit_failed_here=False)
    hint = f"the edit for {state.active} was rejected before it ran"
    if state.best is None:
        hint = "the kernel that you wrote was rejected before it ran"
    return _hinted(state, _with_comment(hint, comment))


def _item_pinned(state: RunState, event: ev.ItemPinned, at: float) -> RunState:
    pending = [item.id for item in state.pending]
    if event.item not in pending:
        raise OutOfOrder(f"{event.item} is not pending")
    if event.pinned:
        others = (item_id for item_id in pending if item_id != event.item)
        state = ordered(state, (event.item, *others))
    return changed(state, event.item, pinned=event.pinned)


def _measurement_demanded(state: RunState, event: ev.MeasurementDemanded, at: float) -> RunState:
    item = state.item(event.item)
    if item.attempt != event.attempt:
        raise OutOfOrder(f"attempt {event.attempt} is not the last one of {event.item}")
    if item.state is not ItemState.PENDING:
        state = moved(state, (item.id,), ItemState.PENDING)
    others = (other.id for other in state.pending if other.id != item.id)
    state = ordered(state, (item.id, *others))
    return changed(state, item.id, pinned=True, unproved=0)


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
    """Add a demand and cut off the visit, unless an edit or a pinned item must be settled first."""
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
    queued = state.undo_queued
    state = replace(
        state,
        best=best,
        former=state.former[:-1],
        undo_queued=None if queued and queued.attempt == event.attempt else queued,
        undone=(*state.undone, event.attempt),
        work_blob=best.blob,
        edited=False,
        final=None,
        final_eager=None,
        approved_blob="",
        gate=None if state.gate and state.gate.kind == "edit" else state.gate,
    )
    return recalled(state)


def _shortlist_taken(state: RunState, event: ev.ShortlistTaken, at: float) -> RunState:
    if state.seq != 2:  # the run was just created
        raise OutOfOrder("only a new run takes a shortlist")
    items = []
    for number, kernel in enumerate(event.kernels, 1):
        why = f"attempt {kernel.attempt} of {event.parent}: {kernel.estimate}"
        items.append(Item(f"p{number}", kernel.text, why, blob=kernel.blob))
    return replace(state, settles=event, items=tuple(items))


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


def _question_held(state: RunState, event: ev.QuestionHeld, at: float) -> RunState:
    last = state.question
    if last is None or last.number != event.question:
        raise OutOfOrder(f"question {event.question} is not open")
    return replace(state, questions=(*state.questions[:-1], replace(last, until=None)))


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
    # A report of being blocked counts as a failed visit, so that repeated reports end the run.
    state = replace(state, visits_failed=state.visits_failed + 1)
    if event.leads_to == "suspension":
        return replace(state, blocked_item=why)
    if event.leads_to == "diagnosis":
        return replace(state, demand=Demand("diagnosis", why))
    return replace(state, visit_failed_here=event.leads_to == "failed visit")


def _policy_changed(state: RunState, event: ev.PolicyChanged, at: float) -> RunState:
    task = replace(state.task, policy=event.policy)
    return replace(state, task=task, stop_conditions=(), goals_met=False, call_refused="")


def _run_reopened(state: RunState, event: ev.RunReopened, at: float) -> RunState:
    if not state.finished:
        raise OutOfOrder("a run that is not over cannot be reopened")
    state = replace(
        state,
        task=replace(state.task, policy=event.policy),
        phase=event.phase,
        phase_since=at,
        phase_reason="",
        plan_owed=event.phase is Phase.PLAN and not state.pending,
        round=state.settled + 1 if event.phase is Phase.WRITE else state.round,
        paused=False,
        granted=0,
        turn_open=False,
        decided_here=False,
        visit_failed_here=False,
        visits_failed=0,
        plans_refused=0,
        plan_faults=(),
        eval_errors=0,
        measured=None,
        final=None,
        final_eager=None,
        api_failure="",
        call_refused="",
        finish_reason="",
        stop_reason="",
        stop_conditions=(),
        goals_met=False,
        finished="",
        ok=True,
    )
    return _hinted(state, "the run was over; a person wants it to go on")


def _forked(state: RunState, event: ev.Forked, at: float) -> RunState:
    """Keep the parent's history, but reset its pause, demands, stop reasons and plan edits."""
    lost = event.lost
    return replace(
        all_ended(state, "a fork begins without rules"),
        attempts=tuple(replace(a, lost=a.lost or a.number in lost) for a in state.attempts),
        former=tuple(each for each in state.former if each.attempt not in lost),
        run_id=event.run_id,
        forked=event,
        started_at=at,
        phase_since=at,
        paused=False,
        granted=0,
        demand=None,
        undo_queued=None,
        broke="",
        stop_reason="",
        finish_reason="",
        stop_conditions=(),
        goals_met=False,
        call_refused="",
        visits_failed=0,
        plan_edits=(),
        adopted=(),
    )


_APPLY: dict[type, Callable[[RunState, Any, float], RunState]] = {
    ev.SessionOpened: lambda s, e, at: replace(
        s, api_wait=None, api_failure="", broke="", queued=False
    ),
    ev.SessionBroke: lambda s, e, at: replace(s, broke=e.reason),
    ev.PhaseEntered: _phase_entered,
    ev.EvalStarted: lambda s, e, at: replace(s, running=Running(e.attempt, e.purpose, e.blob, at)),
    ev.EvalFinished: _eval_finished,
    ev.EvalInterrupted: lambda s, e, at: replace(s, running=None),
    ev.CompileLeftOut: _compile_left_out,
    ev.SessionBegan: lambda s, e, at: replace(
        s, sessions=s.sessions + 1, tokens_before=s.tokens, call_refused=""
    ),
    ev.BaselineAccepted: _baseline_accepted,
    ev.PlanSubmitted: lambda s, e, at: replace(
        added(s, e.items), finish_reason="", plan_owed=False, plan_approved=False
    ),
    ev.ItemActivated: _item_activated,
    ev.PlanRevised: _plan_revised,
    ev.ItemsSuspended: _items_suspended,
    ev.ItemsDropped: _items_dropped,
    ev.KernelEdited: lambda s, e, at: replace(s, work_blob=e.blob, edited=True),
    ev.KernelTried: _kernel_tried,
    ev.IdleMeasured: _idle_measured,
    ev.ModelReplied: _model_replied,
    ev.ReplyLost: lambda s, e, at: _charged(s, e),
    ev.ApiWaiting: lambda s, e, at: replace(s, api_wait=e),
    ev.ApiFailed: lambda s, e, at: replace(s, api_wait=None, api_failure=e.reason),
    ev.EndpointProbed: lambda s, e, at: replace(s, capabilities=e.capabilities),
    ev.TimingQueued: lambda s, e, at: replace(
        s, queued=e.waits, worked_s=max(0.0, s.worked_s - e.before_s)
    ),
    ev.MachineSlept: lambda s, e, at: s,
    ev.MachineDescribed: lambda s, e, at: replace(s, machine=e),
    ev.MemoryRecalled: lambda s, e, at: replace(s, memory=e),
    ev.ContextRebuilt: lambda s, e, at: s,
    ev.SubagentStarted: _subagent_started,
    ev.SubagentEnded: _subagent_ended,
    ev.ToolCalled: lambda s, e, at: replace(s, open_calls=(*s.open_calls, (e.call, e.tool))),
    ev.ToolAnswered: _tool_answered,
    ev.TurnEnded: lambda s, e, at: replace(s, turn_open=False),
    ev.TurnInterrupted: _turn_interrupted,
    ev.VisitFailed: _visit_failed,
    ev.Decided: _decided,
    ev.DiagnosisReported: lambda s, e, at: replace(
        s,
        diagnosis=e,
        diagnosed_here=True,
        fail_streak=0,
        discard_streak=0,
        finish_agreed=e.exhausted,
    ),
    ev.FinishRequested: lambda s, e, at: replace(s, finish_reason=e.reason),
    ev.StopConditionsMet: lambda s, e, at: replace(
        s, stop_conditions=e.reasons, goals_met=e.goals_met
    ),
    ev.RunSalvaged: _run_salvaged,
    ev.RunFinished: lambda s, e, at: replace(s, finished=e.reason, ok=e.ok),
    ev.RunReopened: _run_reopened,
    ev.ModeChanged: lambda s, e, at: replace(s, mode=e.mode, gates=MODE_GATES[e.mode], granted=0),
    ev.GateChanged: _gate_changed,
    ev.GateOpened: lambda s, e, at: replace(
        s, gate=OpenGate(**asdict(e), since=at), gates_opened=e.gate
    ),
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
    ev.ItemAdded: lambda s, e, at: added(s, (e.item,), pinned=True, before=e.before),
    ev.ItemEdited: lambda s, e, at: reworded(s, e.item),
    ev.ItemsReordered: lambda s, e, at: ordered(s, e.order),
    ev.ItemPinned: _item_pinned,
    ev.MeasurementDemanded: _measurement_demanded,
    ev.PlanEditAdopted: _plan_edit_adopted,
    ev.ReplanForced: _replan_forced,
    ev.DiagnosisForced: _diagnosis_forced,
    ev.KeepUndone: _keep_undone,
    ev.UndoQueued: lambda s, e, at: replace(s, undo_queued=e),
    ev.UndoWithdrawn: lambda s, e, at: replace(s, undo_queued=None),
    ev.QuestionAsked: _question_asked,
    ev.QuestionHeld: _question_held,
    ev.QuestionAnswered: _question_answered,
    ev.BlockedReported: _blocked_reported,
    ev.CallRefused: lambda s, e, at: replace(s, call_refused=e.reason),
    ev.Forked: _forked,
    ev.ShortlistTaken: _shortlist_taken,
    ev.SubagentHinted: lambda s, e, at: _with_subagent(
        s, e.subagent, lambda one: replace(one, hints=(*one.hints, e.text))
    ),
    ev.SubagentStopped: _subagent_stopped,
}
