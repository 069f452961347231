"""Edits the plan from the deck: add, edit, drop, reorder and pin items, each as a command.

Asks for the text of an item. Core decides whether a change is allowed, and gives the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from akg_tui.core import commands as cmd
from akg_tui.core.phases import ItemState
from akg_tui.core.sanitize import one_line
from akg_tui.tui.screens.dialogs import Confirm
from akg_tui.view.controls.command_registry import way_to
from akg_tui.view.language import tr

if TYPE_CHECKING:
    from akg_tui.core.state import Item
    from akg_tui.tui.panes.plan import PlanPane
    from akg_tui.tui.screens.input_lines import InputScreen


class PlanEditing:
    """Edits the item that is picked in the `pane` of a deck."""

    def __init__(self, deck: InputScreen, pane: PlanPane) -> None:
        self._deck = deck
        self._pane = pane

    def do(self, what: str) -> None:
        """Do `what`: add, edit, drop, up, down or pin."""
        if what == "add":
            self._deck.ask_for(
                tr("a new item, tried after the others: enter adds it"), "", self._add
            )
            return
        item = self._pane.picked
        if item is None:
            told = tr("there is no item yet: {key} adds one", key=way_to("plan.add"))
            (self._deck.workbench.say_no_line if what == "edit" else self._deck.say)(told)
        elif not self._pane.sees(item.id):
            self._pane.choose(item.id)
            self._deck.say(tr("{item} is picked here: the key again acts on it", item=item.id))
        elif what == "edit":
            if item.state is not ItemState.PENDING:
                told = tr("{item} is {word}: only a pending item can be edited", item=item.id,
                          word=item.word)  # fmt: skip
                self._deck.workbench.say_no_line(told)
                return
            words = one_line(item.text)
            asked = tr("other words for {item}", item=item.id)
            self._deck.ask_for(asked, words, lambda text: self._edit(item, text))
        elif what == "drop":
            self._drop(item)
        elif what == "pin":
            # An added item is pinned in its place: the first key brings it to the front.
            pending = self._deck.workbench.snapshot().state.pending
            is_next = bool(pending) and pending[0].id == item.id
            told = tr("{item} comes next, and only you drop it", item=item.id)
            if unpin := item.pinned and is_next:
                told = tr("{item} is not pinned any more", item=item.id)
            self._deck.workbench.steer(cmd.PinItem(item.id, pinned=not unpin), told)
        else:
            self._move(item, -1 if what == "up" else 1)

    def _add(self, text: str) -> None:
        if text.strip():
            known = {item.id for item in self._deck.workbench.snapshot().state.items}
            if self._deck.workbench.steer(cmd.AddItem(text.strip()), tr("the item is in the plan")):
                items = self._deck.workbench.snapshot().state.items
                self._pane.choose(next((i.id for i in items if i.id not in known), ""))

    def _edit(self, item: Item, text: str) -> None:
        if text.strip():
            self._deck.workbench.steer(
                cmd.EditItem(item.id, text.strip()), tr("{item} reads otherwise now", item=item.id)
            )

    def _drop(self, item: Item) -> None:
        dropped = tr("{item} is dropped", item=item.id)
        is_open = item.state in (ItemState.PENDING, ItemState.ACTIVE)
        if not is_open or self._deck.workbench.snapshot().past is not None:
            self._deck.workbench.steer(cmd.DropItem(item.id), dropped)  # refused with the reason
            return

        def drop(yes: bool | None) -> None:
            if yes:
                self._deck.workbench.steer(cmd.DropItem(item.id), dropped)

        words = [one_line(item.text)]
        if item.state is ItemState.ACTIVE:
            words.append(tr("What was edited for it is taken back."))
        words.append(tr("It will not be tried; it comes back only if it is added anew."))
        self._deck.app.push_screen(
            Confirm(tr("drop {item}?", item=item.id), words, tr("drop")), drop
        )

    def _move(self, item: Item, step: int) -> None:
        order = [each.id for each in self._deck.workbench.snapshot().state.pending]
        if item.id not in order:
            self._deck.say(tr("{item} is {word}: only pending items can be moved",
                         item=item.id, word=item.word))  # fmt: skip
            return
        at = order.index(item.id)
        to = at + step
        if not 0 <= to < len(order):
            first = tr("{item} is the first already", item=item.id)
            self._deck.say(first if step < 0 else tr("{item} is the last already", item=item.id))
            return
        order[at], order[to] = order[to], order[at]
        told = tr("{item} is number {number} to come", item=item.id, number=to + 1)
        if self._deck.workbench.steer(cmd.ReorderItems(tuple(order)), told):
            self._pane.choose(item.id)
