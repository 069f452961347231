"""How the deck is laid out in a terminal of some size. Pure: sizes in, visible panes out."""

from __future__ import annotations

from enum import StrEnum

PANES = ("plan", "best", "source", "log", "chart")

TABS: tuple[tuple[str, str, str], ...] = (
    ("plan", "1", "plan"),
    ("source", "2", "kernel"),
    ("chart", "3", "chart"),
    ("log", "4", "log"),
    ("best", "5", "best"),
)

LEAST = (60, 16)


class Shape(StrEnum):
    """From the smallest: one bare pane, one pane with tabs, three columns, five panes."""

    TINY = "tiny"
    TABS = "tabs"
    THREE = "three"
    FIVE = "five"


def shape_of(width: int, height: int) -> Shape:
    if width < LEAST[0] or height < LEAST[1]:
        return Shape.TINY
    if width < 100 or height < 30:
        return Shape.TABS
    return Shape.THREE if width < 160 else Shape.FIVE


def visible(shape: Shape, active: str, *, zoomed: bool) -> frozenset[str]:
    """The panes on screen. The active one always is, so focus never has to leave it."""
    if zoomed or shape in (Shape.TINY, Shape.TABS):
        return frozenset({active})
    if shape is Shape.FIVE:
        return frozenset(PANES)
    hidden = "source" if active == "best" else "best"
    return frozenset(PANES) - {hidden}
