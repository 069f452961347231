"""The command palette: everything in the registry, found by its name in any language.

A theme is worn while its row is under the cursor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.fuzzy import Matcher
from textual.markup import escape

from akg_tui.core.plain import clean, one_line
from akg_tui.tui.commands import THEMES, Command
from akg_tui.tui.language import tr
from akg_tui.tui.screens.dimming import Dimming

if TYPE_CHECKING:
    from akg_tui.tui.app import WorkbenchApp

_SELF = ("app.palette",)


class Palette(CommandPalette, Dimming[None]):
    """Textual's palette over our screens."""


@dataclass(frozen=True)
class CarryOut:
    """What a row of the palette does. `theme` is the one to be seen while it is chosen."""

    app: WorkbenchApp
    command: Command
    argument: str = ""
    theme: str = ""

    async def __call__(self) -> None:
        await self.app.carry_out(self.command, self.argument)


@dataclass(frozen=True)
class Offer:
    """A row. `aliases` are what it is found by besides its name."""

    name: str
    about: str
    run: CarryOut
    aliases: tuple[str, ...]


def offers(app: WorkbenchApp) -> Iterator[Offer]:
    """All that can be done on the screen of now, each argument that can be listed a row."""
    for command in app.commands_here():
        if command.id in _SELF:
            continue
        name = f"{tr(command.group).lower()}: {tr(command.label)}"
        english = f"{command.group.lower()}: {command.label}"
        keys = f"  ({command.shown_key})" if command.keys_now else ""
        argument = command.argument
        about = tr(command.help)
        aliases = (english, about, command.help, command.id)
        if argument is None or argument.free or command.keys_now:
            yield Offer(name + keys, about, CarryOut(app, command), aliases)
        if argument is None:
            continue
        for word in app.choices(argument):
            theme = word if argument.choices == (THEMES,) else ""
            told = one_line(app.themes[theme].about) if theme else about
            yield Offer(
                f"{name} {clean(word)}",
                told,
                CarryOut(app, command, word, theme),
                (f"{english} {word}", f"{command.label}: {word}", told),
            )


class Commands(Provider):
    """What the screen under the palette can do."""

    def _offers(self) -> Iterator[Offer]:
        return offers(cast("WorkbenchApp", self.app))

    async def discover(self) -> Hits:
        for offer in self._offers():
            yield DiscoveryHit(
                Content(offer.name), offer.run, text=offer.name, help=escape(offer.about)
            )

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        score_of: Callable[[str], float] = matcher.match
        for offer in self._offers():
            score = max(score_of(offer.name), *(0.8 * score_of(each) for each in offer.aliases))
            if score > 0:
                shown = _marked(offer.name, matcher)
                yield Hit(score, shown, offer.run, text=offer.name, help=escape(offer.about))


def _marked(name: str, matcher: Matcher) -> Content:
    """A name with the letters that were typed marked; nothing in it is read as markup."""
    content = Content(name)
    score, places = matcher.fuzzy_search.match(matcher.query, name)
    for place in places if score else ():
        if not name[place].isspace():
            content = content.stylize(matcher.match_style, place, place + 1)
    return content
