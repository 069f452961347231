"""The words for every event of a run: one template each, with its values.

The agent log, `ctl events`, headless progress and the report use these words and add only
their own layout. Pure; the words contain no markup. `SILENT` lists the events without words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from akg_tui.core import events as ev
from akg_tui.core.approval_rules import applied_in_words, in_words
from akg_tui.core.kernel.knobs import describe
from akg_tui.core.measurement import Outcome
from akg_tui.core.plan.idle_work import faster
from akg_tui.core.sanitize import Said, one_line, split_clean
from akg_tui.core.stopping.limit_table import QUEUE_EXHAUSTED
from akg_tui.core.task import CompileBaseline
from akg_tui.view import formatting
from akg_tui.view.glyphs import VERDICT
from akg_tui.view.language import Joined, Text, counted
from akg_tui.view.spans import cells

LABEL_CELLS = 10
MAX_REPORTED = 400
MAX_DETAILS = 6


Surface = Literal["log", "plain", "headless", "report"]
"""A place where events are shown; ``report``: its list of what people did."""

RUNNING: frozenset[Surface] = frozenset({"log", "plain", "headless"})
WATCHED = RUNNING - {"headless"}
"""All but headless progress, whose live line or closing lines show the same facts."""


class EventWords(Struct, frozen=True):
    """The words of an event: the sentence, and the parts that some surfaces add.

    Attributes
    ----------
    text : Text
        The sentence, for all surfaces; in English in the report.
    role : str
        The colour role of the text in the log.
    lead : tuple
        Words before the text, each with its role: the actor, or the sign of a verdict.
    label : Text
        The kind of a line, in its first column; where it is "", the lead is used.
    details : tuple of EventWords
        Further lines of the log below the text.
    lines : tuple of EventWords
        Lines shown by `ctl events` and headless progress instead of the text, one per item.
    surfaces : frozenset of Surface
        The surfaces that show the event.
    """

    text: Text
    role: str = "text"
    lead: tuple[tuple[Text, str], ...] = ()
    label: Text = ""
    surfaces: frozenset[Surface] = RUNNING
    details: tuple[EventWords, ...] = ()
    lines: tuple[EventWords, ...] = ()


Say = Callable[[object], str]
"""Renders a text: `str` in English, `language.translated` in the language in use."""


def words_of(event: ev.AnyEvent, surface: Surface) -> EventWords | None:
    """Return the words of an event on a surface; None if the surface does not show the event."""
    make = WORDS.get(type(event))
    words = make(event) if make else None
    return words if words and surface in words.surfaces else None


def line_texts(event: ev.AnyEvent, surface: Surface, say: Say) -> list[str]:
    """Return an event as lines of text: a label in a column of ten cells, then the text."""
    words = words_of(event, surface)
    return [_line(each, say) for each in (words.lines or (words,))] if words else []


def _line(words: EventWords, say: Say) -> str:
    lead = " ".join(say(text) for text, _ in words.lead)
    label = say(words.label)
    text = one_line(say(words.text))
    if label and lead and "report" not in words.surfaces:  # avoids "hint      you …"
        text = f"{lead} {text}"
    label = label or lead
    return f"{label}{' ' * max(1, LABEL_CELLS - cells(label))}{text}" if label else text


def reported(words: EventWords) -> str:
    """Return an event as one English sentence, for the report."""
    label = f"{words.label}: " if words.label else ""
    return one_line(f"{label}{words.text}", MAX_REPORTED)


def diagnosis_cause(event: ev.DiagnosisReported) -> Joined | Said:
    """Return the cause in the agent's words; for a fallback, the reasons of the verdicts."""
    cause = one_line(event.cause)
    if event.source == "fallback":
        return Joined(tuple(map(Said, cause.split("; "))), "; ")
    return Said(cause)


def _reason(text: str) -> Said:
    return Said(one_line(text))


def _because(text: Text, reason: str) -> Text:
    return Joined((text, _reason(reason)), ": ") if reason else text


# Built once, because all events of a person use these parts.
_YOU = ((Said("you"), "log.you"),)
_HINT = Said("hint")
_PLAIN: frozenset[Surface] = frozenset({"plain"})
_REPORTED: frozenset[Surface] = RUNNING | {"report"}


def _person(text: Text, label: Text = "") -> EventWords:
    """Return the words of a person's action."""
    return EventWords(text, lead=_YOU, label=label, surfaces=_REPORTED)


def _error(text: Text, label: Text = "") -> EventWords:
    return EventWords(text, "log.error", label=label)


def _phase(event: ev.PhaseEntered) -> EventWords:
    told = Joined((event.phase.value, _reason(event.reason)), " ") if event.reason else event.phase
    return EventWords(told, "log.rule", label=Said("phase"), surfaces=WATCHED)


_AGAINST = {
    ev.Purpose.BASELINE: Said("eager"),
    ev.Purpose.COMPILE: Said("eager"),
    ev.Purpose.MAX_AUTOTUNE: Said("eager"),
    ev.Purpose.EAGER: Said("eager"),
    ev.Purpose.CANDIDATE: Said("the best"),
    ev.Purpose.FINAL: Said("the seed"),
    ev.Purpose.SETTING: Said("the best"),
}
_PURPOSE: dict[ev.Purpose, Text] = {
    ev.Purpose.BASELINE: Said("baseline"),
    ev.Purpose.CANDIDATE: Said("candidate"),
    ev.Purpose.FINAL: Said("final"),
    ev.Purpose.COMPILE: "torch.compile",
    ev.Purpose.MAX_AUTOTUNE: "max-autotune",
    ev.Purpose.EAGER: Said("final"),
}


def _evaluation_begun(event: ev.EvalStarted) -> EventWords | None:
    if event.purpose not in ev.COMPILED:
        return None
    from akg_tui.dsl.compiled_reference import LIMITS_S, USUAL_S  # the first screen has no compiler

    baseline: CompileBaseline = "compile"
    if event.purpose is ev.Purpose.MAX_AUTOTUNE:
        baseline = "max-autotune"
    usual, most = f"{USUAL_S[baseline]:g} s", f"{LIMITS_S[baseline]:g} s"
    told = Said("{what} is measured now, usually within {usual}, at most {most}",
                   what=_PURPOSE[event.purpose], usual=usual, most=most)  # fmt: skip
    return EventWords(told, "muted", surfaces=RUNNING)


def _evaluated(event: ev.EvalFinished) -> EventWords:
    found = event.measurement
    correct = found.outcome is Outcome.CORRECT
    told: Text = formatting.measured(found, _AGAINST[event.purpose])
    if correct and not found.timed and found.message:
        told = Joined((told, _reason(found.message)), "; ")
    lines = [line for line in split_clean(found.detail) if line.strip() and not correct]
    baseline = event.purpose is ev.Purpose.BASELINE
    compiled = event.purpose in (ev.Purpose.COMPILE, ev.Purpose.MAX_AUTOTUNE)
    if compiled and not correct:  # one line: a baseline is left out, and nothing fails
        told = Said("not measured: {why}", why=told)
        lines = []
    words = EventWords(
        told,
        "text" if correct else "note" if compiled else "log.error",
        lead=((_PURPOSE[event.purpose], "muted"),),
        surfaces=RUNNING if baseline or compiled else WATCHED,
        details=tuple(EventWords(Said(line), "faint") for line in lines[:MAX_DETAILS]),
    )
    if not baseline:
        return words
    lacks = [Said("lacks {what}", what=Said(each)) for each in found.sandbox_missing]
    sandbox = tuple(EventWords(each, label=Said("sandbox")) for each in lacks)
    return replace(words, lines=(words, *sandbox))


def _planned(event: ev.PlanSubmitted) -> EventWords:
    head = Said("plan of {items}", items=counted(len(event.items), "item"))
    summary = Said(one_line(event.summary))
    items = [f"{item.id:<4} {one_line(item.text)}" for item in event.items]
    return EventWords(
        Joined((head, summary), ": ") if summary else head,
        lines=tuple(EventWords(item, label=Said("plan")) for item in items),
    )


def _gate(event: ev.GateOpened) -> EventWords:
    number = event.attempt
    told = {
        "plan": Said("the plan waits for your review"),
        "edit": Said("the edit of attempt {number} waits for your review", number=number)
        if number
        else Said("the written kernel waits for your review"),
        "script": Said("a script waits for your review"),
    }.get(event.kind) or Said("attempt {number} waits for your review", number=number)
    return EventWords(told, "log.you")


def _decided(event: ev.Decided) -> EventWords:
    glyph, role = VERDICT[event.verdict]
    why = formatting.verdict_reason(event.reason, event.ratio)
    told = Joined((event.verdict.value, event.item, why), " ")
    label = Said("round {number}", number=event.round)
    return EventWords(told, role, lead=((glyph, role),), label=label)


def _diagnosed(event: ev.DiagnosisReported) -> EventWords:
    avoid = [(Said("avoid"), one_line(each)) for each in event.avoid]
    directions = [(Said("try"), Said(one_line(each))) for each in event.directions]
    details = [EventWords(text, lead=((lead, "muted"),)) for lead, text in (*avoid, *directions)]
    lead = ((Said("diagnosis"), "log.you"),)
    return EventWords(diagnosis_cause(event), lead=lead, details=tuple(details))


def _stops(event: ev.StopConditionsMet) -> EventWords:
    """Return all stop reasons; in the log only if there are several, as the end shows one."""
    reasons = [reason for reason in event.reasons if reason != QUEUE_EXHAUSTED]
    why = Joined(tuple(map(_reason, reasons)), "; ")
    conditions = [
        Said("auto-run stop condition: {why}", why=_reason(each)) for each in event.reasons
    ]
    conditions.append(Said("auto-run stop reason: {why}", why=_reason(event.primary)))
    if event.blocked:
        conditions.append(Said(one_line(event.blocked)))
    return EventWords(
        Said("all that stops it: {why}", why=why),
        surfaces=RUNNING if len(reasons) > 1 else RUNNING - {"log"},
        lines=tuple(EventWords(each, label=Said("stop")) for each in conditions),
    )


def _added(item: ev.PlannedItem) -> Said:
    return Said("add {item} {text}", item=item.id, text=one_line(item.text))


def _edited(item: ev.PlannedItem) -> Said:
    return Said("edit {item} {text}", item=item.id, text=one_line(item.text))


def _adopted(event: ev.PlanEditAdopted) -> EventWords:
    change = event.change
    told = [_added(item) for item in change.added] + [_edited(item) for item in change.edited]
    told += [Said("drop {item}", item=item_id) for item_id in change.dropped]
    changes = Joined(tuple(told or [Said("another order")]), "; ")
    file = one_line(event.kept)
    return _person(Said("took {file} over: {changes}", file=file, changes=changes))


def _asked(event: ev.QuestionAsked) -> EventWords:
    choices = f" [{one_line(', '.join(event.choices))}]" if event.choices else ""
    text = Joined((Said(one_line(event.text)), choices), "")
    return EventWords(text, lead=((Said("asks"), "log.you"),))


def _answered(event: ev.QuestionAnswered) -> EventWords:
    answer = one_line(event.answer)
    if event.source == "user":
        return _person(answer, Said("answer"))
    if event.source == "denied":
        return EventWords(Said("nobody answered, no answer"), "muted")
    return EventWords(Said("nobody answered, default: {answer}", answer=answer), "muted")


def _subagent(
    name: str, text: Text, role: str, lead: tuple[tuple[Text, str], ...] = ()
) -> EventWords:
    return EventWords(text, role, lead=((one_line(name), "accent"), *lead), label=Said("subagent"))


def _subagent_started(event: ev.SubagentStarted) -> EventWords:
    told = Said("begins")
    if event.prompt:
        told = Said("begins: {prompt}", prompt=one_line(event.prompt))
    return _subagent(event.subagent, told, "muted", ((one_line(event.agent), "muted"),))


def _subagent_ended(event: ev.SubagentEnded) -> EventWords:
    told = formatting.ending(event.status)
    if event.calls:
        told = Said("{ending} after {calls}", ending=told, calls=counted(event.calls, "call"))
    role = "muted" if event.status == "done" else "log.error"
    return _subagent(event.subagent, _because(told, event.reason), role)


_SOURCES = {"user": Said("user"), ev.COMMAND_LINE: Said("command line")}


def _by_hand(text: Said) -> EventWords:
    """Return the words of an action from outside the workbench, perhaps of another person."""
    return EventWords(text, surfaces=_REPORTED)


def _items(event: ev.ItemsSuspended | ev.ItemsDropped) -> EventWords:
    names, why = ", ".join(event.items), _reason(event.reason)
    if isinstance(event, ev.ItemsSuspended):
        return EventWords(Said("suspended {items}: {why}", items=names, why=why), "muted")
    return EventWords(Said("dropped {items}: {why}", items=names, why=why), "muted")


def _waits(event: ev.ApiWaiting) -> EventWords:
    told = formatting.next_try(event.attempt, event.seconds, event.reason)
    return _error(Joined(("WAIT_API", told), ": "))


def _replied(event: ev.ModelReplied) -> EventWords | None:
    text = event.text.strip()
    lead = ((one_line(event.source), "accent"),) if event.source else ()
    return EventWords(Said(text), "log.model", lead, Said("agent"), _PLAIN) if text else None


def _edit(event: ev.KernelEdited) -> EventWords:
    text = f"+{event.added} -{event.removed} {one_line(event.note)}".rstrip()
    return EventWords(text, "log.tool", label=Said("edit"), surfaces=_PLAIN)


def _tried(event: ev.KernelTried) -> EventWords:
    outcome = _reason(event.told)
    if event.sweep:
        told = Said("sweep {sweep} for {item}, trial {number}: {setting}: {outcome}",
                       sweep=event.sweep, item=event.item, number=event.trial,
                       setting=one_line(event.made_from, 80), outcome=outcome)  # fmt: skip
    else:
        told = Said("trial {number} for {item}: {outcome}", number=event.trial,
                       item=event.item, outcome=outcome)  # fmt: skip
    return EventWords(told, "log.tool", surfaces=WATCHED)


def _measured_idly(event: ev.IdleMeasured) -> EventWords:
    what: Text = one_line(describe(event.setting, {}), 80) or _PURPOSE[event.purpose]
    found = formatting.measured(event.measurement, _AGAINST[event.purpose])
    told = Said("while the model thought, {what}: {found}", what=what, found=found)
    # Hundreds of slower settings would push what the model says out of the log.
    shown = WATCHED if not event.setting or faster(event) else _PLAIN
    return EventWords(told, "muted", surfaces=shown)


def _revised(event: ev.PlanRevised) -> EventWords:
    changes: list[Text] = []
    if event.dropped:
        changes.append(Said("without {items}", items=", ".join(event.dropped)))
    if event.reopened:
        changes.append(Said("{items} reopened", items=", ".join(event.reopened)))
    if not changes:
        changes.append(Said("order {items}", items=", ".join(event.order)))
    told = Said("plan revised: {changes}; {why}", changes=Joined(tuple(changes), ", "),
                   why=Said(one_line(event.reason)))  # fmt: skip
    return EventWords(told, surfaces=WATCHED)


def _blocked(event: ev.BlockedReported) -> EventWords:
    text = one_line(event.text)
    if event.item:
        told = Said("the agent sets {item} aside ({kind}): {text}", item=event.item,
                       kind=event.kind, text=text)  # fmt: skip
        return EventWords(told)
    return _error(Said("the agent is blocked ({kind}): {text}", kind=event.kind, text=text))


def _recalled(event: ev.MemoryRecalled) -> EventWords:
    told = Said("from the memory: {lessons} and {kernels}",
                   lessons=counted(len(event.lessons), "direction"),
                   kernels=counted(len(event.kernels), "kernel"))  # fmt: skip
    details = tuple(EventWords(one_line(each), "muted") for each in event.skipped[:MAX_DETAILS])
    return EventWords(told, "muted", details=details)


WORDS: dict[type[ev.Event], Callable[[Any], EventWords | None]] = {
    ev.SessionOpened: lambda e: EventWords(
        Said("the run was resumed") if e.resumed else Said("the run begins"), "muted",
        surfaces=RUNNING if e.resumed else frozenset({"log"}),
    ),
    ev.SessionBroke: lambda e: _error(Said("the run broke: {why}", why=_reason(e.reason))),
    ev.PhaseEntered: _phase,
    ev.EvalStarted: _evaluation_begun,
    ev.EvalFinished: _evaluated,
    ev.SessionBegan: lambda e: _person(
        Said("a new session: the agent's conversation begins anew, its tokens count from 0")
    ),
    ev.CompileLeftOut: lambda e: _person(Said("torch.compile is left out")),
    ev.EvalInterrupted: lambda e: _error(
        Said("evaluation cut off: {why}", why=_reason(e.reason))
    ),
    ev.PlanSubmitted: _planned,
    ev.PlanRevised: _revised,
    ev.ItemActivated: lambda e: EventWords(
        Said("round {number}: {item}", number=e.round, item=e.item), "muted", surfaces=WATCHED
    ),
    ev.ItemsSuspended: _items,
    ev.ItemsDropped: _items,
    ev.KernelEdited: _edit,
    ev.KernelTried: _tried,
    ev.IdleMeasured: _measured_idly,
    ev.ModelReplied: _replied,
    ev.SubagentStarted: _subagent_started,
    ev.SubagentEnded: _subagent_ended,
    ev.SubagentHinted: lambda e: _person(
        Said("message to {subagent}: {text}", subagent=one_line(e.subagent),
                text=one_line(e.text))
    ),
    ev.SubagentStopped: lambda e: _person(
        _because(Said("stop {subagent}", subagent=one_line(e.subagent)), e.reason)
    ),
    ev.ApiWaiting: _waits,
    ev.TimingQueued: lambda e: EventWords(
        Said("waits: another run times on the device")
        if e.waits
        else Said("waited {seconds} s for others on the device", seconds=f"{e.before_s:.1f}")
        if e.before_s
        else Said("times again on the device"),
        "muted",
    ),
    ev.MachineSlept: lambda e: EventWords(
        Said("the machine slept for {time}", time=formatting.short_time(e.seconds)), "muted"
    ),
    ev.ApiFailed: lambda e: _error(
        Said("the model cannot be used: {why}", why=_reason(e.reason))
    ),
    ev.MemoryRecalled: _recalled,
    ev.ContextRebuilt: lambda e: EventWords(
        Said("a new conversation: {why}", why=_reason(e.reason)), "muted"
    ),
    ev.TurnInterrupted: lambda e: _error(
        Said("turn cut off, its edits undone: {why}", why=_reason(e.reason))
    ),
    ev.VisitFailed: lambda e: _error(
        Said("no result in {phase}: {why}", phase=e.phase, why=_reason(e.reason))
    ),
    ev.GateOpened: _gate,
    ev.GateAnswered: lambda e: _person(
        _because(Said("approve") if e.answer == "approve" else Said("reject"), e.comment),
        Said("review"),
    ),
    ev.GateChanged: lambda e: _person(
        Said("gate {gate}: on", gate=e.gate) if e.on else Said("gate {gate}: off",
                                                                     gate=e.gate)
    ),
    ev.RuleLearned: lambda e: _person(
        Said("always: {covered} (rule {number})", covered=Said(in_words(e.scope)),
                number=e.rule)
    ),
    ev.RuleApplied: lambda e: EventWords(Said(applied_in_words(e)), "log.you"),
    ev.RuleRevoked: lambda e: _person(
        _because(Said("end rule {number}", number=e.rule), e.reason)
    ),
    ev.Decided: _decided,
    ev.DiagnosisReported: _diagnosed,
    ev.ModeChanged: lambda e: _person(Said("mode {name}", name=e.mode)),
    ev.Paused: lambda e: _person(Said("pause")),
    ev.Unpaused: lambda e: _person(Said("go on")),
    ev.StepGranted: lambda e: _person(Said("one step")),
    ev.HintGiven: lambda e: _person(one_line(e.text), _HINT),
    ev.StopRequested: lambda e: _person(Said("stop: {why}", why=_reason(e.reason))),
    ev.FinishRequested: lambda e: EventWords(
        Said("the agent is done: {why}", why=Said(one_line(e.reason)))
    ),
    ev.StopConditionsMet: _stops,
    ev.PolicyChanged: lambda e: _by_hand(
        Said("policy changed by the {source}",
                source=_SOURCES.get(e.source, one_line(e.source)))
    ),
    ev.RunReopened: lambda e: _by_hand(
        Said("the run goes on, up to {rounds}", rounds=counted(e.policy.max_rounds, "round"))
    ),
    ev.PlanEdited: lambda e: _by_hand(
        Said("PLAN.md was edited by hand; the edit is kept in {file}", file=one_line(e.kept))
    ),
    ev.ItemAdded: lambda e: _person(_added(e.item)),
    ev.ItemEdited: lambda e: _person(_edited(e.item)),
    ev.ItemsReordered: lambda e: _person(Said("order {items}", items=", ".join(e.order))),
    ev.ItemPinned: lambda e: _person(
        Said("pin {item}", item=e.item) if e.pinned else Said("unpin {item}", item=e.item)
    ),
    ev.MeasurementDemanded: lambda e: _person(
        Said("measure {item} again (attempt {number})", item=e.item, number=e.attempt)
    ),
    ev.PlanEditAdopted: _adopted,
    ev.ReplanForced: lambda e: _person(_because(Said("a new plan"), e.reason)),
    ev.DiagnosisForced: lambda e: _person(_because(Said("a diagnosis"), e.reason)),
    ev.KeepUndone: lambda e: _person(
        _because(Said("undo the KEEP of {item}", item=e.item), e.comment)
    ),
    ev.UndoQueued: lambda e: _person(
        _because(
            Said("undo the KEEP of attempt {number} once its round is settled",
                    number=e.attempt),
            e.comment,
        )
    ),
    ev.UndoWithdrawn: lambda e: _person(
        Said("do not undo the KEEP of attempt {number}", number=e.attempt)
    ),
    ev.QuestionAsked: _asked,
    ev.QuestionHeld: lambda e: _person(
        Said("question {number} waits for my answer", number=e.question)
    ),
    ev.QuestionAnswered: _answered,
    ev.BlockedReported: _blocked,
    ev.CallRefused: lambda e: _error(_reason(e.reason), Said("budget")),
    ev.Forked: lambda e: _by_hand(
        Said("forked from {run} at the end of round {number}", run=one_line(e.parent),
                number=e.round)
    ),
    ev.ShortlistTaken: lambda e: _by_hand(
        Said("measures the shortlist of {run}: {kernels}", run=one_line(e.parent),
                kernels=counted(len(e.kernels), "kernel"))
    ),
    ev.RunSalvaged: lambda e: EventWords(
        Said("salvaged from the run {run}", run=one_line(e.source))
    ),
    ev.RunFinished: lambda e: EventWords(
        Said("the run is over: {why}", why=_reason(e.reason)),
        "verdict.keep" if e.ok else "log.error",
        surfaces=WATCHED,
    ),
}  # fmt: skip

SILENT = frozenset(
    {
        ev.RunCreated,
        ev.BaselineAccepted,
        ev.ReplyLost,
        ev.EndpointProbed,
        ev.MachineDescribed,
        ev.ToolCalled,  # only the log shows it, in one entry with its answer
        ev.ToolAnswered,
        ev.TurnEnded,
    }
)
