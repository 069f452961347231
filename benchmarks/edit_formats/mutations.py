"""Small faults planted in a source file; the benchmark's edits repair them.

`ast` parses Python, tree-sitter the other languages. A mutation replaces bytes so that the file
still parses in most cases; nothing is run.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Final

from akg_tui.hashline.document import Document
from benchmarks.edit_formats.languages import language_of, root_of

if TYPE_CHECKING:
    from tree_sitter import Node

OPTIONAL_CHAINING: Final = "optional chaining removed"
"""The only kind that not every language has: it needs JavaScript or TypeScript."""
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
    OPTIONAL_CHAINING,
)
_OPERATORS: Final = {"+": "-", "-": "+", "*": "/", "/": "*", "&&": "||", "||": "&&"}
_COMPARISONS: Final = {
    **{"<": "<=", "<=": "<", ">": ">=", ">=": ">"},
    **{"==": "!=", "!=": "==", "===": "!==", "!==": "==="},
}
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
    match language_of(document.path):
        case None:
            return []
        case "python":
            found = list(_in_python(document.data))
        case _:
            nodes = _walk(root_of(document))
            found = [each for node in nodes for each in _in_tree(node, document.data)]
    return [each for each in found if document.data[each.start : each.stop] != each.instead]


def planted(document: Document, fault: Mutation) -> Document:
    """The file with the fault in it."""
    data = document.data[: fault.start] + fault.instead + document.data[fault.stop :]
    return Document.from_bytes(data, path=document.path, revision=document.revision)


def mutate(document: Document, rng: Random, known: list[Mutation]) -> tuple[str, Document]:
    """One of `known`; the kind is drawn first, so that rare kinds are as frequent as others."""
    kind = rng.choice(sorted({each.kind for each in known}))
    fault = rng.choice([each for each in known if each.kind == kind])
    return kind, planted(document, fault)


def _walk(root: Node) -> Iterator[Node]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(node.children)


def _in_tree(node: Node, data: bytes) -> Iterator[Mutation]:
    """The faults of a node of C++, CUDA, JavaScript or TypeScript."""
    start, stop = node.start_byte, node.end_byte
    match node.type:
        case "binary_expression":
            yield from _operator(node)
        case "true" | "false" as value:
            instead = b"false" if value == "true" else b"true"
            yield Mutation("boolean flipped", start, stop, instead)
        case "number_literal" | "number" if _is_plain(data[start:stop]):
            yield Mutation("off by one", start, stop, b"%d" % (int(data[start:stop]) + 1))
        case "unary_expression" if data[start : start + 1] == b"!":
            yield Mutation("negation removed", start, start + 1, b"")
        case "if_statement" if node.child_by_field_name("alternative") is None:
            if _leaves(node) and stop - start < 200:
                yield from _removed("guard removed", data, start, stop)
        case "argument_list" | "arguments" if len(node.named_children) >= 2:
            yield _swapped("arguments swapped", *_ends(node.named_children[:2]), data)
        case "expression_statement":
            yield from _removed("statement deleted", data, start, stop)
            after = node.next_named_sibling
            if after is not None and after.type == "expression_statement":
                yield _swapped("lines swapped", *_ends([node, after]), data)
        case "identifier" if _is_used(node):
            yield Mutation("identifier renamed", start, stop, data[start:stop] + b"_old")
        case "?." if node.parent is not None:
            yield from _unchained(node.parent if node.parent.type == "optional_chain" else node)
        case "optional_chain" if not node.children:
            yield from _unchained(node)


def _is_plain(number: bytes) -> bool:
    """Whether it is a decimal number as it would be written again."""
    return number.isdigit() and number == b"%d" % int(number)


def _leaves(guard: Node) -> bool:
    """Whether an if statement ends by leaving its function or its loop."""
    inside = guard.child_by_field_name("consequence")
    if inside is not None and inside.type in ("compound_statement", "statement_block"):
        statements = [each for each in inside.named_children if each.type != "comment"]
        inside = statements[-1] if statements else None
    leaving = ("return_statement", "throw_statement", "continue_statement")
    return inside is not None and inside.type in leaving


def _is_used(identifier: Node) -> bool:
    """Whether the identifier is read in an expression, and not the name of a function or class."""
    around = identifier.parent
    if around is None or "expression" not in around.type:
        return False
    return around.child_by_field_name("name") != identifier


def _unchained(sign: Node) -> Iterator[Mutation]:
    """``a?.b`` becomes ``a.b``, ``a?.[0]`` and ``a?.(0)`` lose the sign."""
    after = sign.next_sibling
    if after is not None:
        dot = b"." if "identifier" in after.type else b""
        yield Mutation(OPTIONAL_CHAINING, sign.start_byte, sign.end_byte, dot)


def _operator(node: Node) -> Iterator[Mutation]:
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


def _removed(kind: str, data: bytes, start: int, stop: int) -> Iterator[Mutation]:
    """The removal of a node's lines, the last newline included, if nothing else is on them."""
    first, end = data.rfind(b"\n", 0, start) + 1, data.find(b"\n", stop)
    last = len(data) if end < 0 else end + 1
    if not data[first:start].strip() and not data[stop:last].strip():
        yield Mutation(kind, first, last, b"")


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
    for node in _nodes(data):
        if isinstance(node, ast.expr):
            yield from _in_python_expression(node, places)
        for name in ("body", "orelse"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block:
                yield from _in_python_block(block, places)


def _nodes(data: bytes) -> Iterator[ast.AST]:
    """All nodes but those inside an f-string, whose positions Python 3.11 does not tell."""
    with warnings.catch_warnings(action="ignore"):
        waiting: list[ast.AST] = [ast.parse(data.decode())]
    for node in waiting:
        yield node
        if not isinstance(node, ast.JoinedStr):
            waiting += ast.iter_child_nodes(node)


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
            start, stop = places.of(node)
            if _is_plain(places.data[start:stop]):
                yield Mutation("off by one", start, stop, b"%d" % (value + 1))
        case ast.UnaryOp(ast.Not()):
            start, stop = places.of(node)
            word = re.match(rb"not\s*", places.data[start:stop])
            if word is not None:
                yield Mutation("negation removed", start, start + word.end(), b"")
        case ast.Call(_, [first, second, *_]):
            yield _swapped("arguments swapped", places.of(first), places.of(second), places.data)
        case ast.Name(name, ast.Load()):
            yield Mutation("identifier renamed", *places.of(node), f"{name}_old".encode())


def _in_python_block(block: list[ast.stmt], places: _Places) -> Iterator[Mutation]:
    plain = (ast.Assign, ast.AugAssign, ast.Expr)
    for node, after in zip(block, [*block[1:], None], strict=True):
        start, stop = places.of(node)
        leaves = isinstance(node, ast.If) and isinstance(
            node.body[-1], ast.Return | ast.Raise | ast.Continue
        )
        if leaves and after is not None:
            yield from _removed("guard removed", places.data, start, stop)
        if isinstance(node, plain) and len(block) > 1:
            yield from _removed("statement deleted", places.data, start, stop)
        if isinstance(node, plain) and isinstance(after, plain):
            yield _swapped("lines swapped", (start, stop), places.of(after), places.data)
