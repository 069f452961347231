"""The popouts of subagents on the deck: open, place and close them, message or stop a subagent.

Owns which popouts are open and which subagent a key acts on. `akg_tui.view.controls.deck_layout`
places them; core accepts or refuses a message or a stop.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from akg_tui.core import commands as cmd
from akg_tui.core.sanitize import one_line
from akg_tui.tui.panes.subagent import SubagentPane
from akg_tui.tui.screens.dialogs import Confirm
from akg_tui.view import formatting
from akg_tui.view.agent_rows import Agent, state_told
from akg_tui.view.controls.completion import NoSuchReference
from akg_tui.view.controls.deck_layout import MOST_TILES, PANES, How, Place, Popout, laid
from akg_tui.view.controls.panes import Shape
from akg_tui.view.language import tr

if TYPE_CHECKING:
    from akg_tui.tui.panes.agents import AgentsPane
    from akg_tui.tui.screens.input_lines import InputScreen


class SubagentPopouts:
    """The popouts of one deck. `list` is the pane of all agents."""

    def __init__(self, deck: InputScreen, agents: AgentsPane) -> None:
        self._deck = deck
        self.list = agents
        self.agent_list = agents.agent_list
        self.open: dict[str, Popout] = {}
        self._names = (f"popout-{number}" for number in count(1))
        self._below = deck.active  # the pane that gets the focus when a popout closes

    @property
    def labels(self) -> Mapping[str, str]:
        """The label of each popout in a row of tabs."""
        return {name: one_line(each.agent, 16) for name, each in self.open.items()}

    @property
    def standing(self) -> tuple[tuple[str, How], ...]:
        """The form of each popout; a change needs a new layout."""
        return tuple((name, each.how) for name, each in self.open.items())

    def places(
        self, places: Mapping[str, Place], size: tuple[int, int], shape: Shape
    ) -> dict[str, Place]:
        return laid(places, size, shape, list(self.open.values()), self._deck.active)

    def below(self, active: str) -> str:
        """Return the active pane for the layout: `active`, or the last one if that is a popout."""
        if active in PANES:
            self._below = active
        return self._below

    def do(self, what: str) -> None:
        """Do `what`: drawer, tile, full, message, stop, next, previous or close."""
        if what == "close":
            self._close()
            return
        agent = self._meant()
        if agent is None:
            self._deck.say(tr("no subagent has begun yet"))
        elif what == "message":
            self._message(agent)
        elif what == "stop":
            self._stop(agent)
        elif what in ("next", "previous"):
            self._turn(1 if what == "next" else -1)
        else:
            self._pop(agent, How(what))

    def look_closer(self) -> None:
        """Show the subagent that a key acts on: in its open popout, else in the drawer."""
        agent = self._meant()
        open_as = [each for each in self.open.values() if agent and each.agent == agent.key]
        if open_as:
            self._show(open_as[0])
        else:
            self.do("drawer")

    @property
    def _here(self) -> Popout | None:
        """The popout that has the focus."""
        return self.open.get(self._deck.active)

    def _drawer(self) -> Popout | None:
        return next((each for each in self.open.values() if each.how is How.DRAWER), None)

    def _meant(self) -> Agent | None:
        """Return the subagent of the focused popout, else the picked one, else that of the drawer,
        else the newest: of those at work, if any is.
        """
        if self._here is not None:
            return self.agent_list.find(self._here.agent)
        if self._deck.active == self.list.id and (picked := self.list.picked) is not None:
            return picked
        drawer = self._drawer()
        return (self.agent_list.find(drawer.agent) if drawer else None) or self.agent_list.newest

    def _pop(self, agent: Agent, how: How) -> None:
        """Show the subagent in the form `how`; if it has that form already, put it back."""
        there = next((each for each in self.open.values() if each.agent == agent.key), None)
        anew = there is None or there.how is not how
        if anew and how is How.TILE and self._tiles_are_full():
            return
        if there is None:
            self._add(agent, how)
        elif anew:
            if how is How.DRAWER and (drawer := self._drawer()) is not None:
                self._remove(drawer, focus=False)  # there is one drawer: its subagent makes room
            there.back = there.how if how is How.FULL else None
            there.how = how
            self._show(there)
        elif self._deck.active != there.pane and how is not How.DRAWER:
            self._show(there)
        else:
            self._put_back(there)

    def _put_back(self, popout: Popout) -> None:
        """Return a full-size popout to its previous form; close any other."""
        if popout.how is How.FULL and popout.back is not None:
            popout.how, popout.back = popout.back, None
            self._show(popout)
        else:
            self._remove(popout)

    def _tiles_are_full(self) -> bool:
        full = sum(each.how is How.TILE for each in self.open.values()) >= MOST_TILES
        if full:
            many = formatting.count(MOST_TILES, "tile")
            self._deck.say(tr("there is room for {many}: close one first", many=many))
        return full

    def _add(self, agent: Agent, how: How) -> None:
        deck = self._deck
        if how is How.DRAWER and (drawer := self._drawer()) is not None:
            self._turn_to(drawer, agent)
            self._show(drawer)
            return
        handle = deck.workbench.handle
        if handle is None:
            return
        name = next(self._names)
        pane = SubagentPane(name, agent.key, self.agent_list, Path(handle.path))
        made = Popout(name, agent.key, how)
        self.open[name] = made
        deck.panes[name] = pane
        deck.body.mount(pane)
        self._show(made)

    def _show(self, popout: Popout) -> None:
        for name, each in self.open.items():
            self._deck.panes[name].set_class(each.how is How.DRAWER, "-drawer")
        if self._deck.active in PANES:
            self._below = self._deck.active
        self._deck.action_pane(popout.pane)

    def _remove(self, popout: Popout, *, focus: bool = True) -> None:
        deck = self._deck
        had_focus = deck.active == popout.pane
        del self.open[popout.pane]
        pane = deck.panes.pop(popout.pane)
        if focus:
            to = self._below if had_focus else deck.active
            deck.action_pane(to)
            # Set before the removal: else a removed pane passes its focus to any neighbour.
            deck.set_focus(deck.panes[to])
        pane.remove()

    def _close(self) -> None:
        """Unpick the entry in the focused popout, else close it; without one, close the drawer."""
        popout = self._here or self._drawer()
        if popout is None:
            return
        pane = self._deck.panes[popout.pane]
        if popout is self._here and isinstance(pane, SubagentPane) and pane.picked_any:
            pane.action_unpick()
        else:
            self._put_back(popout)

    def _turn(self, step: int) -> None:
        """Turn to another subagent: in the focused popout or the drawer, else in the list."""
        popout = self._here or self._drawer()
        agents = self.agent_list.subagents
        if popout is None:
            self.list.pick_step(-step)  # the list shows the newest first
            return
        keys = [each.key for each in agents]
        at = keys.index(popout.agent) + step if popout.agent in keys else len(keys) - 1
        if not 0 <= at < len(keys):
            last = tr("that was the last subagent")
            self._deck.say(last if step > 0 else tr("that was the first subagent"))
            return
        self._turn_to(popout, agents[at])
        self._deck.workbench.pull_now()

    def _turn_to(self, popout: Popout, agent: Agent) -> None:
        pane = self._deck.panes[popout.pane]
        assert isinstance(pane, SubagentPane)
        popout.agent = agent.key
        pane.show(agent.key)

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
            try:
                told = self._deck.with_references(text)
            except NoSuchReference as error:
                self._deck.say(str(error))
                return False
            sent = tr("{who} reads it with its next request", who=name)
            return self._deck.workbench.steer(cmd.HintSubagent(name, told), sent)

        asks = tr("a message to {who} alone: enter sends it", who=who)
        self._deck.ask_for(asks, "", send, about=agent.key)

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
