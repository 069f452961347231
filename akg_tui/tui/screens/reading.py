"""A text to be read over the deck: a script that asks to run, what was written past the screen."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import ModalScreen

from akg_tui.core.plain import clean, split_clean
from akg_tui.tui import words
from akg_tui.tui.language import tr
from akg_tui.tui.screens.dimming import Dimming
from akg_tui.tui.spans import Line, hang, line
from akg_tui.tui.widgets.lineview import LineView

NEWEST = 2_000


def text_rows(text: str, room: int) -> list[Line]:
    """The newest lines of `text`, cleaned and wrapped."""
    lines = split_clean(text.rstrip("\n"))
    rows: list[Line] = []
    if len(lines) > NEWEST:
        rows.append(line((f"({words.count(len(lines) - NEWEST, 'earlier line')})", "faint")))
    for each in lines[-NEWEST:]:
        rows += hang(each, room, (), "text")
    return rows


class Reading(ModalScreen[None], Dimming[None]):
    """`follows`: begin at the end. Nothing can be answered here; escape leads back."""

    CSS_PATH = "../styles/reading.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss", "close", show=False),
    ]

    def __init__(self, title: str, text: str, where: str = "", *, follows: bool = False) -> None:
        super().__init__()
        self._titles = clean(title), clean(where)
        self._text = text
        self.view = LineView("reading", follows=follows)

    def compose(self) -> ComposeResult:
        yield self.view

    def on_mount(self) -> None:
        title, where = self._titles
        self.view.border_title = Content(title)
        self.view.border_subtitle = Content(f"{where}  {tr('esc closes')}".strip())
        self.view.focus()

    def on_resize(self) -> None:
        self.call_after_refresh(lambda: self.view.put(text_rows(self._text, self.view.room)))
