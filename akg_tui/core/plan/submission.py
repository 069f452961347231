"""The checks that a submitted plan or diagnosis must pass.

Pure. A plan needs one item, or as many as the policy says, each with a meaningful rationale, and
must not repeat a settled item or one that waits to be measured again; a diagnosis needs a cause
and at least one direction.
`core.decide` assigns the items' ids.
"""

from __future__ import annotations

from collections.abc import Sequence

from akg_tui.core.commands import Refusal, ReportDiagnosis
from akg_tui.core.events import PlannedItem
from akg_tui.core.phases import SETTLED, ItemState
from akg_tui.core.plan.item_form import DIFFERS, ItemForm, item_form, told_difference
from akg_tui.core.sanitize import one_line
from akg_tui.core.state import Item, RunState

MAX_PLAN_ITEMS = 50
MAX_ITEM_TEXT = 400
MIN_RATIONALE, MAX_RATIONALE = 15, 400
LEAST_ITEMS = 1

CLOSED = (ItemState.DISCARDED, ItemState.FAILED, ItemState.SUSPENDED, ItemState.DROPPED)
"""The states of items that the agent may take up again."""

SEARCHERS = frozenset({"sweep"})
"""Agents that search a space of settings."""


def least_items(state: RunState) -> int:
    """Return the minimum number of items in the next plan, at most the number of rounds left."""
    policy = state.task.policy
    least = policy.min_plan_items
    least = LEAST_ITEMS if least is None else least
    return min(least, max(1, policy.max_rounds - state.rounds))


def check_plan(state: RunState, items: Sequence[PlannedItem]) -> None:
    """Raise `Refusal`, which names the faulty item, unless `items` are an acceptable plan."""
    least = least_items(state)
    if not least <= len(items) <= MAX_PLAN_ITEMS:
        raise Refusal(f"a plan has {least} to {MAX_PLAN_ITEMS} items, not {len(items)}")
    settled = SETTLED.values()
    tried = _Known()
    for past in state.items:
        if state.waiting(past) or (past.state in settled and not _undecided(state, past)):
            tried.add(past)
    planned = _Known()
    for number, item in enumerate(items, 1):
        if fault := _form_fault(item):
            raise Refusal(f"item {number}: {fault}")
        if (same := tried.same(item.text)) is not None:
            more = f"; revise_plan can reopen {same.id}" if same.state in CLOSED else ""
            raise Refusal(f"item {number} repeats {_told(same)}{more}")
        if (like := tried.like(item.text)) is not None:
            raise Refusal(
                f"item {number} is like {_told(like)}; if it is another direction, say at the end "
                f"of its text what differs, as in `{DIFFERS} two accumulators instead of one`"
            )
        if planned.same(item.text):
            raise Refusal(f"item {number} repeats another item of this plan: {item.text}")
        planned.add(Item("", item.text, item.rationale))


class _Known:
    """Items by the normal forms of their texts."""

    def __init__(self) -> None:
        self._same: dict[ItemForm | str, Item] = {}
        self._alike: dict[object, list[Item]] = {}

    def add(self, item: Item) -> None:
        form = item_form(item.text)
        self._same[folded(item.text)] = item
        if not form.says_nothing:
            self._same[form] = item
            self._alike.setdefault(form.figures, []).append(item)

    def same(self, text: str) -> Item | None:
        """Return the item of equal text or form."""
        return self._same.get(folded(text)) or self._same.get(item_form(text))

    def like(self, text: str) -> Item | None:
        """Return the nearest item that is like `text`, unless `text` says what differs from it."""
        form, said = item_form(text), told_difference(text)

        def near(item: Item) -> int:
            return len({*form.words} & {*item_form(item.text).words})

        alike = self._alike.get(form.figures, ())
        new = {*said.words, *said.numbers}
        found = (item for item in alike if item_form(item.text).is_like(form))
        unsaid = [item for item in found if not new - {*item_form(item.text).words}]
        return max(unsaid, key=near, default=None)


def _told(item: Item) -> str:
    return f"{item.id}, which was {item.word} ({item.reason}): {one_line(item.text, 80)!r}"


def _undecided(state: RunState, item: Item) -> bool:
    """Return whether the time was spent before the gain of a settled item was proved or denied."""
    return item.attempt is not None and state.attempts[item.attempt].measurement.undecided


def _form_fault(item: PlannedItem) -> str | None:
    if not folded(item.text) or len(item.text) > MAX_ITEM_TEXT:
        return f"its text must have 1 to {MAX_ITEM_TEXT} characters"
    rationale = " ".join(item.rationale.split())
    if not MIN_RATIONALE <= len(rationale) <= MAX_RATIONALE:
        return (
            f"its rationale must have {MIN_RATIONALE} to {MAX_RATIONALE} characters, "
            f"not {len(rationale)}: say why it should be faster"
        )
    if folded(rationale) == folded(item.text):
        return "its rationale only says the text again: say why it should be faster"
    return None


def folded(text: str) -> str:
    """Return `text` with blanks squeezed, in lower case, to compare texts."""
    return " ".join(text.lower().split())


MIN_CAUSE, MAX_CAUSE = 20, 1_000
MIN_LETTERS = 8  # different letters and digits: "aaaa…" and "unknown" are no cause
MAX_ENTRIES = 20
MIN_DIRECTION, MAX_ENTRY = 5, 300


def check_report(report: ReportDiagnosis) -> None:
    """Raise `Refusal`, which names the fault, unless `report` is an acceptable diagnosis."""
    cause = folded(report.cause)
    if not MIN_CAUSE <= len(cause) <= MAX_CAUSE:
        raise Refusal(
            f"the cause must have {MIN_CAUSE} to {MAX_CAUSE} characters, not {len(cause)}"
        )
    if len({letter for letter in cause if letter.isalnum()}) < MIN_LETTERS:
        raise Refusal("the cause says nothing: name what the failed attempts have in common")
    if not report.directions and not report.exhausted:
        raise Refusal("a diagnosis needs at least one direction to try")
    _check_entries("direction", report.directions, MIN_DIRECTION)
    _check_entries("avoid", report.avoid, 1)
    avoided = {folded(text) for text in report.avoid}
    for number, text in enumerate(report.directions, 1):
        if folded(text) in avoided:
            raise Refusal(f"direction {number} is what the report says to avoid: {text}")
        if folded(text) == cause:
            raise Refusal(f"direction {number} only says the cause again")


def _check_entries(what: str, texts: Sequence[str], least: int) -> None:
    if len(texts) > MAX_ENTRIES:
        raise Refusal(f"at most {MAX_ENTRIES} entries of {what}, not {len(texts)}")
    seen: set[str] = set()
    for number, text in enumerate(texts, 1):
        words = folded(text)
        if not least <= len(words) <= MAX_ENTRY:
            raise Refusal(
                f"{what} {number} must have {least} to {MAX_ENTRY} characters, not {len(words)}"
            )
        if words in seen:
            raise Refusal(f"{what} {number} stands there twice: {text}")
        seen.add(words)
