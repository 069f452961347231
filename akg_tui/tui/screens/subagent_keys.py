"""The subagents of the deck: the one that a key means, a message to it, its end, the next one.

Which subagent is looked at stands in `Shared`; core accepts or refuses a message or a stop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from akg_tui.core import commands as cmd
from akg_tui.core.sanitize import one_line
from akg_tui.tui.screens.dialogs import Confirm
from akg_tui.view import formatting
from akg_tui.view.agent_rows import Agent, state_told
from akg_tui.view.language import tr

if TYPE_CHECKING:
    from akg_tui.tui.panes.agents import AgentsPane
    from akg_tui.tui.panes.subagent import SubagentPane
    from akg_tui.tui.screens.input_lines import InputScreen


class SubagentKeys:
    """The keys for subagents: `listed` is the pane of all agents, `log` that of one subagent."""

    def __init__(self, deck: InputScreen, listed: AgentsPane, log: SubagentPane) -> None:
        self._deck = deck
        self._list, self._log = listed, log

    def do(self, what: str) -> None:
        """Do `what`: message, stop, next, previous or close."""
        agent = self._deck.shared.subagent
        if what == "close":
            self._close()
        elif agent is None:
            self._deck.say(tr("no subagent has begun yet"))
        elif what == "message":
            self._message(agent)
        elif what == "stop":
            self._stop(agent)
        else:
            self._turn(agent, 1 if what == "next" else -1)

    def _close(self) -> None:
        """Unpick the entry in the log of the subagent, else go back to the agents."""
        if self._deck.active == self._log.id and self._log.picked_any:
            self._log.action_unpick()
        elif self._deck.active == self._log.id:
            self._deck.action_pane(self._list.id or "")

    def _turn(self, agent: Agent, step: int) -> None:
        agents = self._deck.shared.agents.subagents
        at = agents.index(agent) + step
        if 0 <= at < len(agents):
            self._list.choose(agents[at].key)
        else:
            last = tr("that was the last subagent")
            self._deck.say(last if step > 0 else tr("that was the first subagent"))

    def _message(self, agent: Agent) -> None:
        who, name = one_line(agent.name), agent.ident
        if not name or not agent.at_work:
            state = state_told(agent)
            told = tr("{who} is {state}: nobody is there to read", who=who, state=state)
            self._deck.workbench.say_no_line(told)
            return

        def send(text: str) -> bool:
            if not text.strip():
                return True
            sent = tr("{who} reads it with its next request", who=name)
            return self._deck.workbench.steer(cmd.HintSubagent(name, text), sent)

        asks = tr("a message to {who} alone: enter sends it", who=who)
        self._deck.ask_for(asks, "", send)

    def _stop(self, agent: Agent) -> None:
        who, name = one_line(agent.name), agent.ident
        if not name or not agent.at_work:
            state = state_told(agent)
            self._deck.say(tr("{who} is {state}: there is nothing to stop", who=who, state=state))
            return

        def stop(yes: bool | None) -> None:
            if yes:
                self._deck.workbench.steer(cmd.StopSubagent(name), tr("{who} is stopped", who=name))

        question = Confirm(tr("stop {who}?", who=who), _stop_words(agent), tr("stop it"))
        self._deck.app.push_screen(question, stop)


def _stop_words(agent: Agent) -> tuple[str, ...]:
    turns, tokens = formatting.count(agent.replies, "turn"), formatting.tokens(agent.tokens)
    spent = tr("It ends at once, after {turns} and {tokens} tokens.", turns=turns, tokens=tokens)
    if agent.visit:
        return spent, tr("The diagnosis is made from the plain facts instead.")
    return spent, tr("The agent that started it is told that a person stopped it, and goes on.")
