"""The log of one subagent: its records among those of the run, as entries without its name.

No I/O.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence

from msgspec.structs import replace

from akg_tui.core import events as ev
from akg_tui.core.sanitize import one_line
from akg_tui.view import formatting
from akg_tui.view.agent_log import AgentLog, Entry, Paragraphs, tell
from akg_tui.view.agent_rows import MOST, Agent, cost_of, head_of
from akg_tui.view.language import tr
from akg_tui.view.lazy_rows import OnDemand
from akg_tui.view.spans import Line, fit, line, width

ARGUMENT_CHARS, CALL_CHARS = 40, 100
JOURNALED_OUTPUT = 2_000  # characters of an answer that the journal holds
WHOLE = "messages.jsonl"  # the conversation in the folder of a subagent

# Events of a visit to a phase, shown in the log of a subagent that is a visit.
_OF_A_VISIT = (
    ev.DiagnosisReported,
    ev.VisitFailed,
    ev.ApiWaiting,
    ev.ApiFailed,
    ev.CallRefused,
    ev.TurnInterrupted,
)


class SubagentRecords:
    """The indices of one subagent's records, extended as the run grows."""

    def __init__(self) -> None:
        self._places = array("Q")
        self._read = 0
        self._of: tuple[str, int] | None = None

    def read(self, records: Sequence[ev.Record], agent: Agent | None) -> Sequence[ev.Record]:
        """Return the subagent's records among `records`.

        Reads at most `MOST` new records, so that a call never blocks the screen.
        """
        if agent is None:
            return ()
        if (agent.key, agent.first) != self._of:
            self._of = agent.key, agent.first
            self._places, self._read = array("Q"), agent.first
        stop = len(records) if agent.last is None else min(agent.last, len(records))
        stop = min(stop, self._read + MOST)
        for index, record in enumerate(records[self._read : stop], self._read):
            if _own(record, agent) is not None:
                self._places.append(index)
        self._read = max(self._read, stop)
        count = bisect_left(self._places, len(records))
        return _OwnRecords(records, self._places, count, agent)


class _OwnRecords(OnDemand[ev.Record]):
    """The records at the first `count` places, without the subagent's name."""

    def __init__(
        self, records: Sequence[ev.Record], places: Sequence[int], count: int, agent: Agent
    ) -> None:
        self._records = records
        self._places = places
        self._count = count
        self._agent = agent

    def __len__(self) -> int:
        return self._count

    def _made(self, index: int) -> ev.Record:
        record = self._records[self._places[index]]
        return _own(record, self._agent) or record


def _own(record: ev.Record, agent: Agent) -> ev.Record | None:
    """Return the record without the subagent's name; None if another agent made it."""
    event = record.event
    if isinstance(event, ev.ModelReplied | ev.ToolCalled | ev.ToolAnswered):
        if event.source != agent.ident:
            return None
        return replace(record, event=replace(event, source="")) if agent.ident else record
    if (subagent := getattr(event, "subagent", None)) is not None:  # start, message, stop, end
        return record if agent.ident and subagent == agent.ident else None
    return record if agent.visit and isinstance(event, _OF_A_VISIT) else None


class SubagentLog(AgentLog):
    """The log of one subagent. Says of an answer that the journal cuts where the whole is."""

    _trace = "trace"

    def _entry(self, event: ev.AnyEvent) -> Entry | None:
        match event:
            case ev.SubagentStarted(prompt=prompt, trace=trace):
                self._trace = trace or self._trace
                lead: Line = ((f"{tr('asked')} ", "log.you"),)
                return Entry([(lead, one_line(prompt) or tr("(no prompt)"), "text")])
            case ev.SubagentHinted(text=text):
                return Entry(_you(one_line(text)))
            case ev.SubagentStopped(reason=reason):
                why = f": {one_line(reason)}" if reason else ""
                return Entry(_you(f"{tr('stop')}{why}"))
            case ev.SubagentEnded():
                return Entry([((), told, role) for _, told, role in tell(event)])
        return super()._entry(event)

    def call_told(self, call: ev.ToolCalled) -> str:
        plain = [str(v) for v in call.arguments.values() if isinstance(v, str | int | float)]
        given = " ".join(one_line(each, ARGUMENT_CHARS) for each in plain)
        return one_line(f"{call.tool} {given}", CALL_CHARS)

    def size_told(self, answer: ev.ToolAnswered) -> str:
        many = answer.output.strip().count("\n") + 1
        more = "+" if len(answer.output) >= JOURNALED_OUTPUT else ""
        return f", {formatting.count(many, 'line')}{more}" if many > 1 else ""

    def in_full(self, call: ev.ToolCalled | None, answer: ev.ToolAnswered) -> Paragraphs:
        told = super().in_full(call, answer)
        if len(answer.output) >= JOURNALED_OUTPUT:
            more = tr("(cut here: {file} has the rest)", file=one_line(f"{self._trace}/{WHOLE}"))
            told.append(((("  ", "text"),), more, "faint"))
        return told


def _you(text: str) -> Paragraphs:
    """Return an action of the user, with the lead of the log."""
    ((lead, _, role),) = tell(ev.HintGiven(text=text))
    return [(lead, text, role)]


def title_of(agent: Agent | None, key: str, now: float, room: int) -> Line:
    """Return name, state and cost of a subagent; the cost is shortened first."""
    if agent is None:
        return line((one_line(key), "strong"))
    head = head_of(agent)
    unread = f"  {formatting.count(agent.unread, 'message')} {tr('unread')}" if agent.unread else ""
    for most in (3, 2, 1):
        cost = line((f"  {cost_of(agent, now, most)}", "muted"), (unread, "note"))
        if width(head) + width(cost) <= room:
            return (*head, *cost)
    return fit((*head, (unread, "note")), room)
