"""Reading a person's own TOML files so that a fault is told by file and line, and is not fatal."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any


def read_toml(path: Path) -> tuple[str, dict[str, Any], list[str]]:
    """The text and the tables of a file; both empty, with one fault, where it can't be read."""
    try:
        data = path.read_bytes()
    except OSError as error:
        return "", {}, [f"{path}: {error.strerror}"]
    return parsed(path, data)


def parsed(path: Path, data: bytes) -> tuple[str, dict[str, Any], list[str]]:
    """The same of a file's bytes that were read already; `path` is for the fault."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        return "", {}, [f"{path}: not UTF-8 text at byte {error.start}"]
    try:
        return text, tomllib.loads(text), []
    except tomllib.TOMLDecodeError as error:
        return "", {}, [f"{path}: {_with_line_first(str(error), text)}"]


def _with_line_first(message: str, text: str) -> str:
    found = re.search(r" \(at line (\d+), column \d+\)$", message)
    if found is None:
        last = text.count("\n") + 1
        return f"line {last}: {message.removesuffix(' (at end of document)')}"
    return f"line {found[1]}: {message[: found.start()]}"


_GIVEN = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([\w-]+))\s*=""")


def lines_of(text: str) -> dict[str, int]:
    """The line, from 1, on which each key is first given a value, whatever table it is in."""
    lines: dict[str, int] = {}
    for number, row in enumerate(text.split("\n"), start=1):
        if found := _GIVEN.match(row):
            lines.setdefault(found[1] or found[2] or found[3] or "", number)
    return lines


def line_of(text: str, key: str, table: str = "") -> int:
    """The line, from 1, on which `key` is given a value (or opens a table); 1 if unknown."""
    words = [re.escape(key), f'"{re.escape(key)}"', f"'{re.escape(key)}'"]
    given = re.compile(rf"\s*(?:{'|'.join(words)})\s*=|\s*\[\s*(?:{'|'.join(words)})\s*\]")
    inside = not table
    for number, row in enumerate(text.split("\n"), start=1):
        if table and re.match(r"\s*\[", row):
            inside = bool(re.match(rf"\s*\[\s*{re.escape(table)}\s*\]", row))
        elif inside and given.match(row):
            return number
    return 1
