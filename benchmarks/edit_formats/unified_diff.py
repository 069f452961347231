"""The unified diff, applied like patch(1): near the named line, with up to two lines of fuzz."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from akg_tui.hashline.document import Document
from akg_tui.hashline.splice import Span
from benchmarks.edit_formats.patch_format import BadPatch

_FUZZ: Final = 2  # rows of context at either end that may differ, as with ``patch -F``
_HUNK: Final = re.compile(r"@@ -(\d{1,9})(?:,\d+)? \+\d+(?:,\d+)? @@.*", re.ASCII)


@dataclass(slots=True)
class _HunkRows:
    start: int
    rows: list[tuple[str, str]] = field(default_factory=list)

    def context(self) -> tuple[int, int]:
        """Return the numbers of context rows at the top and at the bottom."""
        signs = [sign for sign, _ in self.rows]
        top = next((i for i, sign in enumerate(signs) if sign != " "), len(signs))
        bottom = next((i for i, sign in enumerate(reversed(signs)) if sign != " "), 0)
        return top, bottom


def unified_diff_spans(document: Document, diff: str) -> list[Span]:
    """Return the spans of the document that a unified diff changes. Raises `BadPatch`."""
    spans: list[Span] = []
    offset = done = 0
    for hunk in _parse(diff):
        found = _find(document.lines, hunk, hunk.start + offset, done)
        if found is None:
            raise BadPatch(f"the hunk at line {hunk.start + 1} fits nowhere")
        at, rows = found
        spans += _changes(rows, at, len(spans))
        done = at + sum(sign != "+" for sign, _ in rows)
        skipped = min(_FUZZ, hunk.context()[0]) if len(rows) < len(hunk.rows) else 0
        offset = at - hunk.start - skipped
    return spans


def _find(
    lines: Sequence[str], hunk: _HunkRows, expected: int, done: int
) -> tuple[int, list[tuple[str, str]]] | None:
    """Return the nearest place that fits with the least fuzz, and the rows without the fuzz."""
    top, bottom = hunk.context()
    for fuzz in range(_FUZZ + 1):
        skip, drop = min(fuzz, top), min(fuzz, bottom)
        rows = hunk.rows[skip : len(hunk.rows) - drop]
        old = tuple(text for sign, text in rows if sign != "+")
        places = range(done, len(lines) - len(old) + 1)
        wanted = expected + skip
        fitting = (at for at in places if tuple(lines[at : at + len(old)]) == old)
        nearest = min(fitting, key=lambda at: abs(at - wanted), default=None)
        if nearest is not None:
            return nearest, rows
    return None


def _parse(diff: str) -> list[_HunkRows]:
    hunks: list[_HunkRows] = []
    for row in diff.removesuffix("\n").split("\n"):
        if row.startswith("@@"):
            match = _HUNK.fullmatch(row)
            if match is None:
                raise BadPatch(f"a hunk begins like @@ -3,7 +3,8 @@, not {row[:40]!r}")
            hunks.append(_HunkRows(max(0, int(match[1]) - 1)))
        elif hunks and row[:1] in (" ", "+", "-", ""):
            hunks[-1].rows.append((row[:1] or " ", row[1:]))
        elif hunks and not row.startswith("\\"):
            raise BadPatch(f"a line begins with a blank, + or -: {row[:40]!r}")
    if not hunks:
        raise BadPatch("there is no hunk in it")
    return hunks


def _changes(rows: Sequence[tuple[str, str]], at: int, index: int) -> list[Span]:
    """Return a span for each run of removed and added rows of a hunk that was found at `at`."""
    spans: list[Span] = []
    start, removed, added = at, 0, list[str]()
    for sign, text in (*rows, (" ", "")):
        if sign == "-":
            removed += 1
        elif sign == "+":
            added.append(text)
        else:
            if removed or added:
                spans.append(Span(start, start + removed, tuple(added), index + len(spans)))
            start, removed, added = start + removed + 1, 0, []
    return spans
