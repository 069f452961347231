"""The agent's log: what was said and done, and below it what is being written now."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from akg_tui.core.events import ModelReplied
from akg_tui.core.machine import AGENT_PHASES
from akg_tui.tui import words
from akg_tui.tui.look import Look
from akg_tui.tui.spans import Line, fit, line
from akg_tui.tui.story import MAX_ENTRIES, Story, tail
from akg_tui.tui.widgets.lineview import LineView

PAST_RECORDS = 300  # told again at each jump through the past


class LogPane(LineView):
    """Follows the end; scrolled up it stays where it is, whatever arrives."""

    def __init__(self) -> None:
        super().__init__("log", follows=True)
        self.story = Story()
        self._shown: tuple[object, ...] = ()
        self._said = ""
        self._past = False
        self.border_title = Content("4 agent log")
        self._tell_follow()

    def pull(self, look: Look) -> None:
        past = look.past is not None
        shown = (past, len(look.records), look.live_version, look.state.open_calls, self.room)
        if shown == self._shown:
            return
        self._shown = shown
        self._rewind(look)
        before, width_before = len(self.story.rows), self.story.resize(self.room)
        seen = self.story.seen
        self.story.read(look.records)
        if any(isinstance(r.event, ModelReplied) for r in look.records[seen:][-50:]):
            # What was streamed is an entry now.
            self._said = look.stream
        rows = self._with_tail(look)
        kept = 0 if width_before or self.story.skipped else before
        self.put(rows, since=kept)

    def _rewind(self, look: Look) -> None:
        """Begin anew where the records are others than those that were read."""
        past = look.past is not None
        if past != self._past or len(look.records) < self.story.seen:
            newest = PAST_RECORDS if past else MAX_ENTRIES
            self.story, self._past, self._said = Story(self.room, newest), past, ""

    def _with_tail(self, look: Look) -> Sequence[Line]:
        stream = unsaid(look.stream, self._said) if look.state.phase in AGENT_PHASES else ""
        last = tail(look.state, stream, self.room)
        rows: list[Line] = []
        if self.story.skipped:
            note = f"({words.count(self.story.skipped, 'earlier event')}: in the journal)"
            rows.append(fit(line((note, "faint")), self.room))
        return [*rows, *self.story.rows, *last]

    def set_follow(self, follow: bool) -> None:
        super().set_follow(follow)
        self._tell_follow()

    def _tell_follow(self) -> None:
        self.border_subtitle = Content("follows" if self.follow else "held: f follows")


def unsaid(stream: str, said: str) -> str:
    """What `stream` holds beyond `said`, though its oldest part may have been dropped."""
    if not said:
        return stream
    if stream.startswith(said):
        return stream[len(said) :]
    last = said[-200:]
    place = stream.rfind(last)
    return stream[place + len(last) :] if place >= 0 else stream
