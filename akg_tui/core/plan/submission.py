"""What a submitted plan or diagnosis must have to be accepted.

Pure. A plan needs enough items, reasons of substance and nothing that was tried before; a diagnosis
needs a cause and a direction to go on from. The state gives out the ids.
"""

from __future__ import annotations

from collections.abc import Sequence

from akg_tui.core.commands import ReportDiagnosis
from akg_tui.core.events import PlannedItem
from akg_tui.core.phases import ItemState
from akg_tui.core.plan.knobs import read_setting, setting_key, without_setting
from akg_tui.core.state import Item, RunState

MAX_PLAN_ITEMS = 50
MAX_ITEM_TEXT = 400
MIN_RATIONALE, MAX_RATIONALE = 15, 400
LEAST_ITEMS = 3

# Agents that search a space and may come to its last setting. Every other one must think
# in alternatives.
SEARCHERS = frozenset({"sweep"})

_REMEMBERED = frozenset({ItemState.KEPT, ItemState.DISCARDED, ItemState.FAILED})
_FILLERS = frozenset({"and", "change", "only", "set", "the", "to", "try", "use", "using", "with"})


def least_items(state: RunState) -> int:
    """How many items the next plan needs: never more than there are rounds left."""
    policy = state.task.policy
    least = policy.min_plan_items
    if least is None:
        least = 1 if state.task.agent.model in SEARCHERS else LEAST_ITEMS
    return min(least, max(1, policy.max_rounds - state.settled))


def plan_fault(state: RunState, items: Sequence[PlannedItem]) -> str | None:
    """Why these items are no plan, in a sentence that names the item; None when they are."""
    least = least_items(state)
    if not least <= len(items) <= MAX_PLAN_ITEMS:
        return f"a plan has {least} to {MAX_PLAN_ITEMS} items, not {len(items)}"
    earlier = [item for item in state.items if item.state in _REMEMBERED]
    texts = {_words(past.text): past for past in earlier}
    settings: dict[_Setting, list[Item]] = {}
    for past in earlier:
        if setting := _setting(past.text):
            settings.setdefault(setting, []).append(past)
    seen: list[PlannedItem] = []
    for number, item in enumerate(items, 1):
        if fault := _form_fault(item):
            return f"item {number}: {fault}"
        if again := texts.get(_words(item.text)) or _same_setting(item, settings):
            return f"item {number} repeats {again.id}, which was {again.word} ({again.reason})"
        if any(_same(item, other) for other in seen):
            return f"item {number} repeats another item of this plan: {item.text}"
        seen.append(item)
    return None


_Setting = tuple[tuple[str, str], ...]


def _form_fault(item: PlannedItem) -> str | None:
    if not _words(item.text) or len(item.text) > MAX_ITEM_TEXT:
        return f"its text must have 1 to {MAX_ITEM_TEXT} characters"
    rationale = " ".join(item.rationale.split())
    if not MIN_RATIONALE <= len(rationale) <= MAX_RATIONALE:
        return (
            f"its rationale must have {MIN_RATIONALE} to {MAX_RATIONALE} characters, "
            f"not {len(rationale)}: say why it should be faster"
        )
    if _words(rationale) == _words(item.text):
        return "its rationale only says the text again: say why it should be faster"
    return None


def _words(text: str) -> str:
    return " ".join(text.lower().split())


def _setting(text: str) -> _Setting:
    return setting_key(read_setting(text))


def _beside(text: str) -> frozenset[str]:
    """The words of substance beside the pairs, so that `try A=1` is the setting A=1."""
    words = "".join(c if c.isalnum() else " " for c in without_setting(text).lower()).split()
    return frozenset(words) - _FILLERS


def _says_the_same(left: str, right: str) -> bool:
    """For texts with equal settings: a bare setting is any direction's that has it."""
    one, other = _beside(left), _beside(right)
    return not one or not other or one == other


def _same_setting(item: PlannedItem, settings: dict[_Setting, list[Item]]) -> Item | None:
    for past in settings.get(_setting(item.text), ()):
        if _says_the_same(item.text, past.text):
            return past
    return None


def _same(left: PlannedItem, right: PlannedItem) -> bool:
    if _words(left.text) == _words(right.text):
        return True
    setting = _setting(left.text)
    same = bool(setting) and setting == _setting(right.text)
    return same and _says_the_same(left.text, right.text)


MIN_CAUSE, MAX_CAUSE = 20, 1_000
MIN_LETTERS = 8  # different ones: "aaaa…" and "unknown" are no cause
MAX_ENTRIES = 20
MIN_DIRECTION, MAX_ENTRY = 5, 300


def report_fault(report: ReportDiagnosis) -> str | None:
    """Why this report is no diagnosis, in a sentence; None when it is one."""
    cause = _same_words(report.cause)
    if not MIN_CAUSE <= len(cause) <= MAX_CAUSE:
        return f"the cause must have {MIN_CAUSE} to {MAX_CAUSE} characters, not {len(cause)}"
    if len({letter for letter in cause if letter.isalnum()}) < MIN_LETTERS:
        return "the cause says nothing: name what the failed attempts have in common"
    if not report.directions:
        return "a diagnosis needs at least one direction to try"
    if fault := _entries_fault("direction", report.directions, MIN_DIRECTION):
        return fault
    if fault := _entries_fault("avoid", report.avoid, 1):
        return fault
    avoided = {_same_words(text) for text in report.avoid}
    for number, text in enumerate(report.directions, 1):
        if _same_words(text) in avoided:
            return f"direction {number} is what the report says to avoid: {text}"
        if _same_words(text) == cause:
            return f"direction {number} only says the cause again"
    return None


def _same_words(text: str) -> str:
    return " ".join(text.lower().split())


def _entries_fault(what: str, texts: Sequence[str], least: int) -> str | None:
    if len(texts) > MAX_ENTRIES:
        return f"at most {MAX_ENTRIES} entries of {what}, not {len(texts)}"
    seen: set[str] = set()
    for number, text in enumerate(texts, 1):
        words = _same_words(text)
        if not least <= len(words) <= MAX_ENTRY:
            return f"{what} {number} must have {least} to {MAX_ENTRY} characters, not {len(words)}"
        if words in seen:
            return f"{what} {number} stands there twice: {text}"
        seen.add(words)
    return None
