"""A line to write on, docked at the bottom: enter sends what was written, escape leaves."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input


class OneLine(Input):
    """Hidden until opened. What was typed survives an escape."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", show=False),
        Binding("up", "step(-1)", show=False),
        Binding("down", "step(1)", show=False),
    ]

    class Left(Message):
        """The line was closed; nothing was sent."""

    class Stepped(Message):
        """The arrow up (-1) or down (1) was pressed."""

        def __init__(self, step: int) -> None:
            super().__init__()
            self.step = step

    def __init__(self, name: str, placeholder: str) -> None:
        super().__init__(id=name, placeholder=placeholder, compact=True, select_on_focus=False)
        self.display = False

    def open(self, placeholder: str | None = None, value: str | None = None) -> None:
        """Show the line and take the keys; with a `value`, in place of the draft."""
        if placeholder is not None:
            self.placeholder = placeholder
        if value is not None:
            self.value = value
            self.cursor_position = len(value)
        self.display = True
        self.focus()

    def close(self) -> None:
        self.display = False

    def action_leave(self) -> None:
        self.close()
        self.post_message(self.Left())

    def action_step(self, step: int) -> None:
        self.post_message(self.Stepped(step))
