"""A run that is worked on in one place and kept in another: what to send, and what came.

The copy is a run that can be opened at any moment: a git object is in it before the event that
names it, and its journal ends with a whole line.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import msgspec
from msgspec import Struct

from akg_tui.core.sanitize import check_name
from akg_tui.store.errors import RunFolderError, reading, writing
from akg_tui.store.filesystem import make_folder, open_below, replace_file
from akg_tui.store.run_list import JOURNAL

_NOT_SENT = {"scratch", "lock", "work", "PLAN.md"}
"""What belongs to a place or is made of the journal again."""


class Parcel(Struct, frozen=True, kw_only=True):
    """What is new of a run: folders, whole files, and the journal from `offset` on.

    Folders and files are named by their paths in the run. A bare repository needs empty folders.
    """

    folders: tuple[str, ...]
    files: dict[str, bytes]
    offset: int
    journal: bytes

    def __post_init__(self) -> None:
        for name in self.folders:
            check_name("folders", name, folders=True)
        for name in self.files:
            check_name("files", name, folders=True)

    @property
    def empty(self) -> bool:
        return not (self.folders or self.files or self.journal)


class Sender:
    """Finds what is new of the run in a folder since the last look.

    With `whole` the other place has nothing of it, else all that is there now.
    """

    def __init__(self, run: Path, *, whole: bool) -> None:
        self._run = run
        self._seen: dict[str, tuple[int, int]] = {}
        self._sent = 0
        if not whole:
            self.parcel()

    def parcel(self) -> Parcel:
        """Return what is new. Raises `RunFolderError` if it cannot be read."""
        with reading(self._run):
            # The journal's length first, so that what it names is there to be sent.
            end = (self._run / JOURNAL).stat().st_size
            folders, files = [], {}
            for name, path, seen in self._entries():
                if self._seen.get(name) == seen:
                    continue
                self._seen[name] = seen
                if path.is_dir():
                    folders.append(name)
                else:
                    files[name] = path.read_bytes()
            offset = self._sent
            with (self._run / JOURNAL).open("rb") as file:
                file.seek(offset)
                journal = file.read(end - offset)
            journal = journal[: journal.rfind(b"\n") + 1]
        self._sent += len(journal)
        return Parcel(folders=tuple(folders), files=files, offset=offset, journal=journal)

    def _entries(self) -> Iterator[tuple[str, Path, tuple[int, int]]]:
        """Yield folders and files, each with what changes when it does."""
        for at, folders, files in os.walk(self._run):
            here = Path(at)
            if here == self._run:
                folders[:] = [name for name in folders if name not in _NOT_SENT]
            for name in folders:
                yield (here / name).relative_to(self._run).as_posix(), here / name, (0, 0)
            for name in files:
                path = here / name
                if here == self._run and name in {*_NOT_SENT, JOURNAL}:
                    continue
                # So are files in the making named; they are gone in a moment.
                if name.startswith((".", "tmp_")) or name.endswith(".lock"):
                    continue
                told = path.lstat()
                if stat.S_ISREG(told.st_mode):
                    size_and_time = told.st_size, told.st_mtime_ns
                    yield path.relative_to(self._run).as_posix(), path, size_and_time


def received(data: bytes) -> Parcel:
    """Return the parcel in the bytes that came. Raises `RunFolderError`."""
    try:
        return msgspec.msgpack.decode(data, type=Parcel)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RunFolderError(f"what came of a run cannot be used: {error}") from None


def take_in(run: Path, parcel: Parcel) -> None:
    """Add what came to the copy in a folder, durably.

    Raises `RunFolderError` if it does not follow what is there, or cannot be written without
    leaving the folder.
    """
    journal = run / JOURNAL
    with writing(run):
        run.mkdir(parents=True, exist_ok=True)
        there = journal.stat().st_size if journal.exists() else 0
        if there != parcel.offset:
            raise RunFolderError(
                f"{journal}: has {there} bytes, and what came continues {parcel.offset}"
            )
        for name in parcel.folders:
            make_folder(run, name)
        for name, data in parcel.files.items():
            make_folder(run, PurePosixPath(name).parent.as_posix().lstrip("."))
            replace_file(run / name, data, root=run)
        if parcel.journal:
            how = os.O_WRONLY | os.O_APPEND | os.O_CREAT
            with os.fdopen(open_below(run, JOURNAL, how), "ab") as file:
                file.write(parcel.journal)
                file.flush()
                os.fsync(file.fileno())
