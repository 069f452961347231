"""The diff of two kernel texts: rows, hunks, side by side, and changed words.

Pure. Compares whole, unsanitized lines; the code that draws a line sanitizes the line.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from enum import Enum
from itertools import accumulate
from typing import NamedTuple

from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.hashline.document import Document
from akg_tui.view.lazy_rows import OnDemand


class Kind(Enum):
    SAME = " "
    ADDED = "+"
    REMOVED = "-"
    GAP = "~"


class Row(NamedTuple):
    """A line of the comparison. `old` and `new` are its line numbers from 1; 0: none.

    A GAP replaces `old` hidden lines that are equal in both texts.
    """

    kind: Kind
    old: int
    new: int
    text: str = ""


class Run(NamedTuple):
    """`rows` adjacent rows of one kind; `old` and `new` are the numbers of the first row."""

    kind: Kind
    old: int
    new: int
    rows: int


class Compared(OnDemand[Row]):
    """The rows of a comparison, each built from its run on access.

    `last` is the largest line number that a row may have. `numbers` has the number of each old and
    each new row in its file, 0 for a heading; it is None for a single file, whose rows are lines.
    """

    def __init__(
        self,
        old: Sequence[str],
        new: Sequence[str],
        runs: Sequence[Run],
        numbers: tuple[Sequence[int], Sequence[int]] | None = None,
    ) -> None:
        self._old, self._new = old, new
        self.runs = tuple(runs)
        self.numbers = numbers
        self._ends = tuple(accumulate(run.rows for run in self.runs))
        self.last = max(1, len(old), len(new))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[Row]:
        for run in self.runs:
            for offset in range(run.rows):
                yield self._row(run, offset)

    def _made(self, index: int) -> Row:
        number = bisect_right(self._ends, index)
        run = self.runs[number]
        return self._row(run, index - self._ends[number] + run.rows)

    def _row(self, run: Run, offset: int) -> Row:
        kind, old, new, _ = run
        if kind is Kind.SAME:
            return Row(kind, old + offset, new + offset, self._new[new + offset - 1])
        if kind is Kind.ADDED:
            return Row(kind, 0, new + offset, self._new[new + offset - 1])
        if kind is Kind.REMOVED:
            return Row(kind, old + offset, 0, self._old[old + offset - 1])
        return Row(kind, old, 0)

    def texts(self) -> list[str]:
        """Return the text of every row without building the rows."""
        found: list[str] = []
        for kind, old, new, count in self.runs:
            if kind is Kind.GAP:
                found += [""] * count
            elif kind is Kind.REMOVED:
                found += self._old[old - 1 : old - 1 + count]
            else:
                found += self._new[new - 1 : new - 1 + count]
        return found

    def headings(self, run: Run, start: int, count: int) -> list[int]:
        """Return the rows of a run of equal lines, from `start` on, that are headings of files."""
        if self.numbers is None:
            return []
        number, first = self.numbers[1], run.new - 1
        return [at for at in range(start, start + count) if not number[first + at]]

    def in_files(self, row: Row) -> tuple[int, int]:
        """Return the numbers of a row's lines in their files; 0: none, or a heading."""
        if self.numbers is None:
            return row.old, row.new
        old, new = self.numbers
        return (old[row.old - 1] if row.old else 0, new[row.new - 1] if row.new else 0)

    def of(self, runs: Sequence[Run]) -> Compared:
        """Return a comparison of these two texts with other runs."""
        return Compared(self._old, self._new, runs, self.numbers)


def compare_kernels(old: KernelFiles, new: KernelFiles) -> Compared:
    """Return the comparison of all rows of two kernels."""
    found = compare(split_lines(old.page), split_lines(new.page))
    if len(old.texts) > 1 or len(new.texts) > 1:
        before, after = ([place.line for place in each.places] for each in (old, new))
        found.numbers = before, after
    return found


def split_lines(text: str) -> tuple[str, ...]:
    """Return the lines of a kernel as hashline counts them."""
    return Document.from_text(text, path="").lines


def compare(old: Sequence[str], new: Sequence[str]) -> Compared:
    """Return every line of both texts once, as same, removed or added."""
    old, new = tuple(old), tuple(new)
    head, foot = _ends(old, new)
    end_old, end_new = len(old) - foot, len(new) - foot
    runs: list[Run] = []
    _append(runs, Kind.SAME, 1, 1, head)
    start_old, start_new = done_old, done_new = head, head
    for i, j in (*_anchors(old, new, head, foot), (end_old, end_new)):
        if old[done_old:i] != new[done_new:j]:  # else the run continues up to the anchor
            _append(runs, Kind.SAME, start_old + 1, start_new + 1, done_old - start_old)
            _between(runs, old, new, (done_old, i), (done_new, j))
            start_old, start_new = i, j
        done_old, done_new = i + 1, j + 1
    _append(runs, Kind.SAME, start_old + 1, start_new + 1, len(old) - start_old)
    return Compared(old, new, runs)


def _append(runs: list[Run], kind: Kind, old: int, new: int, count: int) -> None:
    """Append `count` rows; extend the last run if it is of this kind."""
    if not count:
        return
    if runs and runs[-1].kind is kind:  # consecutive rows of one kind are adjacent
        runs[-1] = runs[-1]._replace(rows=runs[-1].rows + count)
    else:
        runs.append(Run(kind, old, new, count))


def _ends(old: tuple[str, ...], new: tuple[str, ...]) -> tuple[int, int]:
    """Return the number of equal lines at the beginning, and of equal later lines at the end."""
    least = min(len(old), len(new))
    head = _alike(old, new, least)
    return head, _alike(old[::-1], new[::-1], least - head)


def _alike(one: tuple[str, ...], other: tuple[str, ...], most: int) -> int:
    """Return the number of equal lines from the beginning on, at most `most`."""
    return next((n for n in range(most) if one[n] != other[n]), most)


def _between(
    runs: list[Run],
    old: Sequence[str],
    new: Sequence[str],
    in_old: tuple[int, int],
    in_new: tuple[int, int],
) -> None:
    """Append the runs of the lines between two anchors."""
    (i0, i_end), (j0, j_end) = in_old, in_new
    matcher = SequenceMatcher(None, old[i0:i_end], new[j0:j_end])
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            _append(runs, Kind.SAME, i0 + i1 + 1, j0 + j1 + 1, i2 - i1)
            continue
        _append(runs, Kind.REMOVED, i0 + i1 + 1, 0, i2 - i1)
        _append(runs, Kind.ADDED, 0, j0 + j1 + 1, j2 - j1)


def _anchors(old: Sequence[str], new: Sequence[str], head: int, foot: int) -> list[tuple[int, int]]:
    """Return pairs of equal lines that divide the comparison, between the common ends: the
    longest increasing sequence of lines unique in each text (Bram Cohen's patience diff).
    """
    end_old, end_new = len(old) - foot, len(new) - foot
    once_old, once_new = _once(old, head, end_old), _once(new, head, end_new)
    unique = [(i, once_new[text]) for text, i in once_old.items() if text in once_new]
    return _longest_rising(unique)


def _once(lines: Sequence[str], start: int, end: int) -> dict[str, int]:
    """Return the index of each line that occurs exactly once, in order."""
    part = lines[start:end]
    last = dict(zip(part, range(start, end), strict=True))
    if len(last) == len(part):
        return last
    first = dict(zip(reversed(part), range(end - 1, start - 1, -1), strict=True))
    return {text: n for text, n in last.items() if first[text] == n}


def _longest_rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest subsequence of `pairs`, sorted by first, that rises in the second."""
    seconds = [j for _, j in pairs]
    if seconds == sorted(seconds):  # no line was moved, as after most edits
        return list(pairs)
    tops: list[int] = []
    piles: list[int] = []
    before: list[int] = []
    for number, (_, j) in enumerate(pairs):
        place = bisect_left(tops, j)
        before.append(piles[place - 1] if place else -1)
        tops[place : place + 1] = [j]
        piles[place : place + 1] = [number]
    rising: list[tuple[int, int]] = []
    number = piles[-1] if piles else -1
    while number >= 0:
        rising.append(pairs[number])
        number = before[number]
    return rising[::-1]


def folded(rows: Compared, context: int) -> Compared:
    """Return the changed rows with `context` rows around them; a GAP counts hidden rows.

    The headings of a kernel in several files stay, so that each change stands below its file.
    """
    shown: list[Run] = []
    for number, run in enumerate(rows.runs):
        if run.kind is not Kind.SAME:
            shown.append(run)
            continue
        head = min(context, run.rows) if number else 0
        foot = min(context, run.rows - head) if number + 1 < len(rows.runs) else 0
        hidden = run.rows - head - foot
        if not hidden:
            shown.append(run)
            continue
        _append(shown, Kind.SAME, run.old, run.new, head)
        before, done = head, head + hidden
        for at in (*rows.headings(run, head, hidden), done):
            if at > before:
                shown.append(Run(Kind.GAP, at - before, 0, 1))
            if at < done:
                _append(shown, Kind.SAME, run.old + at, run.new + at, 1)
            before = at + 1
        _append(shown, Kind.SAME, run.old + done, run.new + done, foot)
    return rows.of(shown)


def size(rows: Compared) -> tuple[int, int]:
    """Return the numbers of added and removed lines."""
    count = dict.fromkeys(Kind, 0)
    for run in rows.runs:
        count[run.kind] += run.rows
    return count[Kind.ADDED], count[Kind.REMOVED]


ALIKE = 0.4  # smallest common share of two lines for which changed words are marked
MAX_WORDS = 400

Ranges = tuple[tuple[int, int], ...]

_WORD = re.compile(r"\w+|\s+|[^\w\s]")


@dataclass(frozen=True)
class Hunk:
    """Rows `start` up to `stop`; rows before `middle` were removed, the others added.

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
    """Return the hunks of a comparison, in order."""
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
    """Return the row that replaced `row`, or that `row` replaced; None where there is none."""
    if row < hunk.middle:
        other = hunk.middle + (row - hunk.start)
        return other if other < hunk.stop else None
    other = hunk.start + (row - hunk.middle)
    return other if other < hunk.middle else None


class SideBySide(OnDemand[tuple[int | None, int | None]]):
    """Pairs of row numbers to draw side by side: old at the left, new at the right.

    A removed run is paired with the added run that follows it. `starts` holds the index of the
    first pair of each hunk.
    """

    def __init__(self, rows: Sequence[Row], hunks: Sequence[Hunk]) -> None:
        self._hunks = hunks
        self.starts: list[int] = []
        saved = 0  # rows that share a pair with another row
        for hunk in hunks:
            self.starts.append(hunk.start - saved)
            saved += min(hunk.removed, hunk.added)
        self._count = len(rows) - saved

    def __len__(self) -> int:
        return self._count

    def _made(self, index: int) -> tuple[int | None, int | None]:
        number = bisect_right(self.starts, index) - 1
        if number < 0:
            return index, index
        hunk, offset = self._hunks[number], index - self.starts[number]
        beyond = offset - max(hunk.removed, hunk.added)
        if beyond >= 0:
            return hunk.stop + beyond, hunk.stop + beyond
        left = hunk.start + offset if offset < hunk.removed else None
        right = hunk.middle + offset if offset < hunk.added else None
        return left, right


def changed_ranges(rows: Sequence[Row], hunk: Hunk, number: int) -> Ranges:
    """Return the ranges of row `number` of a hunk that differ from its partner row."""
    other = partner(hunk, number)
    if other is None:
        return ()
    if number < hunk.middle:
        return changed_words(rows[number].text, rows[other].text)[0]
    return changed_words(rows[other].text, rows[number].text)[1]


def changed_words(old: str, new: str) -> tuple[Ranges, Ranges]:
    """Return the character ranges that differ in two lines; none if they share too little."""
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
    ends_before, ends_after = ([0, *accumulate(map(len, words))] for words in (before, after))
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag != "equal":
            if i2 > i1:
                left.append((ends_before[i1], ends_before[i2]))
            if j2 > j1:
                right.append((ends_after[j1], ends_after[j2]))
    return tuple(left), tuple(right)
