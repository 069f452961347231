"""The pane of the agents: the state, last message and cost of each, and the picked agent."""

from __future__ import annotations

from textual.content import Content
from textual.message import Message

from akg_tui.core.phases import AGENT_PHASES
from akg_tui.core.sanitize import Said
from akg_tui.tui.keyboard import bind_within
from akg_tui.tui.panes.pane import Pane, Shared
from akg_tui.tui.widgets.line_view import LineView
from akg_tui.view import formatting
from akg_tui.view.agent_rows import ROWS_EACH, agent_rows, shown_order
from akg_tui.view.run_snapshot import RunSnapshot


class AgentsPane(LineView, Pane):
    """The arrow keys pick an agent; enter opens the log of the agent."""

    TITLE = Said("agents")
    picks = True

    class Chosen(Message):
        """The picked agent was entered."""

    def __init__(self, name: str, shared: Shared) -> None:
        super().__init__(name)
        self.rekey()
        self._shared = shared
        self.agent_list = shared.agents

    def reword(self) -> None:
        super().reword()
        self.agent_list.forget()

    def rekey(self) -> None:
        bind_within(self, "agents")

    def see(self, snapshot: RunSnapshot) -> None:
        """Read new records, also while the pane is not on screen."""
        self.agent_list.read(snapshot.records)

    def pull(self, snapshot: RunSnapshot) -> None:
        # Only the seconds of a subagent at work change without an event.
        at_work = snapshot.state.phase in AGENT_PHASES and bool(snapshot.state.subagents)
        seconds = int(snapshot.now) if at_work or self.agent_list.at_work.at_work else 0
        streamed = snapshot.live_version if snapshot.state.phase in AGENT_PHASES else 0
        if not self.moved(
            (self.agent_list.seen, seconds, streamed, self.room, self._shared.picked)
        ):
            return
        if snapshot.stream.strip() and snapshot.state.phase in AGENT_PHASES:
            self.agent_list.at_work.line = snapshot.stream[-200:].strip().rpartition("\n")[2]
        self.put(agent_rows(self.agent_list, snapshot.now, self.room, snapshot.streams))
        self._picked = self._rows_of(self._shared.picked)
        count = len(self.agent_list.subagents)
        self.border_subtitle = Content(formatting.count(count, "subagent") if count else "")

    @property
    def picked_main(self) -> bool:
        return self._shared.picked == self.agent_list.main.key

    def _rows_of(self, key: str) -> range:
        for place, agent in enumerate(shown_order(self.agent_list)):
            if agent.key == key:
                return range(place * ROWS_EACH, (place + 1) * ROWS_EACH)
        return range(0)

    def pick_step(self, step: int) -> None:
        keys = [agent.key for agent in shown_order(self.agent_list)]
        newest = min(1, len(keys) - 1)  # the main agent is in the row above
        picked = self._shared.picked
        place = keys.index(picked) + step if picked in keys else newest
        self.choose(keys[min(len(keys) - 1, max(0, place))])

    def pick_row(self, row: int) -> None:
        self.choose(shown_order(self.agent_list)[row // ROWS_EACH].key)

    def choose(self, key: str) -> None:
        """Pick the agent with this key."""
        self._shared.picked = key
        self.pick(self._rows_of(key))

    def enter(self) -> str:
        self.post_message(self.Chosen())
        return ""
