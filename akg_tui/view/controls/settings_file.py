"""Reading and editing of the user's TOML files; faults name file and line.

An edit changes only the lines of the settings it names; comments and order stay. A file is
replaced as a whole, and never if it changed since it was read.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from akg_tui.toml_text import field_lines, load_toml, toml_fault
from akg_tui.view.language import retold, tr


def read_toml(path: Path) -> tuple[str, dict[str, Any], list[str]]:
    """Return text, tables and faults of a file; only one fault if it cannot be read."""
    try:
        data = path.read_bytes()
    except OSError as error:
        return "", {}, [f"{path}: {error.strerror}"]
    return parsed(path, data)


def parsed(path: Path, data: bytes) -> tuple[str, dict[str, Any], list[str]]:
    """Parse the bytes of a file as `read_toml` does; the fault names `path`."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        return "", {}, [f"{path}: not UTF-8 text at byte {error.start}"]
    try:
        return text, load_toml(text), []
    except tomllib.TOMLDecodeError as error:
        line, message = toml_fault(text, error)
        return "", {}, [f"{path}: line {line}: {message}"]


def lines_of(text: str) -> dict[str, int]:
    """Return the first line, from 1, of each key or table by its own name."""
    lines: dict[str, int] = {}
    for path, number in field_lines(text).items():
        lines.setdefault(path[-1], number)
    return lines


def line_of(text: str, key: str, table: str = "") -> int:
    """Return the line, from 1, of `key` in `table`, or without `table` in any; 1 if unknown."""
    return field_lines(text).get((table, key), 1) if table else lines_of(text).get(key, 1)


_STRING = r'"(?:[^"\\]|\\.)*"' + r"|'[^']*'"
_HEADER = re.compile(r"\s*\[")
_NOTHING = re.compile(r"\s*(?:#.*)?$")


class NotWritten(Exception):
    """An edit was not made and the file is unchanged; the message gives file and reason."""


def write_settings(path: Path, settings: Mapping[str, str]) -> None:
    """Set the values of settings, which stand before all tables; all of them or none.

    A link is followed, the file's mode is kept, and a missing file is created.

    Raises
    ------
    NotWritten
        If the file is not valid TOML, cannot be edited or written, or changed meanwhile.
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
    """Return `text` with `name` set to `value` and nothing else changed; None if impossible."""
    before = load_toml(text)
    if before.get(name) == value:
        return text
    wanted = {**before, name: value}
    offered = _in_place(text, name, value) if name in before else _put_in(text, _row(name, value))
    return next((candidate for candidate in offered if _read(candidate) == wanted), None)


def _row(name: str, value: str) -> str:
    return f"{name} = {quoted(value)}"


def _read(text: str) -> dict[str, Any] | None:
    try:
        return load_toml(text)
    except tomllib.TOMLDecodeError:
        return None


def quoted(value: str) -> str:
    """Return a string in the quoted form that is valid in TOML and in JSON."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _in_place(text: str, name: str, value: str) -> Iterator[str]:
    """Yield, for each line that may hold the setting, the text with its value replaced."""
    key = "|".join((re.escape(name), f'"{re.escape(name)}"', f"'{re.escape(name)}'"))
    given = re.compile(rf"(\s*(?:{key})\s*=\s*)(?:{_STRING}|[^\"'#]*?)(\s*(?:#.*)?)", re.DOTALL)
    rows = text.split("\n")
    for number, row in enumerate(rows):
        if found := given.fullmatch(row):
            changed = f"{found[1]}{quoted(value)}{found[2]}"
            yield "\n".join([*rows[:number], changed, *rows[number + 1 :]])


def _put_in(text: str, row: str) -> Iterator[str]:
    """Yield the text with a row inserted: before each line that may open the first table, at the
    end, at the beginning. Comments directly above a table stay with the table.
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
