"""Two kernel texts compared line by line, as rows a view can draw. Pure.

Compares whole lines as they are in the files; cleaning them for the screen is the business
of who draws them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from enum import Enum
from typing import NamedTuple

from akg_tui.hashline.document import Document


class Kind(Enum):
    SAME = " "
    ADDED = "+"
    REMOVED = "-"
    GAP = "~"


class Row(NamedTuple):
    """A line of the comparison. `old` and `new` are its numbers from 1, where it has one.

    A GAP stands for `old` lines left out, the same in both texts.
    """

    kind: Kind
    old: int
    new: int
    text: str = ""


def split_lines(text: str) -> tuple[str, ...]:
    """The lines of a kernel, as hashline counts them."""
    return Document.from_text(text, path="").lines


def compare(old: Sequence[str], new: Sequence[str]) -> tuple[Row, ...]:
    """Every line of both texts, once: same, removed or added."""
    head, foot = _ends(old, new)
    end_old, end_new = len(old) - foot, len(new) - foot
    same, shift = Kind.SAME, end_new - end_old
    rows = [Row(same, n, n, text) for n, text in enumerate(old[:head], 1)]
    done_old = done_new = head
    for i, j in (*_anchors(old, new, head, foot), (end_old, end_new)):
        _between(rows, old, new, (done_old, i), (done_new, j))
        if i < end_old:
            rows.append(Row(same, i + 1, j + 1, old[i]))
        done_old, done_new = i + 1, j + 1
    rows += [Row(same, n, n + shift, text) for n, text in enumerate(old[end_old:], end_old + 1)]
    return tuple(rows)


def _ends(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """How many lines are the same at the beginning, and how many of the others at the end."""
    least = min(len(old), len(new))
    head = 0
    while head < least and old[head] == new[head]:
        head += 1
    foot = 0
    while foot < least - head and old[-1 - foot] == new[-1 - foot]:
        foot += 1
    return head, foot


def _between(
    rows: list[Row],
    old: Sequence[str],
    new: Sequence[str],
    in_old: tuple[int, int],
    in_new: tuple[int, int],
) -> None:
    """Append what lies between two anchors."""
    (i0, i_end), (j0, j_end) = in_old, in_new
    if i0 == i_end and j0 == j_end:
        return
    matcher = SequenceMatcher(None, old[i0:i_end], new[j0:j_end])
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            pairs = zip(range(i0 + i1, i0 + i2), range(j0 + j1, j0 + j2), strict=True)
            rows += [Row(Kind.SAME, i + 1, j + 1, old[i]) for i, j in pairs]
            continue
        rows += [Row(Kind.REMOVED, i + 1, 0, old[i]) for i in range(i0 + i1, i0 + i2)]
        rows += [Row(Kind.ADDED, 0, j + 1, new[j]) for j in range(j0 + j1, j0 + j2)]


def _anchors(old: Sequence[str], new: Sequence[str], head: int, foot: int) -> list[tuple[int, int]]:
    """Pairs of equal lines to divide the work at, between the common ends: the longest
    rising run of lines that stand once in each text (Bram Cohen's patience diff).
    """
    end_old, end_new = len(old) - foot, len(new) - foot
    once_old = _once(old, head, end_old)
    once_new = _once(new, head, end_new)
    unique = [(i, once_new[text]) for text, i in once_old.items() if text in once_new]
    return _longest_rising(unique)


def _once(lines: Sequence[str], start: int, end: int) -> dict[str, int]:
    """Where each line stands that is there once, in order."""
    counts = Counter(lines[start:end])
    return {lines[n]: n for n in range(start, end) if counts[lines[n]] == 1}


def _longest_rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest subsequence of `pairs`, rising in the first, that rises in the second too."""
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


def folded(rows: Sequence[Row], context: int) -> tuple[Row, ...]:
    """The changed rows with `context` rows around them; a GAP counts what is left out."""
    keep = [False] * len(rows)
    for index, row in enumerate(rows):
        if row.kind is not Kind.SAME:
            low, high = max(0, index - context), min(len(rows), index + context + 1)
            keep[low:high] = [True] * (high - low)
    shown: list[Row] = []
    hidden = 0
    for row, kept in zip(rows, keep, strict=True):
        if not kept:
            hidden += 1
            continue
        if hidden:
            shown.append(Row(Kind.GAP, hidden, 0))
            hidden = 0
        shown.append(row)
    if hidden:
        shown.append(Row(Kind.GAP, hidden, 0))
    return tuple(shown)


def hunks(rows: Sequence[Row]) -> tuple[int, ...]:
    """Where each run of changed rows begins."""
    still = (Kind.SAME, Kind.GAP)
    changed = [i for i, row in enumerate(rows) if row[0] not in still]
    return tuple(i for n, i in enumerate(changed) if n == 0 or changed[n - 1] != i - 1)


def size(rows: Sequence[Row]) -> tuple[int, int]:
    """Lines added and removed."""
    added = sum(row.kind is Kind.ADDED for row in rows)
    return added, sum(row.kind is Kind.REMOVED for row in rows)


def paired(rows: Sequence[Row]) -> tuple[tuple[Row | None, Row | None], ...]:
    """The rows side by side: what is the same on both, a removed run beside the added one."""
    pairs: list[tuple[Row | None, Row | None]] = []
    removed: list[Row] = []
    added: list[Row] = []

    def flush() -> None:
        for n in range(max(len(removed), len(added))):
            pairs.append(
                (removed[n] if n < len(removed) else None, added[n] if n < len(added) else None)
            )
        removed.clear()
        added.clear()

    for row in rows:
        if row.kind is Kind.REMOVED:
            removed.append(row)
        elif row.kind is Kind.ADDED:
            added.append(row)
        else:
            flush()
            pairs.append((row, row))
    flush()
    return tuple(pairs)
