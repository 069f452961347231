"""The text of a TOML file: its tables in bounded time, its faults, and the line of each field.

Pure and light: the workbench reads the user's settings with it before its first frame.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

_BARE_OR_QUOTED = r"""[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*'"""
_DOTTED = rf"(?:{_BARE_OR_QUOTED})(?:\s*\.\s*(?:{_BARE_OR_QUOTED}))*"
_HEADER = re.compile(rf"\s*(\[?)\[\s*({_DOTTED})\s*\]")
_KEY = re.compile(rf"\s*({_DOTTED})\s*=")
_PART = rf"(?:{_BARE_OR_QUOTED})[ \t]*\.[ \t]*"
_LONG_KEY = re.compile(rf"(?<![A-Za-z0-9_-])(?:{_PART}){{40}}")


def load_toml(text: str) -> dict[str, Any]:
    """Return the tables in TOML from elsewhere, in bounded time.

    Raises
    ------
    tomllib.TOMLDecodeError
        Also if a key has very many parts, or the text is nested deeply or has a very long number.
    """
    if found := _LONG_KEY.search(text):
        # Its time grows with the square of the parts: 20,000 of them take more than a minute.
        raise _at("a key has too many parts", text.count("\n", 0, found.start()) + 1)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError:
        raise _at("nested too deeply", 1) from None
    except ValueError:
        raise _at("a number has too many digits", 1) from None


def _at(why: str, line: int) -> tomllib.TOMLDecodeError:
    return tomllib.TOMLDecodeError(f"{why} (at line {line}, column 1)")


def toml_fault(text: str, error: tomllib.TOMLDecodeError) -> tuple[int, str]:
    """Return the line, from 1, and the words of a fault that `load_toml` found in `text`."""
    told = re.search(r"\(at line (\d+)", str(error))
    line = int(told[1]) if told else max(1, len(text.splitlines()))
    message = re.sub(r" \(at .*\)$", "", str(error))
    # tomllib tells the line end that it met inside a string.
    return line, "unterminated string" if message == r"Illegal character '\n'" else message


def field_lines(text: str) -> dict[tuple[str, ...], int]:
    """Return the line, from 1, of every table and key that starts a line of TOML `text`.

    The name of a table in an array ends with the table's index, from 0.
    """
    lines: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    count: dict[tuple[str, ...], int] = {}
    quote = ""  # inside a multi-line string: its closing quotes
    for number, line in enumerate(text.split("\n"), 1):
        if quote:
            quote = "" if quote in line else quote
            continue
        if header := _HEADER.match(line):
            table = _keys(header[2])
            lines.setdefault(table, number)
            if header[1]:
                table += (str(count.get(table, 0)),)
                count[table[:-1]] = int(table[-1]) + 1
                lines.setdefault(table, number)
        elif key := _KEY.match(line):
            lines.setdefault(table + _keys(key[1]), number)
            for mark in ('"""', "'''"):
                if line.count(mark) % 2:
                    quote = mark
    return lines


def _keys(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in re.findall(_BARE_OR_QUOTED, dotted))
