"""The calls of a perfect writer: one edit in each format.

It does no matching: it only turns a replacement of lines into a call's arguments.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from akg_tui.hashline.document import Document
from akg_tui.hashline.tags import Tagger

Call: TypeAlias = dict[str, object]
Writer: TypeAlias = Callable[[Document, int, int, Sequence[str], Tagger], Call]

_CONTEXT = 3  # lines on either side, as the patch formats are taught


def hashline(document: Document, start: int, stop: int, new: Sequence[str], tagger: Tagger) -> Call:
    """`new` replaces lines `start` to `stop` (half open, from 0) of the document."""

    def anchor(index: int) -> str:
        return f"{index + 1}{tagger.tag(index + 1, document.lines[index])}"

    op: dict[str, object]
    if start < stop:
        op = {"op": "replace" if new else "delete", "from": anchor(start)}
        if stop > start + 1:
            op["to"] = anchor(stop - 1)
    elif start:
        op = {"op": "insert", "after": anchor(start - 1)}
    else:
        op = {"op": "insert", "at": "head"}
    if new:
        op["lines"] = list(new)
    if stop == start + 1 and len(new) == 1:
        sub = _substitution(document.lines[start], new[0], anchor(start))
        op = min(op, sub, key=lambda each: len(json.dumps(each))) if sub else op
    return {"rev": document.revision, "ops": [op]}


def _substitution(old: str, new: str, anchor: str) -> dict[str, object] | None:
    """The shortest part of a line that changes and occurs in it once."""
    most = min(len(old), len(new))
    top = next((i for i in range(most) if old[i] != new[i]), most)
    bottom = next((i for i in range(most - top) if old[-1 - i] != new[-1 - i]), most - top)
    start, stop = top, len(old) - bottom
    while start == stop or old.find(old[start:stop]) != old.rfind(old[start:stop]):
        if start == 0 and stop == len(old):
            return None
        start, stop = max(0, start - 1), min(len(old), stop + 1)
    instead = new[start : len(new) - (len(old) - stop)]
    return {"op": "sub", "at": anchor, "find": old[start:stop], "with": instead}


def str_replace(
    document: Document, start: int, stop: int, new: Sequence[str], tagger: Tagger
) -> Call:
    """With as much context as makes the old text unique."""
    lines = document.lines
    first, last = start, stop
    text = "\n".join(lines) + "\n"
    old = "\n".join(lines[first:last])
    while not old or text.count(old) != 1 or (first, last) == (start, stop) == (start, start):
        if first == 0 and last == len(lines):
            break
        if first > 0 and (start - first <= last - stop or last == len(lines)):
            first -= 1
        else:
            last += 1
        old = "\n".join(lines[first:last])
    rows = [*lines[first:start], *new, *lines[stop:last]]
    if not rows:
        return {"old": old + "\n", "new": ""}
    return {"old": old, "new": "\n".join(rows)}


def apply_patch(
    document: Document, start: int, stop: int, new: Sequence[str], tagger: Tagger
) -> Call:
    """Three lines of context, no header."""
    rows = _rows(document, start, stop, new)
    head = f"*** Begin Patch\n*** Update File: {document.path}\n@@\n"
    return {"patch": head + "\n".join(rows) + "\n*** End Patch\n"}


def unified_diff(
    document: Document, start: int, stop: int, new: Sequence[str], tagger: Tagger
) -> Call:
    """Three lines of context, and correct line numbers."""
    rows = _rows(document, start, stop, new)
    above = min(_CONTEXT, start)
    old = sum(row[0] != "+" for row in rows)
    now = sum(row[0] != "-" for row in rows)
    at = start - above + 1
    head = f"--- a/{document.path}\n+++ b/{document.path}\n@@ -{at},{old} +{at},{now} @@\n"
    return {"diff": head + "\n".join(rows) + "\n"}


def _rows(document: Document, start: int, stop: int, new: Sequence[str]) -> list[str]:
    lines = document.lines
    return [
        *(f" {line}" for line in lines[max(0, start - _CONTEXT) : start]),
        *(f"-{line}" for line in lines[start:stop]),
        *(f"+{line}" for line in new),
        *(f" {line}" for line in lines[stop : stop + _CONTEXT]),
    ]


CALLS: Final[dict[str, Writer]] = {
    "hashline": hashline,
    "str_replace": str_replace,
    "str_replace lines": str_replace,
    "apply_patch": apply_patch,
    "unified diff": unified_diff,
}
