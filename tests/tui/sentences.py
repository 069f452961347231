"""The sentences in the code below the screens, as templates: read from the source, not from a run.

A value in a sentence is a hole, `{}`. Docstrings, names of files and keys are no sentences: a
sentence has a blank and a word in small letters.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import akg_tui

PACKAGE = Path(akg_tui.__file__).parent


@dataclass(frozen=True)
class Sentence:
    text: str
    module: str  # core/levers
    function: str  # the one or the class it stands in, "" for the module itself
    line: int

    @property
    def place(self) -> str:
        return f"{self.module}:{self.function}"


def shape(text: str) -> str:
    """A template without the names of its holes."""
    return re.sub(r"(\{[^{}]*\})+", "{}", text)


def is_sentence(text: str) -> bool:
    return " " in text.strip() and re.search(r"[a-z]{2}", shape(text)) is not None


def texts(module: str) -> Iterator[Sentence]:
    """All texts of a module (``core/levers``), sentences or not."""
    tree = ast.parse((PACKAGE / f"{module}.py").read_text("utf-8"))
    yield from _within(tree, module, "")


def _within(node: ast.AST, module: str, function: str) -> Iterator[Sentence]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
            continue  # a docstring
        if isinstance(child, ast.JoinedStr):
            yield Sentence(_joined(child), module, function, child.lineno)
        elif isinstance(child, ast.Constant):
            if isinstance(child.value, str):
                yield Sentence(child.value, module, function, child.lineno)
            continue
        inner = function
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = child.name
        for part in _parts(child):
            yield from _within(part, module, inner)


def _parts(node: ast.AST) -> list[ast.AST]:
    """Where to look on: in a joined text only at the values in it."""
    if isinstance(node, ast.JoinedStr):
        return [ast.Expression(v.value) for v in node.values if isinstance(v, ast.FormattedValue)]
    return [node]


def _joined(node: ast.JoinedStr) -> str:
    return "".join(
        str(value.value) if isinstance(value, ast.Constant) else "{}" for value in node.values
    )
