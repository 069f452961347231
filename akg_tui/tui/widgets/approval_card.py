"""The card that asks, and the rule that arms its keys.

Docked, never a popup: it takes no focus, and nothing that is typed answers it. Its keys count
only once it has been on screen for a moment in which nobody typed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.content import Content
from textual.strip import Strip

from akg_tui.tui.widgets.painted import Painted
from akg_tui.view.controls.approvals import Request
from akg_tui.view.controls.command_registry import chord_of, way_to
from akg_tui.view.language import tr
from akg_tui.view.spans import BLANK, Line, cells, cut, fit, hang, join, line, spread
from akg_tui.view.spans import width as columns

ARM_S = 0.5
MOST_TITLE_ROWS = 3
MOST_CHOICE_ROWS = 4

Ident = int | str


class Arming:
    """Says whether a question has been in sight long enough to be answered."""

    def __init__(self) -> None:
        self._ident: Ident | None = None
        self._since: float | None = None

    def ask(self, ident: Ident | None) -> None:
        """Another question (or none): its time begins when it is painted."""
        if ident != self._ident:
            self._ident, self._since = ident, None

    def painted(self, now: float) -> None:
        if self._ident is not None and self._since is None:
            self._since = now

    def typed(self, now: float) -> None:
        """Somebody types, and so does not answer: the moment begins anew."""
        if self._since is not None:
            self._since = max(self._since, now)

    def armed(self, ident: Ident, now: float) -> bool:
        return ident == self._ident and self._since is not None and now - self._since >= ARM_S

    def answerable(self, now: float) -> Ident | None:
        """The question that could be answered now."""
        ident = self._ident
        return ident if ident is not None and self.armed(ident, now) else None


@dataclass(frozen=True)
class Card:
    """What the card shows. `place` is the ask's place in a queue of `many`, from 1."""

    ask: Request | None
    armed: bool
    place: int = 1
    many: int = 1
    marked: int = 0


def _offered(ask: Request) -> list[tuple[str, str]]:
    """The commands that do something now, each with its word, the answers first."""
    pairs = [(f"ask.{answer.does}", answer.word) for answer in ask.answers]
    if ask.choices:
        pairs.append(("ask.choice", tr("next choice")))
    if ask.free:
        pairs.append(("ask.write", tr("write an answer")))
    if ask.diff or ask.detail:
        pairs.append(("ask.see", tr("see the diff") if ask.diff else tr("read it")))
    return pairs


def offers(ask: Request) -> list[tuple[str, str]]:
    """The keys that do something now, the answers first."""
    return [(way_to(command), word) for command, word in _offered(ask)]


def chord_way(ask: Request) -> str:
    """The way to the same answers by keys one after the other, for a terminal without alt:
    ``^g, then y n a``; "" where the keymap has no chord for them all.
    """
    ways = [chord_of(command) for command, _ in _offered(ask)]
    begin = {way.partition(" ")[0] for way in ways}
    if len(begin) != 1 or not all(ways):
        return ""
    return tr("or {key}, then {keys}", key=begin.pop(),
              keys=" ".join(way.partition(" ")[2] for way in ways))  # fmt: skip


class AskCard(Painted[Card]):
    """Shows one ask of the queue. The one shown stays until it is answered or another chosen."""

    def __init__(self) -> None:
        super().__init__("ask", Card(None, armed=False))
        self.arming = Arming()
        self._now = 0.0
        self._queue: tuple[Request, ...] = ()
        self._marked: dict[str, int] = {}
        self._high = 0

    @property
    def shown(self) -> Request | None:
        return self.view.ask

    @property
    def says_all(self) -> bool:
        """Whether all that it has to say is in sight, and not a part, or one row."""
        width, height = self.size
        return 3 <= len(self.paint(self.view, width, 99)) <= height

    @property
    def marked(self) -> str:
        """The choice that an answer would give."""
        ask = self.view.ask
        return ask.choices[self.view.marked] if ask and ask.choices else ""

    def pull(self, queue: tuple[Request, ...], now: float) -> None:
        self._now = now
        self._queue = queue
        shown = self.view.ask.ident if self.view.ask else ""
        place = next((n for n, ask in enumerate(queue) if ask.ident == shown), 0)
        self._put(place)

    def turn(self) -> bool:
        """Show the next of the queue; False when there is no other."""
        if len(self._queue) < 2:
            return False
        self._put(self.view.place % len(self._queue))
        return True

    def mark(self, step: int) -> bool:
        """Mark another choice; False where there is none to choose."""
        ask = self.view.ask
        if ask is None or not ask.choices:
            return False
        self._marked = {ask.ident: (self.view.marked + step) % len(ask.choices)}
        self._put(self.view.place - 1)
        return True

    def _put(self, place: int) -> None:
        ask = self._queue[place] if self._queue else None
        self.arming.ask(ask.ident if ask else None)
        armed = ask is not None and self.arming.armed(ask.ident, self._now)
        self.display = ask is not None
        marked = self._marked.get(ask.ident, ask.first) if ask else 0
        if self.show(Card(ask, armed, place + 1, len(self._queue), marked)) and ask is not None:
            self._frame(ask)

    def _frame(self, ask: Request) -> None:
        title = Content(f"{ask.who}, {ask.risk}" if ask.risk else ask.who)
        many = self.view.many
        place, key = self.view.place, way_to("ask.next")
        told = tr("{place} of {many}: {key} the next", place=place, many=many, key=key)
        queue = Content(told if many > 1 else "")
        if self._border_title != title:
            self.border_title = title
        if self._border_subtitle != queue:
            self.border_subtitle = queue
        self.fit_height()

    def fit_height(self) -> None:
        """Take as many rows as there are to say, where a frame has room for them."""
        if self.view.ask is None or not self.styles.border_top[0]:
            self.styles.height = None
            self._high = 0
            return
        rows = len(self.paint(self.view, max(20, self.app.size.width - 4), 99)) + 2
        if rows != self._high:
            self._high = rows
            self.styles.height = rows

    def render_line(self, y: int) -> Strip:
        if self.view.ask is not None:
            self.arming.painted(self._now)
        return super().render_line(y)

    def paint(self, view: Card, width: int, height: int) -> Sequence[Line]:
        ask = view.ask
        if ask is None:
            return ()
        if height < 3:
            return [_one_row(ask, view, width)]
        head = line((f"{ask.title} ", "ask"), (ask.about, "text"))
        rows = [head] if columns(head) <= width else _title(ask, width)
        rows += [line((effect, "strong" if not n else "text")) for n, effect in _told(ask)]
        rows += _always(ask, width)
        rows += _choices(view, width)
        rows.append(line((ask.cost, "muted")))
        rows += _key_rows(view.armed, offers(ask), chord_way(ask), width)
        return [fit(row, width) for row in rows]


def _title(ask: Request, width: int) -> list[Line]:
    rows = hang(ask.title, width, (), "ask")
    if len(rows) > MOST_TITLE_ROWS:
        last = rows[MOST_TITLE_ROWS - 1]
        rows = [*rows[: MOST_TITLE_ROWS - 1], fit((*last, (" …" + " " * width, "ask")), width)]
    return [*rows, line((ask.about, "text"))] if ask.about else rows


def _always(ask: Request, width: int) -> list[Line]:
    """What an "always" approves, never cut: a rule covers no more than what stands here."""
    if not ask.always:
        return []
    lead = line((f"{tr('always')}: ", "text"))
    ends = tr("{key} ends the rule", key=way_to("run.gates"))
    return hang(f"{ask.always}; {ends}", width, lead, "text")


def _key_rows(armed: bool, keys: Sequence[tuple[str, str]], chords: str, width: int) -> list[Line]:
    """The keys on as few rows as hold them; where there is room, what else does the same, and
    what typing does.
    """
    never = tr("typing never answers this")
    rows: list[Line] = []
    left = list(keys)
    while left:
        here = 1
        while here < len(left) and columns(_keys(True, left[: here + 1], "   ")) <= width:
            here += 1
        rows.append(_keys(True, left[:here], "   "))
        left = left[here:]
    if not armed:  # in as many rows, so that nothing moves when the keys begin to count
        rows = [_keys(False, (), ""), *(BLANK for _ in rows[1:])]
    last = rows.pop() if rows else BLANK
    both = f"{chords}   {never}" if chords else never
    for told in (both, chords, never):
        if told and columns(last) + cells(told) + 2 <= width:
            return [*rows, spread(last, line((told, "faint")), width)]
    return [*rows, last]


def _told(ask: Request) -> list[tuple[int, str]]:
    return list(enumerate(ask.effects))


def _choices(view: Card, width: int) -> list[Line]:
    """The choices around the marked one, as many as there is room for."""
    ask = view.ask
    if ask is None or not ask.choices:
        return []
    first = max(0, min(view.marked - 1, len(ask.choices) - MOST_CHOICE_ROWS))
    rows: list[Line] = []
    for number in range(first, min(len(ask.choices), first + MOST_CHOICE_ROWS)):
        here = number == view.marked
        sign = "▸ " if here else "  "
        count = f"{number + 1}/{len(ask.choices)} "
        text = cut(ask.choices[number], max(4, width - len(count) - 2))
        rows.append(line((sign + count, "accent"), (text, "strong" if here else "text")))
    return rows


def _one_row(ask: Request, view: Card, width: int) -> Line:
    keys = _keys(view.armed, offers(ask)[:2], " ")
    title = line((f"{ask.title} ", "ask"))
    if columns(title) + columns(keys) > width:
        # The keys matter more than the number.
        title = line((f"{ask.answers[0].word.upper() if ask.answers else tr('ASKED')}? ", "ask"))
        return fit((*title, *keys), width)
    return spread((*title, (ask.effects[0], "text")), keys, width)


def _keys(armed: bool, keys: Sequence[tuple[str, str]], gap: str) -> Line:
    if not armed:
        return line((tr("read first: the keys count in a moment"), "muted"))
    return join([line((key, "key"), (f" {word}", "text")) for key, word in keys], (gap, "text"))
