"""A question before something is done that is not undone by a key: what exactly will happen.

Typing never answers it: `y` counts once it was in sight for a moment, any other letter closes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.events import Key
from textual.screen import ModalScreen
from textual.widgets import Input

from akg_tui.core.plain import one_line
from akg_tui.tui.language import tr
from akg_tui.tui.screens.dimming import Dimming
from akg_tui.tui.spans import BLANK, Line, hang, line
from akg_tui.tui.widgets.painted import Rows

if TYPE_CHECKING:
    from akg_tui.tui.screens.watching import Steering

_WIDTH = 76


class Confirm(ModalScreen[bool], Dimming[bool]):
    """True: do it. With `typed`, only after that name was typed; `y` is then a letter of it.
    `otherwise` names what the other key does.
    """

    DEFAULT_CSS = """
    Confirm { align: center middle; background: $ink-ground 60%; }
    Confirm Vertical {
        width: 76; max-width: 100%; height: auto; border: round $ink-gold;
        border-title-color: $ink-gold; background: $surface; padding: 0 1;
    }
    Confirm Input { background: $ink-gold-deep; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(False)", show=False)]
    ARM_S: ClassVar[float] = 0.5

    def __init__(
        self, title: str, words: Sequence[str], verb: str, *, typed: str = "", otherwise: str = ""
    ) -> None:
        super().__init__()
        self._title, self._words, self._verb, self._typed = title, words, verb, typed
        self._else = otherwise
        self._rows = Rows("question")
        self._since = 0.0

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = Content(self._title)
            yield self._rows
            if self._typed:
                yield Input(placeholder=tr("its name"), compact=True)

    def on_mount(self) -> None:
        self._since = self._now()
        room = max(10, min(_WIDTH, self.app.size.width) - 4)
        lines = self.told(room)
        if self._typed:
            name = one_line(self._typed)
            told = tr("Type its name to {verb} it: {name}", verb=self._verb, name=name)
            lines += [BLANK, *hang(told, room, (), "note")]
        else:
            keys = (
                ("y", "key"),
                (f" {self._verb}    ", "text"),
                ("n", "key"),
                (f" {self._else or tr('leave it')}", "text"),
            )
            lines += [BLANK, line(*keys)]
        self._rows.styles.height = len(lines)
        self._rows.show(tuple(lines))
        if self._typed:
            self.query_one(Input).focus()

    def told(self, room: int) -> list[Line]:
        """What will happen, as rows."""
        return [row for each in self._words for row in hang(one_line(each), room, (), "text")]

    def _now(self) -> float:
        return cast("Steering", self.app).wall_clock()

    def on_key(self, event: Key) -> None:
        if self._typed or not event.is_printable:
            return
        event.stop()
        if event.key != "y":
            self.dismiss(False)
        elif self._now() - self._since >= self.ARM_S:
            self.dismiss(True)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip() == one_line(self._typed))
