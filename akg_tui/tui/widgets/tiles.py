"""A container whose children stand where they are told, each by its own place.

Knows no pane: the places come from whoever arranges it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from textual.geometry import NULL_OFFSET, NULL_SPACING, Region, Size
from textual.layout import ArrangeResult, Layout, WidgetPlacement
from textual.widget import Widget

Places = Callable[[tuple[int, int]], Mapping[str, tuple[int, int, int, int]]]


class _TileLayout(Layout):
    name = "tiles"

    def __init__(self, places: Places) -> None:
        self._places = places

    def arrange(
        self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True
    ) -> ArrangeResult:
        parent.pre_layout(self)
        places = self._places((size.width, size.height))
        over = {name: order for order, name in enumerate(places)}
        return [
            WidgetPlacement(
                Region(*places[child.id]), NULL_OFFSET, NULL_SPACING, child, over[child.id]
            )
            for child in children
            if child.id is not None and child.id in places
        ]


class Tiles(Widget):
    """`places` says for a size (columns, rows) where each child stands, by its id; where two
    have a cell in common, the later one covers the other.
    """

    def __init__(self, *children: Widget, places: Places, id: str) -> None:  # noqa: A002
        super().__init__(*children, id=id)
        self._tiles = _TileLayout(places)

    @property
    def layout(self) -> Layout:
        return self._tiles

    def rearrange(self) -> None:
        """Ask for the places anew, though the same children are shown in the same size."""
        for child in self.children[:1]:
            child.refresh(layout=True)  # what a widget remembers of its layout, its children end
