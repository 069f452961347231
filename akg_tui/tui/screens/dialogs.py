"""The two dialogs: all keys, and the question before a run is left."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from akg_tui.core.machine import Verdict
from akg_tui.core.plain import one_line
from akg_tui.tui import commands
from akg_tui.tui.glyphs import ITEM, VERDICT
from akg_tui.tui.spans import BLANK, Line, hang, line
from akg_tui.tui.widgets.lineview import LineView
from akg_tui.tui.widgets.painted import Rows

_LEAVE_WIDTH = 76

_VERDICTS = {
    Verdict.KEEP: "correct, and faster than the best beyond doubt",
    Verdict.DISCARD: "correct, but not faster beyond doubt",
    Verdict.FAIL: "it does not compile, run in time or match the reference",
}


def help_rows(room: int) -> list[Line]:
    """Every command with its keys, by group, then the signs."""
    rows: list[Line] = []
    for group, members in commands.groups().items():
        rows += [BLANK, line((group, "title"))] if rows else [line((group, "title"))]
        for command in members:
            where = "in a review: " if command.where == "review" else ""
            lead = line((f"{command.shown_key:>12}  ", "key"))
            rows += hang(f"{where}{command.help}", room, lead, "text")
    rows += [BLANK, line(("Signs", "title"))]
    for verdict, (glyph, role) in VERDICT.items():
        rows += hang(_VERDICTS[verdict], room, line((f"{glyph:>4} {verdict:<8} ", role)), "text")
    others = "  ".join(
        f"{glyph} {word}" for glyph, word, _, role in ITEM.values() if role.startswith("item")
    )
    rows += hang(others, room, line(("   plan: ", "muted")), "text")
    return rows


class Help(ModalScreen[None]):
    CSS_PATH = "../styles/dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,f1", "dismiss", "close", show=False),
    ]

    def compose(self) -> ComposeResult:
        yield LineView("keys")

    def on_mount(self) -> None:
        view = self.query_one(LineView)
        view.border_title = "keys"
        view.border_subtitle = "esc closes"
        view.focus()

    def on_resize(self) -> None:
        view = self.query_one(LineView)
        self.call_after_refresh(lambda: view.put(help_rows(view.room)))


class Leave(ModalScreen[bool]):
    """Asks before a run that is not over is left. True: leave it."""

    CSS_PATH = "../styles/dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", show=False),
        Binding("n,escape,q", "dismiss(False)", show=False),
    ]

    def __init__(self, path: str, *, evaluating: bool) -> None:
        super().__init__()
        self._path = one_line(path)
        self._cost = "The evaluation under way is done again then." if evaluating else ""

    def compose(self) -> ComposeResult:
        yield Rows("question")

    def on_mount(self) -> None:
        rows = self.query_one(Rows)
        rows.border_title = "leave the run?"
        room = max(10, min(_LEAVE_WIDTH, self.app.size.width) - 4)
        lines = [
            *hang("The run stops here and can be resumed with", room, (), "text"),
            *hang(f"akg-tui resume {self._path}", room, line(("  ", "text")), "strong"),
            BLANK,
            *(hang(self._cost, room, (), "muted") if self._cost else ()),
            line(("y", "key"), (" leave    ", "text"), ("n", "key"), (" stay", "text")),
        ]
        rows.styles.height = len(lines) + 2
        rows.show(tuple(lines))
