"""Kernel lines as rows: number, diff mark, coloured code.

No I/O. A row is built when it is drawn, so that a long file opens without delay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.sanitize import TAB_WIDTH, clean
from akg_tui.view import formatting
from akg_tui.view.diff import (
    Compared,
    Hunk,
    Kind,
    Ranges,
    Row,
    SideBySide,
    changed_ranges,
    split_lines,
)
from akg_tui.view.language import tr
from akg_tui.view.lazy_rows import OnDemand
from akg_tui.view.spans import Line, Span, cells, fit, plain, width

Coloured = Sequence[Line]

KEPT_VERSIONS = 8

GROUND = {Kind.ADDED: "diff.added", Kind.REMOVED: "diff.removed"}
MARK = {Kind.ADDED: "diff.added.mark", Kind.REMOVED: "diff.removed.mark", Kind.SAME: "text"}


class Colours:
    """The newest syntax-coloured versions of a kernel, by blob."""

    def __init__(self) -> None:
        self._versions: dict[str, Coloured] = {}

    def of(self, blob: str) -> Coloured | None:
        return self._versions.get(blob)

    def keep(self, blob: str, coloured: Coloured) -> None:
        self._versions.pop(blob, None)
        self._versions[blob] = coloured
        _keep_newest(self._versions)

    def lex(self, kernel: KernelFiles) -> Coloured:
        """Parse a kernel's rows for colour, each file as its name says. Use a thread."""
        from akg_tui.syntax.highlight import highlight

        found = {name: highlight(text, name) for name, text in kernel.texts.items()}
        if len(found) == 1:
            return found[kernel.main]
        return [
            found[name][number - 1] if number else ((row, "syn.comment"),)
            for (name, number), row in kernel.rows()
        ]


class OneFile:
    """One file of a kernel in several, for panes that read a kernel by its id."""

    def __init__(self, files: Sequence[str], at: int, kernel: Callable[[str], KernelFiles]) -> None:
        self._files, self._kernel = files, kernel
        self.name = files[at % len(files)]

    def key(self, blob: str) -> str:
        """Return what stands for a blob in `text`; the blob itself, of a single file."""
        return f"{blob}:{self.name}" if len(self._files) > 1 else blob

    def text(self, key: str) -> str:
        """Return the file's text."""
        return self._kernel(key.partition(":")[0]).texts[self.name]

    def changed(self, old: str, new: str) -> list[str]:
        """Return the names of the files that differ between two blobs."""
        if len(self._files) == 1:
            return [] if old == new else [self.name]
        before, after = (self._kernel(blob).texts for blob in (old, new))
        return [name for name in self._files if before[name] != after[name]]


class Texts:
    """The newest versions of a kernel by blob: their lines, and the width of the longest line."""

    def __init__(self) -> None:
        self._versions: dict[str, tuple[tuple[str, ...], int]] = {}

    def of(self, blob: str, text: Callable[[str], str]) -> tuple[tuple[str, ...], int]:
        """Return lines and columns. Raises the error of `text` for a blob that cannot be read."""
        known = self._versions.get(blob)
        if known is None:
            lines = split_lines(text(blob))
            known = lines, _widest(lines)
            self._versions[blob] = known
            _keep_newest(self._versions)
        return known


def _keep_newest(versions: dict[str, Any]) -> None:
    if len(versions) > KEPT_VERSIONS:
        del versions[next(iter(versions))]


class CodeRows(OnDemand[Line]):
    """Rows for `compared`, each built on access. `both` shows the old and the new number.

    `gutter` is the columns before the code. `widest` is the columns of the longest line; where it
    is None, the lines are measured.
    """

    def __init__(
        self,
        compared: Sequence[Row],
        *,
        old: Coloured | None,
        new: Coloured | None,
        both: bool = False,
        widest: int | None = None,
    ) -> None:
        self.compared = compared
        self._old, self._new = old, new
        self._both = both
        last = getattr(compared, "last", 0)
        last = last or max((max(row.old, row.new) for row in compared), default=1)
        self._digits = max(3, len(str(last)))
        gutter = self._digits + 4 + (self._digits + 1 if both else 0)
        self.gutter = gutter
        self._widest = widest

    @cached_property
    def columns(self) -> int:
        """The columns of the longest row."""
        widest = self._widest
        if widest is None:
            widest = max((columns_of(row.text) for row in self.compared), default=0)
        return self.gutter + widest

    def recolour(self, *, old: Coloured | None, new: Coloured | None) -> None:
        self._old, self._new = old, new

    def __len__(self) -> int:
        return len(self.compared)

    def _made(self, index: int) -> Line:
        return self.half(index, left=False)

    def half(self, index: int, *, left: bool) -> Line:
        """Return a row for one side of two: at the left, an equal line has its old number."""
        return self._row(self.compared[index], left=left)

    def _row(self, row: Row, *, left: bool = False) -> Line:
        if row.kind is Kind.GAP:
            alike = tr("{lines} alike", lines=formatting.count(row.old, "line"))
            return ((f"   ~ {alike}", "diff.gap"),)
        number = row.old if row.kind is Kind.REMOVED else row.new
        ground = GROUND.get(row.kind, "")
        old, new = row.old, row.new
        if isinstance(self.compared, Compared):
            old, new = self.compared.in_files(row)
        here = old if left or row.kind is Kind.REMOVED else new
        numbers = (old or "", new or "") if self._both else (here or "",)
        told = " ".join(f"{each:>{self._digits}}" for each in numbers)
        gutter: list[Span] = [(f"{told} ", on("number", ground))]
        gutter.append((f" {row.kind.value} ", on(MARK[row.kind], ground)))
        return (*gutter, *self._code(row, number, ground))

    def _code(self, row: Row, number: int, ground: str) -> Line:
        spans = self._spans(row, number)
        if "\t" in row.text:
            spans = _expanded(spans)
        shown = tuple((clean(text), on(role, ground)) for text, role in spans)
        return shown or (("", on("text", ground)),)

    def _spans(self, row: Row, number: int) -> Line:
        """Return the unsanitized text of the row, with syntax colours where they are available."""
        coloured = self._old if row.kind is Kind.REMOVED else self._new
        spans: Line = ((row.text, "text"),)
        if coloured is not None and number <= len(coloured):
            lexed = coloured[number - 1]
            if plain(lexed) == row.text:
                spans = lexed
        return spans


def _expanded(spans: Line) -> Line:
    """Expand tabs to the tab stops of the whole line, not of the span that contains them."""
    expanded: list[Span] = []
    raw = done = ""
    for text, role in spans:
        raw += text
        whole = raw.expandtabs(TAB_WIDTH)
        expanded.append((whole[len(done) :], role))
        done = whole
    return tuple(expanded)


def on(role: str, ground: str) -> str:
    """Return a role on the ground of a changed line."""
    return f"{role}|{ground}" if ground else role


def _widest(lines: Sequence[str]) -> int:
    """Return the screen columns of the longest line of a file."""
    text = "".join(lines)
    plain = text.isascii() and text.isprintable()
    return max(map(len if plain else columns_of, lines), default=0)


def columns_of(text: str) -> int:
    """Return the screen columns of a line of a file."""
    return cells(clean(text))


LEFT_OUT = "⨯"
_WORD_ROLE = {Kind.ADDED: "diff.added.word", Kind.REMOVED: "diff.removed.word"}


class DiffRows(CodeRows):
    """Rows of a unified diff, in which changed words are marked."""

    def __init__(
        self,
        compared: Sequence[Row],
        hunks: Sequence[Hunk],
        *,
        old: Coloured | None,
        new: Coloured | None,
        both: bool = True,
    ) -> None:
        super().__init__(compared, old=old, new=new, both=both)
        self.left_out: frozenset[int] = frozenset()
        self._hunk_of = {row: hunk for hunk in hunks for row in range(hunk.start, hunk.stop)}
        self._at = 0

    def half(self, index: int, *, left: bool) -> Line:
        self._at = index
        row = super().half(index, left=left)
        hunk = self._hunk_of.get(index)
        return _without_colour(row) if hunk and hunk.number in self.left_out else row

    def _spans(self, row: Row, number: int) -> Line:
        spans = super()._spans(row, number)
        if row.kind not in _WORD_ROLE:
            return spans
        ranges = changed_ranges(self.compared, self._hunk_of[self._at], self._at)
        return _emphasised(spans, ranges, _WORD_ROLE[row.kind])


class SplitRows(OnDemand[Line]):
    """The rows of `rows` side by side in `room` columns: old at the left, new at the right."""

    def __init__(self, rows: CodeRows, hunks: Sequence[Hunk], room: int) -> None:
        self._rows = rows
        self._pairs = SideBySide(rows.compared, hunks)
        self._half = max(4, (room - 1) // 2)
        numbers = (hunk.number for hunk in hunks)
        self.starts = dict(zip(numbers, self._pairs.starts, strict=True))

    def within(self, top: int, end: int) -> list[Row]:
        """Return the compared rows shown in rows `top` to `end`, in the order of one column."""
        numbers = {n for pair in self._pairs[top:end] for n in pair if n is not None}
        return [self._rows.compared[number] for number in sorted(numbers)]

    def __len__(self) -> int:
        return len(self._pairs)

    def _made(self, index: int) -> Line:
        left, right = self._pairs[index]
        if left is not None and self._rows.compared[left].kind is Kind.GAP:
            return self._rows[left]
        cells = self._cell(left, left=True), self._cell(right, left=False)
        return (*cells[0], ("│", "phase.rule"), *cells[1])

    def _cell(self, index: int | None, *, left: bool) -> Line:
        return filled(self._rows.half(index, left=left) if index is not None else (), self._half)


def filled(row: Line, room: int) -> Line:
    """Return a row of exactly `room` columns; the ground of its last text goes on."""
    row = fit(row, room)
    ground = row[-1][1] if row and "|" in row[-1][1] else "text"
    return (*row, (" " * (room - width(row)), ground))


def _emphasised(spans: Line, ranges: Ranges, role: str) -> Line:
    """Return `spans` with `role` added to the characters of `ranges`."""
    if not ranges:
        return spans
    marked: list[Span] = []
    at = 0
    edges = [edge for pair in ranges for edge in pair]
    for text, base in spans:
        cuts = sorted({0, len(text), *(e - at for e in edges if at < e < at + len(text))})
        for begin, end in pairwise(cuts):
            inside = any(low <= at + begin < high for low, high in ranges)
            marked.append((text[begin:end], f"{base}|{role}" if inside else base))
        at += len(text)
    return tuple(marked)


def _without_colour(row: Line) -> Line:
    """Return the faint row of a left-out hunk, with `LEFT_OUT` in place of plus or minus."""
    faint = [(text, "faint") for text, _ in row]
    for number, (text, _) in enumerate(faint):
        if text in (" + ", " - "):
            faint[number] = (f" {LEFT_OUT} ", "note")
            break
    return tuple(faint)
