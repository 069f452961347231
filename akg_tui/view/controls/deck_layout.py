"""The layout of the deck for the size of a terminal: panes, tabs, and popped-out subagents.

Pure: computes places from sizes. Owns the columns of the presets; `panes.py` declares the panes
in each column.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
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

Borders = Mapping[str, tuple[Column, ...]]
"""The columns of layouts whose borders a person moved, by ``LAYOUT.SHAPE``. All sizes are above 0:
the room is shared in proportion to them.
"""

_KIN = {pane.id: pane.kin for pane in panes.PANES}


def place(
    size: tuple[int, int],
    shape: Shape,
    preset: str,
    active: str,
    *,
    hidden: Collection[str] = (),
    zoomed: bool = False,
    borders: Borders | None = None,
) -> dict[str, Place]:
    """Return the place of each pane in a body of `size` columns and rows.

    The places cover the body and do not overlap. The active pane always has a place, so that
    it keeps the focus.
    """
    width, height = size
    if zoomed or shape in (Shape.TINY, Shape.TABS):
        return {active: Place(0, 0, width, height)}
    usual = (borders or {}).get(f"{preset}.{shape.value}") or _grown(PRESETS[preset][shape], width)
    columns = _without(_with(usual, active), hidden, active)
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


def beside(places: Mapping[str, Place], active: str, side: str) -> str | None:
    """Return the pane next to the active pane on a side (left, right, up, down), or None.

    Of several panes, return the one with the nearest centre.
    """
    here = places[active]
    middle = (here.x + here.width / 2, here.y + here.height / 2)
    found: list[tuple[float, str]] = []
    for name, there in places.items():
        across = {"left": there.x + there.width <= here.x, "right": there.x >= here.x + here.width}
        down = {"up": there.y + there.height <= here.y, "down": there.y >= here.y + here.height}
        if name != active and {**across, **down}[side]:
            dx = abs(there.x + there.width / 2 - middle[0])
            dy = abs(there.y + there.height / 2 - middle[1])
            # A cell is about twice as high as wide; distance to the side counts twice.
            ahead, aside = (dx, 2 * dy) if side in across else (2 * dy, dx)
            found.append((ahead + 2 * aside, name))
    return min(found)[1] if found else None


def tabs(active: str, room: int, popouts: Mapping[str, str]) -> Line:
    """Return the tabs on one row, the active one lit; `popouts` holds their labels by pane."""
    spans: list[Span] = [(" ", "text")]
    for name, label in _labels(active, room, popouts).items():
        role = "phase.live" if name == active else "muted"
        spans += [(f" {label} ", role), (" ", "text")]
    return fit(tuple(spans[:-1]), room)


def tab_at(column: int, active: str, room: int, popouts: Mapping[str, str]) -> str | None:
    """Return the pane whose tab is at a column of the row; None outside all tabs."""
    at = 1
    for name, label in _labels(active, room, popouts).items():
        end = at + cells(label) + 2
        if at <= column < min(end, room):
            return name
        at = end + 1
    return None


def _labels(active: str, room: int, popouts: Mapping[str, str]) -> dict[str, str]:
    """Return the label of each pane: its name, or only its key for the last ones where there is no
    room for all names.
    """
    labels = {name: named(f"pane.{name}", tr(PANE_NAMES[name])) for name in PANES}
    labels |= popouts
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


MOST_TILES = 4
DRAWER_LEAST = 60

# The panes whose place tiles take, in order; the log is first, as tiles repeat its text.
_GIVES_WAY = tuple(pane.id for pane in sorted(panes.PANES, key=lambda pane: pane.yields))


class How(StrEnum):
    DRAWER = "drawer"
    TILE = "tile"
    FULL = "full"


@dataclass
class Popout:
    """A popped-out subagent. `back` is its form before `FULL`; None where it was opened full."""

    pane: str
    agent: str
    how: How
    back: How | None = None


def laid(
    places: Mapping[str, Place],
    size: tuple[int, int],
    shape: Shape,
    popouts: Sequence[Popout],
    active: str,
) -> dict[str, Place]:
    """Return the places of the panes (`deck_layout.place`) and of the popouts.

    The drawer comes last and covers others; tiles and panes cover the body together. A full
    popout, or any popout in a terminal with room for one pane, is shown only while active.
    """
    width, height = size
    here = next((each for each in popouts if each.pane == active), None)
    if here is not None and (here.how is How.FULL or shape in (Shape.TINY, Shape.TABS)):
        return {here.pane: Place(0, 0, width, height)}
    if shape in (Shape.TINY, Shape.TABS):
        return dict(places)
    tiles = [each.pane for each in popouts if each.how is How.TILE]
    found = _tiled(places, tiles, active) if tiles else dict(places)
    for each in popouts:
        if each.how is How.DRAWER:
            wide = min(width, max(DRAWER_LEAST, width * 45 // 100))
            found[each.pane] = Place(width - wide, 0, wide, height)
    return found


def _tiled(places: Mapping[str, Place], tiles: Sequence[str], active: str) -> dict[str, Place]:
    """Stack the tiles in the place of a pane; an active pane shares its place with them."""
    if len(places) == 1:  # zoomed: no pane yields its place
        return dict(places)
    gone = next(pane for pane in _GIVES_WAY if pane in places)
    x, y, width, height = places[gone]
    stack = [gone, *tiles] if gone == active else list(tiles)
    found = {pane: there for pane, there in places.items() if pane != gone}
    for number, pane in enumerate(stack):
        top, bottom = (y + height * n // len(stack) for n in (number, number + 1))
        found[pane] = Place(x, top, width, bottom - top)
    return found
