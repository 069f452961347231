"""Tasks for a model: a kernel file with one planted fault, told in plain words.

The prompt follows the first published hashline benchmark: it names the kind of fault, the
function and the goal, never the line. The answer is the file before the fault.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from random import Random
from typing import Final

from msgspec import Struct

from akg_tui.grammars import parser_of
from akg_tui.hashline import Document
from akg_tui.hashline.parse_gate import language_of
from benchmarks.edit_formats.corpus import generated
from benchmarks.edit_formats.mutations import KINDS, mutate, mutations

_CORPUS_FILES: Final = 60

_WORDS: Final[dict[str, tuple[str, str]]] = {
    "operator swapped": (
        "An arithmetic or logical operator was swapped for its opposite.",
        "Restore the operator.",
    ),
    "comparison flipped": (
        "A comparison operator is wrong at its boundary.",
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
}


class EditTask(Struct, frozen=True):
    """`broken` is what the model is given, `original` the only right answer, byte for byte."""

    id: str
    kind: str
    path: str
    broken: str
    original: str
    prompt: str


def draw_tasks(count: int, seed: int, samples: Sequence[Document] = ()) -> tuple[EditTask, ...]:
    """`count` tasks, the kinds of fault in turn; the same for the same seed and samples."""
    rng = Random(seed)
    known = [(file, mutations(file)) for file in (*generated(rng, _CORPUS_FILES), *samples)]
    tasks: list[EditTask] = []
    while len(tasks) < count:
        kind = KINDS[len(tasks) % len(KINDS)]
        original, faults = rng.choice(known)
        fitting = [fault for fault in faults if fault.kind == kind]
        if not fitting:
            continue
        fault = rng.choice(fitting)
        _, broken = mutate(original, rng, [fault])
        where = _function_around(original, fault.start)
        tasks.append(
            EditTask(
                id=f"t{len(tasks) + 1}",
                kind=kind,
                path=original.path,
                broken=broken.text,
                original=original.text,
                prompt=_prompt(kind, original.path, where),
            )
        )
    return tuple(tasks)


def _prompt(kind: str, path: str, function: str) -> str:
    what, restore = _WORDS[kind]
    where = f"The issue is in the function `{function}`." if function else "It is at file level."
    return f"# Fix the bug in `{path}`\n\n{what}\n{where}\n{restore}\nChange nothing else.\n"


def _function_around(document: Document, byte: int) -> str:
    """The name of the innermost function that a byte stands in, or ""."""
    if language_of(document.path) == "python":
        return _python_function(document, byte)
    language = language_of(document.path)
    assert language is not None, "only files of a known language have mutations"
    node = parser_of(language).parse(document.data).root_node.descendant_for_byte_range(byte, byte)
    while node is not None and node.type != "function_definition":
        node = node.parent
    declared = node.child_by_field_name("declarator") if node is not None else None
    while declared is not None and declared.type != "identifier":
        declared = declared.child_by_field_name("declarator")
    return document.data[declared.start_byte : declared.end_byte].decode() if declared else ""


def _python_function(document: Document, byte: int) -> str:
    line = document.data[:byte].count(b"\n") + 1
    around = [
        node
        for node in ast.walk(ast.parse(document.data))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    return max(around, key=lambda node: node.lineno).name if around else ""
