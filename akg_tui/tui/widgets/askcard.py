"""The card that asks, and the rule that arms its keys.

Docked, never a popup: it takes no focus, and no plain letter answers it. Its keys count
only once it has been on screen for a moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.strip import Strip

from akg_tui.tui.snapshot import Ask
from akg_tui.tui.spans import Line, fit, join, line, spread
from akg_tui.tui.spans import width as columns
from akg_tui.tui.widgets.painted import Painted

ARM_S = 0.5


class Arming:
    """Says whether a question has been in sight long enough to be answered."""

    def __init__(self) -> None:
        self._gate: int | None = None
        self._since: float | None = None

    def ask(self, gate: int | None) -> None:
        """Another question (or none): its time begins when it is painted."""
        if gate != self._gate:
            self._gate, self._since = gate, None

    def painted(self, now: float) -> None:
        if self._gate is not None and self._since is None:
            self._since = now

    def armed(self, gate: int, now: float) -> bool:
        return gate == self._gate and self._since is not None and now - self._since >= ARM_S


@dataclass(frozen=True)
class Card:
    """What the card shows; `now` is not part of it, so it is redrawn only when it changes."""

    ask: Ask | None
    armed: bool


def _offers(ask: Ask) -> tuple[tuple[str, str], ...]:
    return ("alt+y", ask.verb), ("alt+n", "reject"), ("alt+d", "see the diff")


class AskCard(Painted[Card]):
    def __init__(self) -> None:
        super().__init__("ask", Card(None, armed=False))
        self.arming = Arming()
        self.border_title = "DECIDE asks"
        self._now = 0.0

    def pull(self, ask: Ask | None, now: float) -> None:
        self._now = now
        self.arming.ask(ask.gate if ask else None)
        armed = ask is not None and self.arming.armed(ask.gate, now)
        self.display = ask is not None
        self.show(Card(ask, armed))

    def render_line(self, y: int) -> Strip:
        if self.view.ask is not None:
            self.arming.painted(self._now)
        return super().render_line(y)

    def paint(self, view: Card, width: int, height: int) -> Sequence[Line]:
        ask = view.ask
        if ask is None:
            return ()
        if height < 3:
            keys = _keys(view.armed, _offers(ask)[:2], " ")
            title = line((f"{ask.title} ", "ask"))
            if columns(title) + columns(keys) > width:
                title = line(
                    (f"{ask.verb.upper()}? ", "ask")
                )  # the keys matter more than the number
                return [fit((*title, *keys), width)]
            return [spread((*title, (ask.effect, "text")), keys, width)]
        rows = [
            line((f"{ask.title} ", "ask"), (ask.about, "text")),
            line((ask.effect, "strong")),
            line((ask.cost, "muted")),
            spread(
                _keys(view.armed, _offers(ask), "   "),
                line(("typing never answers this", "faint")),
                width,
            ),
        ]
        return [fit(row, width) for row in rows]


def _keys(armed: bool, keys: Sequence[tuple[str, str]], gap: str) -> Line:
    if not armed:
        return line(("read first: the keys count in a moment", "muted"))
    return join([line((key, "key"), (f" {word}", "text")) for key, word in keys], (gap, "text"))
