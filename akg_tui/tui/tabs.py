"""What a deck with one pane on screen says of the others. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from akg_tui.tui.shape import LEAST, TABS
from akg_tui.tui.spans import Line, Span, fit, line, width


def tabs(active: str, room: int, popouts: Mapping[str, str] | None = None) -> Line:
    """All panes on one row, the active one lit; of `popouts`, by pane, what each shows."""
    whole = [(name, f"{digit} {label}") for name, digit, label in TABS]
    short = [(name, digit if name != active else label) for (name, digit, _), (_, label) in
             zip(TABS, whole, strict=True)]  # fmt: skip
    row: Line = ()
    for named in (whole, short):
        spans: list[Span] = [(" ", "text")]
        for name, label in (*named, *(popouts or {}).items()):
            role = "phase.live" if name == active else "muted"
            spans += [(f" {label} ", role), (" ", "text")]
        row = tuple(spans[:-1])
        if width(row) <= room:
            break
    return fit(row, room)


def too_small(width: int, height: int) -> Line:
    """How to get on in a terminal that is too small for the deck."""
    least = f"{LEAST[0]}×{LEAST[1]}"
    text = f"{width}×{height} is small: one pane, 1-{len(TABS)} change it; the deck needs {least}"
    return fit(line((text, "note")), width)
