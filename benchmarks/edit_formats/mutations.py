"""Small faults planted in a kernel file; the benchmark's edits repair them.

`ast` parses Python, tree-sitter C++ and CUDA. A mutation replaces bytes so that the file still
parses in most cases; nothing is run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Final

from akg_tui.grammars import parser_of
from akg_tui.hashline.document import Document
from akg_tui.hashline.parse_gate import language_of

if TYPE_CHECKING:
    from tree_sitter import Node

KINDS: Final = (
    "operator swapped",
    "comparison flipped",
    "boolean flipped",
    "off by one",
    "guard removed",
    "identifier renamed",
    "arguments swapped",
    "lines swapped",
    "statement deleted",
    "negation removed",
)
_OPERATORS: Final = {"+": "-", "-": "+", "*": "/", "/": "*", "&&": "||", "||": "&&"}
_COMPARISONS: Final = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
_WORDS: Final = {"and": "or", "or": "and"}


@dataclass(frozen=True, slots=True)
class Mutation:
    """`instead` replaces bytes `start` to `stop` of a file."""

    kind: str
    start: int
    stop: int
    instead: bytes


def mutations(document: Document) -> list[Mutation]:
    """Every mutation known for the file."""
    language = language_of(document.path)
    if language is None:
        return []
    if language == "python":
        found = list(_in_python(document.data))
    else:
        root = parser_of(language).parse(document.data).root_node
        found = [each for node in _walk(root) for each in _in_c(node, document.data)]
    return [each for each in found if document.data[each.start : each.stop] != each.instead]


def mutate(document: Document, rng: Random, known: list[Mutation]) -> tuple[str, Document]:
    """One of `known`; the kind is drawn first, so that rare kinds are as frequent as others."""
    kind = rng.choice(sorted({each.kind for each in known}))
    one = rng.choice([each for each in known if each.kind == kind])
    data = document.data[: one.start] + one.instead + document.data[one.stop :]
    return kind, Document.from_bytes(data, path=document.path, revision=document.revision)


def _walk(root: Node) -> Iterator[Node]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(node.children)


def _in_c(node: Node, data: bytes) -> Iterator[Mutation]:
    start, stop = node.start_byte, node.end_byte
    text = data[start:stop].decode()
    match node.type:
        case "binary_expression":
            yield from _c_operator(node)
        case "true" | "false":
            yield Mutation("boolean flipped", start, stop, b"false" if text == "true" else b"true")
        case "number_literal" if text.isdecimal():
            yield Mutation("off by one", start, stop, str(int(text) + 1).encode())
        case "unary_expression" if text.startswith("!"):
            yield Mutation("negation removed", start, start + 1, b"")
        case "if_statement" if node.child_by_field_name("alternative") is None:
            if b"return" in data[start:stop] and stop - start < 200:
                yield Mutation("guard removed", *_whole_lines(data, start, stop), b"")
        case "argument_list" if len(node.named_children) >= 2:
            yield _swapped("arguments swapped", *_ends(node.named_children[:2]), data)
        case "expression_statement":
            yield Mutation("statement deleted", *_whole_lines(data, start, stop), b"")
            after = node.next_named_sibling
            if after is not None and after.type == "expression_statement":
                yield _swapped("lines swapped", *_ends([node, after]), data)
        case "identifier" if node.parent is not None and "expression" in node.parent.type:
            yield Mutation("identifier renamed", start, stop, text.encode() + b"_old")


def _c_operator(node: Node) -> Iterator[Mutation]:
    sign = node.child_by_field_name("operator")
    if sign is None:
        return
    if instead := _OPERATORS.get(sign.type):
        yield Mutation("operator swapped", sign.start_byte, sign.end_byte, instead.encode())
    if instead := _COMPARISONS.get(sign.type):
        yield Mutation("comparison flipped", sign.start_byte, sign.end_byte, instead.encode())


def _ends(nodes: list[Node]) -> tuple[tuple[int, int], tuple[int, int]]:
    first, second = nodes
    return (first.start_byte, first.end_byte), (second.start_byte, second.end_byte)


def _swapped(kind: str, one: tuple[int, int], two: tuple[int, int], data: bytes) -> Mutation:
    between = data[one[1] : two[0]]
    return Mutation(kind, one[0], two[1], data[slice(*two)] + between + data[slice(*one)])


def _whole_lines(data: bytes, start: int, stop: int) -> tuple[int, int]:
    """The lines that a node stands on, their last newline included."""
    end = data.find(b"\n", stop)
    return data.rfind(b"\n", 0, start) + 1, len(data) if end < 0 else end + 1


class _Places:
    """Byte positions of the nodes of a Python file."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._starts = [0]
        for line in data.split(b"\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)

    def of(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or 0
        start = self._starts[node.lineno - 1] + node.col_offset
        return start, self._starts[end_line - 1] + end_column

    def sign(self, left: ast.expr, right: ast.expr) -> tuple[int, int, str]:
        """The operator between two operands, brackets around them left out."""
        start, stop = self.of(left)[1], self.of(right)[0]
        raw = self.data[start:stop].decode()
        sign = raw.strip("() \n\\")
        at = start + len(raw[: raw.find(sign)].encode())
        return at, at + len(sign.encode()), sign


def _in_python(data: bytes) -> Iterator[Mutation]:
    places = _Places(data)
    for node in ast.walk(ast.parse(data)):
        if isinstance(node, ast.expr):
            yield from _in_python_expression(node, places)
        for name in ("body", "orelse"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block:
                yield from _in_python_block(block, places)


def _in_python_expression(node: ast.expr, places: _Places) -> Iterator[Mutation]:
    match node:
        case ast.BinOp(left, _, right):
            start, stop, sign = places.sign(left, right)
            if instead := _OPERATORS.get(sign):
                yield Mutation("operator swapped", start, stop, instead.encode())
        case ast.BoolOp(_, [left, right, *_]):
            start, stop, sign = places.sign(left, right)
            if instead := _WORDS.get(sign):
                yield Mutation("operator swapped", start, stop, instead.encode())
        case ast.Compare(left, [_], [right]):
            start, stop, sign = places.sign(left, right)
            if instead := _COMPARISONS.get(sign):
                yield Mutation("comparison flipped", start, stop, instead.encode())
        case ast.Constant(bool(value)):
            yield Mutation("boolean flipped", *places.of(node), str(not value).encode())
        case ast.Constant(int(value)):
            yield Mutation("off by one", *places.of(node), str(value + 1).encode())
        case ast.UnaryOp(ast.Not(), operand):
            yield Mutation("negation removed", places.of(node)[0], places.of(operand)[0], b"")
        case ast.Call(_, [first, second, *_]):
            yield _swapped("arguments swapped", places.of(first), places.of(second), places.data)
        case ast.Name(name, ast.Load()):
            yield Mutation("identifier renamed", *places.of(node), f"{name}_old".encode())


def _in_python_block(block: list[ast.stmt], places: _Places) -> Iterator[Mutation]:
    plain = (ast.Assign, ast.AugAssign, ast.Expr)
    for node, after in zip(block, [*block[1:], None], strict=True):
        start, stop = places.of(node)
        lines = _whole_lines(places.data, start, stop)
        leaves = isinstance(node, ast.If) and isinstance(
            node.body[-1], ast.Return | ast.Raise | ast.Continue
        )
        if leaves and after is not None:
            yield Mutation("guard removed", *lines, b"")
        if isinstance(node, plain) and len(block) > 1:
            yield Mutation("statement deleted", *lines, b"")
        if isinstance(node, plain) and isinstance(after, plain):
            yield _swapped("lines swapped", (start, stop), places.of(after), places.data)
