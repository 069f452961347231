"""The parse gate: a file that parsed before an edit must parse after it.

Parses Python with Python's own parser. Of C++ and CUDA only the brackets are judged, because only
a compiler can judge the rest; that includes the string literals that a Python file hands to a
function named `compile_…` or `load_inline`. A file that was faulty before an
edit may stay so. The gate decides, and changes nothing.
"""

from __future__ import annotations

import ast
import re
import symtable
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Final

from akg_tui.hashline.brackets import Fault, NotJudged, bracket_fault
from akg_tui.hashline.document import Document
from akg_tui.hashline.splice import EditResult
from akg_tui.syntax.grammars import Grammar, grammar_of

_COMPILING: Final = re.compile(r"compile_\w+|load_inline")
"""The names of functions that compile a string: those of `akg_tui.dsl`, and torch's."""


def newly_broken(before: Document, result: EditResult) -> Fault | None:
    """Return the fault that the edit made; None if there is none, or if one existed before."""
    after = result.document
    language = grammar_of(before.path)
    if language is None:
        return None
    if language == "python":
        if fault := _python_fault(after.data):
            return fault if _python_fault(before.data) is None else None
        return _newly_broken_string(before.data, after.data)
    fault = _judged(after.text)
    return fault if fault and _is_sound(before.text) else None


def fault_in(data: bytes, language: Grammar) -> Fault | None:
    """Return the first fault of a whole file that the gate can tell, or None."""
    return _python_fault(data) if language == "python" else _judged(data.decode("utf-8", "replace"))


def _judged(text: str) -> Fault | None:
    try:
        return bracket_fault(text)
    except NotJudged:
        return None


def _is_sound(text: str) -> bool:
    """Return whether the brackets of a text surely pair."""
    try:
        return bracket_fault(text) is None
    except NotJudged:
        return False


def _python_fault(data: bytes) -> Fault | None:
    """Return the first syntax error, from `symtable`, which builds neither a tree nor code."""
    try:
        # The parser warns about invalid escapes on stderr, which may be the workbench's screen.
        with warnings.catch_warnings(action="ignore"):
            symtable.symtable(data, "<kernel>", "exec")  # type: ignore[arg-type]  # takes bytes
    except SyntaxError as error:
        return Fault(error.lineno or 1, error.msg)
    except ValueError as error:  # NUL bytes
        return Fault(1, str(error))
    except (RecursionError, MemoryError):
        return Fault(1, "nested too deeply")
    return None


def _newly_broken_string(before: bytes, after: bytes) -> Fault | None:
    """Return the fault of C++ in a string of a Python file, if no such string had one before."""
    if not _COMPILING.search(after.decode("utf-8", "replace")) or _python_fault(before):
        return None
    with warnings.catch_warnings(action="ignore"):
        old, new = ast.parse(before), ast.parse(after)
    for literal in _compiled(new):
        if fault := _judged(_text(literal)):
            # A literal of one line may hold several lines of C++.
            line = min(literal.lineno + fault.line - 1, literal.end_lineno or literal.lineno)
            sound = all(_is_sound(_text(each)) for each in _compiled(old))
            return Fault(line, f"{fault.message}, in the C++ of a string") if sound else None
    return None


def _text(literal: ast.Constant) -> str:
    return str(literal.value)


def _compiled(tree: ast.Module) -> Iterator[ast.Constant]:
    """Yield the string literals that are handed to a compiler as they are.

    A literal that is joined or formatted first is only a part of what the compiler gets, and so
    is that of a name which is bound twice.
    """
    bindings: Counter[str] = Counter()
    values: dict[str, ast.expr] = {}
    given: list[ast.expr] = []
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                bindings[name] += 1
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                values[name] = value
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if (
                _COMPILING.fullmatch(name)
            ):
                given += [*node.args, *(each.value for each in node.keywords)]
    for argument in given:
        for part in argument.elts if isinstance(argument, ast.List | ast.Tuple) else [argument]:
            if isinstance(part, ast.Name) and bindings[part.id] == 1:
                part = values.get(part.id, part)  # noqa: PLW2901
            match part:
                case ast.Constant(value=str(text)) if "\n" in text:
                    yield part
