"""The log of one subagent, with the text that it is writing now."""

from __future__ import annotations

from dataclasses import replace

from msgspec.structs import replace as with_fields
from textual.content import Content

from akg_tui.core.state import RunState
from akg_tui.tui.keyboard import bind_within
from akg_tui.tui.panes.log import LogPane
from akg_tui.tui.panes.pane import Shared
from akg_tui.view.agent_log import AgentLog
from akg_tui.view.agent_rows import Agent
from akg_tui.view.language import tr
from akg_tui.view.run_snapshot import RunSnapshot
from akg_tui.view.spans import fit, line, plain
from akg_tui.view.subagent_log import SubagentLog, SubagentRecords, title_of


class SubagentPane(LogPane):
    """`key` names the subagent that is shown (`akg_tui.view.agent_rows.Agent.key`)."""

    TITLE = ""

    def __init__(self, name: str, shared: Shared) -> None:
        self.key = ""
        super().__init__(name, shared)
        self.rekey()
        self._part = SubagentRecords()
        self._began = False

    def rekey(self) -> None:
        bind_within(self, "agents")

    def _show(self, key: str) -> None:
        """Show another subagent."""
        self.key = key
        self._part = SubagentRecords()
        self._began = False
        self._restart(past=self._past)
        self.follow = self.follows
        self.forget()

    @property
    def agent(self) -> Agent | None:
        """The subagent; None if it has not begun at the moment shown."""
        return self._shared.agents.find(self.key)

    def begin(self, room: int) -> AgentLog:
        return SubagentLog(room)

    def pull(self, snapshot: RunSnapshot) -> None:
        if self._shared.picked in ("", self._shared.agents.main.key):
            # A subagent that begins later does not take the place of the one that is read.
            newest = self._shared.agents.newest
            self._shared.picked = newest.key if newest is not None else ""
        if self._shared.picked != self.key:
            self._show(self._shared.picked)
        agent = self.agent
        records = self._part.read(snapshot.records, agent)
        at_work = agent is not None and agent.at_work
        own = replace(
            snapshot,
            records=records,
            stream=snapshot.streams(agent.ident) if at_work and agent and agent.ident else "",
            live_version=snapshot.live_version if at_work else 0,
            state=_of(snapshot.state, agent.ident) if at_work and agent else _idle(snapshot.state),
        )
        title = Content(plain(title_of(agent, self.key, snapshot.now, max(8, self.room - 4))))
        if title != self.border_title:
            self.border_title = title
        if not self._began and agent is not None:
            self._began = True
            self.set_follow(at_work)  # the log of an ended subagent is read from its beginning
        super().pull(own)
        if agent is None:
            gone = tr("this subagent has not begun at the moment that is looked at")
            if not self.key:
                gone = tr("no subagent has begun yet")
            self.put([fit(line((gone, "muted")), self.room)])

    def told_in(self, snapshot: RunSnapshot) -> str:
        return ""  # the stream of a subagent holds only incomplete text

    def _tell_follow(self) -> None:
        agent = self.agent
        if agent is not None and not agent.at_work:
            self.border_subtitle = Content("")
        else:
            super()._tell_follow()


def _of(state: RunState, ident: str) -> RunState:
    """Return the state for the subagent's log: only its own calls are open."""
    begins = f"{ident}/" if ident else ""
    own = tuple(call for call in state.open_calls if call[0].startswith(begins))
    return state if own == state.open_calls else with_fields(state, open_calls=own)


def _idle(state: RunState) -> RunState:
    return with_fields(state, open_calls=()) if state.open_calls else state
