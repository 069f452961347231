"""Compared kernel lines as rows to draw: number, tag, mark and coloured code.

Builds a row only when it is asked for, so a file of any length opens at once. Shows the
file's own text: where the lexer's differs from it, the row stays without colour.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from akg_tui.core.plain import TAB_WIDTH, clean
from akg_tui.hashline.tags import Tagger
from akg_tui.tui import words
from akg_tui.tui.compare import Kind, Row, split_lines
from akg_tui.tui.language import tr
from akg_tui.tui.ondemand import OnDemand
from akg_tui.tui.spans import Line, Span, cells, plain

if TYPE_CHECKING:
    from akg_tui.syntax import Highlighted

Coloured = Sequence[Line]

KEPT_VERSIONS = 8

_GROUND = {Kind.ADDED: "diff.added", Kind.REMOVED: "diff.removed"}
_MARK = {Kind.ADDED: "diff.added.mark", Kind.REMOVED: "diff.removed.mark", Kind.SAME: "text"}


class Colours:
    """The newest versions of a kernel that were parsed for colour, by blob."""

    def __init__(self) -> None:
        self._versions: OrderedDict[str, Highlighted] = OrderedDict()
        self._newest: Highlighted | None = None

    def of(self, blob: str) -> Coloured | None:
        return self._versions.get(blob)

    def keep(self, blob: str, coloured: Highlighted) -> None:
        self._versions[blob] = self._newest = coloured
        self._versions.move_to_end(blob)
        while len(self._versions) > KEPT_VERSIONS:
            self._versions.popitem(last=False)

    def lex(self, text: str) -> Highlighted:
        """Slow: for a thread. Only what differs from the version kept last is parsed."""
        from akg_tui.syntax import highlight

        return highlight(text, self._newest)


class Texts:
    """The newest versions of a kernel as lines, by blob, and the columns of the longest."""

    def __init__(self) -> None:
        self._versions: OrderedDict[str, tuple[tuple[str, ...], int]] = OrderedDict()

    def of(self, blob: str, text: Callable[[str], str]) -> tuple[tuple[str, ...], int]:
        """Lines and columns. Raises what `text` raises for a blob that cannot be read."""
        known = self._versions.get(blob)
        if known is None:
            lines = split_lines(text(blob))
            known = lines, max(map(columns_of, lines), default=0)
            self._versions[blob] = known
            while len(self._versions) > KEPT_VERSIONS:
                self._versions.popitem(last=False)
        return known


class Origins(NamedTuple):
    """Who wrote each line: an index into `labels`, each a text and its role."""

    labels: Sequence[Span]
    owners: Sequence[int]

    @property
    def columns(self) -> int:
        return max((cells(label) for label, _ in self.labels), default=0)


def _largest(compared: Sequence[Row]) -> int:
    return max((max(row.old, row.new) for row in compared), default=1)


class CodeRows(OnDemand[Line]):
    """Rows for `compared`, built one by one. `both` shows the old and the new number.

    `origins` tells for each new line who wrote it. `widest` is the columns of the longest
    line, where that is known.
    """

    def __init__(
        self,
        compared: Sequence[Row],
        tag_key: bytes,
        *,
        old: Coloured | None,
        new: Coloured | None,
        both: bool = False,
        origins: Origins | None = None,
        widest: int | None = None,
    ) -> None:
        self.compared = compared
        self._tagger = Tagger(tag_key)
        self._old, self._new = old, new
        self._both = both
        self._origins = origins
        self._label = origins.columns if origins else 0
        last = getattr(compared, "last", 0) or _largest(compared)
        self._digits = max(3, len(str(last)))
        gutter = self._digits + 6 + (self._digits + 1 if both else 0)
        gutter += self._label + 2 if self._label else 0
        if widest is None:
            widest = max((columns_of(row.text) for row in compared), default=0)
        self.columns = gutter + widest

    def recolour(self, *, old: Coloured | None, new: Coloured | None) -> None:
        self._old, self._new = old, new

    def __len__(self) -> int:
        return len(self.compared)

    def _made(self, index: int) -> Line:
        return self._row(self.compared[index])

    def _row(self, row: Row) -> Line:
        if row.kind is Kind.GAP:
            alike = tr("{lines} alike", lines=words.count(row.old, "line"))
            return ((f"   ~ {alike}", "diff.gap"),)
        number = row.old if row.kind is Kind.REMOVED else row.new
        tag = self._tagger.tag(number, row.text)
        ground = _GROUND.get(row.kind, "")
        gutter: list[Span] = [(f"{number:>{self._digits}} ", _on("number", ground))]
        if self._both:
            old = str(row.old) if row.old else ""
            new = str(row.new) if row.new else ""
            digits = self._digits
            gutter = [(f"{old:>{digits}} {new:>{digits}} ", _on("number", ground))]
        gutter.append((tag, _on("tag", ground)))
        if self._label:
            gutter.append(self._origin(row, ground))
        gutter.append((f" {row.kind.value} ", _on(_MARK[row.kind], ground)))
        return (*gutter, *self._code(row, number, ground))

    def _origin(self, row: Row, ground: str) -> Span:
        """Who wrote the line; a run of lines by one hand says so once."""
        origins, width = self._origins, self._label
        if origins is None or not 0 < row.new <= len(origins.owners):
            return (" " * (width + 2), _on("text", ground))
        labels, owners = origins
        label, role = labels[owners[row.new - 1]]
        if row.new > 1 and labels[owners[row.new - 2]] == (label, role):
            label = "│" if label else ""
        return (f" {label}{' ' * (width - cells(label))} ", _on(role, ground))

    def _code(self, row: Row, number: int, ground: str) -> Line:
        spans = self._spans(row, number)
        if "\t" in row.text:
            spans = _expanded(spans)
        shown = tuple((clean(text), _on(role, ground)) for text, role in spans)
        return shown or (("", _on("text", ground)),)

    def _spans(self, row: Row, number: int) -> Line:
        """The text of the row as it is in the file, coloured where that is known."""
        coloured = self._old if row.kind is Kind.REMOVED else self._new
        spans: Line = ((row.text, "text"),)
        if coloured is not None and number <= len(coloured):
            lexed = coloured[number - 1]
            if plain(lexed) == row.text:
                spans = lexed
        return spans


def _expanded(spans: Line) -> Line:
    """Tabs reach to the stops of the whole line, not of the piece that they stand in."""
    expanded: list[Span] = []
    raw = done = ""
    for text, role in spans:
        raw += text
        whole = raw.expandtabs(TAB_WIDTH)
        expanded.append((whole[len(done) :], role))
        done = whole
    return tuple(expanded)


def _on(role: str, ground: str) -> str:
    return f"{role}|{ground}" if ground else role


def columns_of(text: str) -> int:
    """Columns that a line of a file takes on the screen."""
    return cells(clean(text))
