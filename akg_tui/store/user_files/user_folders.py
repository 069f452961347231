"""The user's folders, by the XDG base directory specification. Finds paths and reads nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def config_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the user's settings: ``config.toml``, ``themes/``, ``keymaps/``."""
    base = environment.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "akg_tui"


def data_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of what the program keeps for the user over runs."""
    base = environment.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(base) / "akg_tui"


def state_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of what the program notes about this machine's runs."""
    base = environment.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "akg_tui"
