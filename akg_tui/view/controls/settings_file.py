"""The user's TOML settings: what ``config.toml`` and a keymap may have, and how a value is set.

Loads msgspec and tomlkit only where a file of the user is read or written. An edit changes only the
settings that it names; comments and order stay. A file is replaced as a whole, and never if it
changed since it was read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from akg_tui.view.language import retold, tr

if TYPE_CHECKING:
    from tomlkit import TOMLDocument


def quoted(value: str) -> str:
    """Return a string in the quoted form that is valid in TOML and in JSON."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


@cache
def config_file(names: tuple[str, ...], notify: type) -> Any:
    """Return the struct of ``config.toml``: settings of these names, and its tables.

    `notify` is the dataclass of the table ``[notify]``.
    """
    from msgspec import defstruct

    from akg_tui.memory.memory_config import MemoryTable

    hints = get_type_hints(notify)
    made = [(field.name, hints[field.name], field.default) for field in fields(notify)]
    table = defstruct(notify.__name__, made, frozen=True, forbid_unknown_fields=True)
    rows: list[tuple[str, Any, Any]] = [(name, str, "") for name in names]
    rows += [("keys", dict[str, Any], {}), ("notify", table, table())]
    rows += [("memory", MemoryTable, MemoryTable())]
    return defstruct("ConfigFile", rows, frozen=True, forbid_unknown_fields=True)


@cache
def keymap_file(base: str) -> Any:
    """Return the struct of a keymap's file, which is based on `base` unless it says another."""
    from msgspec import defstruct

    rows: list[tuple[str, Any, Any]] = [("name", str, ""), ("about", str, ""), ("base", str, base)]
    rows += [("keys", dict[str, Any], {})]
    return defstruct("KeymapFile", rows, frozen=True, forbid_unknown_fields=True)


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
    from akg_tui.store.errors import BadFile
    from akg_tui.store.filesystem import replace_file

    try:
        data = path.read_bytes() if path.exists() else None
        text = _changed(path, (data or b"").decode(), settings)
        if data is None:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path.resolve(), text.encode())
        else:
            swap_file(path, text.encode(), expected_sha256=hashlib.sha256(data).hexdigest())
    except FileChanged:
        why = tr("{path}: it was changed just now, so nothing was written: do it again", path=path)
        raise NotWritten(why) from None
    except UnicodeDecodeError as error:
        fault = BadFile(path, None, "", f"is not UTF-8 text at byte {error.start}")
        raise NotWritten(retold(str(fault))) from None
    except BadFile as error:
        raise NotWritten(retold(str(error))) from None
    except OSError as error:
        raise NotWritten(f"{path}: {retold(error.strerror or str(error))}") from error


def _changed(path: Path, text: str, settings: Mapping[str, str]) -> str:
    """Return the text of a file with other settings. Raises `NotWritten` and `BadFile`."""
    import tomlkit

    from akg_tui.store.user_files.reader import toml_file

    file = toml_file(path, text)
    document = tomlkit.parse(text)
    for name, value in settings.items():
        if isinstance(file.plain.get(name), dict | list):
            row, line = f"{name} = {quoted(value)}", file.line_of(text, (name,))
            why = tr("{path}: line {line}: this can't be changed for you, nothing was written: "
                     "make it {row}", path=path, line=line, row=row)  # fmt: skip
            raise NotWritten(why)
        if name in file.plain:
            document[name] = value
        else:
            _put_in(document, name, value, "\r\n" if "\r\n" in text else "\n")
    return document.as_string()


def _put_in(document: TOMLDocument, name: str, value: str, end: str) -> None:
    """Put a setting before the first table, and before the comments directly above that."""
    import tomlkit
    from tomlkit.items import AoT, Comment, Key, SingleKey, Table, Whitespace

    body = document.body
    tables = (at for at, (_, item) in enumerate(body) if isinstance(item, Table | AoT))
    first = at = next(tables, len(body))
    while at and at < len(body) and isinstance(body[at - 1][1], Comment):
        at -= 1
    while at and isinstance(body[at - 1][1], Whitespace):
        at -= 1
    before = body[at - 1][1] if at else None
    if before is not None and not before.trivia.trail:
        before.trivia.trail = end
    item = tomlkit.string(value)
    apart = at == first < len(body) or (at < first and not isinstance(body[at][1], Whitespace))
    item.trivia.trail = end * 2 if apart else end
    key: Key = SingleKey(name)
    body.insert(at, (key, item))
