"""The calls of a perfect writer: one edit in each format, and the whole file.

It turns a replacement of lines into a call's arguments, with as much of the file as the format
needs to find the place.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from akg_tui.hashline.document import BOM, Document
from akg_tui.hashline.splice import Span, splice
from akg_tui.hashline.tags import Tagger
from benchmarks.edit_formats.whole_file import WRITE

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
    call: Call = {"rev": document.revision, "ops": [op]}
    if "lines" in op and _echoes(document, start, stop, new):
        call["allow_dup"] = True
    return call


def _echoes(document: Document, start: int, stop: int, new: Sequence[str]) -> bool:
    """Whether the new lines begin or end like the line beside them, which is asked about."""
    above, below = document.lines[max(0, start - 1) : start], document.lines[stop : stop + 1]
    return tuple(new[:1]) == above or tuple(new[-1:]) == below


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
    lines, text = document.lines, document.text.removeprefix(BOM)
    first, last = start, stop
    old = _joined(document, first, last)
    while not old or _count(text, old) != 1:
        if first == 0 and last == len(lines):
            break
        if first > 0 and (start - first <= last - stop or last == len(lines)):
            first -= 1
        else:
            last += 1
        old = _joined(document, first, last)
    above, below = _joined(document, first, start), _joined(document, stop, last)
    rows = [*([above] if first < start else []), *new, *([below] if stop < last else [])]
    if not rows:
        return {"old": old + document.newline, "new": ""}
    return {"old": old, "new": document.newline.join(rows)}


def _joined(document: Document, first: int, last: int) -> str:
    """Lines as they stand in the file, without the ending of the last one."""
    rows = map("".join, zip(document.lines[first:last], document.endings[first:last], strict=True))
    return "".join(rows).removesuffix(document.endings[last - 1]) if first < last else ""


def _count(text: str, old: str) -> int:
    """How often a text stands in another, overlaps included."""
    count = at = 0
    while (at := text.find(old, at) + 1) > 0:
        count += 1
    return count


def apply_patch(
    document: Document, start: int, stop: int, new: Sequence[str], tagger: Tagger
) -> Call:
    """Three lines of context, or as many as it takes to be the first place; no header."""
    lines, context = document.lines, _CONTEXT
    while context < len(lines):
        first, last = max(0, start - context), stop + context
        block = lines[first:last]
        if all(lines[at : at + len(block)] != block for at in range(first)):
            break
        context += 1
    rows = _rows(document, start, stop, new, context)
    head = f"*** Begin Patch\n*** Update File: {document.path}\n@@\n"
    return {"patch": head + "\n".join(rows) + "\n*** End Patch\n"}


def unified_diff(
    document: Document, start: int, stop: int, new: Sequence[str], tagger: Tagger
) -> Call:
    """Three lines of context, and correct line numbers."""
    rows = _rows(document, start, stop, new, _CONTEXT)
    above = min(_CONTEXT, start)
    old = sum(row[0] != "+" for row in rows)
    now = sum(row[0] != "-" for row in rows)
    at = start - above + 1
    head = f"--- a/{document.path}\n+++ b/{document.path}\n@@ -{at},{old} +{at},{now} @@\n"
    return {"diff": head + "\n".join(rows) + "\n"}


def _rows(document: Document, start: int, stop: int, new: Sequence[str], context: int) -> list[str]:
    lines = document.lines
    return [
        *(f" {line}" for line in lines[max(0, start - context) : start]),
        *(f"-{line}" for line in lines[start:stop]),
        *(f"+{line}" for line in new),
        *(f" {line}" for line in lines[stop : stop + context]),
    ]


def write(document: Document, start: int, stop: int, new: Sequence[str], tagger: Tagger) -> Call:
    """The whole file with the new lines in it."""
    return {"content": splice(document, [Span(start, stop, tuple(new), 0)]).document.text}


CALLS: Final[dict[str, Writer]] = {
    "hashline": hashline,
    "str_replace": str_replace,
    "apply_patch": apply_patch,
    "unified diff": unified_diff,
    WRITE: write,
}
