"""The approval card of the deck, and the rule that arms its keys.

Docked, never a popup: the card takes no focus, and typed text does not answer it. Its keys count
only after half a second on screen without typing.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.events import Click
from textual.message import Message
from textual.strip import Strip

from akg_tui.tui.textual_internals import set_border
from akg_tui.tui.widgets.painted import Painted
from akg_tui.view.controls.approval_rows import Card, card_rows, offered_by
from akg_tui.view.controls.approvals import Request
from akg_tui.view.controls.command_registry import way_to
from akg_tui.view.controls.key_hits import key_at
from akg_tui.view.language import tr
from akg_tui.view.spans import Line

ARM_S = 0.5

Ident = int | str


class Arming:
    """Decides whether a question has been on screen long enough to be answered."""

    def __init__(self) -> None:
        self._ident: Ident | None = None
        self._since: float | None = None

    def ask(self, ident: Ident | None) -> None:
        """Set the question, or None; the time of a new question begins when it is painted."""
        if ident != self._ident:
            self._ident, self._since = ident, None

    def painted(self, now: float) -> None:
        if self._ident is not None and self._since is None:
            self._since = now

    def typed(self, now: float) -> None:
        """Restart the waiting time: a person who types does not answer."""
        if self._since is not None:
            self._since = max(self._since, now)

    def armed(self, ident: Ident, now: float) -> bool:
        return ident == self._ident and self._since is not None and now - self._since >= ARM_S

    def answerable(self, now: float) -> Ident | None:
        """Return the question that could be answered now."""
        ident = self._ident
        return ident if ident is not None and self.armed(ident, now) else None


class AskCard(Painted[Card]):
    """Shows one ask of the queue, until it is answered or the person chooses another."""

    class Touched(Message):
        """The card was clicked."""

    class Called(Message):
        """The key of a command was clicked; `command` is its id."""

        def __init__(self, command: str) -> None:
            super().__init__()
            self.command = command

    def __init__(self) -> None:
        super().__init__("ask", Card(None, armed=False))
        self.arming = Arming()
        self._now = 0.0
        self._waiting: tuple[Request, ...] = ()
        self._marked: dict[str, int] = {}
        self._again = ("", "")  # the ask and the answer that was called once
        self._high = 0
        self._room = 0

    @property
    def shown(self) -> Request | None:
        return self.view.ask

    @property
    def says_all(self) -> bool:
        """Whether the whole text of the ask is in sight; False for the form in one row."""
        width, height = self.size
        return 3 <= len(self.paint(self.view, width, 99)) <= height

    @property
    def marked(self) -> str:
        """The choice that an answer would send."""
        ask = self.view.ask
        return ask.choices[self.view.marked] if ask and ask.choices else ""

    def pull(self, queue: tuple[Request, ...], now: float) -> None:
        self._now = now
        self._waiting = queue
        shown = self.view.ask.ident if self.view.ask else ""
        place = next((n for n, ask in enumerate(queue) if ask.ident == shown), 0)
        self._put(place)

    def turn(self) -> bool:
        """Show the next ask of the queue; False if there is no other."""
        if len(self._waiting) < 2:
            return False
        self._put(self.view.place % len(self._waiting))
        return True

    def mark(self, step: int) -> bool:
        """Mark another choice; False if there is none to choose."""
        ask = self.view.ask
        if ask is None or not ask.choices:
            return False
        self._marked = {ask.ident: (self.view.marked + step) % len(ask.choices)}
        self._put(self.view.place - 1)
        return True

    def calls_again(self, does: str) -> bool:
        """Return whether this answer is called for the second time; else offer it as such."""
        ask = self.view.ask
        if ask is None or self._again == (ask.ident, does):
            return True
        self._again = (ask.ident, does)
        self._put(self.view.place - 1)
        return False

    def on_click(self, event: Click) -> None:
        """Call the clicked key, which the card shows only when it counts."""
        offset, ask = event.get_content_offset(self), self.view.ask
        if ask is None:
            return
        self.post_message(self.Touched())
        rows = self.lines()
        key = key_at(rows[offset.y], offset.x)[0] if offset and offset.y < len(rows) else ""
        if key and (called := offered_by(ask, key)):
            self.post_message(self.Called(called))

    def _put(self, place: int) -> None:
        ask = self._waiting[place] if self._waiting else None
        self.arming.ask(ask.ident if ask else None)
        armed = ask is not None and self.arming.armed(ask.ident, self._now)
        self.display = ask is not None
        marked = self._marked.get(ask.ident, ask.first) if ask else 0
        again = self._again[1] if ask and self._again[0] == ask.ident else ""
        card = Card(ask, armed, place + 1, len(self._waiting), marked, again)
        if self.show(card) and ask is not None:
            self._frame(ask)

    def _frame(self, ask: Request) -> None:
        title = Content(f"{ask.who}, {ask.risk}" if ask.risk else ask.who)
        many = self.view.many
        place, key = self.view.place, way_to("ask.next")
        told = tr("{place} of {many}: {key} the next", place=place, many=many, key=key)
        queue = Content(told if many > 1 else "")
        set_border(self, title, queue)
        self.fit_height(self._room)

    def fit_height(self, room: int) -> None:
        """Set the height to the rows of the ask, at most `room`, if the card has a frame."""
        self._room = room
        if self.view.ask is None or not self.styles.border_top[0]:
            self.styles.height = None
            self._high = 0
            return
        rows = len(self.paint(self.view, max(20, self.app.size.width - 4), max(3, room - 2))) + 2
        if rows != self._high:
            self._high = rows
            self.styles.height = rows

    def render_line(self, y: int) -> Strip:
        if self.view.ask is not None:
            self.arming.painted(self._now)
        return super().render_line(y)

    def paint(self, view: Card, width: int, height: int) -> Sequence[Line]:
        return card_rows(view, width, height)
