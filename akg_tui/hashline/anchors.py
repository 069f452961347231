"""The check of an operation's anchors, and the current position of the lines that they name.

An anchor is accepted if its line was shown, its tag is right, and an exact line map leads to the
newest revision. A tag only proves that the model copied the anchor correctly; the lineage, never a
tag, proves that a line is unchanged. The module decides, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from akg_tui.hashline.document import Document
from akg_tui.hashline.lineage import LineMap
from akg_tui.hashline.ops import Anchor, Delete, Insert, InsertAtEdge, Op, Replace, Sub, Transfer
from akg_tui.hashline.rejection import Problem
from akg_tui.hashline.splice import Span
from akg_tui.hashline.tags import Tagger

_SLIP_REACH = 5  # lines on either side that are searched for a mistaken tag
_MAX_QUOTED = 60  # lines of one range quoted back in a rejection


@dataclass(frozen=True, slots=True)
class ShownRevision:
    """One revision, the lines of it that its reader was shown, and its map to the newest.

    - `document`: the revision that the operations name.
    - `shown`: numbers of the lines of `document` that the reader was shown.
    - `line_map`: the map to `newest`; None if another program changed the file in between.
    """

    document: Document
    shown: AbstractSet[int]
    line_map: LineMap | None
    newest: Document
    tagger: Tagger

    def has_anchors(self, op: Op) -> bool:
        """Return whether every anchor of the operation was shown with its tag."""
        return all(self.is_shown(a.number, a.tag) for a in _anchors_of(op).values())

    def place(self, index: int, op: Op) -> tuple[list[Span], list[Problem]]:
        """Return the spans of `newest` that the operation changes, or every problem with it."""
        wrong = list(self._anchor_problems(index, op))
        if wrong:
            return [], wrong
        problem = self._survival_problem(f"ops[{index}]{_label(op)}", op)
        if problem:
            return [], [problem]
        return self._spans(index, op)

    def is_shown(self, number: int, tag: str) -> bool:
        """Return whether the reader was shown this line with this tag."""
        if number not in self.shown:
            return False
        return self.tagger.tag(number, self.document.lines[number - 1]) == tag

    def _anchor_problems(self, index: int, op: Op) -> Iterator[Problem]:
        anchors = _anchors_of(op)
        faults = [
            self._anchor_problem(f"ops[{index}].{field} {anchor}", anchor)
            for field, anchor in anchors.items()
            if not self.is_shown(anchor.number, anchor.tag)
        ]
        yield from faults
        lines = _lines_of(op)
        if faults or lines is None:
            return
        unseen = [number for number in lines if number not in self.shown]
        if unseen:
            detail = f"line {unseen[0]} of r{self.document.revision} was not shown to you; read it"
            where = f"ops[{index}]{_label(op)}"
            yield Problem("never shown", where, detail, self._current(unseen))

    def _anchor_problem(self, where: str, anchor: Anchor) -> Problem:
        number = anchor.number
        near = (number + sign * step for step in range(1, _SLIP_REACH + 1) for sign in (-1, 1))
        owner = next((each for each in near if self.is_shown(each, anchor.tag)), None)
        if owner is not None:
            detail = f"that tag belongs to another line; did you mean {owner}{anchor.tag}?"
            return Problem("slip", where, detail, self._current([owner]))
        count = len(self.document.lines)
        if number > count:
            return Problem("out of range", where, f"the file has {count} lines", (count,))
        detail = (
            f"r{self.document.revision} as you saw it has no such tag at or near line {number}; "
            "copy it from the lines below or read the file again"
        )
        return Problem("never shown", where, detail, self._current([number]) or (number,))

    def _current(self, numbers: Sequence[int]) -> tuple[int, ...]:
        """Return the current numbers of surviving lines; without a map, the old numbers."""
        if self.line_map is None:
            return tuple(min(n, len(self.newest.lines)) for n in numbers[:_MAX_QUOTED])
        return tuple(filter(None, map(self.line_map.line, numbers[:_MAX_QUOTED])))

    def _survival_problem(self, label: str, op: Op) -> Problem | None:
        if self.line_map is None:
            return self._drifted(label, op)
        lines = _lines_of(op)
        if lines is not None and self.line_map.run(lines[0], lines[-1]) is None:
            detail = "your own later edit put other lines between these"
            lost = next((number for number in lines if self.line_map.line(number) is None), None)
            if lost is not None:
                of = f"line {lost} of r{self.document.revision}"
                detail = f"{of} was changed by your own later edit"
            return Problem("changed", label, detail, self._around_lost(lines))
        gap = self._gap_of(op)
        if gap is not None and self.line_map.gap(gap) is None:
            detail = "your own later edit changed the place beside the insert"
            near = [n for n in (gap, gap + 1) if 1 <= n <= len(self.document.lines)]
            return Problem("changed", label, detail, self._around_lost(near))
        return None

    def _around_lost(self, numbers: Sequence[int]) -> tuple[int, ...]:
        """Return the lines of `newest` between the nearest surviving lines above and below."""
        assert self.line_map is not None
        to, top, bottom = self.line_map.to, numbers[0] - 1, numbers[-1] + 1
        while top >= 1 and not to[top - 1]:
            top -= 1
        while bottom <= len(to) and not to[bottom - 1]:
            bottom += 1
        first = to[top - 1] if top >= 1 else 0
        last = to[bottom - 1] if bottom <= len(to) else self.line_map.count + 1
        here = set(self._current(numbers)) | set(range(first + 1, last)) or {first, last}
        return tuple(sorted(n for n in here if n >= 1)[:_MAX_QUOTED])

    def _drifted(self, label: str, op: Op) -> Problem:
        """Return the problem of a file changed from outside, with the text's new position."""
        outside = f"somebody else changed the file since r{self.document.revision}"
        lines = _lines_of(op) or tuple(anchor.number for anchor in _anchors_of(op).values())
        if not lines:
            return Problem("drift", label, outside, (1, len(self.newest.lines)))
        block = self.document.lines[lines[0] - 1 : lines[-1]]
        found = _places(block, self.newest.lines)
        if len(found) == 1:
            start = found[0] + 1
            place = f"{'still stands' if start == lines[0] else 'stands now'} at line {start} of"
            near = tuple(range(start, start + min(len(block), _MAX_QUOTED)))
        elif found:
            place = f"stands at {len(found)} places of"
            near = tuple(at + 1 for at in found[:5])
        else:
            place, near = "is changed or gone in", self._current(lines)
        detail = f"{outside}; the text you name {place} r{self.newest.revision}"
        return Problem("drift", label, detail, near)

    def _spans(self, index: int, op: Op) -> tuple[list[Span], list[Problem]]:
        """Return the operation as spans of the newest revision; all its lines have survived."""
        gap = self._gap_of(op)
        at = self.line_map.gap(gap) or 0 if self.line_map and gap is not None else 0
        lines = _lines_of(op)
        start = (self.line_map.run(lines[0], lines[-1]) or 1) - 1 if self.line_map and lines else 0
        stop = start + len(lines or ())
        match op:
            case Replace(lines=payload):
                return [Span(start, stop, payload, index)], []
            case Delete():
                return [Span(start, stop, (), index)], []
            case Insert(lines=payload) | InsertAtEdge(lines=payload):
                return [Span(at, at, payload, index)], []
            case Sub():
                return self._substituted(index, op, start)
            case Transfer(kind=kind):
                text, endings = self.newest.lines[start:stop], self.newest.endings[start:stop]
                if kind == "copy":
                    return [Span(at, at, text, index, endings)], []
                moved = Span(at, at, text, index, endings, moved_from=start)
                return [Span(start, stop, (), index), moved], []

    def _substituted(self, index: int, op: Sub, at: int) -> tuple[list[Span], list[Problem]]:
        text = self.newest.lines[at]
        first = text.find(op.find)
        if first < 0 or text.find(op.find, first + 1) >= 0:
            times = "not" if first < 0 else "more than once"
            detail = f"the text to find stands {times} in the line; give it with what is around it"
            return [], [Problem("not once", f"ops[{index}].find", detail, (at + 1,))]
        changed = text[:first] + op.instead + text[first + len(op.find) :]
        return [Span(at, at + 1, (changed,), index, self.newest.endings[at : at + 1])], []

    def _gap_of(self, op: Op) -> int | None:
        """Return the number of lines of `document` above the operation's insert, if it has one."""
        match op:
            case Insert(side, anchor) | Transfer(side=side, anchor=anchor):
                return anchor.number if side == "after" else anchor.number - 1
            case InsertAtEdge(edge):
                return 0 if edge == "head" else len(self.document.lines)
        return None


def _anchors_of(op: Op) -> dict[str, Anchor]:
    match op:
        case Insert(side, anchor):
            return {side: anchor}
        case Sub(anchor):
            return {"at": anchor}
        case InsertAtEdge():
            return {}
    ends = {"from": op.start} if op.start == op.stop else {"from": op.start, "to": op.stop}
    return {**ends, op.side: op.anchor} if isinstance(op, Transfer) else ends


def untagged_lines(ops: Sequence[Op]) -> list[int]:
    """Return the numbers of the lines that `ops` remove or move without giving their tags."""
    named = {anchor.number for op in ops for anchor in _anchors_of(op).values()}
    copies = [op for op in ops if isinstance(op, Transfer) and op.kind == "copy"]
    touched = {line for op in ops if op not in copies for line in _lines_of(op) or ()}
    return sorted(touched - named)


def _label(op: Op) -> str:
    return "".join(f" {field}={anchor}" for field, anchor in _anchors_of(op).items())


def _lines_of(op: Op) -> Sequence[int] | None:
    """Return the numbers of the lines that the operation changes, removes, moves or copies."""
    match op:
        case Replace(start, stop) | Delete(start, stop) | Transfer(_, start, stop):
            return range(start.number, stop.number + 1)
        case Sub(anchor):
            return (anchor.number,)
    return None


def _places(block: Sequence[str], lines: Sequence[str]) -> list[int]:
    """Return every position (from 0) at which `block` occurs in `lines`."""
    count = len(block)
    return [
        at
        for at in range(len(lines) - count + 1)
        if lines[at] == block[0] and tuple(lines[at : at + count]) == tuple(block)
    ]
