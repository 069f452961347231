"""The two dialogs: all keys, and the question before a run is left."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input

from akg_tui.core.machine import Verdict
from akg_tui.core.plain import one_line
from akg_tui.tui import commands, keymap
from akg_tui.tui.glyphs import ITEM, VERDICT
from akg_tui.tui.language import marked, tr
from akg_tui.tui.screens.confirm import Confirm
from akg_tui.tui.screens.dimming import Dimming
from akg_tui.tui.spans import BLANK, Line, cells, cut, hang, line
from akg_tui.tui.widgets.lineview import LineView

_KEYS_LEAST, _KEYS_WIDTH = 12, 24

_VERDICTS = {
    Verdict.KEEP: marked("correct, and faster than the best beyond doubt"),
    Verdict.DISCARD: marked("correct, but not faster beyond doubt"),
    Verdict.FAIL: marked("it does not compile, run in time or match the reference"),
}


_WHERE = {
    "review": marked("in a review: "),
    "past": marked("in the past: "),
    "rounds": marked("comparing: "),
    "runs": marked("in the list of runs: "),
}


def help_rows(room: int, wanted: str = "") -> list[Line]:
    """Every command with its keys, by group, then the signs; only what holds `wanted`."""
    rows: list[Line] = []
    members = {
        group: [command for command in listed if _holds(command, wanted)]
        for group, listed in commands.groups().items()
    }
    keys = max((cells(_how(c)) for listed in members.values() for c in listed), default=0)
    column = min(_KEYS_WIDTH, max(_KEYS_LEAST, keys))
    for group, listed in members.items():
        if not listed:
            continue
        rows += [BLANK, line((tr(group), "title"))] if rows else [line((tr(group), "title"))]
        for command in listed:
            rows += hang(_about(command), room, _lead(command, column), "text")
    return rows if wanted else [*rows, *_signs(room)]


def _about(command: commands.Command) -> str:
    where = tr(_WHERE[command.where]) if command.where in _WHERE else ""
    more = command.keys_now and command.argument is not None
    return f"{where}{tr(command.help)}{f'  ({_typed(command)})' if more else ''}"


def _typed(command: commands.Command) -> str:
    argument = f" {command.argument.name.upper()}" if command.argument else ""
    return f":{command.label.replace(' ', '-')}{argument}"


def _how(command: commands.Command) -> str:
    """Its keys, or what to type where it has none."""
    return command.shown_key or _typed(command)


def _lead(command: commands.Command, column: int) -> Line:
    how = cut(_how(command), column)
    role = "key" if command.keys_now else "muted"
    return line((f"{' ' * (column - cells(how))}{how}  ", role))


def _holds(command: commands.Command, wanted: str) -> bool:
    texts = (command.id, command.label, command.help, tr(command.label), tr(command.help))
    found = " ".join((*texts, command.shown_key, tr(command.group))).casefold()
    return all(word in found for word in wanted.casefold().split())


def _signs(room: int) -> list[Line]:
    rows = [BLANK, line((tr("Signs"), "title"))]
    for verdict, (glyph, role) in VERDICT.items():
        lead = line((f"{glyph:>4} {verdict:<8} ", role))
        rows += hang(tr(_VERDICTS[verdict]), room, lead, "text")
    others = "  ".join(
        f"{glyph} {word}" for glyph, word, _, role in ITEM.values() if role.startswith("item")
    )
    return [*rows, *hang(others, room, line((f"   {tr('plan')}: ", "muted")), "text")]


class Help(ModalScreen[None], Dimming[None]):
    """All keys of now. What is typed narrows the list; escape empties the line, then closes."""

    CSS_PATH = "../styles/dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f1", "leave", "close", show=False, priority=True),
        *(
            Binding(key, f"scroll({action!r})", show=False, priority=True)
            for key, action in (
                ("down", "scroll_down"), ("up", "scroll_up"),
                ("pagedown", "page_down"), ("pageup", "page_up"),
                ("ctrl+home", "scroll_home"), ("ctrl+end", "scroll_end"),
            )
        ),
    ]  # fmt: skip

    def compose(self) -> ComposeResult:
        with Vertical(id="sheet"):
            yield LineView("keys")
            yield Input(placeholder=tr("type to search"), id="search", compact=True)

    def on_mount(self) -> None:
        sheet = self.query_one("#sheet")
        title = keymap.worn().name
        sheet.border_title = Content(tr("keys") if title == keymap.DEFAULT else
                                     f"{tr('keys')}: {title}")  # fmt: skip
        self.query_one(Input).focus()
        self.call_after_refresh(self._show)

    def on_resize(self) -> None:
        self.call_after_refresh(self._show)

    def on_input_changed(self) -> None:
        self._show()
        self.query_one(LineView).scroll_home(animate=False)

    def _show(self) -> None:
        view = self.query_one(LineView)
        wanted = self.query_one(Input).value
        way_out = tr("esc shows all") if wanted else tr("esc closes")
        self.query_one("#sheet").border_subtitle = Content(way_out)
        rows = help_rows(view.room, wanted)
        if not rows:
            rows = hang(tr("no command holds these words"), view.room, (), "muted")
        view.put(rows)

    def action_scroll(self, action: str) -> None:
        getattr(self.query_one(LineView), f"action_{action}")()

    def action_leave(self) -> None:
        search = self.query_one(Input)
        if search.value:
            search.value = ""
        else:
            self.dismiss()


class Leave(Confirm):
    """Asks before a run that is not over is left. True: leave it."""

    def __init__(self, path: str, *, evaluating: bool) -> None:
        cost = tr("The evaluation under way is done again then.") if evaluating else ""
        words = (tr("The run stops here and can be resumed with"), one_line(path), cost)
        super().__init__(tr("leave the run?"), words, tr("leave"), otherwise=tr("stay"))

    def told(self, room: int) -> list[Line]:
        can, path, cost = self._words
        return [
            *hang(can, room, (), "text"),
            *hang(f"akg-tui resume {path}", room, line(("  ", "text")), "strong"),
            *([BLANK, *hang(cost, room, (), "muted")] if cost else ()),
        ]
