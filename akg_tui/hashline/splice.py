"""Putting accepted operations into a document: spans, hunks, and the bytes that result.

Owns the arithmetic of lines and line endings. It trusts that the spans were checked;
whether an edit is allowed is for `edits` and `anchors`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from akg_tui.hashline.document import Document
from akg_tui.hashline.ops import Delete, Insert, InsertAtEdge, Op, Replace


@dataclass(frozen=True, slots=True)
class Span:
    """Lines ``start`` to ``stop`` (half open, from 0) give way to `lines`.

    An empty span is a gap: `start` lines stand above it.
    """

    start: int
    stop: int
    lines: tuple[str, ...]
    index: int  # of the operation in its request

    @property
    def is_gap(self) -> bool:
        return self.start == self.stop


@dataclass(frozen=True, slots=True)
class Hunk:
    """One run of changed lines, trimmed of lines that stayed the same.

    `old_start` and `new_start` are the numbers, from 1, of the first line removed and the
    first added; where there is none, of the line that now follows the seam.
    """

    old_start: int
    removed: tuple[str, ...]
    new_start: int
    added: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EditResult:
    """The next revision, and how it differs; `added` and `removed` count lines."""

    document: Document
    hunks: tuple[Hunk, ...]
    added: int
    removed: int


def span_of(op: Op, index: int, line_count: int) -> Span:
    """Where an operation acts in a document of `line_count` lines."""
    match op:
        case Replace(start, stop, lines):
            return Span(start.number - 1, stop.number, lines, index)
        case Delete(start, stop):
            return Span(start.number - 1, stop.number, (), index)
        case Insert(side, anchor, lines):
            gap = anchor.number if side == "after" else anchor.number - 1
            return Span(gap, gap, lines, index)
        case InsertAtEdge(edge, lines):
            gap = 0 if edge == "head" else line_count
            return Span(gap, gap, lines, index)


def in_order(spans: Iterable[Span]) -> list[Span]:
    """Top to bottom. Inserts in one gap keep call order and precede a range that starts there."""
    return sorted(spans, key=lambda span: (span.start, not span.is_gap, span.index))


def splice(document: Document, spans: Sequence[Span]) -> EditResult:
    """Apply disjoint spans to the document; its revision grows by one."""
    hunks = _hunks(document, spans)
    return EditResult(
        document=_assemble(document, hunks),
        hunks=tuple(hunks),
        added=sum(len(hunk.added) for hunk in hunks),
        removed=sum(len(hunk.removed) for hunk in hunks),
    )


def _hunks(document: Document, spans: Sequence[Span]) -> list[Hunk]:
    joined: list[Span] = []
    for span in in_order(spans):
        if joined and joined[-1].stop == span.start:
            above = joined.pop()
            joined.append(Span(above.start, span.stop, above.lines + span.lines, above.index))
        else:
            joined.append(span)
    hunks: list[Hunk] = []
    shift = 0
    for span in joined:
        removed = document.lines[span.start : span.stop]
        skip, tail = _unchanged_edges(removed, span.lines)
        gone = removed[skip : len(removed) - tail]
        come = span.lines[skip : len(span.lines) - tail]
        if gone or come:
            old_start = span.start + skip + 1
            hunks.append(Hunk(old_start, gone, old_start + shift, come))
            shift += len(come) - len(gone)
    return hunks


def _unchanged_edges(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """How many lines at the top, then at the bottom, are the same on both sides."""
    most = min(len(old), len(new))
    top = 0
    while top < most and old[top] == new[top]:
        top += 1
    bottom = 0
    while bottom < most - top and old[-1 - bottom] == new[-1 - bottom]:
        bottom += 1
    return top, bottom


def _assemble(document: Document, hunks: Sequence[Hunk]) -> Document:
    """Untouched lines keep their own endings; new ones get the file's usual one."""
    newline = document.newline
    lines: list[str] = []
    endings: list[str] = []
    done = 0
    for hunk in hunks:
        stop = hunk.old_start - 1
        lines += document.lines[done:stop]
        endings += document.endings[done:stop]
        lines += hunk.added
        endings += [newline] * len(hunk.added)
        done = stop + len(hunk.removed)
    lines += document.lines[done:]
    endings += document.endings[done:]
    _settle_last_ending(lines, endings, document)
    text = ("\ufeff" if document.has_bom else "") + "".join(
        line + ending for line, ending in zip(lines, endings, strict=True)
    )
    return Document.from_text(text, path=document.path, revision=document.revision + 1)


def _settle_last_ending(lines: list[str], endings: list[str], document: Document) -> None:
    """A file keeps or keeps lacking its final newline, whichever line is now the last.

    One exception: an empty last line only exists by its newline, so it has one.
    """
    if document.ends_with_newline or not lines:
        return
    for position, ending in enumerate(endings):
        if not ending:
            # After a stray "\r", "\n" alone would make one ending of the two.
            endings[position] = "\r\n" if lines[position].endswith("\r") else document.newline
    if lines[-1]:
        endings[-1] = ""
