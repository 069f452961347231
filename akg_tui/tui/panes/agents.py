"""The agents: who is at work, what each said last, what it cost."""

from __future__ import annotations

from textual.content import Content

from akg_tui.core.machine import AGENT_PHASES, Phase
from akg_tui.tui import words
from akg_tui.tui.fleet import Fleet, fleet_rows
from akg_tui.tui.look import Look
from akg_tui.tui.widgets.lineview import LineView


class AgentsPane(LineView):
    def __init__(self) -> None:
        super().__init__("agents")
        self.fleet = Fleet()
        self.border_title = Content("7 agents")

    def see(self, look: Look) -> None:
        """Read what is new, also while the pane is not on screen."""
        self.fleet.read(look.records)

    def pull(self, look: Look) -> None:
        # The seconds of a subagent at work are the only thing that moves without an event.
        seconds = int(look.now) if look.state.phase is Phase.DIAGNOSE else 0
        streamed = look.live_version if look.state.phase in AGENT_PHASES else 0
        if not self.moved((self.fleet.seen, seconds, streamed, self.room)):
            return
        if look.stream.strip() and look.state.phase in AGENT_PHASES:
            self.fleet.at_work.line = look.stream[-200:].strip().rpartition("\n")[2]
        self.put(fleet_rows(self.fleet, look.now, self.room))
        count = len(self.fleet.subagents)
        self.border_subtitle = Content(words.count(count, "subagent") if count else "")
