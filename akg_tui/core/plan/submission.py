"""The checks that a submitted plan or diagnosis must pass.

Pure. A plan needs one item, or as many as the policy says, each with a meaningful rationale, and
must not repeat a settled item or one that waits to be measured again; a diagnosis needs a cause
and at least one direction.
`core.decide` assigns the items' ids.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from akg_tui.core.commands import Refusal, ReportDiagnosis
from akg_tui.core.events import PlannedItem
from akg_tui.core.phases import SETTLED
from akg_tui.core.plan.knobs import read_setting, setting_key, without_setting
from akg_tui.core.state import Item, RunState

MAX_PLAN_ITEMS = 50
MAX_ITEM_TEXT = 400
MIN_RATIONALE, MAX_RATIONALE = 15, 400
LEAST_ITEMS = 1

# Agents that search a space of settings.
LEAST_WORDS = 3
_SIGNS = re.compile(r"[<>=!*%^]+|(?<=\s)-(?=\w)")

SEARCHERS = frozenset({"sweep"})

_FILLERS = frozenset(
    {"a", "an", "and", "by", "change", "in", "of", "only", "set", "the", "to", "try", "use"}
    | {"using", "with"}
)


def least_items(state: RunState) -> int:
    """Return the minimum number of items in the next plan, at most the number of rounds left."""
    policy = state.task.policy
    least = policy.min_plan_items
    least = LEAST_ITEMS if least is None else least
    return min(least, max(1, policy.max_rounds - state.settled))


def check_plan(state: RunState, items: Sequence[PlannedItem]) -> None:
    """Raise `Refusal`, which names the faulty item, unless `items` are an acceptable plan."""
    least = least_items(state)
    if not least <= len(items) <= MAX_PLAN_ITEMS:
        raise Refusal(f"a plan has {least} to {MAX_PLAN_ITEMS} items, not {len(items)}")
    settled = SETTLED.values()
    earlier = [
        item
        for item in state.items
        if state.waiting(item) or (item.state in settled and not _undecided(state, item))
    ]
    texts = {folded(past.text): past for past in earlier}
    words = {key: past for past in earlier if (key := _words(past.text))}
    settings: dict[_Setting, list[Item]] = {}
    for past in earlier:
        if setting := _setting(past.text):
            settings.setdefault(setting, []).append(past)
    seen: list[PlannedItem] = []
    for number, item in enumerate(items, 1):
        if fault := _form_fault(item):
            raise Refusal(f"item {number}: {fault}")
        alike = settings.get(_setting(item.text), ())
        same = (past for past in alike if _says_the_same(item.text, past.text))
        if again := texts.get(folded(item.text)) or next(same, None):
            raise Refusal(
                f"item {number} repeats {again.id}, which was {again.word} ({again.reason})"
            )
        if (key := _words(item.text)) and (like := words.get(key)):
            raise Refusal(
                f"item {number} says in other words what {like.id} said, which was {like.word} "
                f"({like.reason}); revise_plan can reopen {like.id}, or say what is different"
            )
        if any(_same(item, other) for other in seen):
            raise Refusal(f"item {number} repeats another item of this plan: {item.text}")
        seen.append(item)


def _undecided(state: RunState, item: Item) -> bool:
    """Return whether the time was spent before the gain of a settled item was proved or denied."""
    return item.attempt is not None and state.attempts[item.attempt].measurement.undecided


_Setting = tuple[tuple[str, str], ...]


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


def _setting(text: str) -> _Setting:
    return setting_key(read_setting(text))


def _beside(text: str) -> frozenset[str]:
    """Return the words outside the pairs, without fillers, so that `try A=1` equals `A=1`."""
    words = "".join(c if c.isalnum() else " " for c in without_setting(text).lower()).split()
    return frozenset(words) - _FILLERS


def _root(word: str) -> str:
    for ending in ("ing", "ed"):
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word.removesuffix(ending)
    return word


@lru_cache(maxsize=8192)  # because each plan is compared with all items of a long run
def _words(text: str) -> tuple[str, ...]:
    """Return the words of a direction in an order of their own, without fillers and endings.

    Signs that change the meaning of an expression count. Empty for a text that sets knobs, or
    that is too short to be told from another one.
    """
    from akg_tui.knowledge.library import words_of  # a run that plans nothing needs no library

    found = [] if read_setting(text) else [_root(w) for w in words_of(text) if w not in _FILLERS]
    signs = _SIGNS.findall(text)
    return (*sorted(found), *signs) if len(found) >= LEAST_WORDS else ()


def _says_the_same(left: str, right: str) -> bool:
    """Compare two texts with equal settings; a text without other words equals every other."""
    one, other = _beside(left), _beside(right)
    return not one or not other or one == other


def _same(left: PlannedItem, right: PlannedItem) -> bool:
    if folded(left.text) == folded(right.text):
        return True
    setting = _setting(left.text)
    same = bool(setting) and setting == _setting(right.text)
    return same and _says_the_same(left.text, right.text)


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
