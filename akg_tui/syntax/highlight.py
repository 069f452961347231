"""Syntax colour for a kernel file, as spans: the file is parsed as a whole and coloured on access.

Used by the screen and the report. The tree-sitter queries are in `queries/`. Import it only off the
start-up path.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, overload

from akg_tui.syntax.grammars import BOM, Grammar, grammar_of, language, parse_patiently

if TYPE_CHECKING:
    from tree_sitter import Query, Tree

Span = tuple[str, str]
"""Text and its role, such as ``syn.keyword``."""

Line = tuple[Span, ...]

_SYNTAX = ("keyword", "string", "number", "comment", "function", "type", "operator", "preproc")
ROLES = ("text", *(f"syn.{role}" for role in _SYNTAX))
QUERIES = Path(__file__).parent / "queries"
_BLOCK = 8  # lines coloured at once: a screenful then costs little more than its own lines
_KEPT_BLOCKS = 512
_MOST_STRINGS = 200

_CPP = re.compile(rb"^\s*#\s*include\b|\b(?:extern|static|void|constexpr)\b.*[({;]", re.M)
_CUDA = re.compile(rb"\b__(?:global|device|shared)__\b|<<<")
_QUOTES = re.compile(rb"\"\"\"|'''")
_RUNS = re.compile(rb"(.)\1*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Part:
    """A stretch of the file in one language, with its tree, whose byte offsets start at `start`."""

    grammar: Grammar
    start: int
    data: bytes
    tree: Tree


def highlight(text: str, name: str = ".py") -> Highlighted:
    """Return the lines of a kernel file, as `Highlighted`. Slow: call it in a thread.

    A file that takes too long to parse, or whose `name` is of no known language, has no colour.
    """
    data = text.encode("utf-8", "surrogatepass").removeprefix(BOM)
    grammar = grammar_of(name)
    whole = _parsed(grammar, 0, data) if grammar is not None else None
    if whole is None:
        return Highlighted(data, ())
    if grammar != "python":
        return Highlighted(data, (whole,))
    inner = [_parsed(*source) for source in _sources(whole)]
    return Highlighted(data, (whole, *(part for part in inner if part is not None)))


def _parsed(grammar: Grammar, start: int, data: bytes) -> _Part | None:
    tree = parse_patiently(grammar, data)
    return _Part(grammar, start, data, tree) if tree is not None else None


def _sources(whole: _Part) -> Iterator[tuple[Grammar, int, bytes]]:
    """Yield each string literal that holds C++ or CUDA: its grammar, its offset and its text."""
    root, done = whole.tree.root_node, 0
    for number, quote in enumerate(_QUOTES.finditer(whole.data)):
        if number >= _MOST_STRINGS:
            return
        if quote.start() < done:
            continue
        node = root.descendant_for_byte_range(quote.start(), quote.end())
        while node is not None and node.type != "string":
            node = node.parent
        if node is None:
            continue
        done = node.end_byte
        inside = [child for child in node.children if child.type == "string_content"]
        if not inside or any(child.type == "interpolation" for child in node.children):
            continue
        start, stop = inside[0].start_byte, inside[-1].end_byte
        source = whole.data[start:stop]
        if b"\n" in source and _CPP.search(source):
            yield "cuda" if _CUDA.search(source) else "cpp", start, source


class Highlighted(Sequence[Line]):
    """A parsed file as lines of spans; a line is coloured on access.

    The spans hold the file's raw text: the caller that draws them must sanitize it.
    """

    def __init__(self, data: bytes, parts: tuple[_Part, ...]) -> None:
        self.parts = parts
        self._data = data
        self._ends = [*(found.start() for found in re.finditer(b"\n", data)), len(data)]
        self._blocks: dict[int, list[Line]] = {}

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, index: int) -> Line: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Line]: ...
    def __getitem__(self, index: int | slice) -> Line | Sequence[Line]:
        if isinstance(index, slice):
            return [self[n] for n in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(index)
        number, place = divmod(index, _BLOCK)
        block = self._blocks.get(number)
        if block is None:
            while len(self._blocks) >= _KEPT_BLOCKS:
                del self._blocks[next(iter(self._blocks))]
            block = self._blocks[number] = self._coloured(number * _BLOCK)
        return block[place]

    def _coloured(self, first: int) -> list[Line]:
        ends = self._ends[first : first + _BLOCK]
        begin = self._ends[first - 1] + 1 if first else 0
        roles = bytearray(ends[-1] - begin)
        for part in self.parts:
            _paint(part, roles, begin)
        lines: list[Line] = []
        start = begin
        for end in ends:
            stop = end
            if end < len(self._data) and self._data[start:end].endswith(b"\r"):
                stop -= 1
            data = self._data[start:stop]
            spans = (
                (data[run.start() : run.end()].decode("utf-8", "replace"), ROLES[run[1][0]])
                for run in _RUNS.finditer(roles[start - begin : stop - begin])
            )
            lines.append(tuple(spans))
            start = end + 1
        return lines


def _paint(part: _Part, roles: bytearray, begin: int) -> None:
    """Write the role of each byte of one part into `roles`, whose first byte is at `begin`."""
    from tree_sitter import QueryCursor

    offset = part.start - begin  # from the tree's byte offsets to those of `roles`
    first, last = max(0, -offset), min(len(part.data), len(roles) - offset)
    if first >= last:
        return
    roles[first + offset : last + offset] = bytes(last - first)
    cursor = QueryCursor(_query(part.grammar))
    cursor.set_byte_range(first, last)
    found: list[tuple[int, int, int, int]] = []
    for pattern, captures in cursor.matches(part.tree.root_node):
        for role, nodes in captures.items():
            builtin = role == "builtin"
            code = _CODES["type" if builtin else role]
            found += [
                (node.start_byte, -node.end_byte, pattern, code)
                for node in nodes
                if not builtin or part.data[node.start_byte : node.end_byte] in BUILTINS
            ]
    # A nested node is painted over the node around it, a later pattern over an earlier one.
    for start, negative, _, code in sorted(found):
        low, high = max(first, start), min(last, -negative)
        if low < high:
            roles[low + offset : high + offset] = bytes((code,)) * (high - low)


_CODES = {role: code for code, role in enumerate(("text", *_SYNTAX))}


@functools.cache
def _query(grammar: Grammar) -> Query:
    from tree_sitter import Query

    known = language(grammar)
    rules = (QUERIES / ("python.scm" if grammar == "python" else "cpp.scm")).read_text("utf-8")
    # The nodes without a name are the keywords and signs of the language.
    unnamed = {
        kind
        for number in range(known.node_kind_count)
        if known.node_kind_is_visible(number) and not known.node_kind_is_named(number)
        if (kind := known.node_kind_for_id(number)) is not None
    }
    for role, form in _UNNAMED.items():
        kinds = " ".join(f'"{each}"' for each in sorted(unnamed) if form.fullmatch(each))
        if kinds:
            rules = f"[{kinds}] @{role}\n{rules}"
    return Query(known, rules)


_UNNAMED: Final = {
    "keyword": re.compile(r"\w+( \w+)?"),
    "preproc": re.compile(r"#\w+"),
    "operator": re.compile(r"(?!#)[^\w\s\\\"']+"),
}
"""The form of a grammar's nodes without a name, by their roles."""

BUILTINS: Final = frozenset(
    (
        b"abs all any bool bytearray bytes dict divmod enumerate filter float frozenset getattr "
        b"hasattr int isinstance issubclass iter len list map max memoryview min next object open "
        b"pow print property range repr reversed round set setattr slice sorted staticmethod str "
        b"sum super tuple type vars zip"
    ).split()
)
"""Names that the capture `builtin` colours; matched here, because a query predicate is slow."""
