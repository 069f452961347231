"""Changes of single plan items by the agent: dropped, reopened, put in another order.

Pure. The agent changes no item that a person pinned, dropped or rejected, and no item that waits
for its measurement to be repeated. `core.decide` applies the checks.
"""

from __future__ import annotations

from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.commands import Refusal
from akg_tui.core.phases import ItemState, Verdict
from akg_tui.core.plan.submission import (
    CLOSED,
    MAX_PLAN_ITEMS,
    MAX_RATIONALE,
    MIN_RATIONALE,
    least_items,
)
from akg_tui.core.sanitize import one_line
from akg_tui.core.state import Item, OutOfOrder, RunState

MAX_REOPENED = 2
"""How often the agent may take up one item again."""

PERSONS_WORD = ("dropped by a person", "rejected in review")
"""The beginnings of the reasons of items that a person closed."""


def revised(state: RunState, command: cmd.RevisePlan) -> ev.PlanRevised:
    """Return the event of a revision. Raises `Refusal`, which names the item and the fault."""
    reason = " ".join(command.reason.split())
    if not MIN_RATIONALE <= len(reason) <= MAX_RATIONALE:
        raise Refusal(
            f"the reason must have {MIN_RATIONALE} to {MAX_RATIONALE} characters, not {len(reason)}"
        )
    named = (*command.drop, *command.reopen)
    if not named and not command.order:
        raise Refusal("nothing is changed: name items to drop, to reopen, or a new order")
    if twice := next((each for each in named if named.count(each) > 1), ""):
        raise Refusal(f"{one_line(twice, 40)} is named twice")
    for item_id in command.drop:
        _check_drop(state, _found(state, item_id))
    for item_id in command.reopen:
        _check_reopen(_found(state, item_id))
    before = [item.id for item in state.pending]
    pending = [*(each for each in before if each not in command.drop), *command.reopen]
    if len(pending) > MAX_PLAN_ITEMS:
        raise Refusal(f"{len(pending)} items would be pending, at most {MAX_PLAN_ITEMS} may be")
    order = command.order or tuple(pending)
    if sorted(order) != sorted(pending):
        raise Refusal(
            f"the order has to name each pending item once: {', '.join(pending) or 'there is none'}"
        )
    _check_pinned(state, before, order)
    return ev.PlanRevised(
        reason=reason,
        dropped=command.drop,
        reopened=command.reopen,
        order=order,
        ready=len(pending) >= least_items(state),
    )


def taken_up(state: RunState, item_id: str) -> tuple[ev.AnyEvent, ...]:
    """Return the events before an edit that does the work of another item than the active one.

    That one is pending again, as the first. The item is pending, or a closed one of which another
    setting is measured; each is taken up again as often as `revise_plan` may. Raises `Refusal`.
    """
    item, active = _found(state, item_id), state.item(state.active or "")
    if state.edited:
        raise Refusal(f"the kernel is edited for {active.id} already")
    if active.pinned:
        raise Refusal(f"a person wants {active.id} tried first")
    if state.waiting(item):
        raise Refusal(f"{item.id} is to be measured again, without you")
    activated = ev.ItemActivated(item=item.id, round=state.round)
    if item.state is ItemState.PENDING:
        return (activated,)
    _check_reopen(item)
    order = (item.id, *(each.id for each in state.pending))
    why = f"an edit while {active.id} was under work is of this item"
    return ev.PlanRevised(reason=why, reopened=(item.id,), order=order), activated


def _found(state: RunState, item_id: str) -> Item:
    try:
        return state.item(item_id)
    except OutOfOrder:
        raise Refusal(f"there is no plan item {one_line(item_id, 40)}") from None


def _check_drop(state: RunState, item: Item) -> None:
    if item.state is ItemState.ACTIVE:
        raise Refusal(f"{item.id} is under work: report_blocked about the item gives it up")
    if item.state is not ItemState.PENDING:
        raise Refusal(f"{item.id} is {item.word}: only a pending item can be dropped")
    if item.pinned:
        raise Refusal(f"a person wants {item.id} tried")
    if state.waiting(item):
        raise Refusal(f"{item.id} is to be measured again, without you")


def _check_reopen(item: Item) -> None:
    if item.state not in CLOSED:
        raise Refusal(f"{item.id} is {item.word}: only a closed item can be reopened")
    if item.undone or item.reason.startswith(PERSONS_WORD):
        raise Refusal(f"{item.id} was closed by a person ({item.reason})")
    if item.reopened >= MAX_REOPENED:
        raise Refusal(f"{item.id} was reopened {MAX_REOPENED} times already")


def _check_pinned(state: RunState, before: list[str], order: tuple[str, ...]) -> None:
    """Raise `Refusal` if an item comes before a pinned one that it was not before."""
    for item in state.pending:
        if not item.pinned:
            continue
        earlier = set(before[: before.index(item.id)])
        if late := [each for each in order[: order.index(item.id)] if each not in earlier]:
            raise Refusal(f"{late[0]} cannot come before {item.id}, which a person pinned")


def measured_already(state: RunState, blob: str) -> str:
    """Return why a kernel need not be measured again, or "": the same text, the same incumbent.

    A person may want it all the same (a pinned item), and one that was not decided may be tried.
    """
    if state.best is None or state.active is None or state.item(state.active).pinned:
        return ""
    for attempt in reversed(state.attempts):
        same = attempt.number and (attempt.blob, attempt.incumbent) == (blob, state.best.blob)
        settled = attempt.verdict in (Verdict.DISCARD, Verdict.FAIL)
        if same and settled and not attempt.measurement.undecided:
            return (
                f"this is the kernel of attempt {attempt.number} ({attempt.item}), which was "
                f"{attempt.verdict} against this best kernel: {one_line(attempt.reason, 200)}"
            )
    return ""
