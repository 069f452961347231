"""Which subagents are popped out of the deck, how, and where that puts them. Pure.

A drawer lies over the right side, a tile takes a pane's place, full takes the whole body.
Knows no widget: a popout is the name of its pane and the key of its subagent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from akg_tui.tui.shape import Place, Shape

MOST_TILES = 4
DRAWER_LEAST = 60

# Whose place the tiles take: what the log tells of a subagent they tell too.
_GIVES_WAY = ("log", "agents", "best", "source", "chart", "attempts", "eval", "plan")


class How(StrEnum):
    DRAWER = "drawer"
    TILE = "tile"
    FULL = "full"


@dataclass
class Popout:
    """`back` is what it was before it took the whole body; None where it began so."""

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
    """The places of the panes (`akg_tui.tui.shape.place`) with those of the popouts.

    The drawer comes last and lies over others; tiles and panes cover the body together. One
    that is full, or in a terminal with room for one pane only, is seen while it is active.
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
    """The tiles one below the other in the place of a pane; the active pane shares its place."""
    if len(places) == 1:  # zoomed: nothing gives way
        return dict(places)
    gone = next(pane for pane in _GIVES_WAY if pane in places)
    x, y, width, height = places[gone]
    stack = [gone, *tiles] if gone == active else list(tiles)
    found = {pane: there for pane, there in places.items() if pane != gone}
    for number, pane in enumerate(stack):
        top, bottom = (y + height * n // len(stack) for n in (number, number + 1))
        found[pane] = Place(x, top, width, bottom - top)
    return found
