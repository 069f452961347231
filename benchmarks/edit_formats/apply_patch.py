"""The patch envelope of Codex, for one file: context and changed lines without numbers.

Follows the published matching rules: a chunk applies at the first place after the previous chunk
where its old lines match exactly, else without trailing blanks, else without blanks at either
end, else with typographic characters replaced by ASCII.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from akg_tui.hashline.document import Document
from akg_tui.hashline.splice import Span
from benchmarks.edit_formats.patch_format import BadPatch

_BEGIN, _END, _EOF = "*** Begin Patch", "*** End Patch", "*** End of File"
_UPDATE = "*** Update File: "
_PLAIN: Final = str.maketrans(
    {
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys("\u2018\u2019\u201a\u201b", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f", '"'),
        **dict.fromkeys("\u00a0\u2002\u2003\u2009\u202f\u3000", " "),
    }
)
_READINGS: Final[tuple[Callable[[str], str], ...]] = (
    lambda line: line,
    str.rstrip,
    str.strip,
    lambda line: line.strip().translate(_PLAIN),
)


@dataclass(slots=True)
class _Chunk:
    header: str = ""
    old: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    at_end: bool = False


def apply_patch_spans(document: Document, patch: str) -> list[Span]:
    """Return the spans of a patch that has ``Update File`` of this document, and nothing else.

    Raises `BadPatch`.
    """
    return _spans(document.lines, _parse(patch, document.path))


def _parse(patch: str, path: str) -> list[_Chunk]:
    rows = patch.strip("\n").split("\n")
    if rows[0].strip() != _BEGIN or rows[-1].strip() != _END:
        raise BadPatch(f"a patch begins with {_BEGIN!r} and ends with {_END!r}")
    if len(rows) < 4 or rows[1] != _UPDATE + path:
        raise BadPatch(f"the second line must be {_UPDATE + path!r}")
    chunks: list[_Chunk] = []
    for row in rows[2:-1]:
        if row.startswith("@@"):
            chunks.append(_Chunk(header=row[2:].strip()))
            continue
        if not chunks:
            chunks.append(_Chunk())
        _read_row(chunks[-1], row)
    return chunks


def _read_row(chunk: _Chunk, row: str) -> None:
    if row == _EOF:
        chunk.at_end = True
        return
    sign, text = row[:1] or " ", row[1:]
    if sign not in " +-":
        raise BadPatch(f"a line begins with a blank, + or -: {row[:40]!r}")
    if sign in " -":
        chunk.old.append(text)
    if sign in " +":
        chunk.new.append(text)


def _spans(lines: Sequence[str], chunks: Sequence[_Chunk]) -> list[Span]:
    spans: list[Span] = []
    at = 0
    for index, chunk in enumerate(chunks):
        if chunk.header:
            header = _seek(lines, [chunk.header], at)
            if header is None:
                raise BadPatch(f"no line reads {chunk.header[:80]!r}")
            at = header + 1
        start: int | None = len(lines)
        if chunk.old:
            last = max(at, len(lines) - len(chunk.old))
            start = _seek(lines, chunk.old, last) if chunk.at_end else None
            start = _seek(lines, chunk.old, at) if start is None else start
        if start is None:
            raise BadPatch(f"its lines from {chunk.old[0][:80]!r} on are not in the file")
        at = start + len(chunk.old)
        spans.append(Span(start, at, tuple(chunk.new), index))
    return spans


def _seek(lines: Sequence[str], wanted: Sequence[str], first: int) -> int | None:
    """Return the first match from `first` on, in the strictest of `_READINGS` that has one."""
    for reading in _READINGS:
        block = [reading(line) for line in wanted]
        have = [reading(line) for line in lines]
        for at in range(first, len(lines) - len(wanted) + 1):
            if have[at] == block[0] and have[at : at + len(block)] == block:
                return at
    return None
