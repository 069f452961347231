"""`events.jsonl`: the only truth about a run, one event a line, each durable before it counts.

Only this module appends. `journal_format` defines and checks a line; `journal_reader` holds the
pages from which events are read.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from akg_tui.core.events import AnyEvent, Record
from akg_tui.store.errors import JournalWriteError, RunFolderError, reading, writing
from akg_tui.store.filesystem import open_below, seal, sync_folder
from akg_tui.store.journal_format import Prepared, Scanned, digest, prepare
from akg_tui.store.journal_reader import Pages, read_on
from akg_tui.store.lock import RunLock


class Journal:
    """The journal of one run, open for appending by the holder of the run's lock.

    `records` are all events so far, which stay on the disk; they grow with every append.
    """

    def __init__(self, path: Path, descriptor: int, pages: Pages, scanned: Scanned) -> None:
        self.path = path
        self._descriptor: int | None = descriptor
        self.records = pages
        self._length = scanned.length
        self._prev = scanned.prev
        self._closed_why = "it was closed"
        found = os.fstat(descriptor)
        self._file = (found.st_dev, found.st_ino)

    @classmethod
    def open(
        cls, path: Path, *, lock: RunLock, take: Callable[[Sequence[Record]], None] | None = None
    ) -> Journal:
        """Open or create the journal; cut off a torn tail, and make the rest durable.

        `take` is called with the events as they are read, in order, before the tail is cut off. Its
        exceptions propagate.

        The last line may be a dead process's, visible but never fsynced, or left by an fsync that
        failed: no event may depend on it before it is on the disk.

        Raises `JournalDamaged` if a good line follows a bad line, or a whole line has a wrong
        number, link or content. Nothing is written. Raises `RunFolderError` if the file cannot be
        read and written.
        """
        if not lock.held:
            raise ValueError("only the holder of the run's lock may append to its journal")
        is_new = not path.exists()
        with writing(path):
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
            descriptor = open_below(path.parent, path.name, flags)
        with contextlib.ExitStack() as begun:
            begun.callback(os.close, descriptor)
            try:
                if is_new:
                    sync_folder(path.parent)
                pages = Pages(path, descriptor)
                scanned = _read_whole(path, pages, take)
                if os.fstat(descriptor).st_size > scanned.length:
                    os.ftruncate(descriptor, scanned.length)
                    os.fsync(descriptor)
                if last := scanned.last:
                    seal(path, scanned.length - len(last), last)
            except OSError as error:
                raise RunFolderError(f"cannot open {path}: {error.strerror}") from error
            begun.pop_all()
        return cls(path, descriptor, pages, scanned)

    def prepare(self, event: AnyEvent, at: float) -> Prepared:
        """Return the next line for `event`, without writing it.

        The record is read back from the line, so this process holds the same value as any later
        reader (a NaN, for instance, is null in both).

        Raises `JournalWriteError` if the event could not be read back from its line.
        """
        try:
            return prepare(event, len(self.records) + 1, at, self._prev)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            what = f"{type(event).__name__} has a value that JSON cannot hold: {error}"
            raise self._not_written(what) from error

    def commit(self, prepared: Prepared) -> Record:
        """Make a prepared event durable: one write, one fsync.

        Raises `JournalWriteError` if that failed. After a failed write the event is not in the
        journal, which can be appended to again. After a failed fsync the journal is closed, because
        the content of the disk is unknown until it is opened again. The journal is also closed when
        the file was moved, replaced or changed by another process.
        """
        if self._descriptor is None:
            raise JournalWriteError(f"{self.path}: nothing was written: {self._closed_why}")
        if prepared.record.seq != len(self.records) + 1:
            raise ValueError(f"event {prepared.record.seq} is not the next one")
        line = prepared.line
        self._check_place()
        try:
            written = os.write(self._descriptor, line)
        except OSError as error:
            self._take_back(self._descriptor, error.strerror or str(error))
        if written != len(line):
            self._take_back(self._descriptor, "no space for the whole line")
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            # Best effort: if this fails too, the next `open` accepts a whole line as written.
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, self._length)
            self._close(f"a write could not be made durable ({error.strerror}); resume the run")
            seq = prepared.record.seq
            raise JournalWriteError(
                f"{self.path}: event {seq} could not be made durable: {error.strerror}; "
                "resume the run to see what the disk holds"
            ) from error
        self._length += len(line)
        self._prev = digest(line)
        self.records.put(prepared.record, self._length)
        return prepared.record

    def append(self, event: AnyEvent, at: float) -> Record:
        """Prepare and commit. `at` is seconds since the epoch."""
        return self.commit(self.prepare(event, at))

    def close(self) -> None:
        """Close the file; further calls do nothing."""
        self._close("it was closed")

    def _close(self, why: str) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            self._closed_why = why
            os.close(descriptor)

    def _not_written(self, why: str) -> JournalWriteError:
        seq = len(self.records) + 1
        return JournalWriteError(f"{self.path}: event {seq} was not written: {why}")

    def _check_place(self) -> None:
        """Refuse to write to a journal that is gone, replaced, or changed by another process."""
        try:
            found = self.path.stat()
            moved = (found.st_dev, found.st_ino) != self._file
            changed = not moved and found.st_size != self._length
        except OSError:
            moved, changed = True, False
        if not (moved or changed):
            return
        why = (
            "the run folder was moved or deleted while it was open"
            if moved
            else "somebody else wrote in the journal while it was open"
        )
        self._close(f"{why}; resume the run where it is now")
        raise self._not_written(why)

    def _take_back(self, descriptor: int, why: str) -> NoReturn:
        """Undo a partial line, so that the next append starts on a clean line."""
        try:
            os.ftruncate(descriptor, self._length)
            os.fsync(descriptor)
        except OSError as error:
            self._close(f"a failed write could not be undone ({error.strerror}); resume the run")
        raise self._not_written(why)


def _read_whole(
    path: Path, pages: Pages | None, take: Callable[[Sequence[Record]], None] | None
) -> Scanned:
    """Read a journal from beginning to end, a chunk at a time. Also raises `OSError`."""
    scanned = Scanned()
    with path.open("rb") as file:
        while (scanned := read_on(path, file, scanned)).records:
            if pages is not None:
                pages.add(scanned)
            if take is not None:
                take(scanned.records)
    return scanned


def read_through(path: Path, take: Callable[[Sequence[Record]], None]) -> bytes:
    """Call `take` with all events, in order and in parts; return the last line.

    Raises like `read`, and like `take`.
    """
    with reading(path):
        return _read_whole(path, None, take).last


def read(path: Path) -> list[Record]:
    """Return all events, for readers: no lock is taken, and a torn tail is ignored, not touched.

    Raises `JournalDamaged` as in `Journal.open`. Raises `RunFolderError` if the file cannot be
    read.
    """
    records: list[Record] = []
    read_through(path, records.extend)
    return records
