"""Digests of the harness's own files, to find out whether they changed under a running judge.

The sandbox keeps a kernel from writing to them; this is the second line of defence, and it also
detects an upgrade or an edit, after which no measurement can be trusted.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import akg_tui

_ROOT = Path(akg_tui.__file__).parent

FOLDERS = ("core", "dsl", "evaluate")
FILES = ("store/reference_constants.py", "store/user_files/user_folders.py")
"""The files that a judge and its children load besides those of `FOLDERS`."""


def harness(root: Path = _ROOT) -> dict[str, str]:
    """Return the digest of every source file that takes part in a verdict, by its name."""
    return {name: _digest(root, name) for name in _stamps(root)}


class Sources:
    """The source files of a judge as they were when it started."""

    def __init__(self, root: Path = _ROOT) -> None:
        self._root = root
        self._stamps = _stamps(root)
        self._before = harness(root)

    def difference(self) -> str:
        """Return a message that names the changed files, or "".

        Only files with another inode, size or ctime are read: Linux sets the ctime, and no program
        can set it back.
        """
        now = _stamps(self._root)
        digests = {
            name: self._before[name]
            if stamp == self._stamps.get(name)
            else _digest(self._root, name)
            for name, stamp in now.items()
        }
        return difference(self._before, digests)


def _stamps(root: Path) -> dict[str, tuple[int, int, int]]:
    """Return inode, size and ctime of every source file, by its name, in order."""
    found: dict[str, tuple[int, int, int]] = {}
    for name in _names(root):
        try:
            status = os.stat(f"{root}/{name}")  # noqa: PTH116 (asked for after each evaluation)
        except FileNotFoundError:  # deleted meanwhile
            continue
        found[name] = (status.st_ino, status.st_size, status.st_ctime_ns)
    return found


def _names(root: Path) -> list[str]:
    """Return the source files that take part in a verdict."""
    start = len(f"{root}/")
    names = [
        f"{folder}/{file}"[start:]
        for top in FOLDERS
        for folder, _, files in os.walk(root / top)
        for file in files
        if file.endswith(".py")
    ]
    return sorted([*names, *(name for name in FILES if (root / name).exists())])


def _digest(root: Path, name: str) -> str:
    return hashlib.sha256((root / name).read_bytes()).hexdigest()


def judge_digest() -> str:
    """Return a short digest of the files that time kernels and compare their results."""
    decides = {
        name: digest
        for name, digest in harness().items()
        if name == "core/verdict.py" or name.startswith(("dsl/", "evaluate/"))
    }
    return hashlib.sha256(repr(decides).encode()).hexdigest()[:12]


def difference(before: dict[str, str], now: dict[str, str]) -> str:
    """Return a message that names the changed files, or ""."""
    changed = sorted(
        name for name in before.keys() | now.keys() if before.get(name) != now.get(name)
    )
    if not changed:
        return ""
    more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
    return (
        f"the judge's own files changed since it started ({', '.join(changed[:3])}{more}); "
        "start again, so that one version judges all"
    )
