"""Application of checked spans to a document: the resulting hunks and bytes.

Owns the arithmetic of lines and line endings. Relies on `anchors` and `batch_checks` to refuse
edits that are not allowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import add

from akg_tui.hashline.document import Document


@dataclass(frozen=True, slots=True)
class Span:
    """A replacement of lines `start` to `stop` (half open, from 0) by `lines`.

    An empty span is a gap, with `start` lines above it.

    - `index`: position of the operation in its request.
    - `endings`: endings of moved or copied lines; empty for the file's usual ending.
    - `moved_from`: old position of the first line (from 0), for the half of a move that inserts.
    """

    start: int
    stop: int
    lines: tuple[str, ...]
    index: int
    endings: tuple[str, ...] = ()
    moved_from: int | None = None

    @property
    def is_gap(self) -> bool:
        return self.start == self.stop


@dataclass(frozen=True, slots=True)
class Hunk:
    """One run of changed lines, without unchanged lines at its edges.

    `old_start` and `new_start` are the numbers, from 1, of the first line removed and the first
    line added; if there is no such line, of the line after the hunk.
    """

    old_start: int
    removed: tuple[str, ...]
    new_start: int
    added: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EditResult:
    """The next revision and its differences; `added` and `removed` count lines."""

    document: Document
    hunks: tuple[Hunk, ...]
    added: int
    removed: int


def in_order(spans: Iterable[Span]) -> list[Span]:
    """Sort top to bottom. Inserts in one gap keep call order and precede a range after the gap."""
    return sorted(spans, key=lambda span: (span.start, not span.is_gap, span.index))


def splice(document: Document, spans: Sequence[Span]) -> EditResult:
    """Apply disjoint spans to the document; its revision grows by one.

    Raises `Unwritable` if the resulting bytes would be parsed into different lines.
    """
    pieces = _pieces(document, spans)
    hunks: list[Hunk] = []
    shift = 0
    for piece in pieces:
        gone = document.lines[piece.start : piece.stop]
        hunks.append(Hunk(piece.start + 1, gone, piece.start + 1 + shift, piece.lines))
        shift += len(piece.lines) - len(gone)
    return EditResult(
        document=_assemble(document, pieces),
        hunks=tuple(hunks),
        added=sum(len(hunk.added) for hunk in hunks),
        removed=sum(len(hunk.removed) for hunk in hunks),
    )


class Unwritable(ValueError):
    """The bytes that an edit makes would be parsed into different lines."""


def _pieces(document: Document, spans: Sequence[Span]) -> list[Span]:
    """Return the spans, joined if they touch, and without unchanged lines at their edges."""
    joined: list[Span] = []
    for span in in_order(spans):
        whole = replace(span, endings=span.endings or (document.newline,) * len(span.lines))
        if joined and joined[-1].stop == span.start:
            above = joined.pop()
            lines, endings = above.lines + span.lines, above.endings + whole.endings
            whole = Span(above.start, span.stop, lines, above.index, endings)
        joined.append(whole)
    pieces: list[Span] = []
    for span in joined:
        skip, tail = _unchanged_edges(document.lines[span.start : span.stop], span.lines)
        keep = slice(skip, len(span.lines) - tail)
        piece = Span(
            span.start + skip, span.stop - tail, span.lines[keep], span.index, span.endings[keep]
        )
        if piece.lines or not piece.is_gap:
            pieces.append(piece)
    return pieces


def _unchanged_edges(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """Return the numbers of equal lines at the top and at the bottom."""
    most = min(len(old), len(new))
    top = next((n for n in range(most) if old[n] != new[n]), most)
    left = most - top
    return top, next((n for n in range(left) if old[-1 - n] != new[-1 - n]), left)


def _assemble(document: Document, pieces: Sequence[Span]) -> Document:
    """Return the next revision. Untouched lines keep their endings; pieces have their own."""
    lines: list[str] = []
    endings: list[str] = []
    done = 0
    for piece in pieces:
        lines += document.lines[done : piece.start]
        endings += document.endings[done : piece.start]
        lines += piece.lines
        endings += map(_ending_of, piece.lines, piece.endings)
        done = piece.stop
    lines += document.lines[done:]
    endings += document.endings[done:]
    _settle_last_ending(lines, endings, document)
    text = ("\ufeff" if document.has_bom else "") + "".join(map(add, lines, endings))
    made = Document.from_text(text, path=document.path, revision=document.revision + 1)
    if made.lines != tuple(lines) or made.has_bom != document.has_bom:
        raise Unwritable("the file would begin with a byte order mark that it does not have")
    return made


def _ending_of(line: str, ending: str) -> str:
    """Return the ending of a line; after a lone "\\r", "\\n" would become part of "\\r\\n"."""
    return "\r\n" if ending == "\n" and line.endswith("\r") else ending


def _settle_last_ending(lines: list[str], endings: list[str], document: Document) -> None:
    """Keep the presence or absence of the final newline, even if the last line is a new line.

    An empty last line is an exception: without a newline it would not exist.
    """
    if document.ends_with_newline or not lines:
        return
    for position, ending in enumerate(endings):
        if not ending:
            endings[position] = _ending_of(lines[position], document.newline)
    if lines[-1]:
        endings[-1] = ""
