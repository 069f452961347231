"""The languages of the files that faults are planted in: parsers, and code without its formatting.

Python, C++ and CUDA have their grammars from the package; those of JavaScript and TypeScript come
with the extra ``bench``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from importlib import import_module
from itertools import zip_longest
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from akg_tui.hashline.document import Document
from akg_tui.hashline.parse_gate import python_fault
from akg_tui.syntax.grammars import Grammar, grammar_of, parser_of

if TYPE_CHECKING:
    import tree_sitter
    from tree_sitter import Node, Parser

Script: TypeAlias = Literal["javascript", "typescript", "tsx"]
Language: TypeAlias = Grammar | Script

_SUFFIXES: Final[dict[str, Script]] = {
    **dict.fromkeys((".js", ".jsx", ".mjs", ".cjs"), "javascript"),
    **dict.fromkeys((".ts", ".mts", ".cts"), "typescript"),
    ".tsx": "tsx",
}
_SOURCES: Final[dict[Script, tuple[str, str]]] = {
    "javascript": ("tree_sitter_javascript", "language"),
    "typescript": ("tree_sitter_typescript", "language_typescript"),
    "tsx": ("tree_sitter_typescript", "language_tsx"),
}

_EXACT: Final = frozenset(
    {
        *("string_content", "string_fragment", "raw_string_content", "escape_sequence"),
        *("character", "format_specifier", "regex_pattern"),
    }
)
"""Nodes whose blanks belong to a value."""
_CONTINUED: Final = re.compile(r"\\\r?\n")


class GrammarMissing(RuntimeError):
    """The package with the grammar of a language is not installed."""


def language_of(path: str) -> Language | None:
    """The language by the suffix of a file's name; None without a parser for it."""
    return _SUFFIXES.get(PurePath(path).suffix.lower()) or grammar_of(path)


def parser(language: Language) -> Parser:
    """A new parser. Raises `GrammarMissing`."""
    match language:
        case "javascript" | "typescript" | "tsx":
            import tree_sitter

            return tree_sitter.Parser(_script(language))
    return parser_of(language)


@functools.cache
def _script(language: Script) -> tree_sitter.Language:
    import tree_sitter

    module, function = _SOURCES[language]
    try:
        return tree_sitter.Language(getattr(import_module(module), function)())
    except ImportError as error:
        package = module.replace("_", "-")
        raise GrammarMissing(
            f"{language} files need the package {package}: pip install {package}"
        ) from error


def root_of(document: Document) -> Node:
    """The syntax tree of a file of a known language."""
    language = language_of(document.path)
    assert language is not None, "only files of a known language are parsed"
    return parser(language).parse(document.data).root_node


def parses(document: Document) -> bool:
    """Whether a file has no syntax error: for its grammar, and of Python for Python too."""
    if language_of(document.path) == "python" and python_fault(document.data) is not None:
        return False
    return not root_of(document).has_error


def same_code(one: Document, other: Document) -> bool:
    """Whether two files differ at most in blanks and line breaks that do not change the code.

    Both are compared as syntax trees, comments included. A file with a syntax error equals only
    its own bytes.
    """
    if one.data == other.data:
        return True
    first, second = root_of(one), root_of(other)
    if first.has_error or second.has_error:
        return False
    pieces = zip_longest(_pieces(first, one.data), _pieces(second, other.data))
    return all(a == b for a, b in pieces)


def _pieces(root: Node, data: bytes) -> Iterator[str]:
    """The nested nodes and the words of a tree, so that equal code has equal pieces.

    Nesting tells what indentation tells in Python.
    """
    waiting: list[Node | str] = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, str):
            yield node
            continue
        children = node.children
        if not children:
            if word := _word(node.type, _text(data, node.start_byte, node.end_byte)):
                yield word
            continue
        yield f"({node.type}"
        inside: list[Node | str] = []
        done = node.start_byte
        for child in children:
            inside += [_between(node.type, _text(data, done, child.start_byte)), child]
            done = child.end_byte
        inside.append(_between(node.type, _text(data, done, node.end_byte)))
        waiting += [")", *reversed([each for each in inside if each])]


def _between(kind: str, text: str) -> str:
    """The text of a node that none of its children has, as a word."""
    return text if kind in _EXACT else _CONTINUED.sub(" ", text).strip()


def _text(data: bytes, start: int, stop: int) -> str:
    return data[start:stop].decode("utf-8", "replace")


def _word(kind: str, text: str) -> str:
    """The text of a leaf without what a formatter may change; "" if nothing is left."""
    match kind:
        case "line_continuation":
            return ""
        case "jsx_text":  # a break between two lines of text is one blank; others are nothing
            first, *rest = text.replace("\r\n", "\n").split("\n")
            if not rest:
                return text
            lines = [first.rstrip(), *(line.strip() for line in rest[:-1]), rest[-1].lstrip()]
            return " ".join(line for line in lines if line.strip())
        case "comment" | "preproc_arg":
            return "\n".join(line.strip() for line in text.splitlines()).strip()
        case _ if kind in _EXACT:
            return text
    return text.strip()
