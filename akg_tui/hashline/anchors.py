"""Whether the lines an operation names may be edited, and where they stand now.

Owns the check of addresses: shown, tagged right, and surviving to the newest revision
by exact line maps. A tag only tells whether the writer copied the address right; that a
line is unchanged is known from the lineage, never from a tag. It decides, and changes nothing.
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

_SLIP_REACH = 5  # lines on either side searched for the owner of a tag
_SHOWN_AT_MOST = 60  # lines of one range quoted back in a rejection


@dataclass(frozen=True, slots=True)
class Reading:
    """One revision as its reader saw it, and the way from there to the newest.

    Attributes
    ----------
    served : Document
        The revision that the operations name.
    seen : set of int
        Numbers of its lines that the reader was shown.
    way : LineMap or None
        To `newest`; None if the file was changed by somebody else in between.
    """

    served: Document
    seen: AbstractSet[int]
    way: LineMap | None
    newest: Document
    tagger: Tagger

    def fits(self, op: Op) -> bool:
        """Every anchor of the operation was shown with this tag."""
        return all(self.is_shown(a.number, a.tag) for a in _named(op).values())

    def place(self, index: int, op: Op) -> tuple[list[Span], list[Problem]]:
        """Where the operation acts in `newest`, or everything wrong with it."""
        wrong = list(self._wrong_addresses(index, op))
        if wrong:
            return [], wrong
        problem = self._unsurvived(f"ops[{index}]{_arguments(op)}", op)
        if problem:
            return [], [problem]
        return self._spans(index, op)

    def is_shown(self, number: int, tag: str) -> bool:
        """The reader was shown this line with this tag."""
        return number in self.seen and self._tag(number) == tag

    def _tag(self, number: int) -> str:
        return self.tagger.tag(number, self.served.lines[number - 1])

    def _wrong_addresses(self, index: int, op: Op) -> Iterator[Problem]:
        named = _named(op)
        faults = [
            self._wrong_address(f"ops[{index}].{field} {anchor}", anchor)
            for field, anchor in named.items()
            if not self.is_shown(anchor.number, anchor.tag)
        ]
        yield from faults
        lines = _lines_of(op)
        if faults or lines is None:
            return
        unseen = [number for number in lines if number not in self.seen]
        if unseen:
            detail = f"line {unseen[0]} of r{self.served.revision} was not shown to you; read it"
            where = f"ops[{index}]{_arguments(op)}"
            yield Problem("never shown", where, detail, self._now(unseen))

    def _wrong_address(self, where: str, anchor: Anchor) -> Problem:
        number = anchor.number
        owner = self._owner_near(anchor)
        if owner is not None:
            detail = f"that tag belongs to another line; did you mean {owner}{anchor.tag}?"
            return Problem("slip", where, detail, self._now([owner]))
        count = len(self.served.lines)
        if number > count:
            return Problem("out of range", where, f"the file has {count} lines", (count,))
        detail = (
            f"r{self.served.revision} as you saw it has no such tag at or near line {number}; "
            "copy it from the lines below or read the file again"
        )
        return Problem("never shown", where, detail, self._now([number]) or (number,))

    def _owner_near(self, anchor: Anchor) -> int | None:
        """The nearest line shown whose tag the writer gave."""
        for distance in range(1, _SLIP_REACH + 1):
            for number in (anchor.number - distance, anchor.number + distance):
                if number in self.seen and self._tag(number) == anchor.tag:
                    return number
        return None

    def _now(self, numbers: Sequence[int]) -> tuple[int, ...]:
        """Where lines of the served revision are, as far as they can be followed."""
        if self.way is None:
            return tuple(min(n, len(self.newest.lines)) for n in numbers[:_SHOWN_AT_MOST])
        return tuple(filter(None, map(self.way.line, numbers[:_SHOWN_AT_MOST])))

    def _unsurvived(self, label: str, op: Op) -> Problem | None:
        if self.way is None:
            return self._drifted(label, op)
        lines = _lines_of(op)
        if lines is not None and self.way.run(lines[0], lines[-1]) is None:
            lost = [number for number in lines if self.way.line(number) is None]
            if lost:
                detail = (
                    f"line {lost[0]} of r{self.served.revision} was changed by your own later edit"
                )
            else:
                detail = "your own later edit put other lines between these"
            return Problem("changed", label, detail, self._around_lost(lines))
        gap = self._gap_of(op)
        if gap is not None and self.way.gap(gap) is None:
            detail = "your own later edit changed the place beside the insert"
            near = [n for n in (gap, gap + 1) if 1 <= n <= len(self.served.lines)]
            return Problem("changed", label, detail, self._around_lost(near))
        return None

    def _around_lost(self, numbers: Sequence[int]) -> tuple[int, ...]:
        """The lines of `newest` from the last survivor above to the first one below."""
        assert self.way is not None
        top, bottom = numbers[0] - 1, numbers[-1] + 1
        while top >= 1 and self.way.line(top) is None:
            top -= 1
        while bottom <= len(self.way.to) and self.way.line(bottom) is None:
            bottom += 1
        first = (self.way.line(top) or 0) if top >= 1 else 0
        last = self.way.count + 1 if bottom > len(self.way.to) else self.way.line(bottom) or 0
        here = set(self._now(numbers)) | set(range(first + 1, last)) or {first, last}
        return tuple(sorted(n for n in here if n >= 1)[:_SHOWN_AT_MOST])

    def _drifted(self, label: str, op: Op) -> Problem:
        """The file changed outside: tell where the same text stands, and follow nothing."""
        now = f"r{self.newest.revision}"
        lines = _lines_of(op) or tuple(anchor.number for anchor in _named(op).values())
        if not lines:
            detail = f"somebody else changed the file since r{self.served.revision}"
            return Problem("drift", label, detail, (1, len(self.newest.lines)))
        block = self.served.lines[lines[0] - 1 : lines[-1]]
        found = _places(block, self.newest.lines)
        said = f"somebody else changed the file since r{self.served.revision}; "
        if len(found) == 1:
            start = found[0] + 1
            still = "still stands" if start == lines[0] else "stands now"
            detail = f"{said}the text you name {still} at line {start} of {now}"
            near = range(start, start + min(len(block), _SHOWN_AT_MOST))
            return Problem("drift", label, detail, tuple(near))
        if found:
            detail = f"{said}the text you name stands at {len(found)} places of {now}"
            return Problem("drift", label, detail, tuple(at + 1 for at in found[:5]))
        detail = f"{said}the text you name is changed or gone in {now}"
        return Problem("drift", label, detail, self._now(lines))

    def _spans(self, index: int, op: Op) -> tuple[list[Span], list[Problem]]:
        """The operation in the newest revision's line numbers; its lines all survive."""
        gap = self._gap_of(op)
        at = self.way.gap(gap) or 0 if self.way and gap is not None else 0
        lines = _lines_of(op)
        start = (self.way.run(lines[0], lines[-1]) or 1) - 1 if self.way and lines else 0
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
                moving = kind == "move"
                carried = Span(
                    at,
                    at,
                    self.newest.lines[start:stop],
                    index,
                    self.newest.endings[start:stop],
                    moved_from=start if moving else None,
                )
                return [Span(start, stop, (), index), carried] if moving else [carried], []

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
        """Lines of `served` above the place where the operation puts lines in."""
        match op:
            case Insert(side, anchor) | Transfer(side=side, anchor=anchor):
                return anchor.number if side == "after" else anchor.number - 1
            case InsertAtEdge(edge):
                return 0 if edge == "head" else len(self.served.lines)
        return None


def _named(op: Op) -> dict[str, Anchor]:
    match op:
        case Replace(start, stop) | Delete(start, stop):
            return {"from": start} if start == stop else {"from": start, "to": stop}
        case Transfer(_, start, stop, side, anchor):
            ends = {"from": start} if start == stop else {"from": start, "to": stop}
            return {**ends, side: anchor}
        case Insert(side, anchor):
            return {side: anchor}
        case Sub(anchor):
            return {"at": anchor}
        case InsertAtEdge():
            return {}


def _arguments(op: Op) -> str:
    return "".join(f" {field}={anchor}" for field, anchor in _named(op).items())


def _lines_of(op: Op) -> Sequence[int] | None:
    """Numbers of the lines that the operation changes, takes away or carries."""
    match op:
        case Replace(start, stop) | Delete(start, stop) | Transfer(_, start, stop):
            return range(start.number, stop.number + 1)
        case Sub(anchor):
            return (anchor.number,)
    return None


def _places(block: Sequence[str], lines: Sequence[str]) -> list[int]:
    """Every position (from 0) at which `block` stands in `lines`."""
    found: list[int] = []
    at = -1
    while True:
        try:
            at = lines.index(block[0], at + 1)
        except ValueError:
            return found
        if tuple(lines[at : at + len(block)]) == tuple(block):
            found.append(at)
