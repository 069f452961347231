"""The table ``[memory]`` of ``config.toml``: where the memory is, and whether runs are learned.

``AKG_TUI_MEMORY`` overrides it: a folder, or ``off``. Reads one file and writes none.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from akg_tui.store.user_folders import config_folder, data_folder

VARIABLE = "AKG_TUI_MEMORY"
OFF = "off"


@dataclass(frozen=True)
class MemorySettings:
    """Where the memory is. `learn`: a run is learned at its end. Without `on` none is used."""

    folder: Path
    learn: bool = True
    on: bool = True


def memory_settings(environment: Mapping[str, str] = os.environ) -> MemorySettings:
    """Return the settings. A file or value that is wrong is ignored: the workbench tells it."""
    table: object = {}
    try:
        with (config_folder(environment) / "config.toml").open("rb") as file:
            table = tomllib.load(file).get("memory", {})
    except (OSError, ValueError):
        pass  # no file, or one that `preferences` reports with its line
    chosen, _ = read_table(table)
    stated = environment.get(VARIABLE, "")
    folder = stated if stated and stated != OFF else chosen.get("folder", "")
    return MemorySettings(
        Path(folder).expanduser() if folder else data_folder(environment),
        learn=chosen.get("learn", True),
        on=stated != OFF,
    )


def read_table(table: object) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return the sound values of the table, and for each other name what is wrong with it."""
    if not isinstance(table, dict):
        return {}, [("", "memory is not a table")]
    chosen: dict[str, Any] = {}
    faults: list[tuple[str, str]] = []
    for name, value in table.items():
        if name == "folder":
            sound = isinstance(value, str) and Path(value).expanduser().is_absolute()
            why = "folder is a whole path in quotes"
        elif name == "learn":
            sound, why = isinstance(value, bool), "learn is true or false"
        else:
            sound, why = False, f"no setting {name!r}; there are: folder, learn"
        if sound:
            chosen[name] = value
        else:
            faults.append((name, why))
    return chosen, faults
