"""The attempts of a run as a table, newest first; a row is made when it is asked for. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from akg_tui.core.machine import Verdict
from akg_tui.core.plain import one_line
from akg_tui.core.state import Attempt
from akg_tui.tui import words
from akg_tui.tui.glyphs import VERDICT
from akg_tui.tui.spans import Line, cells, cut, fit, line

# Columns from the most needed on: a narrow pane leaves out the last.
_HEADS = (
    ("#", 4),
    ("item", 5),
    ("verdict", 9),
    ("ratio", 7),
    ("interval", 13),
    ("a call", 9),
    ("off", 6),
    ("pairs", 5),
)


class AttemptRows(Sequence[Line]):
    """One row an attempt under one row of heads; what room is left tells the reason."""

    def __init__(self, attempts: Sequence[Attempt], room: int) -> None:
        self._attempts = attempts
        self._room = room
        shown = used = 0
        for _, width in _HEADS:
            if used + width + 1 > room and shown >= 4:
                break
            used += width + 1
            shown += 1
        self._shown, self._used = shown, used

    def __len__(self) -> int:
        return len(self._attempts) + 1

    @overload
    def __getitem__(self, index: int) -> Line: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Line]: ...
    def __getitem__(self, index: int | slice) -> Line | Sequence[Line]:
        if isinstance(index, slice):
            return [self._row(n) for n in range(*index.indices(len(self)))]
        return self._row(index)

    def attempt(self, index: int) -> Attempt | None:
        """The attempt of a row."""
        return self._attempts[-index] if 0 < index < len(self) else None

    def _row(self, index: int) -> Line:
        attempt = self.attempt(index)
        if attempt is None:
            heads = "".join(f"{head:>{width}} " for head, width in _HEADS[: self._shown])
            return fit(line((heads, "faint")), self._room)
        values = _values(attempt)
        pieces: list[tuple[str, str]] = []
        for (value, role), (_, width) in zip(values, _HEADS[: self._shown], strict=False):
            text = cut(value, width)
            pieces.append((" " * (width - cells(text)) + text + " ", role))
        if self._room - self._used > 12:
            pieces.append((f" {one_line(attempt.reason)}", "faint"))
        return fit(tuple(pieces), self._room)


def _values(attempt: Attempt) -> list[tuple[str, str]]:
    found = attempt.measurement
    glyph, role = VERDICT[attempt.verdict]
    interval = found.ratio
    off = ""
    if found.max_error is not None and found.tolerance:
        off = share(found.max_error / found.tolerance)
    seed = attempt.number == 0
    return [
        (str(attempt.number), "number"),
        ("seed" if seed else one_line(attempt.item), "muted"),
        (f"{glyph} {attempt.verdict}", role),
        (words.times(interval.ratio) if interval else "", role),
        (f"{interval.low:.3f}–{interval.high:.3f}" if interval else "", "muted"),
        (words.milliseconds(found.candidate_ms) if found.candidate_ms is not None else "", "text"),
        (off, "verdict.fail" if attempt.verdict is Verdict.FAIL else "muted"),
        (str(found.clusters) if found.clusters else "", "muted"),
    ]


def share(value: float) -> str:
    """An error as a share of what is allowed."""
    if value >= 10:
        return ">10"
    return f"{value * 100:.0f} %" if value >= 0.01 else "<1 %"
