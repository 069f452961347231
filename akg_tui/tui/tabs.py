"""What a deck with one pane on screen says of the others. Pure."""

from __future__ import annotations

from akg_tui.tui.commands import key_of, named
from akg_tui.tui.language import tr
from akg_tui.tui.shape import LEAST, PANE_NAMES, TABS
from akg_tui.tui.spans import Line, Span, fit, line


def tabs(active: str, room: int) -> Line:
    """All panes on one row, the active one lit."""
    spans: list[Span] = [(" ", "text")]
    for name in TABS:
        role = "phase.live" if name == active else "muted"
        spans += [(f" {named(f'pane.{name}', tr(PANE_NAMES[name]))} ", role), (" ", "text")]
    return fit(tuple(spans), room)


def too_small(width: int, height: int) -> Line:
    """How to get on in a terminal that is too small for the deck."""
    least = f"{LEAST[0]}×{LEAST[1]}"
    keys = " ".join(filter(None, (key_of(f"pane.{name}") for name in TABS)))
    text = tr("{size} is small: one pane, {keys} change it; the deck needs {least}",
              size=f"{width}×{height}", keys=keys, least=least)  # fmt: skip
    return fit(line((text, "note")), width)
