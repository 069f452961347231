"""The menu of a pane or a list: the commands that it can carry out, with their keys.

Dismissed with the chosen command, which the app carries out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.events import Click
from textual.geometry import Offset
from textual.screen import ModalScreen

from akg_tui.tui.widgets.painted import Rows
from akg_tui.view.controls.command_registry import Command
from akg_tui.view.language import tr
from akg_tui.view.spans import Line, cells, line


class PaneMenu(ModalScreen[Command | None]):
    """Opens at `at`, a place on the screen, as far as there is room."""

    CSS_PATH = "../styles/menu.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "mark(1)", show=False),
        Binding("up,k", "mark(-1)", show=False),
        Binding("enter", "choose", show=False),
        Binding("escape,q,full_stop", "dismiss(None)", show=False),
    ]

    def __init__(self, title: str, commands: Sequence[Command], at: Offset) -> None:
        super().__init__()
        self._title, self._commands, self._at = title, tuple(commands), at
        self._marked = 0
        self.rows = Rows("menu")

    def compose(self) -> ComposeResult:
        yield self.rows

    def on_mount(self) -> None:
        self.rows.border_title = Content(self._title)
        self._show()

    def on_resize(self) -> None:
        self._show()

    def _show(self) -> None:
        keys = [each.shown_key for each in self._commands]
        wide = max(map(cells, keys), default=0)
        rows: list[Line] = []
        for number, (each, key) in enumerate(zip(self._commands, keys, strict=True)):
            here = number == self._marked
            label = (tr(each.label), "strong" if here else "text")
            pad = " " * (wide - cells(key) + 2)
            rows.append(line(("▸ " if here else "  ", "accent"), (key, "key"), pad, label))
        widths = [sum(cells(text) for text, _ in row) + 4 for row in rows]
        columns = max(cells(self._title) + 6, *widths)
        width, height = self.app.size
        self.rows.styles.width = min(width, columns)
        self.rows.styles.height = min(height, len(rows) + 2)
        x = max(0, min(self._at.x, width - columns))
        self.rows.styles.offset = (x, max(0, min(self._at.y, height - len(rows) - 2)))
        self.rows.show(tuple(rows))

    def action_mark(self, step: int) -> None:
        self._marked = (self._marked + step) % len(self._commands)
        self._show()

    def action_choose(self) -> None:
        self.dismiss(self._commands[self._marked])

    def on_click(self, event: Click) -> None:
        """Call the clicked command; a click beside the menu closes it."""
        row = event.screen_y - self.rows.content_region.y
        if not self.rows.region.contains_point(event.screen_offset):
            self.dismiss(None)
        elif 0 <= row < len(self._commands):
            self.dismiss(self._commands[row])
