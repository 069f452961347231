"""The command palette: everything in the registry, found by its name; and the themes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider

from akg_tui.tui.commands import Where, at
from akg_tui.tui.screens.review import Review

if TYPE_CHECKING:
    from textual.types import IgnoreReturnCallbackType

    from akg_tui.tui.app import WorkbenchApp


class Commands(Provider):
    """What the screen under the palette can do."""

    def _offers(self) -> Iterator[tuple[str, str, IgnoreReturnCallbackType]]:
        where: Where = "review" if isinstance(self.screen, Review) else "deck"
        where = getattr(self.screen, "where", where)
        for command in at(where):
            if command.id in ("app.palette", "pane.next"):
                continue
            name = f"{command.group.lower()}: {command.label}"
            run = partial(self.screen.run_action, command.action)
            yield f"{name}  ({command.shown_key})", command.help, run
        app = cast("WorkbenchApp", self.app)
        for theme in app.themes.values():
            yield f"theme: {theme.name}", theme.about, partial(app.wear, theme.name)

    async def discover(self) -> Hits:
        for name, about, run in self._offers():
            yield DiscoveryHit(name, run, help=about)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for name, about, run in self._offers():
            score = max(matcher.match(name), 0.8 * matcher.match(about))
            if score > 0:
                yield Hit(score, matcher.highlight(name), run, help=about)
