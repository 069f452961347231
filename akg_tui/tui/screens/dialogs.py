"""The dialogs: all keys, a text to read, a question before an action that cannot be undone.

Text being typed never answers a question: `y` counts only after a moment on screen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from shlex import quote
from typing import TYPE_CHECKING, ClassVar, TypeVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.events import Key
from textual.screen import ModalScreen
from textual.widgets import Input

from akg_tui.core.sanitize import clean, one_line, split_clean
from akg_tui.tui.textual_internals import DimmingScreen
from akg_tui.tui.widgets.line_view import LineView
from akg_tui.tui.widgets.painted import Rows
from akg_tui.view import formatting
from akg_tui.view.controls import keymap
from akg_tui.view.controls.help_rows import help_rows
from akg_tui.view.controls.policy_words import NAMES, BadLimit, limited
from akg_tui.view.language import retold, tr
from akg_tui.view.spans import BLANK, Line, hang, line

if TYPE_CHECKING:
    from akg_tui.core.task import Task
    from akg_tui.engine.trust import Untrusted
    from akg_tui.tui.screens.run_screen import Workbench

NEWEST = 2_000
T = TypeVar("T")


def text_rows(text: str, room: int) -> list[Line]:
    """Return the newest lines of `text`, cleaned and wrapped."""
    lines = split_clean(text.rstrip("\n"))
    rows: list[Line] = []
    if len(lines) > NEWEST:
        rows.append(line((f"({formatting.count(len(lines) - NEWEST, 'earlier line')})", "faint")))
    for each in lines[-NEWEST:]:
        rows += hang(each, room, (), "text")
    return rows


class Reading(ModalScreen[None], DimmingScreen[None]):
    """A text to read; with `follows` from its end. It accepts no answer; escape closes it."""

    CSS_PATH = "../styles/reading.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "dismiss", "close", show=False)]

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


class Question(ModalScreen[T], DimmingScreen[T]):
    """A box with the rows of `told`, and below them the `line` to type on, if there is one."""

    CSS_PATH = "../styles/question.tcss"
    WIDTH: ClassVar[int] = 76

    def __init__(self, title: str, line: Input | None = None) -> None:
        super().__init__()
        self._title, self._line = title, line
        self._rows = Rows("question")

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = Content(self._title)
            box.styles.width = self.WIDTH
            yield self._rows
            if self._line is not None:
                yield self._line

    def on_mount(self) -> None:
        if self._line is not None:
            self._line.focus()
        self.show()

    def on_resize(self) -> None:
        self.show()

    @property
    def room(self) -> int:
        """The columns of a row."""
        return max(10, min(self.WIDTH, self.app.size.width) - 4)

    def told(self, room: int) -> list[Line]:
        """Return the rows of the text, wrapped to `room` columns."""
        raise NotImplementedError

    def show(self) -> None:
        """Show the text for the present size of the terminal."""
        lines = self.told(self.room)
        self._rows.styles.height = len(lines)
        self._rows.show(tuple(lines))


class Confirm(Question[bool]):
    """A question; True for yes. With `typed`, yes is the typed name, and `y` a plain letter.
    `otherwise` labels the key for no.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(False)", show=False)]
    ARM_S: ClassVar[float] = 0.5

    def __init__(
        self, title: str, words: Sequence[str], verb: str, *, typed: str = "", otherwise: str = ""
    ) -> None:
        super().__init__(title, Input(placeholder=tr("its name"), compact=True) if typed else None)
        self._words, self._verb, self._typed = words, verb, typed
        self._else = otherwise
        self._since = 0.0

    def on_mount(self) -> None:
        self._since = self._now()

    def told(self, room: int) -> list[Line]:
        if self._typed:
            name = one_line(self._typed)
            told = tr("Type its name to {verb} it: {name}", verb=self._verb, name=name)
            return [*self.effect(room), BLANK, *hang(told, room, (), "note")]
        keys = (
            ("y", "key"),
            (f" {self._verb}    ", "text"),
            ("n", "key"),
            (f" {self._else or tr('leave it')}", "text"),
        )
        return [*self.effect(room), BLANK, line(*keys)]

    def effect(self, room: int) -> list[Line]:
        """Return the rows that describe the effect of a yes."""
        return [row for each in self._words for row in hang(one_line(each), room, (), "text")]

    def _now(self) -> float:
        return cast("Workbench", self.app).wall_clock()

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


class AskTrust(Confirm):
    """The question whether a folder may act outside the sandbox. True: it may."""

    def __init__(self, untrusted: Untrusted) -> None:
        words = (
            str(untrusted.folder.absolute()),
            tr("Its settings act outside the sandbox:"),
            *(retold(str(act)) for act in untrusted.acts),
            tr("Say yes only if you know who wrote it; this is remembered until it changes."),
        )
        title = tr("trust this folder?")
        super().__init__(title, words, tr("trust and run"), otherwise=tr("do not run it"))

    def effect(self, room: int) -> list[Line]:
        folder, lead, *acts, end = map(one_line, self._words)
        rows = [*hang(folder, room, (), "strong"), *hang(lead, room, (), "text")]
        for act in acts:
            rows += hang(act, room, line(("• ", "note")), "note")
        return [*rows, BLANK, *hang(end, room, (), "text")]


class Help(ModalScreen[None], DimmingScreen[None]):
    """All current keys, those of `here` first. Typed text narrows the list; escape empties the
    line, then closes, and so does the question mark.
    """

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

    def __init__(self, here: str = "deck") -> None:
        super().__init__()
        self._here = here

    def compose(self) -> ComposeResult:
        with Vertical(id="sheet"):
            yield LineView("keys")
            yield Input(placeholder=tr("type to search"), id="search", compact=True)

    def on_mount(self) -> None:
        sheet = self.query_one("#sheet")
        title = keymap.current().name
        sheet.border_title = Content(tr("keys") if title == keymap.DEFAULT else
                                     f"{tr('keys')}: {title}")  # fmt: skip
        self.query_one(Input).focus()
        self.call_after_refresh(self._show)

    def on_resize(self) -> None:
        self.call_after_refresh(self._show)

    def on_input_changed(self) -> None:
        if self.query_one(Input).value == "?":  # the key that opened it
            self.dismiss()
            return
        self._show()
        self.query_one(LineView).scroll_home(animate=False)

    def _show(self) -> None:
        view = self.query_one(LineView)
        wanted = self.query_one(Input).value
        way_out = tr("esc shows all") if wanted else tr("esc closes")
        self.query_one("#sheet").border_subtitle = Content(way_out)
        rows = help_rows(view.room, wanted, self._here)
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
    """A question before an unfinished run is left. True: leave it; ``d`` calls `detach` instead."""

    def __init__(self, path: str, detach: Callable[[], object], *, evaluating: bool) -> None:
        cost = tr("The evaluation under way is done again then.") if evaluating else ""
        words = (tr("The run stops here and can be resumed with"), one_line(path), cost)
        super().__init__(tr("leave the run?"), words, tr("leave"), otherwise=tr("stay"))
        self._leave_running = detach

    def told(self, room: int) -> list[Line]:
        goes_on = tr("detach: it goes on without this terminal")
        return [*super().told(room), line(("d", "key"), (f" {goes_on}", "text"))]

    def effect(self, room: int) -> list[Line]:
        can, path, cost = self._words
        return [
            *hang(can, room, (), "text"),
            *hang(f"akg-tui resume {quote(path)}", room, line(("  ", "text")), "strong"),
            *([BLANK, *hang(cost, room, (), "muted")] if cost else ()),
        ]

    def on_key(self, event: Key) -> None:
        if event.key != "d":
            return
        event.prevent_default()
        event.stop()
        if self._now() - self._since >= self.ARM_S:
            self.dismiss(False)
            self._leave_running()


class AskLimits(Question[str]):
    """A question for limits; the result is the checked text, or "" if the person gave none.

    `why` is a sentence. `settled` is as in `limited`.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss('')", show=False)]

    def __init__(
        self, title: str, why: str, task: Task, text: str, *, settled: int | None = None
    ) -> None:
        super().__init__(title, Input(text, compact=True, select_on_focus=False))
        self._why, self._tuned, self._settled = one_line(why), task, settled
        self._fault = ""

    def told(self, room: int) -> list[Line]:
        asks = tr("Write other limits ({names}), enter sets them; esc leaves it as it is.",
                  names=", ".join(NAMES))  # fmt: skip
        lines = [*hang(self._why, room, (), "text"), BLANK, *hang(asks, room, (), "note")]
        return [*lines, *(hang(self._fault, room, (), "log.error") if self._fault else ())]

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        try:
            limited(
                self._tuned.policy, event.value, settled=self._settled, metrics=self._tuned.metrics
            )
        except BadLimit as error:
            self._fault = str(error)
            self.show()
        else:
            self.dismiss(event.value.strip())
