"""A person's hand in the plan: add, edit, drop, reorder and pin items, each as a command.

Knows which item is picked and how to ask for its words. Whether a change may be made is for
core to say, in its own words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from akg_tui.core import commands as cmd
from akg_tui.core.machine import ItemState
from akg_tui.core.plain import one_line

if TYPE_CHECKING:
    from akg_tui.core.state import Item
    from akg_tui.tui.panes.plan import PlanPane
    from akg_tui.tui.screens.watching import Steering

Asker = Callable[[str, str, Callable[[str], None]], None]
"""Asks for a line: what for, what stands there already, and who takes it."""


class PlanHand:
    def __init__(
        self, steering: Steering, pane: PlanPane, ask: Asker, say: Callable[[str], None]
    ) -> None:
        self._steering = steering
        self._pane = pane
        self._ask = ask
        self._say = say

    def do(self, what: str) -> None:
        """One of add, edit, drop, up, down, pin."""
        if what == "add":
            self._ask("a new item, tried after the others: enter adds it", "", self._add)
            return
        item = self._pane.picked
        if item is None:
            self._say("there is no item yet: a adds one")
        elif what == "edit":
            if item.state is not ItemState.PENDING:
                self._say(f"{item.id} is {item.word}: only a pending item can be edited")
                return
            words = one_line(item.text)
            self._ask(f"other words for {item.id}", words, lambda text: self._edit(item, text))
        elif what == "drop":
            self._send(cmd.DropItem(item.id), f"{item.id} is dropped")
        elif what == "pin":
            told = f"{item.id} comes next, and only you drop it"
            self._send(
                cmd.PinItem(item.id, pinned=not item.pinned),
                f"{item.id} is not pinned any more" if item.pinned else told,
            )
        else:
            self._move(item, -1 if what == "up" else 1)

    def _send(self, command: cmd.Command, told: str) -> bool:
        return self._steering.steer(command, told)

    def _add(self, text: str) -> None:
        if text.strip():
            known = {item.id for item in self._steering.look().state.items}
            if self._send(cmd.AddItem(text.strip()), "the item is in the plan"):
                items = self._steering.look().state.items
                self._pane.choose(next((i.id for i in items if i.id not in known), ""))

    def _edit(self, item: Item, text: str) -> None:
        if text.strip():
            self._send(cmd.EditItem(item.id, text.strip()), f"{item.id} reads otherwise now")

    def _move(self, item: Item, step: int) -> None:
        order = [each.id for each in self._steering.look().state.pending]
        if item.id not in order:
            self._say(f"{item.id} is {item.word}: only pending items can be moved")
            return
        at = order.index(item.id)
        to = at + step
        if not 0 <= to < len(order):
            self._say(f"{item.id} is the {'first' if step < 0 else 'last'} already")
            return
        order[at], order[to] = order[to], order[at]
        if self._send(cmd.ReorderItems(tuple(order)), f"{item.id} is number {to + 1} to come"):
            self._pane.choose(item.id)
