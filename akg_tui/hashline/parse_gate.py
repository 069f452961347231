"""The parse gate: a file that parsed before an edit must parse after it.

Parses Python with Python's own parser, and C++ and CUDA with tree-sitter, which is imported when
needed; C++ includes string literals of a Python file. A file that did not parse before an edit may
stay broken. The gate decides, and changes nothing.
"""

from __future__ import annotations

import ast
import functools
import symtable
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from akg_tui.grammars import BOM, Grammar, edited, parser_of
from akg_tui.hashline.document import Document
from akg_tui.hashline.splice import EditResult

if TYPE_CHECKING:
    from tree_sitter import Node, Tree

_LANGUAGES: Final[dict[str, Grammar]] = {
    ".py": "python",
    **dict.fromkeys((".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp"), "cpp"),
    **dict.fromkeys((".cu", ".cuh"), "cuda"),
}
# A string literal counts as C++ if it parses and has one of these nodes at its top level.
_CPP_ITEMS: Final = frozenset(
    {
        "declaration",
        "function_definition",
        "linkage_specification",
        "namespace_definition",
        "preproc_def",
        "preproc_include",
        "struct_specifier",
        "template_declaration",
    }
)
_LONG_STRINGS: Final = ('"""', "'''", r"\n")  # a literal of several lines contains one of these


@dataclass(frozen=True, slots=True)
class Fault:
    """The first syntax error of a file; `line` counts from 1."""

    line: int
    message: str


def language_of(path: str) -> Grammar | None:
    """Return the language by the suffix of a file's name; None without a parser for it."""
    return _LANGUAGES.get(PurePath(path).suffix.lower())


def newly_broken(before: Document, result: EditResult) -> Fault | None:
    """Return the fault that the edit made; None if there is none, or if one existed before."""
    after = result.document
    language = language_of(before.path)
    if language is None:
        return None
    if language != "python" and _still_parses(before.data, after.data, language):
        return None
    fault = fault_in(after.data, language)
    if fault is not None:
        return fault if fault_in(before.data, language) is None else None
    return _newly_broken_string(before, result) if language == "python" else None


def fault_in(data: bytes, language: Grammar) -> Fault | None:
    """Return the first syntax error of a whole file, or None."""
    if language == "python":
        return _python_fault(data)
    root = _tree(data, language).root_node
    return _first_error(root) if root.has_error else None


@functools.lru_cache(maxsize=4)
def _tree(data: bytes, language: Grammar) -> Tree:
    """Return the syntax tree; cached, because the next edit parses the current text again."""
    return parser_of(language).parse(data.removeprefix(BOM))


def _still_parses(before: bytes, after: bytes, language: Grammar) -> bool:
    """Parse only the changed part. If False, the caller must parse the whole file."""
    old, new = before.removeprefix(BOM), after.removeprefix(BOM)
    tree = edited(_tree(before, language), old, new)
    return not parser_of(language).parse(new, tree).root_node.has_error


def _first_error(root: Node) -> Fault:
    """Return the first fault in reading order. Not recursive, because code may nest deeply."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.is_missing:
            return Fault(node.start_point[0] + 1, f"missing {node.type}")
        if node.is_error:
            return Fault(node.start_point[0] + 1, "unexpected text")
        waiting += [child for child in reversed(node.children) if child.has_error]
    return Fault(root.start_point[0] + 1, "unexpected text")


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


def _newly_broken_string(before: Document, result: EditResult) -> Fault | None:
    """Return the fault of a string literal that was C++ and no longer parses, or None."""
    after = result.document
    if not any(mark in after.text for mark in _LONG_STRINGS):
        return None
    touched = [(hunk.new_start, hunk.new_start + len(hunk.added)) for hunk in result.hunks]
    if _python_fault(before.data) is not None:
        return None
    with warnings.catch_warnings(action="ignore"):
        new, old = ast.parse(after.data), ast.parse(before.data)
    broken = {
        key: fault
        for key, literal in _code_literals(new)
        if _is_touched(literal, touched) and (fault := _cpp_fault(literal))
    }
    if not broken:
        return None
    was_cpp = {key for key, literal in _code_literals(old) if _is_cpp(literal)}
    return next((fault for key, fault in broken.items() if key in was_cpp), None)


def _is_touched(literal: ast.Constant, touched: Sequence[tuple[int, int]]) -> bool:
    last = literal.end_lineno or literal.lineno
    return any(start <= last and stop >= literal.lineno for start, stop in touched)


def _code_literals(tree: ast.Module) -> Iterator[tuple[tuple[str, int], ast.Constant]]:
    """Yield the string literals of several lines that may contain code, each with a stable key.

    The key is the name that the literal is assigned to, and its index among literals of that name.
    """
    counts: dict[str, int] = {}
    waiting: list[tuple[str, ast.AST]] = [("", tree)]
    while waiting:
        name, node = waiting.pop()
        if isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            name = ast.unparse(target)
        if isinstance(node, ast.Constant):
            text = node.value
            if isinstance(text, str) and "\n" in text and ("{" in text or ";" in text):
                yield (name, counts.get(name, 0)), node
                counts[name] = counts.get(name, 0) + 1
        elif not isinstance(node, ast.JoinedStr):
            children = list(ast.iter_child_nodes(node))
            waiting += [(name, child) for child in reversed(children)]


def _cpp_root(literal: ast.Constant) -> Node:
    return parser_of("cpp").parse(str(literal.value).encode("utf-8", "replace")).root_node


def _cpp_fault(literal: ast.Constant) -> Fault | None:
    root = _cpp_root(literal)
    if not root.has_error:
        return None
    fault = _first_error(root)
    line = min(literal.lineno + fault.line - 1, literal.end_lineno or literal.lineno)
    return Fault(line, f"{fault.message} in the C++ of a string")


def _is_cpp(literal: ast.Constant) -> bool:
    root = _cpp_root(literal)
    return not root.has_error and any(child.type in _CPP_ITEMS for child in root.children)
