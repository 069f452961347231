"""What was written past the screen: libraries' warnings, children's complaints, stray prints."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import ModalScreen

from akg_tui.core.plain import clean, split_clean
from akg_tui.tui import words
from akg_tui.tui.spans import Line, hang, line
from akg_tui.tui.widgets.lineview import LineView

NEWEST = 2_000


def stray_rows(text: str, room: int) -> list[Line]:
    """The newest lines of `text`, cleaned and wrapped."""
    lines = split_clean(text.rstrip("\n"))
    if not text:
        return hang("Nothing was written past the screen.", room, (), "muted")
    rows: list[Line] = []
    if len(lines) > NEWEST:
        rows.append(line((f"({words.count(len(lines) - NEWEST, 'earlier line')})", "faint")))
    for each in lines[-NEWEST:]:
        rows += hang(each, room, (), "text")
    return rows


class Stray(ModalScreen[None]):
    CSS_PATH = "../styles/stray.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss", "close", show=False),
    ]

    def __init__(self, text: str, path: Path | None) -> None:
        super().__init__()
        self._text = text
        self._path = f"{path.parent.name}/{path.name}  " if path else ""
        self.view = LineView("strays", follows=True)

    def compose(self) -> ComposeResult:
        yield self.view

    def on_mount(self) -> None:
        self.view.border_title = Content("written past the screen")
        self.view.border_subtitle = Content(f"{clean(self._path)}esc closes")
        self.view.focus()

    def on_resize(self) -> None:
        self.call_after_refresh(
            lambda: self.view.put(stray_rows(self._text, self.view.room))
        )
