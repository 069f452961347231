"""The timeline as lines: rounds by their verdicts, and where on it a person stands. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from datetime import datetime

from akg_tui.core.machine import Verdict
from akg_tui.tui import words
from akg_tui.tui.commands import way_to
from akg_tui.tui.glyphs import IDLE, VERDICT
from akg_tui.tui.language import tr
from akg_tui.tui.spans import Line, Span, fit, line, spread
from akg_tui.tui.travel import Moment

_HERE = "▴"
_RANK = {Verdict.DISCARD: 1, Verdict.FAIL: 2, Verdict.KEEP: 3}
_MOST = 3


class Strip:
    """Draws moments as rows; what their marks come to is kept from one moment to the next."""

    def __init__(self) -> None:
        self._of: tuple[object, ...] = ()
        self._cells: list[Span] = []  # the marks by column; "" where there is none
        self._columns: list[int] = []  # of each mark

    def rows(self, moment: Moment, room: int) -> list[Line]:
        """Three rows: where one stands in words, the rounds by verdict, their numbers."""
        of = (id(moment.marks), len(moment.marks), moment.last, room, IDLE, *VERDICT.values())
        if of != self._of:
            self._of = of
            self._columns = _columns(moment, room)
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
    """The column of an event in a strip of `room` columns."""
    return (seq - 1) * (room - 1) // max(1, last - 1)


def event_at(x: int, last: int, room: int) -> int:
    """The event that stands in column `x`, the first one where there are several."""
    x = max(0, min(room - 1, x))
    return min(last, 1 + -(-x * (last - 1) // max(1, room - 1)))


def _head(moment: Moment, room: int) -> Line:
    clock = datetime.fromtimestamp(moment.at).strftime("%H:%M:%S")
    before = moment.last_at - moment.at
    place = tr("event {number} of {many}", number=f"{moment.seq:,}", many=f"{moment.last:,}")
    rounds = tr("before the first round")
    if moment.mark:
        rounds = tr("after round {number} of {many}", number=moment.mark.round, many=moment.rounds)
    playing = f" {tr('plays {speed}×', speed=moment.speed)} " if moment.speed else ""
    ago = tr(", {time} before the last event", time=words.short_time(before))
    left = line(
        (f" {tr('PAST')} ", "phase.live"),
        (f" {place}", "strong"),
        (f"  {rounds}", "text"),
        (f"  {clock}", "text"),
        (ago if before >= 1 else "", "muted"),
    )
    right = line(
        (playing, "figure"),
        (tr("the run waits for you: ") if moment.waits else tr("not live: "), "note"),
        (way_to("past.live"), "key"),
        (f" {tr('live')}", "key.label"),
    )
    return spread(left, right, room)


def _columns(moment: Moment, room: int) -> list[int]:
    wide, last = room - 1, max(1, moment.last - 1)
    return [(mark.seq - 1) * wide // last for mark in moment.marks]


def _marked(moment: Moment, room: int, columns: Sequence[int]) -> list[Span]:
    """What stands in each column for the rounds that ended there: the best of them."""
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
    """Neighbours of one role as one piece."""
    spans: list[Span] = []
    for text, role in cells:
        if spans and spans[-1][1] == role:
            spans[-1] = (spans[-1][0] + text, role)
        else:
            spans.append((text, role))
    return tuple(spans)
