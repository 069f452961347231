"""The layout of the deck for the size of a terminal: panes and tabs.

Pure: computes places from sizes. Owns the columns of the presets; `panes.py` declares the panes
in each column.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from akg_tui.view.controls import panes
from akg_tui.view.controls.command_registry import key_of, named
from akg_tui.view.controls.panes import Shape
from akg_tui.view.language import tr
from akg_tui.view.spans import Line, Span, cells, fit, line

PANES = tuple(pane.id for pane in panes.PANES)
PANE_NAMES = {pane.id: pane.title for pane in panes.PANES}

LEAST = (60, 16)


def shape_of(width: int, height: int) -> Shape:
    if width < LEAST[0] or height < LEAST[1]:
        return Shape.TINY
    if width < 100 or height < 30:
        return Shape.TABS
    return Shape.THREE if width < 160 else Shape.FIVE


class Slot(NamedTuple):
    """A pane and its rows; 0 rows: an equal share of the rows that remain."""

    pane: str
    rows: int = 0


class Column(NamedTuple):
    """Panes from top to bottom. 0 columns: an equal share of the columns that remain."""

    columns: int
    slots: tuple[Slot, ...]


class Place(NamedTuple):
    x: int
    y: int
    width: int
    height: int


# The columns of each layout in each shape; 0: an equal share of the rest.
_WIDTHS: dict[str, dict[Shape, tuple[int, ...]]] = {
    "deck": {Shape.THREE: (34, 0, 36), Shape.FIVE: (44, 0, 0, 50)},
    "kernel": {Shape.THREE: (0, 0), Shape.FIVE: (0, 0, 44)},
    "agent": {Shape.THREE: (0, 44), Shape.FIVE: (0, 0, 56)},
    "numbers": {Shape.THREE: (0, 44), Shape.FIVE: (0, 0, 56)},
}


def _columns(preset: str, shape: Shape, widths: Sequence[int]) -> tuple[Column, ...]:
    """Return the columns of a layout with the panes that declare a spot in it."""
    found = [
        (spot.column, spot.last, pane.order, Slot(pane.id, spot.rows))
        for pane in panes.PANES
        for spot in pane.spots
        if (spot.preset, spot.shape) == (preset, shape)
    ]
    return tuple(
        Column(wide, tuple(slot for column, _, _, slot in sorted(found) if column == number))
        for number, wide in enumerate(widths)
    )


PRESETS: dict[str, dict[Shape, tuple[Column, ...]]] = {
    preset: {shape: _columns(preset, shape, widths) for shape, widths in shapes.items()}
    for preset, shapes in _WIDTHS.items()
}

_KIN = {pane.id: pane.kin for pane in panes.PANES}


def place(
    size: tuple[int, int],
    shape: Shape,
    preset: str,
    active: str,
    *,
    hidden: Collection[str] = (),
    zoomed: bool = False,
) -> dict[str, Place]:
    """Return the place of each pane in a body of `size` columns and rows.

    The places cover the body and do not overlap. The active pane always has a place, so that
    it keeps the focus.
    """
    width, height = size
    if zoomed or shape in (Shape.TINY, Shape.TABS):
        return {active: Place(0, 0, width, height)}
    columns = _without(_with(_grown(PRESETS[preset][shape], width), active), hidden, active)
    places: dict[str, Place] = {}
    x = 0
    for column, wide in zip(columns, _share([c.columns for c in columns], width), strict=True):
        y = 0
        rows = _share([slot.rows for slot in column.slots], height)
        for slot, high in zip(column.slots, rows, strict=True):
            places[slot.pane] = Place(x, y, wide, high)
            y += high
        x += wide
    return places


GROWS_FROM, USUAL_WIDTH = 200, 180


def _grown(columns: tuple[Column, ...], width: int) -> tuple[Column, ...]:
    """Return the columns for a wide terminal, in which those of a fixed width grow too."""
    if width < GROWS_FROM:
        return columns
    return tuple(Column(each.columns * width // USUAL_WIDTH, each.slots) for each in columns)


def _with(columns: tuple[Column, ...], active: str) -> tuple[Column, ...]:
    shown = [slot.pane for column in columns for slot in column.slots]
    if active in shown:
        return columns
    gives_way = next((pane for pane in _KIN[active] if pane in shown), shown[0])
    swapped: list[Column] = []
    for wide, slots in columns:
        taken = (Slot(active, s.rows) if s.pane == gives_way else s for s in slots)
        swapped.append(Column(wide, tuple(taken)))
    return tuple(swapped)


def _without(
    columns: tuple[Column, ...], hidden: Collection[str], active: str
) -> tuple[Column, ...]:
    left = (
        Column(wide, tuple(s for s in slots if s.pane == active or s.pane not in hidden))
        for wide, slots in columns
    )
    return tuple(column for column in left if column.slots)


def _share(wanted: list[int], room: int) -> list[int]:
    """Divide the room: fixed parts as wanted where they fit, the rest shared equally."""
    fixed, flexible = sum(wanted), wanted.count(0)
    least = flexible * (room // (2 * len(wanted)))
    if not flexible or fixed > room - least:
        # The fixed parts do not fit: each part gets room in proportion to its wanted size.
        even = max(1, fixed // max(1, len(wanted) - flexible)) if flexible else 1
        wanted = [w or even for w in wanted]
        total = sum(wanted)
        ends = [room * sum(wanted[: n + 1]) // total for n in range(len(wanted))]
        return [end - begin for begin, end in zip([0, *ends], ends, strict=False)]
    rest = room - fixed
    parts = [rest * (n + 1) // flexible - rest * n // flexible for n in range(flexible)]
    return [w or parts.pop() for w in wanted]


def tabs(active: str, room: int) -> Line:
    """Return the tabs on one row, the active one lit."""
    spans: list[Span] = [(" ", "text")]
    for name, label in _labels(active, room).items():
        role = "phase.live" if name == active else "muted"
        spans += [(f" {label} ", role), (" ", "text")]
    return fit(tuple(spans[:-1]), room)


def tab_at(column: int, active: str, room: int) -> str | None:
    """Return the pane whose tab is at a column of the row; None outside all tabs."""
    at = 1
    for name, label in _labels(active, room).items():
        end = at + cells(label) + 2
        if at <= column < min(end, room):
            return name
        at = end + 1
    return None


def _labels(active: str, room: int) -> dict[str, str]:
    """Return the label of each pane: its name, or only its key for the last ones where there is no
    room for all names.
    """
    labels = {name: named(f"pane.{name}", tr(PANE_NAMES[name])) for name in PANES}
    for name in reversed(PANES):
        if sum(cells(label) + 3 for label in labels.values()) <= room:
            break
        if name != active:
            labels[name] = key_of(f"pane.{name}") or labels[name]
    return labels


def too_small(columns: int, rows: int) -> Line:
    """Return the advice for a terminal that is too small for the deck."""
    least = f"{LEAST[0]}×{LEAST[1]}"
    keys = " ".join(filter(None, (key_of(f"pane.{name}") for name in PANES)))
    text = tr("{size} is small: one pane, {keys} change it; the deck needs {least}",
              size=f"{columns}×{rows}", keys=keys, least=least)  # fmt: skip
    return fit(line((text, "note")), columns)
