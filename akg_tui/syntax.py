"""Syntax colour for a whole kernel file: line by line, as spans. Pure, and slow to import.

For the screen and the report alike. Import it only off the start-up path: it loads
pygments. A kernel that holds its C++ as a string in Python is coloured as both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pygments.lexer import Lexer
from pygments.lexers.c_cpp import CppLexer
from pygments.lexers.python import PythonLexer
from pygments.token import Token, _TokenType

Span = tuple[str, str]
"""Text and its role, such as ``syn.keyword``."""

Line = tuple[Span, ...]

_ROLES: tuple[tuple[_TokenType, str], ...] = (
    (Token.Comment.Preproc, "syn.preproc"),
    (Token.Comment.PreprocFile, "syn.string"),
    (Token.Comment, "syn.comment"),
    (Token.Keyword.Type, "syn.type"),
    (Token.Keyword, "syn.keyword"),
    (Token.Operator.Word, "syn.keyword"),
    (Token.Literal.String.Doc, "syn.comment"),
    (Token.Literal.String, "syn.string"),
    (Token.Literal.Number, "syn.number"),
    (Token.Name.Function, "syn.function"),
    (Token.Name.Decorator, "syn.function"),
    (Token.Name.Class, "syn.type"),
    (Token.Name.Builtin, "syn.type"),
    (Token.Operator, "syn.operator"),
    (Token.Punctuation, "syn.operator"),
)

_CPP = re.compile(r"^\s*#\s*include\b|\b(?:extern|static|void|constexpr)\b.*[({;]", re.M)


def highlight(text: str) -> tuple[Line, ...]:
    """One line of spans for each line of `text`, which is a kernel file in Python.

    The spans' text is the file's own: whoever draws it makes it safe.
    """
    lines: list[list[Span]] = [[]]
    for role, piece in _pieces(text, PythonLexer(stripnl=False, ensurenl=False)):
        first, *rest = piece.split("\n")
        if first:
            lines[-1].append((first, role))
        for each in rest:
            lines.append([(each, role)] if each else [])
    return tuple(tuple(spans) for spans in lines)


def _pieces(text: str, lexer: Lexer) -> Iterator[tuple[str, str]]:
    # Strings in a row are put together: pygments cuts them at escapes and quotes.
    pending = ""
    for kind, piece in lexer.get_tokens(text):
        if kind in Token.Literal.String and kind not in Token.Literal.String.Doc:
            pending += piece
            continue
        yield from _string(pending)
        pending = ""
        yield _role(kind), piece
    yield from _string(pending)


def _string(text: str) -> Iterator[tuple[str, str]]:
    if not text:
        return
    if "\n" in text and _CPP.search(text):
        yield from _embedded(text)
    else:
        yield "syn.string", text


def _embedded(text: str) -> Iterator[tuple[str, str]]:
    quotes = re.match(r"[A-Za-z]*(\"\"\"|''')", text)
    if quotes is None or not text.endswith(quotes[1]):
        yield "syn.string", text
        return
    yield "syn.string", quotes[0]
    body = text[quotes.end() : -3]
    for kind, piece in CppLexer(stripnl=False, ensurenl=False).get_tokens(body):
        yield _role(kind), piece
    yield "syn.string", quotes[1]


def _role(kind: _TokenType) -> str:
    for parent, role in _ROLES:
        if kind in parent:
            return role
    return "text"
