"""A line to write on, docked at the bottom: enter sends what was written, escape leaves."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input


class OneLine(Input):
    """Hidden until opened. What was typed survives an escape."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", show=False)]

    class Left(Message):
        """The line was closed; nothing was sent."""

    def __init__(self, name: str, placeholder: str) -> None:
        super().__init__(id=name, placeholder=placeholder, compact=True)
        self.display = False

    def open(self) -> None:
        self.display = True
        self.screen.set_focus(self)  # at once: the next key may be there already

    def close(self) -> None:
        self.display = False

    def action_leave(self) -> None:
        self.close()
        self.post_message(self.Left())
