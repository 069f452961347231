"""A person's commands to a run: modes, gates, items, hints, undo, stop, and subagents.

Pure. Each function returns the events of one command, or refuses it with one sentence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.approval_rules import answer_gate, ended_by, revoke_rule
from akg_tui.core.commands import Made, Refusal
from akg_tui.core.effects import compile_owed, undo_waits, undone
from akg_tui.core.fold import evolve
from akg_tui.core.measurement import Outcome
from akg_tui.core.model_info import policy_fault
from akg_tui.core.phases import MODE_GATES, ItemState, Mode, Phase, Verdict
from akg_tui.core.plan.submission import MAX_ITEM_TEXT, MAX_PLAN_ITEMS, MAX_RATIONALE
from akg_tui.core.sanitize import Said, one_line
from akg_tui.core.state import Item, OutOfOrder, RunState, Subagent
from akg_tui.core.stopping.limits import stop_reasons
from akg_tui.core.task import Policy


def _set_mode(state: RunState, command: cmd.SetMode, now: float) -> Made:
    if state.mode is command.mode:
        raise Refusal("the mode is {mode} already", mode=command.mode)
    why = Said("mode {mode} set its gate anew", mode=command.mode)
    ended = ended_by(state, MODE_GATES[command.mode], command.source, why)
    # The rules end first: a crash between the events leaves no rule that the new mode must end.
    return *ended, ev.ModeChanged(mode=command.mode, source=command.source)


def _set_gate(state: RunState, command: cmd.SetGate, now: float) -> Made:
    if (command.gate in state.gates) is command.on:
        is_so = "the gate {gate} is on already" if command.on else "the gate {gate} is off already"
        raise Refusal(is_so, gate=command.gate)
    ended = ended_by(state, (command.gate,), "user", "its gate was set anew") if command.on else ()
    return *ended, ev.GateChanged(gate=command.gate, on=command.on)


def _change_policy(state: RunState, command: cmd.ChangePolicy, now: float) -> Made:
    if state.phase is Phase.DONE:
        raise Refusal("the run is ending: its policy has done its work")
    if command.policy == state.task.policy:
        raise Refusal("that is the policy already")
    _check_policy(state, command.policy)
    return ev.PolicyChanged(policy=command.policy, source=command.source)


def _check_policy(state: RunState, policy: Policy) -> None:
    """Refuse a policy that can't limit the run."""
    if fault := policy_fault(policy, state.agent):
        raise Refusal(fault)


def _go_on(state: RunState, command: cmd.GoOn, now: float) -> Made:
    if not state.finished:
        if state.phase is Phase.DONE:
            raise Refusal("the run is ending: it can go on once its end is measured")
        raise Refusal("the run is not over: its limits can be changed while it works")
    _check_policy(state, command.policy)
    phase = _goes_on_in(state)
    reopened = ev.RunReopened(phase=phase, policy=command.policy, source=command.source)
    after = evolve(state, ev.Record(state.seq + 1, now, reopened))
    if stops := stop_reasons(after, now):
        raise Refusal("the run would end again at once: {why}", why="; ".join(stops))
    return reopened


def _goes_on_in(state: RunState) -> Phase:
    """Return the phase in which a run goes on that is over; refuse where nothing is left to do."""
    wrong = state.baseline is not None and state.baseline.outcome is Outcome.FAILED
    if state.best is None and wrong and Phase.WRITE in state.workflow.rows:
        return Phase.WRITE
    ranked = state.baseline is None or state.baseline.timed
    if state.best is None or not ranked:
        raise Refusal("the run is over and has no round to go on from: {why}", why=state.finished)
    if Phase.PLAN not in state.workflow.rows:
        raise Refusal(
            "the kernel is correct: the workflow {name} is done", name=state.workflow.name
        )
    return Phase.PLAN if state.active is None else Phase.EDIT


def can_go_on(state: RunState) -> bool:
    """Return whether a run that is over can go on with other limits."""
    try:
        return bool(state.finished and _goes_on_in(state))
    except Refusal:
        return False


def _pause(state: RunState, command: cmd.Pause, now: float) -> Made:
    if state.paused:
        raise Refusal("the run is paused already")
    return ev.Paused()


def _unpause(state: RunState, command: cmd.Unpause, now: float) -> Made:
    if not (state.paused or state.api_failure or state.api_wait):
        raise Refusal("the run is not paused")
    return ev.Unpaused()


def _step(state: RunState, command: cmd.Step, now: float) -> Made:
    if not state.paused and state.mode is not Mode.STEP:
        raise Refusal("stepping needs mode step, or a pause")
    if state.gate and not state.gate.answer:
        what = {"keep": "a KEEP", "plan": "the plan", "edit": "an edit"}.get(
            state.gate.kind, "a script"
        )
        raise Refusal("{what} waits for your review: a step does not answer it", what=what)
    if state.question is not None and state.phase is not Phase.DONE:
        raise Refusal("a question waits for your answer: a step does not give it")
    _not_at_the_end(state)
    if state.granted:
        raise Refusal("one step is granted already")
    return ev.StepGranted()


def _hint(state: RunState, command: cmd.Hint, now: float) -> Made:
    if not (text := command.text.strip()):
        raise Refusal("an empty hint")
    return ev.HintGiven(text=text)


def _stop(state: RunState, command: cmd.Stop, now: float) -> Made:
    if state.stop_reason:
        raise Refusal("the run is stopping already")
    events: list[ev.AnyEvent] = [ev.StopRequested(reason=command.reason)]
    if state.paused:  # nothing is left to go on with
        events.insert(0, ev.Unpaused())
    if state.running is not None and state.running.purpose in ev.COMPILED:
        events.insert(0, ev.EvalInterrupted(state.running.attempt, reason=command.reason))
    return tuple(events)


def _leave_out_compile(state: RunState, command: cmd.LeaveOutCompile, now: float) -> Made:
    if state.compile_left_out:
        raise Refusal("torch.compile is left out already")
    if compile_owed(state) is None:
        wanted = any(purpose in state.task.baselines for purpose in ev.COMPILED)
        raise Refusal(
            "torch.compile is measured already" if wanted else "this run measures no torch.compile"
        )
    return ev.CompileLeftOut()


def _not_at_the_end(state: RunState) -> None:
    """Refuse in DONE: the plan can be changed from the start of the run until DONE."""
    if state.phase is Phase.DONE:
        raise Refusal("the run is ending: no transition is left")


def _found(state: RunState, item_id: str) -> Item:
    try:
        return state.item(item_id)
    except OutOfOrder as error:
        raise Refusal(error.said) from None


def _pending(state: RunState, item_id: str, what: str) -> Item:
    found = _found(state, item_id)
    if found.state is ItemState.PENDING:
        return found
    if found.state is ItemState.ACTIVE:
        raise Refusal(
            "{item} is under work: it can be dropped, not {what}", item=item_id, what=what
        )
    raise Refusal(
        "{item} is {state}: only a pending item can be {what}",
        item=item_id,
        state=found.word,
        what=what,
    )


def _words(text: str) -> str:
    return " ".join(text.split())


def item_fault(state: RunState, text: str, rationale: str, *, but: str = "") -> str | None:
    """Return why the plan cannot take a person's item, or None; `but` is the id of a replaced item.

    A person may repeat a settled item. A repetition of an open item is refused as a slip.
    """
    if not 1 <= len(_words(text)) <= MAX_ITEM_TEXT:
        return Said("an item's text has 1 to {n} characters", n=MAX_ITEM_TEXT)
    if len(_words(rationale)) > MAX_RATIONALE:
        return Said("an item's rationale has at most {n} characters", n=MAX_RATIONALE)
    for item in state.items:
        open_item = item.state in (ItemState.PENDING, ItemState.ACTIVE) and item.id != but
        if open_item and _words(item.text).lower() == _words(text).lower():
            return Said("{item} says the same already: {words}", item=item.id, words=item.text)
    return None


def _plans(state: RunState) -> None:
    """Refuse in a workflow that has no plan."""
    if Phase.PLAN not in state.workflow.rows:
        raise Refusal(
            "the workflow {name} has no plan: give the agent a hint", name=state.workflow.name
        )


def _add_item(state: RunState, command: cmd.AddItem, now: float) -> Made:
    _plans(state)
    _not_at_the_end(state)
    if len(state.pending) >= MAX_PLAN_ITEMS:
        raise Refusal("{n} items are pending already; drop one first", n=MAX_PLAN_ITEMS)
    if fault := item_fault(state, command.text, command.rationale):
        raise Refusal(fault)
    if command.before:
        _pending(state, command.before, "waited for")
    planned = ev.PlannedItem(
        f"p{len(state.items) + 1}", _words(command.text), _words(command.rationale)
    )
    return ev.ItemAdded(item=planned, before=command.before)


def _edit_item(state: RunState, command: cmd.EditItem, now: float) -> Made:
    found = _pending(state, command.item, "edited")
    rationale = found.rationale if command.rationale is None else _words(command.rationale)
    if fault := item_fault(state, command.text, rationale, but=found.id):
        raise Refusal(fault)
    planned = ev.PlannedItem(found.id, _words(command.text), rationale)
    if (planned.text, planned.rationale) == (found.text, found.rationale):
        raise Refusal("{item} says that already", item=found.id)
    return ev.ItemEdited(item=planned)


def _drop_item(state: RunState, command: cmd.DropItem, now: float) -> Made:
    found = _found(state, command.item)
    if found.state not in (ItemState.PENDING, ItemState.ACTIVE):
        raise Refusal(
            "{item} is {state}: only an open item can be dropped", item=found.id, state=found.word
        )
    if found.state is ItemState.ACTIVE and state.phase is not Phase.EDIT:
        raise Refusal("{item} is at its evaluation; its round is settled first", item=found.id)
    reason = f"dropped by a person{': ' if command.reason else ''}{_words(command.reason)}"
    return ev.ItemsDropped(items=(found.id,), reason=reason)


def _reorder(state: RunState, command: cmd.ReorderItems, now: float) -> Made:
    pending = tuple(item.id for item in state.pending)
    if not pending:
        raise Refusal("no item is pending")
    if sorted(command.order) != sorted(pending):
        raise Refusal(
            "the order has to name each pending item once: {what}", what=", ".join(pending)
        )
    if command.order == pending:
        raise Refusal("that is the order already")
    return ev.ItemsReordered(order=command.order)


def _pin(state: RunState, command: cmd.PinItem, now: float) -> Made:
    found = _pending(state, command.item, "pinned")
    if command.pinned and found.pinned and state.pending[0].id == found.id:
        raise Refusal("{item} is pinned already, and the next one", item=found.id)
    if not command.pinned and not found.pinned:
        raise Refusal("{item} is not pinned", item=found.id)
    return ev.ItemPinned(item=found.id, pinned=command.pinned)


def _remeasure(state: RunState, command: cmd.Remeasure, now: float) -> Made:
    """Measure a kernel again, if it was correct, not kept, and the incumbent is unchanged."""
    _not_at_the_end(state)
    what = command.what.strip()
    if what.isdecimal() and len(what) < 10:
        number = int(what)
        if not 0 < number < len(state.attempts):
            raise Refusal("there is no attempt {n} to measure again", n=number)
        item = state.item(state.attempts[number].item)
    else:
        item = _found(state, one_line(what, 40))
        if item.attempt is None:
            raise Refusal("{item} was not measured yet", item=item.id)
        number = item.attempt
    attempt = state.attempts[number]
    if number != item.attempt:
        raise Refusal(
            "{item} was measured again since, as attempt {n}", item=item.id, n=item.attempt
        )
    if item.state is ItemState.ACTIVE:
        raise Refusal("{item} is under work", item=item.id)
    if attempt.verdict not in (Verdict.DISCARD, Verdict.INCONCLUSIVE) or item.state not in (
        ItemState.PENDING,
        ItemState.DISCARDED,
    ):
        raise Refusal(
            "{item} is {state}: only what was not proved can be measured again",
            item=item.id,
            state=item.word,
        )
    if attempt.lost:
        raise Refusal("the kernel of attempt {n} is lost", n=number)
    if state.best is None or attempt.incumbent != state.best.blob:
        raise Refusal(
            "attempt {n} was measured against an earlier best kernel; add its item to the "
            "plan instead",
            n=number,
        )
    if item.state is ItemState.DISCARDED and len(state.pending) >= MAX_PLAN_ITEMS:
        raise Refusal("{n} items are pending already; drop one first", n=MAX_PLAN_ITEMS)
    if attempt.measurement.ratio is None:
        raise Refusal("attempt {n} was not timed, and would not be now", n=number)
    return ev.MeasurementDemanded(item=item.id, attempt=number)


def _adopt(state: RunState, command: cmd.AdoptPlanEdit, now: float) -> Made:
    _plans(state)
    _not_at_the_end(state)
    if command.kept not in {edit.kept for edit in state.plan_edits}:
        raise Refusal("there is no hand edit {file}", file=command.kept)
    if command.kept in state.adopted:
        raise Refusal("{file} was taken over already", file=command.kept)
    if fault := change_fault(state, command.change):
        raise Refusal(f"{command.kept}: {fault}")
    return ev.PlanEditAdopted(kept=command.kept, change=command.change)


def change_fault(state: RunState, change: ev.PlanChange) -> str | None:
    """Return why `change` does not fit the present plan, or None."""
    if change == ev.PlanChange(fixed=change.fixed):
        return "it changes no item"
    pending = {item.id for item in state.pending}
    for item_id in (*change.dropped, *(planned.id for planned in change.edited)):
        if item_id not in pending:
            return Said("{item} is not pending any more; read the edit again", item=item_id)
    if set(change.dropped) & {planned.id for planned in change.edited}:
        return "an item cannot be both dropped and edited"
    first = len(state.items) + 1
    for number, planned in enumerate(change.added, first):
        if planned.id != f"p{number}":
            return Said(
                "{item} is not the next id, p{n}; read the edit again", item=planned.id, n=number
            )
    for planned in (*change.added, *change.edited):
        if fault := item_fault(state, planned.text, planned.rationale, but=planned.id):
            return f"{planned.id}: {fault}"
    left = (pending - set(change.dropped)) | {planned.id for planned in change.added}
    if len(left) > MAX_PLAN_ITEMS:
        return Said(
            "{n} items would be pending, at most {n2} may be", n=len(left), n2=MAX_PLAN_ITEMS
        )
    if change.order and sorted(change.order) != sorted(left):
        return "its order does not name each pending item once; read the edit again"
    return None


def _with_a_plan(state: RunState) -> None:
    _plans(state)
    if state.phase in (Phase.INIT, Phase.BASELINE, Phase.WRITE):
        raise Refusal("the run is in {phase}: the first plan is yet to come", phase=state.phase)
    _not_at_the_end(state)


def _force_replan(state: RunState, command: cmd.ForceReplan, now: float) -> Made:
    _with_a_plan(state)
    if state.phase is Phase.DIAGNOSE:
        raise Refusal("a diagnosis is under way, and a new plan follows it")
    if state.phase is Phase.PLAN and state.plan_owed:
        raise Refusal("a plan is being made already")
    if state.demand:
        raise Refusal("a {what} is called for already", what=state.demand.kind)
    rows = state.workflow.rows
    again = any(Phase.PLAN in rows[phase].to for phase in (Phase.EDIT, Phase.DECIDE))
    if not again and state.phase is not Phase.PLAN:
        raise Refusal("the workflow {name} plans once", name=state.workflow.name)
    return ev.ReplanForced(reason=_words(command.reason))


def _force_diagnosis(state: RunState, command: cmd.ForceDiagnosis, now: float) -> Made:
    _with_a_plan(state)
    if Phase.DIAGNOSE not in state.workflow.rows:
        raise Refusal("the workflow {name} has no diagnosis", name=state.workflow.name)
    if state.phase is Phase.DIAGNOSE:
        raise Refusal("a diagnosis is under way already")
    if not any(attempt.number for attempt in state.attempts):
        raise Refusal("nothing was tried yet, so there is nothing to diagnose")
    if state.demand and state.demand.kind == "diagnosis":
        raise Refusal("a diagnosis is called for already")
    return ev.DiagnosisForced(reason=_words(command.reason))


def _undo(state: RunState, command: cmd.UndoKeep, now: float) -> Made:
    """Undo the last KEEP, unless an attempt that builds on it is in evaluation or not settled:
    then queue the undo, if the command permits it.

    An agent's visit does not prevent the undo: the visit is cut off and its item begins again.
    """
    best = state.best
    if best is None or not state.former:
        raise Refusal("there is no KEEP to undo: the best kernel is the seed")
    if queued := state.undo_queued:
        raise Refusal("the undo of the KEEP of attempt {n} is queued already", n=queued.attempt)
    if command.queue and undo_waits(state):
        return ev.UndoQueued(attempt=best.attempt, comment=_words(command.comment))
    if state.running is not None and state.running.purpose not in ev.COMPILED:
        raise Refusal(
            Said(
                "attempt {n}, which builds on the KEEP of attempt {n2}, is being measured: "
                "undo it once its round is settled",
                n=state.running.attempt,
                n2=best.attempt,
            )
            if state.phase is Phase.EVAL
            else Said(
                "attempt {n} is being measured for the last time: wait for that", n=best.attempt
            )
        )
    if undo_waits(state):
        waits = "waits for your review" if state.gate else "is about to be settled"
        raise Refusal(
            "attempt {n} builds on the KEEP of attempt {n2} and {what}: that comes first",
            n=state.next_attempt,
            n2=best.attempt,
            what=waits,
        )
    return undone(state, best.attempt, _words(command.comment))


def _withdraw_undo(state: RunState, command: cmd.WithdrawUndo, now: float) -> Made:
    if state.undo_queued is None:
        raise Refusal("no undo is queued")
    return ev.UndoWithdrawn(attempt=state.undo_queued.attempt)


BY_HAND = "stopped by a person"
WIDTH = 300


def at_work(state: RunState, name: str) -> Subagent | None:
    """Return the subagent at work with this id, or None."""
    return next((one for one in state.subagents if one.id == name), None)


def stopped_words(one: Subagent) -> str:
    """Return the reason in the end event of a subagent that a person stopped."""
    return f"{BY_HAND}: {one_line(one.stop_reason, WIDTH)}" if one.stop_reason else BY_HAND


def _found_subagent(state: RunState, name: str) -> Subagent:
    one = at_work(state, name)
    if one is None:
        known = ", ".join(each.id for each in state.subagents)
        at_work_now = Said("at work are: {names}", names=known) if known else "none is"
        raise Refusal(
            "the subagent {name} is not at work; {what}", name=one_line(name, 40), what=at_work_now
        )
    if one.stopped:
        raise Refusal("{name} is being stopped already", name=one.id)
    return one


def _hint_subagent(state: RunState, command: cmd.HintSubagent, now: float) -> Made:
    found = _found_subagent(state, command.subagent)
    text = command.text.strip()
    if not text:
        raise Refusal("an empty message")
    return ev.SubagentHinted(subagent=found.id, text=text)


def _stop_subagent(state: RunState, command: cmd.StopSubagent, now: float) -> Made:
    found = _found_subagent(state, command.subagent)
    return ev.SubagentStopped(subagent=found.id, reason=command.reason.strip())


DECIDE_USER_COMMANDS: dict[type, Callable[[RunState, Any, float], Made]] = {
    cmd.SetMode: _set_mode,
    cmd.SetGate: _set_gate,
    cmd.ChangePolicy: _change_policy,
    cmd.GoOn: _go_on,
    cmd.Pause: _pause,
    cmd.Unpause: _unpause,
    cmd.Step: _step,
    cmd.AnswerGate: answer_gate,
    cmd.RevokeRule: revoke_rule,
    cmd.Hint: _hint,
    cmd.Stop: _stop,
    cmd.AddItem: _add_item,
    cmd.EditItem: _edit_item,
    cmd.DropItem: _drop_item,
    cmd.ReorderItems: _reorder,
    cmd.PinItem: _pin,
    cmd.Remeasure: _remeasure,
    cmd.AdoptPlanEdit: _adopt,
    cmd.ForceReplan: _force_replan,
    cmd.ForceDiagnosis: _force_diagnosis,
    cmd.UndoKeep: _undo,
    cmd.LeaveOutCompile: _leave_out_compile,
    cmd.NewSession: lambda state, command, now: ev.SessionBegan(),
    cmd.WithdrawUndo: _withdraw_undo,
    cmd.HintSubagent: _hint_subagent,
    cmd.StopSubagent: _stop_subagent,
}
