"""The dialogs: all keys, a text to read, a question before something that cannot be undone.

Typing never answers a question: `y` counts once the question was in sight for a moment.
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

from akg_tui.core.phases import Verdict
from akg_tui.core.sanitize import clean, one_line, split_clean
from akg_tui.tui.screens.banded import Dimming
from akg_tui.tui.widgets.line_view import LineView
from akg_tui.tui.widgets.painted import Rows
from akg_tui.view import formatting
from akg_tui.view.controls import command_registry, keymap
from akg_tui.view.glyphs import ITEM, VERDICT
from akg_tui.view.language import marked, tr
from akg_tui.view.spans import BLANK, Line, cells, cut, hang, line

if TYPE_CHECKING:
    from akg_tui.tui.screens.run_screen import Steering

NEWEST = 2_000


def text_rows(text: str, room: int) -> list[Line]:
    """The newest lines of `text`, cleaned and wrapped."""
    lines = split_clean(text.rstrip("\n"))
    rows: list[Line] = []
    if len(lines) > NEWEST:
        rows.append(line((f"({formatting.count(len(lines) - NEWEST, 'earlier line')})", "faint")))
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
        for group, listed in command_registry.groups().items()
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


def _about(command: command_registry.Command) -> str:
    where = tr(_WHERE[command.where]) if command.where in _WHERE else ""
    more = command.keys_now and command.argument is not None
    return f"{where}{tr(command.help)}{f'  ({_typed(command)})' if more else ''}"


def _typed(command: command_registry.Command) -> str:
    argument = f" {command.argument.name.upper()}" if command.argument else ""
    return f":{command.label.replace(' ', '-')}{argument}"


def _how(command: command_registry.Command) -> str:
    """Its keys, or what to type where it has none."""
    return command.shown_key or _typed(command)


def _lead(command: command_registry.Command, column: int) -> Line:
    how = cut(_how(command), column)
    role = "key" if command.keys_now else "muted"
    return line((f"{' ' * (column - cells(how))}{how}  ", role))


def _holds(command: command_registry.Command, wanted: str) -> bool:
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
