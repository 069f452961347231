"""The user's TOML settings: what ``config.toml`` and a keymap may have.

Loads msgspec only where a file of the user is read.
"""

from __future__ import annotations

import json
from dataclasses import fields
from functools import cache
from typing import Any, get_type_hints


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
