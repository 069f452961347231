"""How plan items move in a state: from one item state to another, in number, words and order.

Pure. Checks the item table; which move is allowed to whom is `decide`'s to say.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from akg_tui.core.events import PlannedItem
from akg_tui.core.machine import ItemState, check_item
from akg_tui.core.state import Item, RunState


class OutOfOrder(ValueError):
    """An event that does not fit in its place: a wrong number, id or item."""


def place(items: tuple[Item, ...], item_id: str) -> int:
    """Where the item is. Ids are given out in order, so p7 is the seventh."""
    number = item_id.removeprefix("p")
    at = int(number) - 1 if number.isdecimal() and len(number) < 10 else -1
    if not (0 <= at < len(items) and items[at].id == item_id):
        raise OutOfOrder(f"there is no plan item {item_id}")
    return at


def changed(run: RunState, item_id: str, **change: Any) -> RunState:
    """One item with other values."""
    items = run.items
    at = place(items, item_id)
    # A long run has thousands of items, and the one that changes is near the end: `+`
    # copies them once where `*` would copy them three times.
    items = items[:at] + (replace(items[at], **change), *items[at + 1 :])  # noqa: RUF005
    return replace(run, items=items)


def moved(state: RunState, ids: Iterable[str], to: ItemState, **change: Any) -> RunState:
    """Items in another state. Raises `IllegalTransition` where the table has no such move."""
    for item_id in ids:
        item = state.items[place(state.items, item_id)]
        check_item(item_id, item.state, to)
        state = changed(state, item_id, state=to, **change)
        if state.active == item_id and to is not ItemState.ACTIVE:
            state = replace(state, active=None, api_wait=None)  # whoever waited, worked on it
    return state


def added(
    state: RunState, new: Iterable[PlannedItem], *, pinned: bool = False, before: str = ""
) -> RunState:
    """New pending items, last or before another one. Their ids must be the next ones."""
    new = tuple(new)
    for number, planned in enumerate(new, len(state.items) + 1):
        if planned.id != f"p{number}":
            raise OutOfOrder(f"plan item id {planned.id} is not the next one, p{number}")
    items = tuple(Item(p.id, p.text, p.rationale, pinned=pinned) for p in new)
    if not before:  # as nearly always: a walk over thousands of items is not for every plan
        return replace(state, items=state.items + items)
    queue = [item.id for item in state.pending]
    state = replace(state, items=state.items + items)
    at = queue.index(before)
    queue[at:at] = [planned.id for planned in new]
    return ordered(state, queue)


def ordered(state: RunState, queue: Iterable[str]) -> RunState:
    """The pending items in this order."""
    queue = tuple(queue)
    if sorted(queue) != sorted(item.id for item in state.pending):
        raise OutOfOrder(f"{', '.join(queue)} are not the pending items")
    return replace(state, queue=queue)


def reworded(state: RunState, planned: PlannedItem) -> RunState:
    """A pending item with other words."""
    if state.items[place(state.items, planned.id)].state is not ItemState.PENDING:
        raise OutOfOrder(f"{planned.id} is not pending")
    return changed(state, planned.id, text=planned.text, rationale=planned.rationale)
