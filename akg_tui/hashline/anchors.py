"""Whether the lines an edit names are still the lines its writer saw.

Owns the comparison of the served revision with the current one. The text itself is
compared, whole ranges of it; a tag only tells whether the writer copied the address
right. It decides, and changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator

from akg_tui.hashline.document import Document
from akg_tui.hashline.ops import Anchor, Delete, Insert, InsertAtEdge, Op, Replace
from akg_tui.hashline.rejection import Problem
from akg_tui.hashline.splice import span_of
from akg_tui.hashline.tags import Tagger

_SLIP_REACH = 5  # lines on either side searched for the owner of a tag


class AnchorCheck:
    """Compares one served revision with the current document.

    The same text at the same number is needed, and not enough: many kernel lines have a
    textual twin, and one may have slid into the place. So a run of such lines counts as
    unchanged only if it starts at the head of the file, ends at its tail, or holds a line
    that is the only one of its kind in both revisions.

    What text can't tell stays untold: a block pasted right above itself reads the same as
    one pasted below. Where that matters, refuse any edit once the two `sha256` differ.
    """

    def __init__(self, document: Document, served: Document, tagger: Tagger) -> None:
        self._document = document
        self._served = served
        self._tagger = tagger
        self._same_count = len(document.lines) == len(served.lines)
        self._unchanged = _unchanged_lines(served, document)

    def problems(self, index: int, op: Op) -> Iterator[Problem]:
        """Everything wrong with the addresses of one operation; address before staleness."""
        match op:
            case Replace(start, stop, _) | Delete(start, stop):
                named = {"from": start} if start == stop else {"from": start, "to": stop}
            case Insert(side, anchor, _):
                named = {side: anchor}
            case InsertAtEdge():
                named = {}
        wrong = [
            problem
            for field, anchor in named.items()
            if (problem := self._wrong_address(f"ops[{index}].{field} {anchor}", anchor))
        ]
        if wrong:
            yield from wrong
            return
        label = f"ops[{index}]" + "".join(f" {field}={a}" for field, a in named.items())
        stale = self._stale(label, index, op)
        if stale:
            yield stale

    def _wrong_address(self, where: str, anchor: Anchor) -> Problem | None:
        seen = self._served.lines
        number = anchor.number
        if number <= len(seen) and self._tagger.tag(number, seen[number - 1]) == anchor.tag:
            return None
        owner = self._owner_near(anchor)
        if owner is not None:
            detail = f"that tag belongs to another line; did you mean {owner}{anchor.tag}?"
            return Problem("slip", where, detail, (owner,))
        count = len(self._document.lines)
        if number > max(count, len(seen)):
            return Problem("out of range", where, f"the file has {count} lines", (count,))
        detail = (
            f"r{self._served.revision} as you saw it has no such tag at or near line {number}; "
            "copy it from the lines below or read the file again"
        )
        return Problem("never shown", where, detail, (number,))

    def _owner_near(self, anchor: Anchor) -> int | None:
        """The nearest served line whose tag the writer gave."""
        for distance in range(1, _SLIP_REACH + 1):
            for number in (anchor.number - distance, anchor.number + distance):
                if (
                    1 <= number <= len(self._served.lines)
                    and self._tagger.tag(number, self._served.lines[number - 1]) == anchor.tag
                ):
                    return number
        return None

    def _stale(self, label: str, index: int, op: Op) -> Problem | None:
        span = span_of(op, index, len(self._served.lines))
        if span.is_gap:
            return self._stale_gap(label, span.start)
        changed = [n for n in range(span.start + 1, span.stop + 1) if n not in self._unchanged]
        if not changed:
            return None
        now = f"r{self._document.revision}"
        if len(changed) == 1:
            detail = f"line {changed[0]} is no longer what r{self._served.revision} showed you"
        else:
            detail = (
                f"{len(changed)} lines from {changed[0]} on are no longer what "
                f"r{self._served.revision} showed you"
            )
        moved = self._moved_to(changed[0])
        if moved is not None:
            detail += f"; the text of line {changed[0]} stands at line {moved} of {now}"
        return Problem("changed", label, detail, self._near(changed[0], moved))

    def _stale_gap(self, label: str, gap: int) -> Problem | None:
        """An insert needs both neighbours to stand as they stood."""
        seen = len(self._served.lines)
        neighbours = [number for number in (gap, gap + 1) if 1 <= number <= seen]
        changed = [number for number in neighbours if number not in self._unchanged]
        if changed:
            moved = self._moved_to(changed[0])
            detail = f"line {changed[0]}, beside the insert, is no longer what you were shown"
            if moved is not None:
                detail += f"; its text stands at line {moved} now"
            return Problem("changed", label, detail, self._near(changed[0], moved))
        if gap == seen and not self._same_count:
            detail = f"the file no longer ends after line {seen}"
            return Problem("changed", label, detail, (seen, len(self._document.lines)))
        return None

    def _moved_to(self, number: int) -> int | None:
        """Where a line's text is now, if it was the only one of its kind and still is."""
        text = self._served.lines[number - 1]
        if not text.strip() or self._served.lines.count(text) != 1:
            return None
        if self._document.lines.count(text) != 1:
            return None
        now = self._document.lines.index(text) + 1
        return now if now != number else None

    def _near(self, number: int, moved: int | None) -> tuple[int, ...]:
        here = min(number, max(1, len(self._document.lines)))
        return (here,) if moved is None else (here, moved)


def _unchanged_lines(served: Document, document: Document) -> Container[int]:
    """Numbers of the lines that surely are what they were; see `AnchorCheck`."""
    then = list(zip(served.lines, served.endings, strict=True))
    if served.data == document.data:
        return range(1, len(then) + 1)
    now = list(zip(document.lines, document.endings, strict=True))
    counts_then, counts_now = Counter(served.lines), Counter(document.lines)
    end_of_both = len(then) if len(then) == len(now) else None
    unchanged: set[int] = set()
    start = 0
    for at in range(len(then) + 1):
        if at < min(len(then), len(now)) and then[at] == now[at]:
            continue
        run = range(start, at)
        if (
            start == 0
            or at == end_of_both
            or any(counts_then[t := then[i][0]] == 1 == counts_now[t] for i in run)
        ):
            unchanged.update(number + 1 for number in run)
        start = at + 1
    return unchanged
