"""The table ``[memory]`` of ``config.toml``: where the memory is, and whether runs are learned.

``AKG_TUI_MEMORY`` overrides it: a folder, or ``off``. Reads one file and writes none.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from akg_tui.store.user_files.reader import settings_at
from akg_tui.store.user_files.user_folders import config_folder, data_folder

VARIABLE = "AKG_TUI_MEMORY"
OFF = "off"


class MemoryTable(Struct, frozen=True, forbid_unknown_fields=True):
    """The table as the file has it; `folder` is a whole path."""

    folder: Annotated[str, Meta(pattern=r"^([~/].*)?\Z", description="a whole path")] = ""
    learn: bool = True


class _Config(Struct, frozen=True):
    memory: MemoryTable = MemoryTable()


@dataclass(frozen=True)
class MemorySettings:
    """Where the memory is. `learn`: a run is learned at its end. Without `on` none is used."""

    folder: Path
    learn: bool = True
    on: bool = True


def memory_settings(environment: Mapping[str, str] = os.environ) -> MemorySettings:
    """Return the settings. A file or value that is wrong is ignored: the workbench tells it."""
    config, _ = settings_at(config_folder(environment) / "config.toml", _Config)
    stated = environment.get(VARIABLE, "")
    folder = stated if stated and stated != OFF else config.memory.folder
    return MemorySettings(
        Path(folder).expanduser() if folder else data_folder(environment),
        learn=config.memory.learn,
        on=stated != OFF,
    )
