"""The errors of the disk, each one line that a user can act on.

Every error of this package is a `StoreError`. Text from files is made printable here, so that no
message contains escape codes or line ends.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from akg_tui.core.sanitize import Said, SaidError


class StoreError(SaidError):
    """Base of all errors of the store."""


class JournalDamaged(StoreError):
    """A line of the journal is wrong and is no torn end; nothing was written.

    `line` counts from 1, and is the number that the event should have. `offset` is the byte at
    which the line begins; None when only the order of whole events is wrong.
    """

    fault = "the journal is damaged"
    remedy = "nothing was changed; its last sound round goes on with: akg-tui fork {run}"

    def __init__(self, path: Path, line: int, what: str, offset: int | None = None) -> None:
        at = (
            Said("event {n}", n=line)
            if offset is None
            else Said("event {n}, byte {n2}", n=line, n2=offset)
        )
        remedy = self.remedy.format(run=quote(str(path.parent)))
        super().__init__(
            "{path}:{n}: {what} at {how}: {why}; {more}",
            path=path,
            n=line,
            what=self.fault,
            how=at,
            why=what,
            more=remedy,
        )
        self.path = path
        self.line = line
        self.what = what
        self.offset = offset


class JournalTooNew(JournalDamaged):
    """A whole line that this version cannot read: a newer version wrote it. Nothing is lost."""

    fault = "the journal was written by a newer akg-tui"
    remedy = "nothing was changed; update akg-tui to go on with this run"


class JournalLeaves(JournalDamaged):
    """A whole line names a file outside the run's folder: no akg-tui wrote it."""

    fault = "the journal cannot be trusted"
    remedy = "nothing was changed; if it is from elsewhere, do not use it"


class JournalWriteError(StoreError):
    """An event could not be made durable, and is not in the journal."""


class RunLocked(StoreError):
    """Another process writes this run. `pid` is None when the process is unknown."""

    def __init__(self, folder: Path, pid: int | None) -> None:
        who = Said("process {n}", n=pid) if pid is not None else "another process"
        super().__init__(
            "{path}: {who} is at work on this run; stop it first, or read the run with `show`",
            path=folder,
            who=who,
        )
        self.folder = folder
        self.pid = pid


class HistoryError(StoreError):
    """The attempt history cannot be read or written."""


class RunFolderError(StoreError):
    """A run folder cannot be created, is not a run, or cannot be opened."""


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn an `OSError` of the block, which reads `path`, into a `RunFolderError`."""
    try:
        yield
    except OSError as error:
        raise RunFolderError("cannot read {path}: {why}", path=path, why=error.strerror) from error


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an `OSError` of the block, which writes at or below `path`, into a `RunFolderError`."""
    try:
        yield
    except OSError as error:
        where = error.filename or path
        raise RunFolderError(
            "cannot write {path}: {why}", path=where, why=error.strerror
        ) from error


Field = tuple[str, ...]
"""A field of a file by its names from the top; the index of an item stands as its digits."""


class Fault(NamedTuple):
    """What is wrong with a field of a file."""

    field: Field
    why: str


class BadFile(StoreError):
    """A file of a user that cannot be used; the message is `FILE:LINE: field: what is wrong`."""

    def __init__(self, path: Path, line: int | None, field: str, message: str) -> None:
        place = str(path) if line is None else f"{path}:{line}"
        super().__init__(": ".join(part for part in (place, field, message) if part))
        self.path = path
        self.line = line
        self.field = field
        self.message = message


class BadTask(BadFile):
    """A task folder, or a problem, that cannot be used."""
