"""The hint line: completes `@` references by tab, and shows what the last one stands for."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Input

from akg_tui.tui.widgets.oneline import OneLine


class HintLine(OneLine):
    """`offers` gives whole texts that complete the one written; `told` what it refers to."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "complete(1)", show=False),
        Binding("shift+tab", "complete(-1)", show=False),
    ]

    def __init__(
        self,
        name: str,
        placeholder: str,
        offers: Callable[[str], list[str]],
        told: Callable[[str], str],
    ) -> None:
        super().__init__(name, placeholder)
        self._offers = offers
        self._told = told
        self._round: list[str] = []
        self._at = 0

    def action_complete(self, step: int) -> None:
        """The next completion of what was written; round and round."""
        if self.value in self._round:
            self._at = (self._at + step) % len(self._round)
        else:
            found = self._offers(self.value[: self.cursor_position])
            if not found:
                return
            self._round, self._at = [*found, self.value], 0
        self.value = self._round[self._at]
        self.cursor_position = len(self.value)

    def on_input_changed(self, event: Input.Changed) -> None:
        # A title is markup where it is a string.
        self.border_subtitle = Content(self._told(event.value)) if "@" in event.value else ""
