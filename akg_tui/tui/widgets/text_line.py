"""An input line, docked at the bottom: enter sends, escape closes."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.events import Paste
from textual.message import Message
from textual.widgets import Input

from akg_tui.core.sanitize import clean

MOST = 2_000


class OneLine(Input):
    """Hidden until opened. Typed text survives an escape.

    A paste of many lines becomes one line of at most `MOST` characters, and is not sent.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", show=False),
        Binding("up", "step(-1)", show=False),
        Binding("down", "step(1)", show=False),
    ]

    class Left(Message):
        """The line was closed; nothing was sent."""

    class Cut(Message):
        """A paste was longer than the line may be."""

    class Stepped(Message):
        """The arrow up (-1) or down (1) was pressed."""

        def __init__(self, step: int) -> None:
            super().__init__()
            self.step = step

    def __init__(self, name: str, placeholder: str) -> None:
        super().__init__(
            id=name, placeholder=placeholder, compact=True, max_length=MOST, select_on_focus=False
        )
        self.display = False

    def on_paste(self, event: Paste) -> None:
        event.stop()
        event.prevent_default()
        room = max(0, MOST - len(self.value) + len(self.selected_text))
        text = clean(" ".join(event.text[: 4 * MOST].split()))
        if len(text) > room or len(event.text) > 4 * MOST:
            self.post_message(self.Cut())
        self.replace(text[:room], *self.selection)

    def open(self, placeholder: str | None = None, value: str | None = None) -> None:
        """Show the line and focus it; `value` replaces the draft."""
        if placeholder is not None:
            self.placeholder = placeholder
        if value is not None:
            self.value = value
            self.cursor_position = len(value)
        self.display = True
        self.screen.set_focus(self)  # at once: the next key may have arrived already

    def close(self) -> None:
        self.display = False

    def action_leave(self) -> None:
        self.close()
        self.post_message(self.Left())

    def action_step(self, step: int) -> None:
        self.post_message(self.Stepped(step))
