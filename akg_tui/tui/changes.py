"""What changed inside a comparison: its hunks, the lines that became others, the words in them.

Pure. A hunk is a run of changed rows; within it the first removed line became the first added
one, and so on, as far as there are both.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from akg_tui.tui.compare import Compared, Kind, Row, Run

ALIKE = 0.4  # less of a line than this in common, and it is another line
MAX_WORDS = 400

Ranges = tuple[tuple[int, int], ...]

_WORD = re.compile(r"\w+|\s+|[^\w\s]")


@dataclass(frozen=True)
class Hunk:
    """Rows `start` up to `stop`, of which those before `middle` were removed.

    `number` counts from 1. `old` and `new` are the first line of each side, 0 where the
    hunk has none.
    """

    number: int
    start: int
    middle: int
    stop: int
    old: int
    new: int

    @property
    def removed(self) -> int:
        return self.middle - self.start

    @property
    def added(self) -> int:
        return self.stop - self.middle


def find_hunks(rows: Compared) -> tuple[Hunk, ...]:
    """The hunks of a comparison, in order."""
    found: list[Hunk] = []
    at = 0
    before: Run | None = None
    for run in rows.runs:
        stop = at + run.rows
        if run.kind is Kind.REMOVED:
            found.append(Hunk(len(found) + 1, at, stop, stop, run.old, 0))
        elif run.kind is Kind.ADDED and before is not None and before.kind is Kind.REMOVED:
            found[-1] = replace(found[-1], stop=stop, new=run.new)
        elif run.kind is Kind.ADDED:
            found.append(Hunk(len(found) + 1, at, at, stop, 0, run.new))
        at, before = stop, run
    return tuple(found)


def partner(hunk: Hunk, row: int) -> int | None:
    """The row that `row` became, or came from; None when it has none."""
    if row < hunk.middle:
        other = hunk.middle + (row - hunk.start)
        return other if other < hunk.stop else None
    other = hunk.start + (row - hunk.middle)
    return other if other < hunk.middle else None


def side_by_side(
    rows: Sequence[Row], hunks: Sequence[Hunk]
) -> tuple[tuple[int | None, int | None], ...]:
    """Pairs of row numbers to stand beside each other, old at the left and new at the right."""
    pairs: list[tuple[int | None, int | None]] = []
    at = 0
    for hunk in hunks:
        pairs += [(n, n) for n in range(at, hunk.start)]
        for offset in range(max(hunk.removed, hunk.added)):
            left = hunk.start + offset if offset < hunk.removed else None
            right = hunk.middle + offset if offset < hunk.added else None
            pairs.append((left, right))
        at = hunk.stop
    pairs += [(n, n) for n in range(at, len(rows))]
    return tuple(pairs)


def changed_words(old: str, new: str) -> tuple[Ranges, Ranges]:
    """Character ranges that differ between two lines; none where they have little in common."""
    before, after = _WORD.findall(old), _WORD.findall(new)
    if len(before) + len(after) > MAX_WORDS:
        return (), ()
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    same = sum(
        len("".join(before[i : i + size]).strip()) for i, _, size in matcher.get_matching_blocks()
    )
    if same < ALIKE * max(len(old.strip()), len(new.strip()), 1):
        return (), ()
    left: list[tuple[int, int]] = []
    right: list[tuple[int, int]] = []
    ends_before, ends_after = _ends(before), _ends(after)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag != "equal":
            if i2 > i1:
                left.append((ends_before[i1], ends_before[i2]))
            if j2 > j1:
                right.append((ends_after[j1], ends_after[j2]))
    return tuple(left), tuple(right)


def _ends(words: Sequence[str]) -> list[int]:
    ends = [0]
    for word in words:
        ends.append(ends[-1] + len(word))
    return ends
