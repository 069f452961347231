"""The ``:`` line and the command palette: every command by its name, in any language."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.containers import Horizontal
from textual.content import Content
from textual.fuzzy import Matcher
from textual.markup import escape
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from akg_tui.core.sanitize import clean, one_line
from akg_tui.tui.textual_internals import DimmingScreen
from akg_tui.tui.widgets.painted import Rows
from akg_tui.view.controls.command_reading import SHOWN, Reading, read
from akg_tui.view.controls.command_registry import THEMES, Argument, Command
from akg_tui.view.language import tr
from akg_tui.view.spans import Line, cells, fit, line

if TYPE_CHECKING:
    from akg_tui.tui.screens.run_screen import Workbench

KEPT = 50


class CommandLine(ModalScreen[None], DimmingScreen[None]):
    """The ``:`` line with its completions above; all instances share `history`."""

    CSS_PATH = "../styles/commandline.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+c,ctrl+g", "leave", show=False, priority=True),
        Binding("tab", "complete(1)", show=False, priority=True),
        Binding("shift+tab", "complete(-1)", show=False, priority=True),
        Binding("up", "history(-1)", show=False, priority=True),
        Binding("down", "history(1)", show=False, priority=True),
    ]
    history: ClassVar[list[str]] = []

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text
        self._offers = Rows("offers")
        self._reading = Reading(None, "", "", ())
        self._at = -1  # index of the completion taken, -1 before the first
        self._back = 0  # steps back in the history
        self._completing = False

    @property
    def workbench(self) -> Workbench:
        return cast("Workbench", self.app)

    def compose(self) -> ComposeResult:
        yield self._offers
        with Horizontal(id="line"):
            yield Static(":", id="colon", markup=False)
            yield Input(self._text, id="typed", compact=True, select_on_focus=False)

    def on_mount(self) -> None:
        self.query_one(Input).focus()
        self._show(self._text)

    def on_resize(self) -> None:
        self._paint()

    def on_input_changed(self, event: Input.Changed) -> None:
        if self._completing:
            self._completing = False
        else:
            self._at = -1
            self._show(event.value)
        self._preview(event.value)

    def _show(self, text: str) -> None:
        self._reading = self._read(text)
        self._paint()

    def _read(self, text: str) -> Reading:
        return read(text, self.workbench.commands_here(), self.workbench.appearance.choices)

    def _paint(self) -> None:
        room = max(20, self.app.size.width - 4)
        offers = self._reading.offers
        first = max(0, min(self._at - SHOWN // 2, len(offers) - SHOWN))
        rows: list[Line] = []
        shown = offers[first : first + SHOWN]
        column = max((cells(text.strip()) for text, _ in shown), default=0)
        for number, (text, about) in enumerate(shown, start=first):
            name = text.strip()
            role = "phase.live" if number == self._at else "key"
            gap = " " * (column - cells(name) + 2)
            rows.append(fit(line((f" {name} ", role), (f"{gap}{about}", "muted")), room))
        hidden = len(offers) - first - SHOWN
        if hidden > 0:
            rows.append(line((tr("  {count} more: tab goes on", count=hidden), "note")))
        self._offers.show(tuple(rows))
        self._offers.styles.height = len(rows)

    def _preview(self, text: str) -> None:
        """Show a theme while its name is on the line."""
        reading = self._read(text)
        command = reading.command
        themes = command is not None and command.argument == Argument("name", (THEMES,))
        self.workbench.appearance.preview(reading.argument if themes else "")

    def action_complete(self, step: int) -> None:
        offers = self._reading.offers
        if not offers:
            return
        self._at = (self._at + step) % len(offers) if self._at >= 0 or step > 0 else -1
        typed = self.query_one(Input)
        text = offers[self._at][0]
        if len(offers) == 1:
            self._at = -1  # a single completion: its continuations are offered at once
        else:
            self._completing = typed.value != text
        typed.value = text
        typed.cursor_position = len(text)
        self._paint()

    def action_history(self, step: int) -> None:
        kept = self.history
        self._back = min(len(kept), max(0, self._back - step))
        text = kept[-self._back] if self._back else ""
        typed = self.query_one(Input)
        typed.value = text
        typed.cursor_position = len(text)

    def action_leave(self) -> None:
        self.workbench.appearance.preview("")
        self.dismiss()

    async def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        text = event.value.strip()
        reading = self._read(text)
        self.workbench.appearance.preview("")
        if not text:
            self.dismiss()
            return
        if reading.fault or reading.command is None:
            self._offers.styles.height = 1
            self._offers.show((line((f" {one_line(reading.fault)}", "log.error")),))
            return
        if text in self.history:
            self.history.remove(text)
        self.history.append(text)
        del self.history[:-KEPT]
        command, argument = reading.command, reading.argument
        self.dismiss()
        self.app.call_later(self.workbench.carry_out, command, argument)


class Palette(CommandPalette, DimmingScreen[None]):
    """Textual's palette, dimming the screen below."""


@dataclass(frozen=True)
class Offer:
    """A row of the palette and its command. A search also finds the row by an alias; `theme` is
    shown while the row is selected.
    """

    name: str
    about: str
    aliases: tuple[str, ...]
    workbench: Workbench
    command: Command
    argument: str = ""
    theme: str = ""

    async def __call__(self) -> None:
        await self.workbench.carry_out(self.command, self.argument)


def offers(workbench: Workbench) -> Iterator[Offer]:
    """Yield the offers of the current screen, one for each command and listed argument."""
    for command in workbench.commands_here():
        if command.id == "app.palette":
            continue
        name = f"{tr(command.group).lower()}: {tr(command.label)}"
        english = f"{command.group.lower()}: {command.label}"
        keys = f"  ({command.shown_key})" if command.keys_now else ""
        argument = command.argument
        about = tr(command.help)
        if argument is None or argument.free or command.keys_now:
            known_by = (english, about, command.help, command.id)
            yield Offer(name + keys, about, known_by, workbench, command)
        for word in workbench.appearance.choices(argument) if argument is not None else ():
            theme = word if argument is not None and argument.choices == (THEMES,) else ""
            told = one_line(workbench.appearance.themes[theme].about) if theme else about
            aliases = (f"{english} {word}", f"{command.label}: {word}", told)
            yield Offer(f"{name} {clean(word)}", told, aliases, workbench, command, word, theme)


class Commands(Provider):
    """The palette's source of the commands of the screen below it."""

    def _offers(self) -> Iterator[Offer]:
        return offers(cast("Workbench", self.app))

    async def discover(self) -> Hits:
        for offer in self._offers():
            yield DiscoveryHit(
                Content(offer.name), offer, text=offer.name, help=escape(offer.about)
            )

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        score_of: Callable[[str], float] = matcher.match
        for offer in self._offers():
            score = max(score_of(offer.name), *(0.8 * score_of(each) for each in offer.aliases))
            if score > 0:
                shown = _marked(offer.name, matcher)
                yield Hit(score, shown, offer, text=offer.name, help=escape(offer.about))


def _marked(name: str, matcher: Matcher) -> Content:
    """Return a name with the typed letters marked; nothing in the name is read as markup."""
    content = Content(name)
    score, places = matcher.fuzzy_search.match(matcher.query, name)
    for place in places if score else ():
        if not name[place].isspace():
            content = content.stylize(matcher.match_style, place, place + 1)
    return content
