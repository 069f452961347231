"""What a deck with one pane on screen says of the others. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from akg_tui.tui.commands import key_of, named
from akg_tui.tui.language import tr
from akg_tui.tui.shape import LEAST, PANE_NAMES, TABS
from akg_tui.tui.spans import Line, Span, cells, fit, line


def tabs(active: str, room: int, popouts: Mapping[str, str] | None = None) -> Line:
    """All panes on one row, the active one lit; of `popouts`, by pane, what each shows."""
    spans: list[Span] = [(" ", "text")]
    for name, label in _labels(active, room, popouts or {}).items():
        role = "phase.live" if name == active else "muted"
        spans += [(f" {label} ", role), (" ", "text")]
    return fit(tuple(spans[:-1]), room)


def tab_at(
    column: int, active: str, room: int, popouts: Mapping[str, str] | None = None
) -> str | None:
    """The pane whose tab stands at a column of the row; None beside them all."""
    at = 1
    for name, label in _labels(active, room, popouts or {}).items():
        end = at + cells(label) + 2
        if at <= column < min(end, room):
            return name
        at = end + 1
    return None


def _labels(active: str, room: int, popouts: Mapping[str, str]) -> dict[str, str]:
    """What each pane is called: by its name, or by its key alone where there is no room."""
    whole = {name: named(f"pane.{name}", tr(PANE_NAMES[name])) for name in TABS}
    short = {
        name: label if name == active else key_of(f"pane.{name}") or label
        for name, label in whole.items()
    }
    labels = whole | dict(popouts)
    fits = sum(cells(label) + 3 for label in labels.values()) <= room
    return labels if fits else short | dict(popouts)


def too_small(columns: int, rows: int) -> Line:
    """How to get on in a terminal that is too small for the deck."""
    least = f"{LEAST[0]}×{LEAST[1]}"
    keys = " ".join(filter(None, (key_of(f"pane.{name}") for name in TABS)))
    text = tr("{size} is small: one pane, {keys} change it; the deck needs {least}",
              size=f"{columns}×{rows}", keys=keys, least=least)  # fmt: skip
    return fit(line((text, "note")), columns)
