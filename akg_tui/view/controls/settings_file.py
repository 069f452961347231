"""Reads and edits the user's TOML files; faults name file and line.

An edit changes only the lines of the settings it names; comments and order stay. A file is
replaced whole, and never when it changed in between.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from akg_tui.view.language import retold, tr


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


def lines_of(text: str) -> dict[str, int]:
    """The line, from 1, of each key or table by its own name, the first where there are several."""
    from akg_tui.store.task_toml import field_lines

    lines: dict[str, int] = {}
    for path, number in field_lines(text).items():
        lines.setdefault(path[-1], number)
    return lines


def line_of(text: str, key: str, table: str = "") -> int:
    """The line, from 1, of `key` in `table`, or without one in any; 1 if unknown."""
    from akg_tui.store.task_toml import field_lines

    return field_lines(text).get((table, key), 1) if table else lines_of(text).get(key, 1)


_STRING = r'"(?:[^"\\]|\\.)*"' + r"|'[^']*'"
_HEADER = re.compile(r"\s*\[")
_NOTHING = re.compile(r"\s*(?:#.*)?$")


class NotWritten(Exception):
    """The file is as it was; the message says why, with file and line."""


def write_settings(path: Path, settings: Mapping[str, str]) -> None:
    """Give the settings, which stand before all tables, these values; all of them or none.

    A link is followed, the file's mode stays, and a file that is not there is made.

    Raises
    ------
    NotWritten
        If the file cannot be read as TOML, or changed, or written.
    """
    from akg_tui.hashline.file_swap import FileChanged, swap_file
    from akg_tui.store.filesystem import replace_file

    try:
        data = path.read_bytes() if path.exists() else None
        written, _, faults = parsed(path, data or b"")
        if faults:
            raise NotWritten(retold(faults[0]))
        text = written
        for name, value in settings.items():
            changed = _changed(text, name, value)
            if changed is None:
                row, line = _row(name, value), line_of(written, name)
                why = tr("{path}: line {line}: this can't be changed for you, nothing was written: "
                         "make it {row}", path=path, line=line, row=row)  # fmt: skip
                raise NotWritten(why)
            text = changed
        if data is None:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path.resolve(), text.encode())
        else:
            swap_file(path, text.encode(), expected_sha256=hashlib.sha256(data).hexdigest())
    except FileChanged:
        why = tr("{path}: it was changed just now, so nothing was written: do it again", path=path)
        raise NotWritten(why) from None
    except OSError as error:
        raise NotWritten(f"{path}: {retold(error.strerror or str(error))}") from error


def _changed(text: str, name: str, value: str) -> str | None:
    """`text` with `name` set to `value` and nothing else changed; None where that can't be."""
    before = tomllib.loads(text)
    if before.get(name) == value:
        return text
    wanted = {**before, name: value}
    offered = _in_place(text, name, value) if name in before else _put_in(text, _row(name, value))
    return next((candidate for candidate in offered if _read(candidate) == wanted), None)


def _row(name: str, value: str) -> str:
    return f"{name} = {quoted(value)}"


def _read(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def quoted(value: str) -> str:
    """A string as TOML and JSON both write it."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _in_place(text: str, name: str, value: str) -> Iterator[str]:
    """The text with the value of each line that may be the setting's exchanged."""
    key = "|".join((re.escape(name), f'"{re.escape(name)}"', f"'{re.escape(name)}'"))
    given = re.compile(rf"(\s*(?:{key})\s*=\s*)(?:{_STRING}|[^\"'#]*?)(\s*(?:#.*)?)", re.DOTALL)
    rows = text.split("\n")
    for number, row in enumerate(rows):
        if found := given.fullmatch(row):
            changed = f"{found[1]}{quoted(value)}{found[2]}"
            yield "\n".join([*rows[:number], changed, *rows[number + 1 :]])


def _put_in(text: str, row: str) -> Iterator[str]:
    """The text with a row more: before each line that may open the first table, at the end, at
    the beginning. What stands right above a table is that table's.
    """
    end = "\r\n" if "\r\n" in text else "\n"
    rows = text.splitlines(keepends=True)
    for number, each in enumerate(rows):
        if _HEADER.match(each):
            at = number
            while at and _NOTHING.match(rows[at - 1]) and rows[at - 1].strip():
                at -= 1
            while at and not rows[at - 1].strip():
                at -= 1
            gap = "" if not rows[at].strip() else end
            yield "".join([*rows[:at], row, end, gap, *rows[at:]])
    whole = not text or text.endswith("\n")
    yield f"{text}{'' if whole else end}{row}{end}"
    yield f"{row}{end}{text}"
