"""The context files of a task: text for the agent to read, found by globs and copied into the run.

Owns the globs' rules and `task/context/` of a run, which nothing changes after the run is made. The
files are information only: nothing is measured with them, and they are never executed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from akg_tui.store.filesystem import sync_folder, write_synced

CONTEXT = "context"
"""The folder of the copies, in a run's `task/`."""

MAX_FILES = 64
MAX_FILE_BYTES = 1 << 20
MAX_BYTES = 4 << 20
MAX_PATTERN = 200
_NOT_ENTERED = ("runs", "__pycache__")

Texts = tuple[tuple[str, str], ...]
"""Files as (path below the task folder, text)."""


class BadContext(ValueError):
    """A glob or a file that it matches cannot be used."""


def find_context(folder: Path, patterns: Iterable[str], excluded: Iterable[Path]) -> Texts:
    """Return the text files in a task folder that the globs match, sorted by path.

    Hidden files, `runs/` and the files `excluded` are left out.

    Raises `BadContext` if a glob matches nothing or leads out of the folder, or a file is no text
    or too large.
    """
    left_out = {path.resolve() for path in excluded}
    found: dict[str, Path] = {}
    for pattern in patterns:
        matched = {
            name: path for name, path in _matches(folder, pattern) if path.resolve() not in left_out
        }
        if not matched:
            raise BadContext(f"{pattern!r} matches no file besides those that the task names")
        found.update(matched)
        if len(found) > MAX_FILES:
            raise BadContext(f"matches {len(found)} files or more, expected at most {MAX_FILES}")
    texts = tuple((name, _text(folder, name, found[name])) for name in sorted(found))
    size = sum(len(text.encode()) for _, text in texts)
    if size > MAX_BYTES:
        raise BadContext(f"the files have {size} bytes, expected at most {MAX_BYTES}")
    return texts


def _matches(folder: Path, pattern: str) -> Iterator[tuple[str, Path]]:
    parts = PurePosixPath(pattern).parts
    printable = pattern.isprintable() and 0 < len(pattern) <= MAX_PATTERN
    if not printable or not parts or pattern.startswith("/") or ".." in parts:
        raise BadContext(f"{pattern!r} is not allowed, expected a glob such as 'papers/*.md'")
    try:
        paths = sorted(folder.glob(pattern))
    except (ValueError, NotImplementedError, OSError) as error:
        raise BadContext(f"{pattern!r} is no glob: {error}") from None
    for path in paths:
        inside = path.relative_to(folder).parts
        hidden = any(part.startswith(".") for part in inside)
        if path.is_file() and not hidden and not set(inside) & set(_NOT_ENTERED):
            yield "/".join(inside), path


def _text(folder: Path, name: str, path: Path) -> str:
    if not name.isprintable():
        raise BadContext(f"{name!r} has characters in its name that are not printable")
    if not path.resolve().is_relative_to(folder.resolve()):
        raise BadContext(f"{name} is a link that leads out of the folder, expected a file in it")
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise BadContext(f"{name} cannot be read: {error.strerror}") from None
    if len(data) > MAX_FILE_BYTES:
        raise BadContext(f"{name} has more than {MAX_FILE_BYTES} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise BadContext(f"{name} is not UTF-8 text, expected text only") from None


def write_context(task: Path, texts: Texts) -> None:
    """Write the files below `task`, the folder of a run that holds a copy of its task."""
    for name, text in texts:
        path = task / CONTEXT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_synced(path, text.encode())
    for place, _, _ in os.walk(task / CONTEXT):
        sync_folder(Path(place))


def copy_context(origin: Path, task: Path) -> None:
    """Copy the context files of a run's `task/` to that of another run."""
    texts = tuple(
        (name, path.read_text("utf-8", "replace")) for name, path in _kept(origin / CONTEXT)
    )
    write_context(task, texts)


def context_listing(task: Path) -> tuple[tuple[str, int], ...]:
    """Return the context files of a run's `task/`, each with its number of lines, by path."""
    return tuple(
        (f"{task.name}/{CONTEXT}/{name}", len(path.read_text("utf-8", "replace").splitlines()))
        for name, path in _kept(task / CONTEXT)
    )


def _kept(folder: Path) -> list[tuple[str, Path]]:
    found = []
    for place, _, names in os.walk(folder, followlinks=False):
        for name in names:
            path = Path(place, name)
            if path.is_file() and not path.is_symlink():
                found.append((path.relative_to(folder).as_posix(), path))
    return sorted(found)
