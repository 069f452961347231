"""The rows of a review: unified, or old and new beside each other, with the words that changed.

Builds a row when it is asked for. A hunk that is left out stays in sight, without colour.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from akg_tui.tui.changes import Hunk, Ranges, changed_words, partner, side_by_side
from akg_tui.tui.code import CodeRows, Coloured
from akg_tui.tui.compare import Kind, Row
from akg_tui.tui.ondemand import OnDemand
from akg_tui.tui.spans import Line, Span, fit, width

LEFT_OUT = "⨯"
_WORD_ROLE = {Kind.ADDED: "diff.added.word", Kind.REMOVED: "diff.removed.word"}


class DiffRows(CodeRows):
    """Unified rows. `words` says whether changed words are marked."""

    def __init__(
        self,
        compared: Sequence[Row],
        hunks: Sequence[Hunk],
        tag_key: bytes,
        *,
        old: Coloured | None,
        new: Coloured | None,
        both: bool = True,
    ) -> None:
        super().__init__(compared, tag_key, old=old, new=new, both=both)
        self.words = True
        self.left_out: frozenset[int] = frozenset()
        self._hunk_of = {row: hunk for hunk in hunks for row in range(hunk.start, hunk.stop)}
        self._at = 0

    def _made(self, index: int) -> Line:
        self._at = index
        row = self._row(self.compared[index])
        return row if not self.is_left_out(index) else _without_colour(row)

    def is_left_out(self, index: int) -> bool:
        hunk = self._hunk_of.get(index)
        return hunk is not None and hunk.number in self.left_out

    def _spans(self, row: Row, number: int) -> Line:
        spans = super()._spans(row, number)
        if not self.words or row.kind not in _WORD_ROLE:
            return spans
        return _emphasised(spans, self._changed(row), _WORD_ROLE[row.kind])

    def _changed(self, row: Row) -> Ranges:
        hunk = self._hunk_of[self._at]
        other = partner(hunk, self._at)
        if other is None:
            return ()
        if row.kind is Kind.REMOVED:
            return changed_words(row.text, self.compared[other].text)[0]
        return changed_words(self.compared[other].text, row.text)[1]


class SplitRows(OnDemand[Line]):
    """The same rows, old at the left and new at the right, in `room` columns."""

    def __init__(self, rows: DiffRows, hunks: Sequence[Hunk], room: int) -> None:
        self._rows = rows
        self._pairs = side_by_side(rows.compared, hunks)
        self._half = max(4, (room - 1) // 2)
        first = {left if left is not None else right: n for n, (left, right) in self._each()}
        self.starts = {hunk.number: first[hunk.start] for hunk in hunks}

    def within(self, top: int, end: int) -> list[Row]:
        """The compared rows that stand in these rows, in the order of one column."""
        numbers = {n for pair in self._pairs[top:end] for n in pair if n is not None}
        return [self._rows.compared[number] for number in sorted(numbers)]

    def _each(self) -> list[tuple[int, tuple[int | None, int | None]]]:
        return list(enumerate(self._pairs))

    def __len__(self) -> int:
        return len(self._pairs)

    def _made(self, index: int) -> Line:
        left, right = self._pairs[index]
        if left is not None and self._rows.compared[left].kind is Kind.GAP:
            return self._rows[left]
        return (*self._cell(left), ("│", "phase.rule"), *self._cell(right))

    def _cell(self, index: int | None) -> Line:
        if index is None:
            return ((" " * self._half, "text"),)
        row = fit(self._rows[index], self._half)
        ground = row[-1][1] if row else "text"
        return (*row, (" " * (self._half - width(row)), ground))


def _emphasised(spans: Line, ranges: Ranges, role: str) -> Line:
    """`spans` with `role` over the characters of `ranges`."""
    if not ranges:
        return spans
    marked: list[Span] = []
    at = 0
    edges = [edge for pair in ranges for edge in pair]
    for text, base in spans:
        cuts = sorted({0, len(text), *(e - at for e in edges if at < e < at + len(text))})
        for begin, end in pairwise(cuts):
            inside = any(low <= at + begin < high for low, high in ranges)
            marked.append((text[begin:end], f"{base}|{role}" if inside else base))
        at += len(text)
    return tuple(marked)


def _without_colour(row: Line) -> Line:
    """A row that is left out: its mark says so, in the place of plus or minus."""
    faint = [(text, "faint") for text, _ in row]
    for number, (text, _) in enumerate(faint):
        if text in (" + ", " - "):
            faint[number] = (f" {LEFT_OUT} ", "note")
            break
    return tuple(faint)
