"""Whether what judges is still what it was: the harness's own files, the task, the reference.

A kernel can't write to any of these (`sandbox`); this is the second line, and it also finds
an upgrade or an edit under a judge that runs, after which no number could be trusted.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import akg_tui

_ROOT = Path(akg_tui.__file__).parent

Digests = dict[str, str]

Stamp = tuple[int, int, int]


def harness(root: Path = _ROOT) -> Digests:
    """Return the digest of every source file that takes part in a verdict, by its name."""
    return {name: _digest(root, name) for name in _stamps(root)}


class Sources:
    """The sources of a judge as they were when it began."""

    def __init__(self, root: Path = _ROOT) -> None:
        self._root = root
        self._stamps = _stamps(root)
        self._before = harness(root)

    def difference(self) -> str:
        """Return which are not what they were, in words, or nothing.

        Only those are read that were written since, which nobody can undo or hide: a file's time
        of change is the kernel's own.
        """
        now = _stamps(self._root)
        digests = {
            name: self._before[name]
            if stamp == self._stamps.get(name)
            else _digest(self._root, name)
            for name, stamp in now.items()
        }
        return difference(self._before, digests)


def _stamps(root: Path) -> dict[str, Stamp]:
    """Return what tells that a source file was not written to, by its name, in order."""
    found: dict[str, Stamp] = {}
    for name in _names(root):
        try:
            status = os.stat(f"{root}/{name}")  # noqa: PTH116 (asked for after each evaluation)
        except FileNotFoundError:  # it went while we looked
            continue
        found[name] = (status.st_ino, status.st_size, status.st_ctime_ns)
    return found


def _names(root: Path) -> list[str]:
    """Return the source files of those who judge, and of those whom they ask."""
    folders = [*os.walk(root / "core"), *os.walk(root / "evaluate")]
    start = len(f"{root}/")
    names = [
        f"{folder}/{file}"[start:]
        for folder, _, files in folders
        for file in files
        if file.endswith(".py")
    ]
    return sorted([*names, *(path.name for path in root.glob("dsl.py"))])


def _digest(root: Path, name: str) -> str:
    return hashlib.sha256((root / name).read_bytes()).hexdigest()


def judge_digest() -> str:
    """Return a short digest of what decides over a verdict; other files of ours may change."""
    decides = {
        name: digest
        for name, digest in harness().items()
        if name == "core/verdict.py" or (name.startswith(("dsl", "evaluate/")))
    }
    return hashlib.sha256(repr(decides).encode()).hexdigest()[:12]


def difference(before: Digests, now: Digests) -> str:
    """Return which files are not what they were, in words, or nothing."""
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
