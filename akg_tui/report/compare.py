"""The seed beside the best kernel, line by line, with the words that changed. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

CONTEXT = 3
ALIKE = 0.4  # less alike than this, two lines are two lines, and their words say nothing
MAX_WORDS = 400  # in a line, beyond which its words are not compared

_WORD = re.compile(r"\w+|\s+|[^\w\s]")

Words = tuple[tuple[str, bool], ...]
"""Pieces of a line; True where it differs from its counterpart."""


class Row(Struct, frozen=True):
    """One line of a diff. `mark` is ``+``, ``-``, a blank, or ``@`` for what was left out."""

    mark: str
    before: int | None
    after: int | None
    words: Words


def rows(before: str, after: str) -> list[Row]:
    """The diff of two texts in one column, with `CONTEXT` lines around each change."""
    old, new = _lines(before), _lines(after)
    found: list[Row] = []
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=len(old) + len(new) > 4000)
    for group in matcher.get_grouped_opcodes(CONTEXT):
        found.append(_gap(group, bool(found)))
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                found += [
                    Row(" ", i + 1, j + 1, ((new[j], False),))
                    for i, j in zip(range(i1, i2), range(j1, j2), strict=True)
                ]
            else:
                found += _changed(old[i1:i2], new[j1:j2], i1, j1)
    return found


def counts(found: Sequence[Row]) -> tuple[int, int]:
    """Lines added and removed."""
    return sum(r.mark == "+" for r in found), sum(r.mark == "-" for r in found)


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    return lines[:-1] if lines and lines[-1] == "" else lines


def _gap(group: Sequence[tuple[str, int, int, int, int]], inner: bool) -> Row:
    first, last = group[0], group[-1]
    where = f"lines {first[3] + 1} to {last[4]}"
    return Row("@", None, None, ((f"… {where}" if inner else where, False),))


def _changed(old: list[str], new: list[str], at_old: int, at_new: int) -> Iterator[Row]:
    pairs = list(zip(old, new, strict=False)) if len(old) == len(new) else []
    told = [_words(left, right) for left, right in pairs]
    for i, line in enumerate(old):
        yield Row("-", at_old + i + 1, None, told[i][0] if told else ((line, False),))
    for j, line in enumerate(new):
        yield Row("+", None, at_new + j + 1, told[j][1] if told else ((line, False),))


def _words(old: str, new: str) -> tuple[Words, Words]:
    left, right = _WORD.findall(old), _WORD.findall(new)
    matcher = difflib.SequenceMatcher(None, left, right, autojunk=False)
    if max(len(left), len(right)) > MAX_WORDS or matcher.ratio() < ALIKE:
        return ((old, False),), ((new, False),)
    before: list[tuple[str, bool]] = []
    after: list[tuple[str, bool]] = []
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        for side, words in ((before, left[i1:i2]), (after, right[j1:j2])):
            if words:
                side.append(("".join(words), tag != "equal"))
    return tuple(before), tuple(after)
