"""A person's edit of PLAN.md, converted to a change of the plan's items.

Pure: text in, change out. This module applies no change; a person reviews the change and sends
it as a command (`AdoptPlanEdit`), or does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from msgspec import Struct

from akg_tui.core.events import PlanChange, PlannedItem
from akg_tui.core.kernel.knobs import read_setting
from akg_tui.core.plan.plan_document import item_words
from akg_tui.core.plan.submission import MAX_ITEM_TEXT, MAX_RATIONALE, folded
from akg_tui.core.sanitize import Said, SaidError, one_line
from akg_tui.core.state import RunState

_HEADING = "# Plan"
_ITEM = re.compile(r"^\s*[-*]\s+(?:\[(?P<mark>[^\]]?)\]\s*)?(?P<rest>.*\S)\s*$")
_KNOWN = re.compile(r"^(?P<id>p\d+):\s+(?P<text>.*)$")
_COUNT = re.compile(r"^items: (\d+)$", re.M)


class BadPlanEdit(SaidError, ValueError):
    """A text that cannot be read as a plan; `line` counts from 1."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__("line {n}: {why}", n=line, why=why)
        self.line = line


class _Line(Struct, frozen=True):
    number: int
    item: str  # the item's id, "" for a new item
    text: str
    rationale: str


def read_plan_edit(text: str, state: RunState) -> PlanChange:
    """Return the change of the present plan that the edited PLAN.md `text` describes.

    A line without an id is a new item at that position. Changed words after an id edit the item.
    A pending item that existed when the file was written (`items:` in its front matter) and has
    no line any more is dropped. The order of the lines is the order of the items; items newer
    than the file come last. Items that were settled since are not changed.

    Raises `BadPlanEdit` if the list of items cannot be found or read.
    """
    shown = item_words(state)
    lines = _read_lines(text, shown)
    known = _COUNT.search(text)
    if known is None:
        raise BadPlanEdit(1, "its front matter has no `items:`, so what was dropped is not known")
    pending = {item.id: item for item in state.pending}
    lines = _known_by_their_words(lines, state)
    listed = {line.item for line in lines if line.item}
    edited: list[PlannedItem] = []
    fixed: list[str] = []
    for line in lines:
        if line.item not in pending:
            if line.item in shown and (line.text, line.rationale) != shown[line.item]:
                fixed.append(line.item)
            continue
        item, (text_then, why_then) = pending[line.item], shown[line.item]
        if (line.text, line.rationale) == (text_then, why_then):
            continue
        # A text that equals the shortened text of PLAN.md was not edited: keep the full text.
        words = item.text if line.text == text_then else line.text
        why = item.rationale if line.rationale == why_then else line.rationale
        if (words, why) != (item.text, item.rationale):
            edited.append(PlannedItem(item.id, words, why))
    dropped = tuple(
        item_id
        for item_id in pending
        if item_id not in listed and int(item_id[1:]) <= int(known[1])
    )
    order, added = _order(lines, state, dropped)
    changed_order = () if order == tuple(pending) else order
    return PlanChange(tuple(added), tuple(edited), dropped, changed_order, tuple(fixed))


def _known_by_their_words(lines: list[_Line], state: RunState) -> list[_Line]:
    """Give each line without an id (lost, or adopted since) the pending item of equal text."""
    listed = {line.item for line in lines if line.item}
    free = {folded(item.text): item for item in state.pending if item.id not in listed}
    found: list[_Line] = []
    for line in lines:
        item = None if line.item else free.pop(folded(line.text), None)
        why = line.rationale or (item.rationale if item else "")
        found.append(line if item is None else _Line(line.number, item.id, item.text, why))
    return found


def _order(
    lines: Iterable[_Line], state: RunState, dropped: tuple[str, ...]
) -> tuple[tuple[str, ...], list[PlannedItem]]:
    """Return the ids of all items pending after the change, in order, and the new items."""
    pending = [item.id for item in state.pending]
    open_texts = {folded(item.text) for item in state.pending}
    if state.active is not None:
        open_texts.add(folded(state.item(state.active).text))
    order: list[str] = []
    added: list[PlannedItem] = []
    for line in lines:
        if line.item in pending:
            order.append(line.item)
        elif not line.item and folded(line.text) not in open_texts:
            open_texts.add(folded(line.text))
            item_id = f"p{len(state.items) + len(added) + 1}"
            added.append(PlannedItem(item_id, line.text, line.rationale))
            order.append(item_id)
    rest = [item_id for item_id in pending if item_id not in order and item_id not in dropped]
    return (*order, *rest), added


def _read_lines(text: str, shown: Mapping[str, tuple[str, str]]) -> list[_Line]:
    """Return the items between the plan's heading and the next heading."""
    rows = text.splitlines()
    starts = [number for number, row in enumerate(rows) if row.strip() == _HEADING]
    if len(starts) != 1:
        count = len(starts)
        raise BadPlanEdit(
            1,
            Said(
                "expected the heading `{words}` once, found it {n} times", words=_HEADING, n=count
            ),
        )
    found: list[_Line] = []
    seen: set[str] = set()
    for number, row in enumerate(rows[starts[0] + 1 :], starts[0] + 2):
        if row.startswith("#"):
            break
        if not row.strip() or row.strip() == "No open item.":
            continue
        line = _read_line(number, row, shown)
        if line.item in seen:
            raise BadPlanEdit(number, Said("{item} stands there twice", item=line.item))
        if line.item:
            seen.add(line.item)
        found.append(line)
    return found


def _read_line(number: int, row: str, shown: Mapping[str, tuple[str, str]]) -> _Line:
    match = _ITEM.match(row)
    if match is None:
        row = one_line(row, 60)
        raise BadPlanEdit(
            number,
            Said("expected an item such as `- [ ] text (why)`, found {words}", words=repr(row)),
        )
    known = _KNOWN.match(match["rest"])
    item, words = (known["id"], known["text"]) if known else ("", match["rest"])
    words = " ".join(words.split())
    text, why = _split(words, shown.get(item, ("", "")))
    if not 1 <= len(text) <= MAX_ITEM_TEXT:
        raise BadPlanEdit(number, Said("an item's text has 1 to {n} characters", n=MAX_ITEM_TEXT))
    if len(why) > MAX_RATIONALE:
        raise BadPlanEdit(
            number, Said("an item's rationale has at most {n} characters", n=MAX_RATIONALE)
        )
    return _Line(number, item, text, why)


def _split(words: str, shown: tuple[str, str]) -> tuple[str, str]:
    """Split off the rationale: the text in brackets at the end, unless it sets knobs."""
    text, why = shown
    if words == (f"{text} ({why})" if why else text):
        return shown
    if text and words.startswith(f"{text} (") and words.endswith(")"):
        return text, words[len(text) + 2 : -1]
    if not words.endswith(")"):
        return words, ""
    depth = 0
    for at in range(len(words) - 1, 0, -1):
        depth += (words[at] == ")") - (words[at] == "(")
        if depth == 0:
            inner = words[at + 1 : -1].strip()
            is_why = words[at - 1] == " " and not read_setting(inner)
            return (words[:at].rstrip(), inner) if is_why else (words, "")
    return words, ""
