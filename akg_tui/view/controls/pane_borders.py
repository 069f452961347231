"""The borders between the panes of the deck: found under the mouse, moved, and written as text.

Pure. A moved border belongs to one layout in one shape of the deck.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from akg_tui.view.controls.deck_layout import PRESETS, Borders, Column, Place, Slot
from akg_tui.view.controls.panes import Shape

LEAST_COLUMNS, LEAST_ROWS = 16, 4
_SHAPES = tuple(shape.value for shape in Shape)


def _named(preset: str, shape: Shape) -> str:
    return f"{preset}.{shape.value}"


def read_borders(text: str) -> dict[str, tuple[Column, ...]]:
    """Return the borders in a text such as ``deck.three 34:1 50:27,13 36:1``: for each layout its
    columns, each with its width and the heights of its panes. Raises `ValueError`.
    """
    found: dict[str, tuple[Column, ...]] = {}
    for part in filter(None, (each.strip() for each in text.split(";"))):
        name, *columns = part.split()
        preset, _, shape = name.partition(".")
        if preset not in PRESETS or shape not in _SHAPES:
            raise ValueError(f"no layout is called {name}")
        usual = PRESETS[preset].get(Shape(shape), ())
        if len(usual) != len(columns):
            raise ValueError(f"{name} has {len(usual)} columns")
        sizes = [each.partition(":") for each in columns]
        widths = [int(wide) for wide, _, _ in sizes]
        heights = [[int(row) for row in rows.split(",")] for _, _, rows in sizes]
        found[name] = _columns(usual, widths, heights)
    return found


def _columns(
    usual: tuple[Column, ...], widths: list[int], heights: list[list[int]]
) -> tuple[Column, ...]:
    """Return the columns with these sizes. Raises `ValueError` if they do not fit the layout."""
    made: list[Column] = []
    for column, wide, rows in zip(usual, widths, heights, strict=True):
        if min(wide, *rows) < 1:
            raise ValueError("a width and a height are above 0")
        slots = tuple(Slot(s.pane, row) for s, row in zip(column.slots, rows, strict=True))
        made.append(Column(wide, slots))
    return tuple(made)


def borders_text(borders: Borders) -> str:
    """Return borders in the form that `read_borders` reads."""
    told: list[str] = []
    for name, columns in sorted(borders.items()):
        sizes = (f"{c.columns}:{','.join(str(slot.rows) for slot in c.slots)}" for c in columns)
        told.append(" ".join((name, *sizes)))
    return "; ".join(told)


class Edge(NamedTuple):
    """The border to the right of the pane `before`, or `below` it."""

    before: str
    below: bool


def edge_at(places: Mapping[str, Place], x: int, y: int) -> Edge | None:
    """Return the border at a cell of the body; the frames of both neighbours belong to it."""
    for name, here in places.items():
        right = here.x + here.width
        beside = any(there.x == right for there in places.values())
        if beside and here.y <= y < here.y + here.height and x in (right - 1, right):
            return Edge(name, below=False)
    for name, here in places.items():
        end = here.y + here.height
        under = any((there.x, there.y) == (here.x, end) for there in places.values())
        if under and here.x <= x < here.x + here.width and y in (end - 1, end):
            return Edge(name, below=True)
    return None


def edge_of(places: Mapping[str, Place], pane: str, *, below: bool) -> tuple[Edge, int] | None:
    """Return a border of a pane, and the direction in which the pane grows: 1 for the border after
    it, -1 for the one before it. None if it has no neighbour there.
    """
    here = places[pane]
    if below:
        after = edge_at(places, here.x + 1, here.y + here.height)
        before = edge_at(places, here.x + 1, here.y)
    else:
        after = edge_at(places, here.x + here.width, here.y + 1)
        before = edge_at(places, here.x, here.y + 1)
    if after is not None and after.below is below:
        return after, 1
    if before is not None and before.below is below:
        return before, -1
    return None


def moved_border(
    borders: Borders,
    layout: tuple[str, Shape],
    places: Mapping[str, Place],
    *,
    edge: Edge,
    by: int,
) -> Borders | None:
    """Return the borders after one was moved by so many columns or rows, as far as there is room.

    A hidden pane keeps a share of its own. None if a pane is in the place of another.
    """
    preset, shape = layout
    usual = PRESETS[preset].get(shape, ())
    if not set(places) <= {slot.pane for column in usual for slot in column.slots}:
        return None
    heights = [_filled([_size(places, slot.pane, 3) for slot in c.slots]) for c in usual]
    widths = _filled(
        [max(_size(places, slot.pane, 2) for slot in column.slots) for column in usual]
    )
    shown = [[n for n, s in enumerate(c.slots) if s.pane in places] for c in usual]
    at = next(n for n, c in enumerate(usual) if edge.before in {s.pane for s in c.slots})
    if edge.below:
        row = next(n for n, slot in enumerate(usual[at].slots) if slot.pane == edge.before)
        _shift(heights[at], row, _after(shown[at], row), by, LEAST_ROWS)
    else:
        columns = [n for n, rows in enumerate(shown) if rows]
        _shift(widths, at, _after(columns, at), by, LEAST_COLUMNS)
    return {**borders, _named(preset, shape): _columns(usual, widths, heights)}


def _size(places: Mapping[str, Place], pane: str, which: int) -> int:
    return places[pane][which] if pane in places else 0


def _filled(sizes: list[int]) -> list[int]:
    """Return the sizes with the mean of the others for those of hidden parts."""
    known = [size for size in sizes if size]
    mean = sum(known) // len(known) if known else 1
    return [size or mean for size in sizes]


def _after(shown: list[int], at: int) -> int:
    return min(each for each in shown if each > at)


def _shift(sizes: list[int], at: int, following: int, by: int, least: int) -> None:
    """Give the part `at` so much of the following one; each keeps `least`, or what it had."""
    first, second = sizes[at], sizes[following]
    by = max(min(least, first) - first, min(by, second - min(least, second)))
    sizes[at], sizes[following] = first + by, second - by
