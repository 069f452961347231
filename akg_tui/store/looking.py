"""Whether something is at a place, where looking there may itself be refused.

`Path.is_file` and its kin answer False for what is not there and raise for what may not be
looked at (no permission, a name too long): a list of runs must not end there.
"""

from __future__ import annotations

from pathlib import Path


def unseen(path: Path) -> str:
    """Why nobody can look whether `path` is there, in words; "" where that can be seen."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return ""
    except OSError as error:
        return error.strerror or type(error).__name__
    return ""


def is_file(path: Path) -> bool:
    """Whether a file can be seen there."""
    return not unseen(path) and path.is_file()


def is_folder(path: Path) -> bool:
    """Whether a folder can be seen there."""
    return not unseen(path) and path.is_dir()
