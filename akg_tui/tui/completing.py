"""What a half-written path or word may become. Reads folders, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

MOST = 5_000  # entries of a folder that are looked at


def paths(base: Path, typed: str, *, ending: str | None = "") -> list[str]:
    """The paths that begin as `typed` does, written as the person writes them, in order.

    Parameters
    ----------
    base : Path
        What a path without a root is in.
    typed : str
        With ``~`` or ``~name`` for a home, if the person likes.
    ending : str, optional
        What the names of files must end with; None: folders only.

    Notes
    -----
    A folder ends with a slash. Hidden names come only where a dot was typed, and those that a
    line could not show never. What cannot be read has nothing in it.
    """
    if typed.startswith("~") and "/" not in typed:
        return [f"{typed}/"] if _home(typed).is_dir() else []
    cut = typed.rfind("/") + 1
    head, begun = typed[:cut], typed[cut:]
    found: list[str] = []
    try:
        with os.scandir(base / _home(head)) as entries:
            for entry, _ in zip(entries, range(MOST), strict=False):
                name = entry.name
                if not name.startswith(begun) or not name.isprintable():
                    continue
                if name.startswith(".") and not begun:
                    continue
                if entry.is_dir():
                    found.append(f"{head}{name}/")
                elif ending is not None and name.endswith(ending):
                    found.append(head + name)
    except (OSError, ValueError):
        return []
    return sorted(found)


def _home(typed: str) -> Path:
    try:
        return Path(typed).expanduser()
    except RuntimeError:  # nobody of that name
        return Path(typed)


def grown(typed: str, offers: Sequence[str]) -> str:
    """What was typed, as far as all the offers agree how it goes on."""
    # By letters, not by parts of a path: half a name is what one wants.
    return os.path.commonprefix(offers) if offers else typed  # noqa: RUF071
