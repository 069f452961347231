"""Checks of a batch whose anchors are right: conflicts, repeated boundary lines, copied tags.

Owns the overlap of a batch's intervals, and two mistakes of models: a new line that repeats the
line beside its range, and text that contains the tags of the view. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from akg_tui.hashline.document import Document
from akg_tui.hashline.ops import NUMBER_PATTERN, Insert, InsertAtEdge, Op, Replace
from akg_tui.hashline.rejection import Problem
from akg_tui.hashline.splice import Span, in_order
from akg_tui.hashline.tags import TAG_PATTERNS

_PREFIX = re.compile(f"({NUMBER_PATTERN})({'|'.join(TAG_PATTERNS.values())})\\|", re.ASCII)


def conflicts(spans: Sequence[Span]) -> Iterator[Problem]:
    """Yield ranges that share a line, inserts inside a range, and repeated inserts."""
    reach: Span | None = None  # the range that reaches furthest down so far
    inserts: dict[tuple[int, tuple[str, ...]], int] = {}
    for span in in_order(spans):
        where = f"ops[{span.index}]"
        if reach is not None and span.start < reach.stop:
            other = f"ops[{reach.index}]"
            if span.is_gap:
                detail = f"inserts inside the lines that {other} takes away"
            else:
                detail = f"shares line {span.start + 1} with {other}"
            yield Problem("overlap", where, detail)
        if span.is_gap:
            first = inserts.setdefault((span.start, span.lines), span.index)
            if first != span.index:
                yield Problem(
                    "duplicate", where, f"inserts the same lines at the same place as ops[{first}]"
                )
        elif reach is None or span.stop > reach.stop:
            reach = span


def boundary_echoes(document: Document, ops: Sequence[Op], spans: Sequence[Span]) -> list[Problem]:
    """Return a problem for each new line that repeats the line beside its range.

    Lines without a letter or digit may repeat: correct edits repeat braces and blank lines. A
    range whose old text already repeated the line may repeat it again.
    """
    taken = {line for span in spans for line in range(span.start, span.stop)}
    return [
        problem
        for span in spans
        if isinstance(ops[span.index], Replace | Insert | InsertAtEdge)
        for beside, position in ((span.start - 1, 0), (span.stop, -1))
        if 0 <= beside < len(document.lines)
        and beside not in taken
        and (problem := _echo(document, span, beside, position))
    ]


def _echo(document: Document, span: Span, beside: int, position: int) -> Problem | None:
    row = document.lines[beside]
    old = document.lines[span.start : span.stop]
    if span.lines[position] != row or not any(map(str.isalnum, row)):
        return None
    if old and old[position] == row:
        return None
    which, side = ("first", "above") if position == 0 else ("last", "below")
    detail = (
        f"the {which} new line repeats line {beside + 1}, which stands {side} and stays: "
        f"{row.strip()[:200]} (leave it out, or set allow_dup if it shall stand twice)"
    )
    return Problem("echo", f"ops[{span.index}].lines", detail, (beside + 1,))


def without_prefixes(op: Op, is_shown: Callable[[int, str], bool]) -> Op:
    """Return the operation without tags that were copied from the view into its text.

    Unless every line that is not blank begins with the number and tag of a shown line, return
    `op` itself.
    """
    if not isinstance(op, Replace | Insert | InsertAtEdge):
        return op
    rows = [_PREFIX.match(line) for line in op.lines if line.strip()]
    if not rows or not all(row and is_shown(int(row[1]), row[2]) for row in rows):
        return op
    return replace(op, lines=tuple(_PREFIX.sub("", line, count=1) for line in op.lines))
