"""Expressions in tool arguments: `read_json_file('path')['key'][0]['nested']`.

An argument that is one expression becomes the value itself, of its own type; an expression
inside a longer text becomes text. Only the reader that is passed in reads files, so the
reader's rules apply. A failed expression raises, and is never passed on as literal text.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

from akg_tui.agent.tools.file_access import Refused

MAX_EXPRESSIONS = 50
MAX_RESOLVED = 4 << 20

How = Literal["always", "whole", "never"]
"""Where expressions in an argument are resolved: anywhere, only as the whole value, or nowhere.

`whole` is for code and prose, which may contain the text of an expression.
"""

_STRING = r"""'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*\""""
_CALL = re.compile(rf"read_json_file\(\s*({_STRING})\s*\)")
_STEP = re.compile(rf"\[\s*({_STRING}|-?\d+)\s*\]")
_BEGINNING = re.compile(r"read_json_file\(\s*['\"]")


class Unresolved(Exception):
    """An expression has no value, for the reason in the message."""


def resolve(
    arguments: Mapping[str, Any],
    read: Callable[[str], bytes],
    how: Callable[[str], How],
) -> dict[str, Any]:
    """Return the arguments with every expression replaced by its value.

    Texts in a list are resolved like an argument; values nested deeper are left unchanged.
    `how` returns for each argument where expressions are resolved.

    Raises
    ------
    Unresolved
        If a file can't be read, a key is missing, or an expression is malformed.
    """
    reader = _Reader(read)
    return {name: _argument(name, value, reader, how(name)) for name, value in arguments.items()}


def _argument(name: str, value: Any, reader: _Reader, how: How) -> Any:
    try:
        if isinstance(value, str):
            return _text(value, reader, how)
        if isinstance(value, list):
            return [_text(v, reader, how) if isinstance(v, str) else v for v in value]
    except Unresolved as error:
        raise Unresolved(f"{name}: {error}") from None
    return value


class _Reader:
    """The JSON files of one call, each read once, for at most `MAX_EXPRESSIONS` expressions."""

    def __init__(self, read: Callable[[str], bytes]) -> None:
        self._read = read
        self._files: dict[str, Any] = {}
        self._left = MAX_EXPRESSIONS

    def json(self, path: str) -> Any:
        self._left -= 1
        if self._left < 0:
            raise Unresolved(f"more than {MAX_EXPRESSIONS} expressions in one call")
        if path not in self._files:
            try:
                self._files[path] = json.loads(self._read(path))
            except Refused as error:
                raise Unresolved(str(error)) from None
            except (ValueError, RecursionError) as error:
                raise Unresolved(f"{path}: not JSON: {error}") from None
        return self._files[path]


def _text(text: str, reader: _Reader, how: How) -> Any:
    if how == "never" or not _BEGINNING.search(text):
        return text
    stripped = text.strip()
    if _BEGINNING.match(stripped):
        value, end = _expression(stripped, 0, reader)
        if end == len(stripped):
            return value
    if how == "whole":
        return text
    parts: list[str] = []
    at = size = 0
    while found := _BEGINNING.search(text, at):
        parts.append(text[at : found.start()])
        value, at = _expression(text, found.start(), reader)
        parts.append(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        size += len(parts[-1])
        if size > MAX_RESOLVED:
            raise Unresolved(f"the expressions stand for more than {MAX_RESOLVED} characters")
    return "".join([*parts, text[at:]])


def _expression(text: str, at: int, reader: _Reader) -> tuple[Any, int]:
    """Return the value of the expression at `at`, and the position of its end."""
    call = _CALL.match(text, at)
    if call is None:
        raise Unresolved(f"{text[at : at + 60]!r} is not read_json_file('path') and keys")
    path = _literal(call[1])
    value = reader.json(path)
    said = f"read_json_file({path!r})"
    end = call.end()
    while step := _STEP.match(text, end):
        value = _step(value, _literal(step[1]), said)
        said += step[0]
        end = step.end()
    return value, end


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError) as error:
        raise Unresolved(f"{text[:60]} is not a key: {error}") from None


def _step(value: Any, key: str | int, said: str) -> Any:
    # A tool's output is a text that may contain JSON, whose keys an expression may name too.
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise Unresolved(f"{said} is a text, which has no [{key!r}]") from None
    if isinstance(value, list):
        if isinstance(key, str) and key.lstrip("-").isdecimal():
            key = int(key)
        if isinstance(key, int) and -len(value) <= key < len(value):
            return value[key]
        raise Unresolved(f"{said} is a list of {len(value)}, which has no [{key!r}]")
    if isinstance(value, dict):
        if str(key) in value:
            return value[str(key)]
        keys = ", ".join(sorted(value)[:20])
        raise Unresolved(f"{said} has no {key!r}; it has: {keys}")
    raise Unresolved(f"{said} is {json.dumps(value)[:40]}, which has no [{key!r}]")
