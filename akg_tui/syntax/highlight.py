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

from akg_tui.syntax.grammars import BOM, Grammar, edited, grammar_of, language, parse_patiently

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


def highlight(text: str, before: Highlighted | None = None, name: str = ".py") -> Highlighted:
    """Return the lines of a kernel file, as `Highlighted`. Slow: call it in a thread.

    With another version of the file in `before`, only the differences are parsed. A file that takes
    too long to parse, or whose `name` is of no known language, has no colour.
    """
    data = text.encode("utf-8", "surrogatepass").removeprefix(BOM)
    grammar = grammar_of(name)
    if grammar is None:
        return Highlighted(data, ())
    former = before.parts if before else ()
    whole = _parsed(grammar, 0, data, former[0] if former else None)
    if whole is None:
        return Highlighted(data, ())
    if grammar != "python":
        return Highlighted(data, (whole,))
    inner = [
        _parsed(grammar, start, source, former[n] if n < len(former) else None)
        for n, (grammar, start, source) in enumerate(_sources(whole), 1)
    ]
    return Highlighted(data, (whole, *(part for part in inner if part is not None)))


def _parsed(grammar: Grammar, start: int, data: bytes, former: _Part | None) -> _Part | None:
    known: Tree | None = None
    if former is not None and former.grammar == grammar:
        if former.data == data:
            return _Part(grammar, start, data, former.tree)
        known = edited(former.tree, former.data, data)
    tree = parse_patiently(grammar, data, known)
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

    known, words = language(grammar), _WORDS[grammar]
    rules = (QUERIES / ("python.scm" if grammar == "python" else "cpp.scm")).read_text("utf-8")
    # A version of a grammar can lack a keyword of its language.
    listed = [
        " ".join(f'"{each}"' for each in group.split() if known.id_for_node_kind(each, False))
        for group in words.values()
    ]
    told = [f"[{each}] @{role}" for role, each in zip(words, listed, strict=True) if each]
    return Query(known, "\n".join([*told, rules]))


_PYTHON_WORDS: Final = {
    "keyword": (
        "and as assert async await break case class continue def del elif else except finally "
        "for from global if import in is lambda match nonlocal not or pass raise return try "
        "while with yield"
    ),
    "operator": (
        "- -= != * ** **= *= / // //= /= & &= % %= ^ ^= + -> += < << <<= <= = := == > >= >> "
        ">>= | |= ~ @ @= ( ) [ ] { } , . : ;"
    ),
}

BUILTINS: Final = frozenset(
    (
        b"abs all any bool bytearray bytes dict divmod enumerate filter float frozenset getattr "
        b"hasattr int isinstance issubclass iter len list map max memoryview min next object open "
        b"pow print property range repr reversed round set setattr slice sorted staticmethod str "
        b"sum super tuple type vars zip"
    ).split()
)
"""Names that the capture `builtin` colours; matched here, because a query predicate is slow."""

_CPP_WORDS: Final = {
    "keyword": (
        "alignas alignof asm break case catch class co_await co_return co_yield concept const "
        "consteval constexpr constinit continue decltype default delete do else enum explicit "
        "extern final for friend goto if inline mutable namespace new noexcept operator override "
        "private protected public register requires restrict return sizeof static static_assert "
        "struct switch template thread_local throw try typedef typename union using virtual "
        "volatile while __attribute__ __declspec __restrict__ __launch_bounds__ "
        "__global__ __device__ __host__ __shared__ __constant__ __forceinline__ __noinline__ "
        "__grid_constant__ __managed__"
    ),
    "operator": (
        "-- - -= -> != ! * *= / /= && & &= % %= ^ ^= ++ + += < << <<= <= = == > >= >> >>= || | "
        "|= ~ ( ) [ ] { } , . : :: ; ? <<< >>>"
    ),
    "preproc": "#include #define #if #ifdef #ifndef #else #elif #elifdef #elifndef #endif",
}

_WORDS: Final = {"python": _PYTHON_WORDS, "cpp": _CPP_WORDS, "cuda": _CPP_WORDS}
"""The keywords and signs of each grammar, by their roles."""
