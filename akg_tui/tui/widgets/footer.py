"""The bottom row: the current keys, or for a few seconds a message."""

from __future__ import annotations

from collections.abc import Sequence

from textual.events import Click
from textual.message import Message

from akg_tui.tui.widgets.painted import Painted
from akg_tui.view.controls.command_registry import COMMANDS, way_to
from akg_tui.view.controls.key_hits import key_at
from akg_tui.view.language import retold, tr
from akg_tui.view.spans import Line, cells, cut, cut_middle, line
from akg_tui.view.status import keys_line

MESSAGE_S = 6.0
ROOMY = 40  # least columns for the key that shows a cut message whole
LEAST_PATH = 16

Keys = tuple[tuple[str, str], ...]


class Footer(Painted[tuple[Keys, str]]):
    """Shows keys and the number of keys without room; help lists them all."""

    class Called(Message):
        """A key was clicked; "" beside the keys. `message`: a message was in their place."""

        def __init__(self, key: str, label: str, *, message: bool) -> None:
            super().__init__()
            self.key, self.label, self.message = key, label, message

    def __init__(self) -> None:
        super().__init__("footer", ((), ""))
        self._until = 0.0
        self._message = ""

    def say(self, text: str, now: float) -> None:
        """Show a message in place of the keys for `MESSAGE_S` seconds."""
        self._message, self._until = retold(text), now + MESSAGE_S
        self.show((self.view[0], self._message))

    @property
    def told(self) -> str:
        """The message shown in place of the keys."""
        return self._message

    def pull(self, keys: list[tuple[str, str]], now: float) -> None:
        if self._message and now >= self._until:
            self._message = ""
        self.show((tuple(keys), self._message))

    def on_click(self, event: Click) -> None:
        """Tell which key was clicked."""
        row = self.lines()[0]
        key, label = key_at(row, event.x)
        self.post_message(self.Called(key, label, message=bool(self._message)))

    def paint(self, view: tuple[Keys, str], width: int, height: int) -> Sequence[Line]:
        keys, message = view
        if message:
            return [told_line(message, width)]
        return [((" ", "text"), *keys_line(list(keys), width - 2, _more()))]


def told_line(text: str, room: int) -> Line:
    """Return a message in one row. A message that is too long is cut, with the key that shows all
    messages; a path in it is cut in the middle, because its ends matter more.
    """
    if cells(text) < room:
        return line((" ", "text"), (text, "note"))
    way = f"  {way_to('app.messages')}" if room >= ROOMY else ""
    room -= cells(way) + 1
    longest = max(text.split(" "), key=cells)
    left = cells(longest) - (cells(text) - room)
    if "/" in longest and left >= LEAST_PATH:
        text = text.replace(longest, cut_middle(longest, left))
    return line((" ", "text"), (cut(text, room), "note"), (way, "key"))


def _more() -> str:
    """Return the text after the number of hidden keys: the key that shows them all."""
    help_ = next(command for command in COMMANDS if command.id == "app.help")
    return f"{tr('more')}: {help_.shown_key.split(' ')[0]}" if help_.keys_now else tr("more")
