"""A container that places its children by a function, and the tabs of a deck with one pane."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from textual.events import Click
from textual.geometry import NULL_OFFSET, NULL_SPACING, Region, Size
from textual.layout import ArrangeResult, Layout, WidgetPlacement
from textual.message import Message
from textual.widget import Widget

from akg_tui.tui.widgets.painted import Painted
from akg_tui.view.controls.deck_layout import tab_at, tabs
from akg_tui.view.spans import Line, fit


class TabRow(Painted[str]):
    """Shows the panes by their names; the view is the active one."""

    class Chosen(Message):
        """A tab was clicked; `pane` is the name of its pane."""

        def __init__(self, pane: str) -> None:
            super().__init__()
            self.pane = pane

    def __init__(self) -> None:
        super().__init__("tabs", "")

    def paint(self, view: str, width: int, height: int) -> Sequence[Line]:
        return [fit(tabs(view, width - 2), width)]

    def on_click(self, event: Click) -> None:
        pane = tab_at(event.x, self.view, self.size.width - 2)
        if pane:
            self.post_message(self.Chosen(pane))


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
    """`places` returns the region of each child by its id, for a size in columns and rows. Where
    two regions overlap, the later one covers the earlier.
    """

    def __init__(self, *children: Widget, places: Places, id: str) -> None:  # noqa: A002
        super().__init__(*children, id=id)
        self._tiles = _TileLayout(places)

    @property
    def layout(self) -> Layout:
        return self._tiles

    def rearrange(self) -> None:
        """Compute the places again for the same children and size."""
        for child in self.children[:1]:
            child.refresh(layout=True)  # a change of a child clears the cached layout here
