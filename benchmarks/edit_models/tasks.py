"""Tasks for a model: a source file with one planted fault, told in plain words.

The prompt follows the first published hashline benchmark: it names the kind of fault, the
function and the goal, never the line. The answer is the file before the fault.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from akg_tui.hashline import Document
from akg_tui.hashline.document import BOM
from benchmarks.edit_formats.corpus import generated
from benchmarks.edit_formats.languages import language_of, root_of
from benchmarks.edit_formats.mutations import (
    KINDS,
    OPTIONAL_CHAINING,
    Mutation,
    mutations,
    planted,
)

if TYPE_CHECKING:
    from tree_sitter import Node

_CORPUS_FILES: Final = 60

_WORDS: Final[dict[str, tuple[str, str]]] = {
    "operator swapped": (
        "An arithmetic or logical operator was swapped for its opposite.",
        "Restore the operator.",
    ),
    "comparison flipped": (
        "A comparison operator was swapped for one that is close to it, or its opposite.",
        "Restore the comparison.",
    ),
    "boolean flipped": ("A boolean value was flipped.", "Restore the boolean value."),
    "off by one": ("A number is one too large.", "Restore the number."),
    "guard removed": (
        "A guard clause (early return) was removed.",
        "Restore the missing guard clause (an if statement that leaves early).",
    ),
    "identifier renamed": (
        "An identifier was renamed where it is used, and no longer names anything.",
        "Restore the name.",
    ),
    "arguments swapped": (
        "Two arguments of a call were swapped.",
        "Restore the order of the arguments.",
    ),
    "lines swapped": (
        "Two neighbouring statements were swapped.",
        "Restore their order.",
    ),
    "statement deleted": ("A statement was deleted.", "Restore the missing statement."),
    "negation removed": ("A negation was removed.", "Restore the negation."),
    OPTIONAL_CHAINING: (
        "An optional chaining operator (`?.`) was removed.",
        "Restore the optional chaining operator.",
    ),
}


class EditTask(Struct, frozen=True):
    """`broken` is what the model is given, `original` the only right answer, byte for byte."""

    id: str
    kind: str
    path: str
    broken: str
    original: str
    prompt: str


def task_of(number: int, original: Document, fault: Mutation) -> EditTask:
    """The task to repair this fault of the file."""
    where = _function_around(original, fault.start)
    return EditTask(
        id=f"t{number}",
        kind=fault.kind,
        path=original.path,
        broken=planted(original, fault).text,
        original=original.text,
        prompt=_prompt(fault.kind, original.path, where),
    )


def draw_tasks(count: int, seed: int, samples: Sequence[Document] = ()) -> tuple[EditTask, ...]:
    """`count` tasks in kernels, the kinds of fault in turn; the same for the same arguments."""
    rng = Random(seed)
    known = [(file, mutations(file)) for file in (*generated(rng, _CORPUS_FILES), *samples)]
    kinds = [kind for kind in KINDS if kind != OPTIONAL_CHAINING]
    tasks: list[EditTask] = []
    while len(tasks) < count:
        kind = kinds[len(tasks) % len(kinds)]
        original, faults = rng.choice(known)
        fitting = [fault for fault in faults if fault.kind == kind]
        if fitting:
            tasks.append(task_of(len(tasks) + 1, original, rng.choice(fitting)))
    return tuple(tasks)


def _prompt(kind: str, path: str, function: str) -> str:
    what, restore = _WORDS[kind]
    where = f"The issue is in the function `{function}`." if function else "It is at file level."
    return f"# Fix the bug in `{path}`\n\n{what}\n{where}\n{restore}\nChange nothing else.\n"


_FUNCTIONS: Final = frozenset(
    {
        *("function_definition", "function_declaration", "generator_function_declaration"),
        *("method_definition", "function_expression", "arrow_function"),
    }
)

_BINDS: Final = {
    "variable_declarator": "name",
    "assignment_expression": "left",
    "pair": "key",
    "field_definition": "property",
    "public_field_definition": "name",
}
"""Nodes that give a function without a name of its own one, and the field with it."""


def _function_around(document: Document, byte: int) -> str:
    """The name of the innermost function with a name that a byte stands in, or ""."""
    if language_of(document.path) == "python":
        return _python_function(document, byte)
    node = root_of(document).descendant_for_byte_range(byte, byte)
    while node is not None:
        name = _name_of(node) if node.type in _FUNCTIONS else None
        if name is not None:
            return document.data[name.start_byte : name.end_byte].decode()
        node = node.parent
    return ""


def _name_of(function: Node) -> Node | None:
    """The name of a function: its own, that in a declarator of C++, or what it is bound to."""
    around = function.parent
    if function.type == "function_definition":
        name = function.child_by_field_name("declarator")
        while name is not None and (inner := _declared(name)) is not None:
            name = inner
        return name
    if (own := function.child_by_field_name("name")) is not None:
        return own
    field = _BINDS.get(around.type) if around is not None else None
    return around.child_by_field_name(field) if around is not None and field else None


def _declared(declarator: Node) -> Node | None:
    """What a declarator of a pointer, a reference or a function declares."""
    if declarator.type == "reference_declarator":
        return declarator.named_children[-1]
    return declarator.child_by_field_name("declarator")


def _python_function(document: Document, byte: int) -> str:
    line = document.data[:byte].count(b"\n") + 1
    with warnings.catch_warnings(action="ignore"):
        tree = ast.parse(document.text.removeprefix(BOM))
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    return max(around, key=lambda node: node.lineno).name if around else ""
