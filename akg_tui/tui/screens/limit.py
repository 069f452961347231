"""Asks for the limits of a fork that would end at once: why it would, and a line to write on."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input

from akg_tui.core.plain import one_line
from akg_tui.tui.language import tr
from akg_tui.tui.limiting import NAMES, BadLimit, limited
from akg_tui.tui.screens.dimming import Dimming
from akg_tui.tui.spans import BLANK, Line, hang
from akg_tui.tui.widgets.painted import Rows

if TYPE_CHECKING:
    from akg_tui.core.task import Policy

_WIDTH = 76


class AskLimits(ModalScreen[str], Dimming[str]):
    """The limits as they were written, which can be read; "" where it was left without any."""

    DEFAULT_CSS = """
    AskLimits { align: center middle; background: $ink-ground 60%; }
    AskLimits Vertical {
        width: 76; max-width: 100%; height: auto; border: round $ink-gold;
        border-title-color: $ink-gold; background: $surface; padding: 0 1;
    }
    AskLimits Input { background: $ink-gold-deep; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss('')", show=False)]

    def __init__(self, name: str, why: str, policy: Policy, text: str) -> None:
        super().__init__()
        self._of, self._why, self._policy, self._text = name, why, policy, text
        self._rows = Rows("question")

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = Content(tr("limits of the fork"))
            yield self._rows
            yield Input(self._text, compact=True, select_on_focus=False)

    def on_mount(self) -> None:
        self._tell("")
        self.query_one(Input).focus()

    def _tell(self, fault: str) -> None:
        room = max(10, min(_WIDTH, self.app.size.width) - 4)
        name = one_line(self._of)
        lines: list[Line] = [
            *hang(tr("{run} would end at once: {why}.", run=name, why=self._why), room, (), "text"),
            BLANK,
            *hang(
                tr("Write other limits ({names}), enter sets them; esc leaves it as it is.",
                   names=", ".join(NAMES)), room, (), "note",
            ),
            *(hang(fault, room, (), "log.error") if fault else ()),
        ]  # fmt: skip
        self._rows.styles.height = len(lines)
        self._rows.show(tuple(lines))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        try:
            limited(self._policy, event.value)
        except BadLimit as error:
            self._tell(str(error))
        else:
            self.dismiss(event.value.strip())
