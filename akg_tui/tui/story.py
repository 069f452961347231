"""The words of the agent log: what an event tells a person, and what is being written now.

Pure. Keeping what was told, folded or not, is the chronicle's business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from akg_tui.core import events as ev
from akg_tui.core.automation import QUEUE_EXHAUSTED
from akg_tui.core.measurement import Measurement, Outcome
from akg_tui.core.plain import one_line, split_clean
from akg_tui.core.rules import applied_in_words, in_words
from akg_tui.core.state import RunState
from akg_tui.tui import words
from akg_tui.tui.glyphs import TOOL, VERDICT
from akg_tui.tui.spans import BLANK, Line, Span, fit, hang, line

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
        shown.append(((), f"({words.count(hidden, 'more line')}: in the journal)", "faint"))
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
    known = {"edit_kernel": "ops", "submit_plan": "items"}
    many = event.arguments.get(known.get(event.tool, ""))
    size = f" {words.count(len(many), known[event.tool][:-1])}" if isinstance(many, list) else ""
    return f"{one_line(event.tool)}{size}"


def _session(event: ev.SessionOpened) -> list[Paragraph]:
    return [((), "the run was resumed" if event.resumed else "the run begins", "muted")]


def _subagent(event: ev.SubagentStarted) -> list[Paragraph]:
    told = f"begins: {one_line(event.prompt)}" if event.prompt else "begins"
    return [((source(event.subagent), (f"{one_line(event.agent)} ", "muted")), told, "muted")]


def _subagent_over(event: ev.SubagentEnded) -> list[Paragraph]:
    why = f": {one_line(event.reason)}" if event.reason else ""
    role = "muted" if event.status == "done" else "log.error"
    return [((source(event.subagent),), f"{event.status}{why}", role)]


def _told_subagent(event: ev.SubagentHinted) -> list[Paragraph]:
    return [
        (
            (("you ", "log.you"), ("to ", "muted"), source(event.subagent)),
            one_line(event.text),
            "text",
        )
    ]


def _subagent_stopped(event: ev.SubagentStopped) -> list[Paragraph]:
    return _why(f"stop {one_line(event.subagent)}", event.reason)


def _phase(event: ev.PhaseEntered) -> list[Paragraph]:
    why = f" {one_line(event.reason)}" if event.reason else ""
    rule = line(("── ", "phase.rule"), (event.phase.value, "log.rule"), (why, "log.rule"))
    return [(rule, "", "text")]


_AGAINST = {
    ev.Purpose.BASELINE: "the reference",
    ev.Purpose.CANDIDATE: "the best",
    ev.Purpose.FINAL: "the seed",
}


def _evaluated(event: ev.EvalFinished) -> list[Paragraph]:
    measurement = event.measurement
    fine = measurement.outcome is Outcome.CORRECT
    role = "text" if fine else "log.error"
    lead = line((f"{event.purpose} ", "muted"))
    told = one_line(words.measured(measurement, _AGAINST[event.purpose]))
    entry: list[Paragraph] = [(lead, told, role)]
    if not fine:
        entry += _detail(measurement)
    return entry


def _detail(measurement: Measurement) -> list[Paragraph]:
    lines = [each for each in split_clean(measurement.detail) if each.strip()]
    return [((("  ", "text"),), each, "faint") for each in lines[:6]]


def _interrupted(event: ev.EvalInterrupted) -> list[Paragraph]:
    return [((), f"evaluation cut off: {one_line(event.reason)}", "log.error")]


def _planned(event: ev.PlanSubmitted) -> list[Paragraph]:
    head = f"plan of {words.count(len(event.items), 'item')}"
    entry: list[Paragraph] = [((), head, "text")]
    if event.summary:
        entry[0] = ((), f"{head}: {one_line(event.summary)}", "text")
    return entry


def _activated(event: ev.ItemActivated) -> list[Paragraph]:
    return [((), f"round {event.round}: {event.item}", "muted")]


def _items_left(event: ev.ItemsSuspended | ev.ItemsDropped) -> list[Paragraph]:
    verb = "suspended" if isinstance(event, ev.ItemsSuspended) else "dropped"
    names = ", ".join(event.items)
    return [((), f"{verb} {names}: {one_line(event.reason)}", "muted")]


def _turn_cut(event: ev.TurnInterrupted) -> list[Paragraph]:
    return [((), f"turn cut off, its edits undone: {one_line(event.reason)}", "log.error")]


def _visit_failed(event: ev.VisitFailed) -> list[Paragraph]:
    return [((), f"no result in {event.phase}: {one_line(event.reason)}", "log.error")]


def _api_waiting(event: ev.ApiWaiting) -> list[Paragraph]:
    told = f"WAIT_API: try {event.attempt + 1} in {event.seconds:.0f} s: {one_line(event.reason)}"
    return [((), told, "log.error")]


def _gate(event: ev.GateOpened) -> list[Paragraph]:
    what = {"plan": "the plan", "edit": f"the edit of attempt {event.attempt}"}
    what |= {"keep": f"attempt {event.attempt}", "script": "a script"}
    return [((), f"{what[event.kind]} waits for your review", "log.you")]


def _gate_answered(event: ev.GateAnswered) -> list[Paragraph]:
    answer = event.answer
    why = f": {one_line(event.comment)}" if event.comment else ""
    return [((("you ", "log.you"),), f"{answer}{why}", "text")]


def _learned(event: ev.RuleLearned) -> list[Paragraph]:
    return _you(f"always: {in_words(event.scope)} (rule {event.rule})")


def _applied(event: ev.RuleApplied) -> list[Paragraph]:
    return [((), applied_in_words(event), "log.you")]


def _rule_over(event: ev.RuleRevoked) -> list[Paragraph]:
    return _why(f"end rule {event.rule}", event.reason)


def _decided(event: ev.Decided) -> list[Paragraph]:
    glyph, role = VERDICT[event.verdict]
    told = f"{event.verdict} {event.item} {one_line(event.reason)}"
    return [(((f"{glyph} ", role),), told, role)]


def _diagnosed(event: ev.DiagnosisReported) -> list[Paragraph]:
    entry: list[Paragraph] = [((("diagnosis ", "log.you"),), one_line(event.cause), "text")]
    entry += [((("avoid ", "muted"),), one_line(each), "text") for each in event.avoid]
    entry += [((("try ", "muted"),), one_line(each), "text") for each in event.directions]
    return entry


def _stops(event: ev.StopConditionsMet) -> list[Paragraph]:
    """Told only when there is more to tell than the one reason that the end tells anyway."""
    reasons = [reason for reason in event.reasons if reason != QUEUE_EXHAUSTED]
    if len(reasons) < 2:
        return []
    return [((), f"all that stops it: {one_line('; '.join(reasons))}", "text")]


def _finished(event: ev.RunFinished) -> list[Paragraph]:
    role = "verdict.keep" if event.ok else "log.error"
    return [((), f"the run is over: {one_line(event.reason)}", role)]


def _change(event: ev.PlanEditAdopted) -> list[Paragraph]:
    told = [f"adds {item.id} {one_line(item.text)}" for item in event.change.added]
    told += [f"edits {item.id} {one_line(item.text)}" for item in event.change.edited]
    told += [f"drops {item_id}" for item_id in event.change.dropped]
    return _you(f"took {one_line(event.kept)} over: {'; '.join(told) or 'another order'}")


def _asked(event: ev.QuestionAsked) -> list[Paragraph]:
    choices = f" [{one_line(', '.join(event.choices))}]" if event.choices else ""
    return [((("asks ", "log.you"),), f"{one_line(event.text)}{choices}", "text")]


def _answered(event: ev.QuestionAnswered) -> list[Paragraph]:
    if event.source == "user":
        return _you(one_line(event.answer))
    told = f"default: {one_line(event.answer)}" if event.source != "denied" else "no answer"
    return [((), f"nobody answered, {told}", "muted")]


def _why(text: str, why: str) -> list[Paragraph]:
    return _you(f"{text}: {one_line(why)}" if why else text)


def _you(text: str) -> list[Paragraph]:
    return [((("you ", "log.you"),), text, "text")]


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
    ev.ApiFailed: lambda e: [((), f"the model cannot be used: {one_line(e.reason)}", "log.error")],
    ev.ContextRebuilt: lambda e: [((), f"a new conversation: {one_line(e.reason)}", "muted")],
    ev.GateOpened: _gate,
    ev.GateAnswered: _gate_answered,
    ev.RuleLearned: _learned,
    ev.RuleApplied: _applied,
    ev.RuleRevoked: _rule_over,
    ev.Decided: _decided,
    ev.DiagnosisReported: _diagnosed,
    ev.ModeChanged: lambda e: _you(f"mode {e.mode}"),
    ev.Paused: lambda e: _you("pause"),
    ev.Unpaused: lambda e: _you("go on"),
    ev.StepGranted: lambda e: _you("one step"),
    ev.HintGiven: lambda e: [((("you ", "log.you"),), one_line(e.text), "text")],
    ev.StopRequested: lambda e: _you(f"stop: {one_line(e.reason)}"),
    ev.FinishRequested: lambda e: [((), f"the agent is done: {one_line(e.reason)}", "text")],
    ev.StopConditionsMet: _stops,
    ev.PolicyChanged: lambda e: _you("policy changed"),
    ev.PlanEdited: lambda e: [
        ((), f"PLAN.md was edited by hand; the edit is kept in {one_line(e.kept)}", "text")
    ],
    ev.GateChanged: lambda e: _you(f"gate {e.gate} {'on' if e.on else 'off'}"),
    ev.ItemAdded: lambda e: _you(f"add {e.item.id} {one_line(e.item.text)}"),
    ev.ItemEdited: lambda e: _you(f"edit {e.item.id} {one_line(e.item.text)}"),
    ev.ItemsReordered: lambda e: _you(f"order {', '.join(e.order)}"),
    ev.ItemPinned: lambda e: _you(f"{'pin' if e.pinned else 'unpin'} {e.item}"),
    ev.PlanEditAdopted: _change,
    ev.ReplanForced: lambda e: _why("a new plan", e.reason),
    ev.DiagnosisForced: lambda e: _why("a diagnosis", e.reason),
    ev.KeepUndone: lambda e: _why(f"undo the KEEP of {e.item}", e.comment),
    ev.QuestionAsked: _asked,
    ev.QuestionAnswered: _answered,
    ev.BlockedReported: lambda e: [
        ((), f"the agent is blocked ({e.kind}): {one_line(e.text)}", "log.error")
    ],
    ev.CallRefused: lambda e: [((), one_line(e.reason), "log.error")],
    ev.Forked: lambda e: [
        ((), f"forked from {one_line(e.parent)} at the end of round {e.round}", "text")
    ],
    ev.RunSalvaged: lambda e: [((), f"salvaged from the run {one_line(e.source)}", "text")],
    ev.RunFinished: _finished,
}
