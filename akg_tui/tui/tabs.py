"""What a deck with one pane on screen says of the others. Pure."""

from __future__ import annotations

from akg_tui.tui.shape import LEAST, TABS
from akg_tui.tui.spans import Line, Span, fit, line


def tabs(active: str, room: int) -> Line:
    """All panes on one row, the active one lit."""
    spans: list[Span] = [(" ", "text")]
    for name, digit, label in TABS:
        role = "phase.live" if name == active else "muted"
        spans += [(f" {digit} {label} ", role), (" ", "text")]
    return fit(tuple(spans), room)


def too_small(width: int, height: int) -> Line:
    """How to get on in a terminal that is too small for the deck."""
    least = f"{LEAST[0]}×{LEAST[1]}"
    text = f"{width}×{height} is small: one pane, 1-{len(TABS)} change it; the deck needs {least}"
    return fit(line((text, "note")), width)
