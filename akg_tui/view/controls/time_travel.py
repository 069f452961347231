"""Time travel through a run: the shown event, and the timeline as rows. No I/O."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from akg_tui.core.events import Record
from akg_tui.core.past_states import Past
from akg_tui.core.phases import Verdict
from akg_tui.view import formatting
from akg_tui.view.controls.command_registry import way_to
from akg_tui.view.glyphs import IDLE, VERDICT
from akg_tui.view.language import tr
from akg_tui.view.lazy_rows import First
from akg_tui.view.run_snapshot import Moment, RunSnapshot
from akg_tui.view.spans import Line, Span, fit, line, spread


class PastPosition:
    """The shown event of one run: `cursor`, None for the live run."""

    def __init__(self, past: Past) -> None:
        self.past = past
        self.cursor: int | None = None

    @property
    def last(self) -> int:
        return len(self.past)

    def go(self, seq: int) -> None:
        """Show event `seq`, or the nearest existing event."""
        self.cursor = max(1, min(self.last, seq))

    def live(self) -> None:
        self.cursor = None

    def step(self, events: int) -> None:
        self.go((self.cursor or self.last) + events)

    def to_round(self, step: int) -> None:
        """Show the end of the next round, or with -1 of the previous round."""
        self.go(self.past.next_round(self.cursor or self.last, step))

    def moment(self, *, waits: bool) -> Moment:
        """Return the shown event as a moment. `waits`: whether the live run waits for an answer."""
        assert self.cursor is not None
        records, marks = self.past.records, self.past.marks
        return Moment(
            seq=self.cursor,
            last=self.last,
            at=records[self.cursor - 1].at,
            last_at=records[-1].at,
            mark=self.past.round_at(self.cursor),
            rounds=marks[-1].round if marks else 0,
            waits=waits,
            marks=marks,
        )


def past_snapshot(now: RunSnapshot, travel: PastPosition) -> RunSnapshot:
    """Return the snapshot of the run after the event that `travel` shows."""
    assert travel.cursor is not None
    state = travel.past.at(travel.cursor)
    records = First(travel.past.records, travel.cursor)
    moment = travel.moment(waits=now.waits)
    return replace(
        now,
        state=state,
        records=records,
        activity=tr("event {number}: {kind}", number=moment.seq, kind=event_kind(records[-1])),
        progress=None,
        stream="",
        streams=lambda subagent: "",
        live_version=-1,
        now=moment.at,
        past=moment,
    )


def event_kind(record: Record) -> str:
    """Return the kind of an event in words: ``eval finished``."""
    name = type(record.event).__name__
    return "".join(f" {c.lower()}" if c.isupper() and n else c for n, c in enumerate(name)).lower()


_HERE = "▴"
_RANK = {
    Verdict.DISCARD: 1,
    Verdict.INCONCLUSIVE: 2,
    Verdict.FAIL: 3,
    Verdict.SHORTLIST: 4,
    Verdict.KEEP: 4,
}
_MOST = 4


class TimelineRows:
    """The timeline as three rows; the marks of the rounds are cached between moments."""

    def __init__(self) -> None:
        self._of: tuple[object, ...] = ()
        self._cells: list[Span] = []  # the marks by column; "" where there is none
        self._columns: list[int] = []  # the column of each mark

    def rows(self, moment: Moment, room: int) -> list[Line]:
        """Return three rows: the shown event in words, the rounds by verdict, their numbers."""
        of = (id(moment.marks), len(moment.marks), moment.last, room, IDLE, *VERDICT.values())
        if of != self._of:
            self._of = of
            self._columns = [column(mark.seq, moment.last, room) for mark in moment.marks]
            self._cells = _marked(moment, room, self._columns)
        return [_head(moment, room), self._track(moment, room), self._numbers(moment, room)]

    def _track(self, moment: Moment, room: int) -> Line:
        here = column(moment.seq, moment.last, room)
        cells: list[Span] = [
            cell if cell[0] else ("─", "progress" if x <= here else "progress.rest")
            for x, cell in enumerate(self._cells)
        ]
        glyph, role = cells[here]
        cells[here] = (glyph, f"{role}|phase.live")
        return _merged(cells)

    def _numbers(self, moment: Moment, room: int) -> Line:
        cells: list[Span] = [(" ", "muted")] * room
        here = column(moment.seq, moment.last, room)
        cells[here] = (_HERE, "accent")
        free = place = 0
        while (place := bisect_left(self._columns, free, place)) < len(self._columns):
            x, number = self._columns[place], moment.marks[place].round
            place += 1
            text = str(number)
            end = x + len(text)
            if not number or end > room:
                continue
            if all(cells[n][0] == " " for n in range(max(0, x - 1), min(room, end + 1))):
                cells[x:end] = [(digit, "muted") for digit in text]
                free = end + 1
        return fit(_merged(cells), room)


def column(seq: int, last: int, room: int) -> int:
    """Return the column of an event in a strip of `room` columns."""
    return (seq - 1) * (room - 1) // max(1, last - 1)


def event_at(x: int, last: int, room: int) -> int:
    """Return the first event in column `x`."""
    x = max(0, min(room - 1, x))
    return min(last, 1 + -(-x * (last - 1) // max(1, room - 1)))


def _head(moment: Moment, room: int) -> Line:
    clock = datetime.fromtimestamp(moment.at).strftime("%H:%M:%S")
    before = moment.last_at - moment.at
    place = tr("event {number} of {many}", number=f"{moment.seq:,}", many=f"{moment.last:,}")
    rounds = tr("before the first round")
    if moment.mark:
        rounds = tr("after round {number} of {many}", number=moment.mark.round, many=moment.rounds)
    ago = tr(", {time} before the last event", time=formatting.short_time(before))
    left = line(
        (f" {tr('PAST')} ", "phase.live"),
        (f" {place}", "strong"),
        (f"  {rounds}", "text"),
        (f"  {clock}", "text"),
        (ago if before >= 1 else "", "muted"),
    )
    right = line(
        (tr("the run waits for you: ") if moment.waits else tr("not live: "), "note"),
        (way_to("past.live"), "key"),
        (f" {tr('live')}", "key.label"),
    )
    return spread(left, right, room)


def _marked(moment: Moment, room: int, columns: Sequence[int]) -> list[Span]:
    """Return the sign of each column: the best verdict of the rounds that ended there."""
    cells: list[Span] = [("", "")] * room
    rank = [0] * room
    for mark, x in zip(moment.marks, columns, strict=True):
        if rank[x] == _MOST:
            continue
        if mark.round == 0:
            cells[x] = (IDLE, "muted")
        elif _RANK[mark.verdict] > rank[x]:
            rank[x] = _RANK[mark.verdict]
            cells[x] = VERDICT[mark.verdict]
    return cells


def _merged(cells: list[Span]) -> Line:
    """Join adjacent cells of one role into one span."""
    spans: list[Span] = []
    for text, role in cells:
        if spans and spans[-1][1] == role:
            spans[-1] = (spans[-1][0] + text, role)
        else:
            spans.append((text, role))
    return tuple(spans)
