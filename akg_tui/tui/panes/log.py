"""The agent's log: past messages and calls, and below them the text being written now."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from akg_tui.core.events import ModelReplied
from akg_tui.core.phases import AGENT_PHASES
from akg_tui.core.sanitize import Said
from akg_tui.tui.panes.pane import Pane, Shared
from akg_tui.tui.widgets.line_view import LineView, folds_again
from akg_tui.view.agent_log import AgentLog, skipped_line, tail
from akg_tui.view.controls.command_registry import way_to
from akg_tui.view.language import tr
from akg_tui.view.run_snapshot import RunSnapshot


class LogPane(LineView, Pane):
    """Follows the end; after a scroll up it keeps its place, whatever arrives.

    The arrow keys pick an entry, enter unfolds it. A pick ends the following.
    """

    TITLE: ClassVar[str] = Said("agent log")
    picks = True
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "unpick", show=False)]

    def __init__(self, name: str, shared: Shared) -> None:
        super().__init__(name, follows=True)
        self._shared = shared
        self.agent_log = self.begin(40)
        self._said = ""
        self._past = False
        self._pick: int | None = None
        self._dropped = 0
        self._head = 0  # rows before the first entry
        self._reworded = False

    def reword(self) -> None:
        """Write all entries again, in the current language."""
        super().reword()
        self._reworded = True
        self._tell_follow()

    def begin(self, room: int) -> AgentLog:
        """Return a log that has read nothing yet."""
        return AgentLog(room)

    def pull(self, snapshot: RunSnapshot) -> None:
        past = snapshot.past is not None
        state, many = snapshot.state, len(snapshot.records)
        seen = past, many, snapshot.live_version, state.open_calls, self.room
        if not self.moved(seen):
            return
        rewound = self._rewind(snapshot)
        agent_log = self.agent_log
        before, anchor = len(agent_log.rows), agent_log.at(self.top - self._head)
        resized = agent_log.resize(self.room)
        first = agent_log.seen
        agent_log.read(snapshot.records)
        newest = snapshot.records[max(first, len(snapshot.records) - 50) :]
        if any(isinstance(record.event, ModelReplied) for record in newest):
            self._said = self.told_in(snapshot)
        dropped, self._dropped = agent_log.dropped_rows - self._dropped, agent_log.dropped_rows
        head = self._head
        anew = resized or rewound
        self._put(snapshot, since=0 if anew or dropped or agent_log.skipped else before)
        moved = self._head - head - dropped
        if self.follow or rewound:
            return
        if resized and anchor is not None:
            self.to_row(self._head + agent_log.span(anchor).start)
        elif moved:
            self.to_row(max(0, self.top + moved))

    def told_in(self, snapshot: RunSnapshot) -> str:
        """Return the part of the stream that is an entry now, after a whole reply has come."""
        return snapshot.stream

    def _rewind(self, snapshot: RunSnapshot) -> bool:
        """Start a new log if the records do not continue those read, or if the language changed."""
        past = snapshot.past is not None
        reworded, self._reworded = self._reworded, False
        if past == self._past and len(snapshot.records) >= self.agent_log.seen and not reworded:
            return False
        self._restart(past=past)
        return True

    def _restart(self, *, past: bool) -> None:
        self.agent_log = self.begin(self.room)
        self._past, self._said = past, ""
        # The picked entry belongs to the old log.
        self._pick, self._dropped, self._head = None, 0, 0
        self.pick(range(0))

    def _put(self, snapshot: RunSnapshot, since: int) -> None:
        stream = unsaid(snapshot.stream, self._said) if snapshot.state.phase in AGENT_PHASES else ""
        skipped = self.agent_log.skipped
        head = [skipped_line(skipped, self.room)] if skipped else []
        self._head = len(head)
        last = tail(snapshot.state, stream, self.room)
        self.put([*head, *self.agent_log.rows, *last], since=since)
        if self._pick is not None:
            self._show_pick(bring=False)

    def _show_pick(self, *, bring: bool = True) -> None:
        rows = self.agent_log.span(self._pick) if self._pick is not None else range(0)
        rows = range(rows.start + self._head, rows.stop + self._head) if rows else rows
        if bring:
            self.pick(rows)
        else:
            self._picked = rows

    def pick_step(self, step: int) -> None:
        numbers = self.agent_log.numbers
        if not numbers:
            return
        if self._pick is None:
            bottom = min(self.top + self.page - 1 - self._head, len(self.agent_log.rows) - 1)
            seen = self.agent_log.at(bottom)
            picked = numbers[-1] if seen is None else seen
        else:
            picked = min(numbers[-1], max(numbers[0], self._pick + step))
        self._choose(picked)

    def pick_row(self, row: int) -> None:
        number = self.agent_log.at(row - self._head)
        if number is not None:
            self._choose(number)

    def turn(self, step: int) -> str:
        """Pick the next reply of the model, or the previous one."""
        here = self._pick if self._pick is not None else self.agent_log.at(self.top - self._head)
        if here is None:
            here = self.agent_log.numbers.start
        number = self.agent_log.turn(here, step)
        if number is None:
            return tr("there is no further reply of the agent")
        self._choose(number)
        return ""

    def _choose(self, number: int) -> None:
        self._pick = number
        if self.follow:
            self.set_follow(False)
        self._show_pick()

    def enter(self) -> str:
        if self._pick is None:
            self.pick_step(0)
        number = self._pick
        if number is None or not self.agent_log.folds(number):
            return tr("this entry is told in full already")
        head, last = self._rows[: self._head], self._rows[self._head + len(self.agent_log.rows) :]
        self.agent_log.fold(number)
        self.put([*head, *self.agent_log.rows, *last])
        self._show_pick()
        return folds_again()

    @property
    def picked_any(self) -> bool:
        return self._pick is not None

    def action_unpick(self) -> None:
        self._pick = None
        self.pick(range(0))

    def set_follow(self, follow: bool) -> None:
        if follow:
            self.action_unpick()
        super().set_follow(follow)
        self._tell_follow()

    def _tell_follow(self) -> None:
        held = tr("held: {key} follows", key=way_to("log.follow"))
        self.border_subtitle = Content(tr("follows") if self.follow else held)


def unsaid(stream: str, said: str) -> str:
    """Return the part of `stream` after `said`, even if the oldest part was dropped."""
    if not said:
        return stream
    if stream.startswith(said):
        return stream[len(said) :]
    last = said[-200:]
    place = stream.rfind(last)
    return stream[place + len(last) :] if place >= 0 else stream
