"""The row of tabs of a deck with one pane on screen: a click on a name goes to its pane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textual.events import Click
from textual.message import Message

from akg_tui.tui.spans import Line, fit
from akg_tui.tui.tabs import tab_at, tabs
from akg_tui.tui.widgets.painted import Painted

_Tabs = tuple[str, tuple[tuple[str, str], ...]]


class TabRow(Painted[_Tabs]):
    """Shows the active pane, and the popouts with what each shows."""

    class Chosen(Message):
        """A tab was clicked: `pane` is the name of what it stands for."""

        def __init__(self, pane: str) -> None:
            super().__init__()
            self.pane = pane

    def __init__(self) -> None:
        super().__init__("tabs", ("", ()))

    def tell(self, active: str, popouts: Mapping[str, str]) -> None:
        self.show((active, tuple(popouts.items())))

    def paint(self, view: _Tabs, width: int, height: int) -> Sequence[Line]:
        active, popouts = view
        return [fit(tabs(active, width - 2, dict(popouts)), width)]

    def on_click(self, event: Click) -> None:
        active, popouts = self.view
        pane = tab_at(event.x, active, self.size.width - 2, dict(popouts))
        if pane:
            self.post_message(self.Chosen(pane))
