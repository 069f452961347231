"""What a theme's file may have. Loads msgspec: import it where a file of the user is read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, defstruct

from akg_tui.store.user_files.reader import toml_at


def checked(path: Path, colour: str) -> dict[str, Any]:
    """Return the tables of a theme's file, whose colours have the pattern `colour`.

    Raises `akg_tui.store.errors.BadFile`.
    """
    likeness = Meta(pattern=colour, description="a colour like #rrggbb or ansi_red")
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = [
        ("palette", dict[str, Annotated[str, likeness]]),
        ("palette256", dict[str, Annotated[int, Meta(ge=16, le=255)]], {}),
        ("name", str, ""),
        ("about", str, ""),
        ("dark", bool, True),
        ("roles", dict[str, str], {}),
    ]
    file = toml_at(path)
    file.read(defstruct("ThemeFile", fields, frozen=True))
    plain: dict[str, Any] = file.plain
    return plain
