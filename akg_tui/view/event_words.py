"""The words of the agent log: what an event tells a person, and what is being written now.

Pure. Keeping what was told, folded or not, is the chronicle's business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from akg_tui.core import events as ev
from akg_tui.core.measurement import Measurement, Outcome
from akg_tui.core.sanitize import one_line, split_clean
from akg_tui.core.state import RunState
from akg_tui.core.stopping.automation import QUEUE_EXHAUSTED
from akg_tui.view import formatting
from akg_tui.view.controls import approvals
from akg_tui.view.glyphs import TOOL, VERDICT
from akg_tui.view.language import marked, retold, searched, tr
from akg_tui.view.spans import BLANK, Line, Span, fit, hang, line

MAX_STREAM_ROWS = 200
MAX_TEXT_LINES = 60

# A paragraph: what stands before its first row, its text, and the role of that text.
Paragraph = tuple[Line, str, str]


def tell(event: ev.AnyEvent) -> list[Paragraph]:
    """What one event tells by itself; nothing where it tells nothing."""
    told = _TELL.get(type(event))
    return told(event) if told else []


def paragraphs(
    text: str, role: str, lead: Span = ("", "text"), *, most: int = MAX_TEXT_LINES
) -> list[Paragraph]:
    """Text of many lines as paragraphs; beyond `most` the rest is counted."""
    lines = split_clean(text.strip())
    shown: list[Paragraph] = [((lead,) if lead[0] else (), each, role) for each in lines[:most]]
    hidden = len(lines) - most
    if hidden > 0:
        told = tr("({lines}: in the journal)", lines=formatting.count(hidden, "more line"))
        shown.append(((), told, "faint"))
    return shown


def wrapped(entry: Sequence[Paragraph], room: int) -> list[Line]:
    """The rows of an entry. A paragraph without text is its lead alone, on one row."""
    if len(entry) == 1 and entry[0][1]:
        lead, text, role = entry[0]
        return hang(text, room, lead, role)
    rows: list[Line] = []
    for lead, text, role in entry:
        if text:
            rows += hang(text, room, lead, role)
        else:
            rows.append(fit(lead, room) if lead else BLANK)
    return rows


def tail(state: RunState, stream: str, room: int) -> list[Line]:
    """What is under way below the last entry: streamed text and calls without an answer."""
    entry: list[Paragraph] = []
    if stream.strip():
        entry += paragraphs(stream[-8_000:], "log.model")
    for _, tool in state.open_calls:
        entry.append((((f"{TOOL} ", "log.tool"),), f"{one_line(tool)} …", "log.tool"))
    return wrapped(entry, room)[-MAX_STREAM_ROWS:]


def source(name: str) -> Span:
    """Which subagent something is of; nothing for the run's own agent."""
    return (f"{one_line(name)} " if name else "", "accent")


def call_words(event: ev.ToolCalled) -> str:
    size = ""
    ops, items = event.arguments.get("ops"), event.arguments.get("items")
    if event.tool == "edit_kernel" and isinstance(ops, list):
        size = f" {formatting.count(len(ops), 'op')}"
    elif event.tool == "submit_plan" and isinstance(items, list):
        size = f" {formatting.count(len(items), 'item')}"
    return f"{one_line(event.tool)}{size}"


def _session(event: ev.SessionOpened) -> list[Paragraph]:
    return [((), tr("the run was resumed") if event.resumed else tr("the run begins"), "muted")]


def _subagent(event: ev.SubagentStarted) -> list[Paragraph]:
    told = tr("begins")
    if event.prompt:
        told = tr("begins: {prompt}", prompt=one_line(event.prompt))
    return [((source(event.subagent), (f"{one_line(event.agent)} ", "muted")), told, "muted")]


def _subagent_over(event: ev.SubagentEnded) -> list[Paragraph]:
    why = f": {retold(one_line(event.reason))}" if event.reason else ""
    role = "muted" if event.status == "done" else "log.error"
    return [((source(event.subagent),), f"{formatting.ending(event.status)}{why}", role)]


def _told_subagent(event: ev.SubagentHinted) -> list[Paragraph]:
    return [
        (
            ((f"{tr('you')} ", "log.you"), (f"{tr('to')} ", "muted"), source(event.subagent)),
            one_line(event.text),
            "text",
        )
    ]


def _subagent_stopped(event: ev.SubagentStopped) -> list[Paragraph]:
    return _why(tr("stop {subagent}", subagent=one_line(event.subagent)), event.reason)


def _phase(event: ev.PhaseEntered) -> list[Paragraph]:
    why = f" {retold(one_line(event.reason))}" if event.reason else ""
    rule = line(("── ", "phase.rule"), (event.phase.value, "log.rule"), (why, "log.rule"))
    return [(rule, "", "text")]


_AGAINST = {
    ev.Purpose.BASELINE: marked("the reference"),
    ev.Purpose.CANDIDATE: marked("the best"),
    ev.Purpose.FINAL: marked("the seed"),
}
_PURPOSE = {
    ev.Purpose.BASELINE: marked("baseline"),
    ev.Purpose.CANDIDATE: marked("candidate"),
    ev.Purpose.FINAL: marked("final"),
}


def _evaluated(event: ev.EvalFinished) -> list[Paragraph]:
    measurement = event.measurement
    fine = measurement.outcome is Outcome.CORRECT
    role = "text" if fine else "log.error"
    lead = line((f"{tr(_PURPOSE[event.purpose])} ", "muted"))
    told = one_line(formatting.measured(measurement, tr(_AGAINST[event.purpose])))
    entry: list[Paragraph] = [(lead, told, role)]
    if not fine:
        entry += _detail(measurement)
    return entry


def _detail(measurement: Measurement) -> list[Paragraph]:
    lines = [each for each in split_clean(measurement.detail) if each.strip()]
    return [((("  ", "text"),), retold(each), "faint") for each in lines[:6]]


def _interrupted(event: ev.EvalInterrupted) -> list[Paragraph]:
    why = retold(one_line(event.reason))
    return [((), tr("evaluation cut off: {why}", why=why), "log.error")]


def _planned(event: ev.PlanSubmitted) -> list[Paragraph]:
    head = tr("plan of {items}", items=formatting.count(len(event.items), "item"))
    summary = searched(one_line(event.summary))
    return [((), f"{head}: {summary}" if summary else head, "text")]


def _activated(event: ev.ItemActivated) -> list[Paragraph]:
    return [((), tr("round {number}: {item}", number=event.round, item=event.item), "muted")]


def _items_left(event: ev.ItemsSuspended | ev.ItemsDropped) -> list[Paragraph]:
    names, why = ", ".join(event.items), retold(one_line(event.reason))
    if isinstance(event, ev.ItemsSuspended):
        return [((), tr("suspended {items}: {why}", items=names, why=why), "muted")]
    return [((), tr("dropped {items}: {why}", items=names, why=why), "muted")]


def _turn_cut(event: ev.TurnInterrupted) -> list[Paragraph]:
    why = retold(one_line(event.reason))
    return [((), tr("turn cut off, its edits undone: {why}", why=why), "log.error")]


def _visit_failed(event: ev.VisitFailed) -> list[Paragraph]:
    why = retold(one_line(event.reason))
    return [((), tr("no result in {phase}: {why}", phase=event.phase, why=why), "log.error")]


def _api_waiting(event: ev.ApiWaiting) -> list[Paragraph]:
    told = tr("try {number} in {time}: {why}", number=event.attempt + 1,
              time=f"{event.seconds:.0f} s", why=retold(one_line(event.reason)))  # fmt: skip
    return [((), f"WAIT_API: {told}", "log.error")]


def _gate(event: ev.GateOpened) -> list[Paragraph]:
    match event.kind:
        case "plan":
            told = tr("the plan waits for your review")
        case "edit":
            told = tr("the edit of attempt {number} waits for your review", number=event.attempt)
        case "script":
            told = tr("a script waits for your review")
        case _:
            told = tr("attempt {number} waits for your review", number=event.attempt)
    return [((), told, "log.you")]


def _gate_answered(event: ev.GateAnswered) -> list[Paragraph]:
    return _why(tr("approve") if event.answer == "approve" else tr("reject"), event.comment)


def _learned(event: ev.RuleLearned) -> list[Paragraph]:
    covered = approvals.scope(event.scope)
    return _you(tr("always: {covered} (rule {number})", covered=covered, number=event.rule))


def _applied(event: ev.RuleApplied) -> list[Paragraph]:
    return [((), approvals.applied(event), "log.you")]


def _rule_over(event: ev.RuleRevoked) -> list[Paragraph]:
    return _why(tr("end rule {number}", number=event.rule), event.reason)


def _decided(event: ev.Decided) -> list[Paragraph]:
    glyph, role = VERDICT[event.verdict]
    told = f"{event.verdict} {event.item} {retold(one_line(event.reason))}"
    return [(((f"{glyph} ", role),), told, role)]


def diagnosed(event: ev.DiagnosisReported) -> str:
    """The cause: the agent's words, or without any the reasons of the verdicts."""
    cause = one_line(event.cause)
    if event.source == "fallback":
        return "; ".join(retold(each) for each in cause.split("; "))
    return searched(cause)


def _diagnosed(event: ev.DiagnosisReported) -> list[Paragraph]:
    cause, avoid, try_ = f"{tr('diagnosis')} ", f"{tr('avoid')} ", f"{tr('try')} "
    entry: list[Paragraph] = [(((cause, "log.you"),), diagnosed(event), "text")]
    entry += [(((avoid, "muted"),), one_line(each), "text") for each in event.avoid]
    entry += [(((try_, "muted"),), searched(one_line(each)), "text") for each in event.directions]
    return entry


def _stops(event: ev.StopConditionsMet) -> list[Paragraph]:
    """Told only when there is more to tell than the one reason that the end tells anyway."""
    reasons = [reason for reason in event.reasons if reason != QUEUE_EXHAUSTED]
    if len(reasons) < 2:
        return []
    why = "; ".join(retold(one_line(reason)) for reason in reasons)
    return [((), tr("all that stops it: {why}", why=why), "text")]


def _finished(event: ev.RunFinished) -> list[Paragraph]:
    role = "verdict.keep" if event.ok else "log.error"
    return [((), f"{tr('the run is over: ')}{retold(one_line(event.reason))}", role)]


def _change(event: ev.PlanEditAdopted) -> list[Paragraph]:
    change = event.change
    told = [_added(item) for item in change.added] + [_edited(item) for item in change.edited]
    told += [tr("drop {item}", item=item_id) for item_id in change.dropped]
    changes = "; ".join(told) or tr("another order")
    return _you(tr("took {file} over: {changes}", file=one_line(event.kept), changes=changes))


def _added(item: ev.PlannedItem) -> str:
    return tr("add {item} {text}", item=item.id, text=one_line(item.text))


def _edited(item: ev.PlannedItem) -> str:
    return tr("edit {item} {text}", item=item.id, text=one_line(item.text))


def _asked(event: ev.QuestionAsked) -> list[Paragraph]:
    choices = f" [{one_line(', '.join(event.choices))}]" if event.choices else ""
    return [
        (((f"{tr('asks')} ", "log.you"),), f"{searched(one_line(event.text))}{choices}", "text")
    ]


def _answered(event: ev.QuestionAnswered) -> list[Paragraph]:
    if event.source == "user":
        return _you(one_line(event.answer))
    if event.source == "denied":
        return [((), tr("nobody answered, no answer"), "muted")]
    default = one_line(event.answer)
    return [((), tr("nobody answered, default: {answer}", answer=default), "muted")]


def _said(text: str, role: str = "text") -> list[Paragraph]:
    return [((), text, role)]


def _why(text: str, why: str) -> list[Paragraph]:
    return _you(f"{text}: {retold(one_line(why))}" if why else text)


def _you(text: str) -> list[Paragraph]:
    return [(((f"{tr('you')} ", "log.you"),), text, "text")]


_TELL: dict[type, Callable[[Any], list[Paragraph]]] = {
    ev.SessionOpened: _session,
    ev.SubagentStarted: _subagent,
    ev.SubagentEnded: _subagent_over,
    ev.SubagentHinted: _told_subagent,
    ev.SubagentStopped: _subagent_stopped,
    ev.PhaseEntered: _phase,
    ev.EvalFinished: _evaluated,
    ev.EvalInterrupted: _interrupted,
    ev.PlanSubmitted: _planned,
    ev.ItemActivated: _activated,
    ev.ItemsSuspended: _items_left,
    ev.ItemsDropped: _items_left,
    ev.TurnInterrupted: _turn_cut,
    ev.VisitFailed: _visit_failed,
    ev.ApiWaiting: _api_waiting,
    ev.ApiFailed: lambda e: _said(
        tr("the model cannot be used: {why}", why=retold(one_line(e.reason))), "log.error"
    ),
    ev.ContextRebuilt: lambda e: _said(
        tr("a new conversation: {why}", why=retold(one_line(e.reason))), "muted"
    ),
    ev.GateOpened: _gate,
    ev.GateAnswered: _gate_answered,
    ev.RuleLearned: _learned,
    ev.RuleApplied: _applied,
    ev.RuleRevoked: _rule_over,
    ev.Decided: _decided,
    ev.DiagnosisReported: _diagnosed,
    ev.ModeChanged: lambda e: _you(tr("mode {name}", name=e.mode)),
    ev.Paused: lambda e: _you(tr("pause")),
    ev.Unpaused: lambda e: _you(tr("go on")),
    ev.StepGranted: lambda e: _you(tr("one step")),
    ev.HintGiven: lambda e: _you(one_line(e.text)),
    ev.StopRequested: lambda e: _you(tr("stop: {why}", why=retold(one_line(e.reason)))),
    ev.FinishRequested: lambda e: _said(
        tr("the agent is done: {why}", why=searched(one_line(e.reason)))
    ),
    ev.StopConditionsMet: _stops,
    ev.PolicyChanged: lambda e: _you(tr("policy changed")),
    ev.PlanEdited: lambda e: _said(
        tr("PLAN.md was edited by hand; the edit is kept in {file}", file=one_line(e.kept))
    ),
    ev.GateChanged: lambda e: _you(
        tr("gate {gate}: on", gate=e.gate) if e.on else tr("gate {gate}: off", gate=e.gate)
    ),
    ev.ItemAdded: lambda e: _you(_added(e.item)),
    ev.ItemEdited: lambda e: _you(_edited(e.item)),
    ev.ItemsReordered: lambda e: _you(tr("order {items}", items=", ".join(e.order))),
    ev.ItemPinned: lambda e: _you(
        tr("pin {item}", item=e.item) if e.pinned else tr("unpin {item}", item=e.item)
    ),
    ev.PlanEditAdopted: _change,
    ev.ReplanForced: lambda e: _why(tr("a new plan"), e.reason),
    ev.DiagnosisForced: lambda e: _why(tr("a diagnosis"), e.reason),
    ev.KeepUndone: lambda e: _why(tr("undo the KEEP of {item}", item=e.item), e.comment),
    ev.QuestionAsked: _asked,
    ev.QuestionAnswered: _answered,
    ev.BlockedReported: lambda e: _said(
        tr("the agent is blocked ({kind}): {text}", kind=e.kind, text=one_line(e.text)),
        "log.error",
    ),
    ev.CallRefused: lambda e: _said(retold(one_line(e.reason)), "log.error"),
    ev.Forked: lambda e: _said(
        tr("forked from {run} at the end of round {number}", run=one_line(e.parent), number=e.round)
    ),
    ev.RunSalvaged: lambda e: _said(tr("salvaged from the run {run}", run=one_line(e.source))),
    ev.RunFinished: _finished,
}
