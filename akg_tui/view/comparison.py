"""Two kernels side by side: the title and measurement of each side, and the rows of the pairs.

Pure: builds lines from states and texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from akg_tui.core.measurement import Outcome
from akg_tui.core.sanitize import one_line
from akg_tui.core.state import Attempt, RunState
from akg_tui.core.summary import ratios_of
from akg_tui.view import formatting
from akg_tui.view.code_rows import CodeRows
from akg_tui.view.diff import Compared, Kind, Row, SideBySide
from akg_tui.view.glyphs import VERDICT
from akg_tui.view.language import retold, tr, translated
from akg_tui.view.lazy_rows import OnDemand
from akg_tui.view.spans import Line, fit, hang, line, width


@dataclass(frozen=True)
class Side:
    """One side of a comparison: its title, its measurement and its kernel. `key` names the text.

    `missing` tells why there is no text; "" where there is one.
    """

    key: str
    title: Line
    about: tuple[Line, ...]
    text: str
    files: tuple[str, ...] = ("",)
    missing: str = ""


def side_of(state: RunState, attempt: Attempt, kernel: Callable[[str], str]) -> Side:
    """Return an attempt of a run as one side of a comparison."""
    glyph, role = VERDICT[attempt.verdict]
    title = line((f"{tr('the seed')} ", "strong"))
    if attempt.number:
        title = line(
            (f"{tr('round {number}', number=attempt.round)} ", "strong"),
            (f"{glyph} {attempt.verdict} ", role),
            (f"{attempt.item} ", "accent"),
            (one_line(state.item(attempt.item).text), "text"),
        )
    measured = attempt.measurement
    ratios = ratios_of(state, attempt)
    over = formatting.overall(ratios) if ratios else ""
    took = formatting.call_times(measured)
    first = line(
        (took, "text"),
        ("  " if took else "", "muted"),
        (over, "figure"),  # its last words are what a narrow screen cuts off
    )
    if measured.outcome is not Outcome.CORRECT:
        second = line((retold(one_line(measured.message)), "log.error"))
    elif attempt.number and measured.ratio:
        second = line((formatting.sure(measured.ratio), "text"))
    elif measured.estimate is not None:
        second = line((translated(formatting.estimated(measured.estimate)), "text"))
    else:
        second = line((tr("against eager"), "muted"))
    if attempt.advanced and attempt.number in state.undone:
        second = (*second, (f"  {tr('undone')}", "note"))
    return Side(attempt.blob, title, (first, second), kernel(attempt.blob), state.task.files.names)


def missing_rows(sides: Sequence[tuple[str, Side]], room: int) -> list[Line]:
    """Return why sides have no text to compare, each below its name; none if all have one."""
    rows: list[Line] = []
    for name, side in sides:
        if side.missing:
            rows += hang(side.missing, room, line((f"{name}: ", "muted")), "text")
    return rows


class SideRows(OnDemand[Line]):
    """Pairs of rows, each built on access."""

    def __init__(self, old: CodeRows, new: CodeRows, room: int) -> None:
        self.old, self.new = old, new
        self._half = (room - 3) // 2

    def __len__(self) -> int:
        return len(self.old)

    def _made(self, index: int) -> Line:
        left, right = self.old[index], self.new[index]
        if self.old.compared[index].kind is Kind.GAP:
            return left
        return (*filled(left, self._half), (" │ ", "phase.rule"), *filled(right, self._half))


def filled(row: Line, room: int) -> Line:
    row = fit(row, room)
    ground = row[-1][1] if row and "|" in row[-1][1] else "text"
    return (*row, (" " * (room - width(row)), ground))


_NONE = Row(Kind.SAME, 0, 0)


class OneSideRows(OnDemand[Row]):
    """The rows of one side of the pairs (0 left, 1 right), with the line numbers of that side."""

    def __init__(self, rows: Compared, pairs: SideBySide, side: int) -> None:
        self.last = rows.last
        self._rows, self._pairs, self._side = rows, pairs, side

    def __len__(self) -> int:
        return len(self._pairs)

    def _made(self, index: int) -> Row:
        number = self._pairs[index][self._side]
        if number is None:
            return _NONE
        row = self._rows[number]
        if row.kind is Kind.SAME and not self._side:
            return Row(row.kind, row.old, row.old, row.text)
        return row


class HalfRows(CodeRows):
    """The code rows of one side; a row without a line on this side is empty."""

    def _row(self, row: Row) -> Line:
        return () if row is _NONE else super()._row(row)
