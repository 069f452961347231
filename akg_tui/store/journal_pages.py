"""The events of a journal, read from the disk by their numbers: what is held does not grow.

Holds one byte offset for every page of events, and the few pages that were asked for last.
Reads only; `akg_tui.store.journal_lines` says which bytes can be trusted.
"""

from __future__ import annotations

import os
import threading
import weakref
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, overload

from akg_tui.core.events import Record
from akg_tui.store.errors import RunFolderError
from akg_tui.store.journal_lines import Scanned, Unsure, reread, scan

PAGE = 64  # events
KEPT_PAGES = 40  # more than the newest events that a screen tells
CHUNK = 1 << 18  # bytes that are read and checked at once


class Pages(Sequence[Record]):
    """All events of a journal, of which `add` is told as they are read the first time.

    May be asked by several threads at once. The file that is open as `descriptor` stays open,
    so that what was read can be read again when the journal has another name or none; `path`
    is what faults name. Every access raises `RunFolderError` when the file cannot be read, and
    `JournalDamaged` when what stands in it is not what was read before.

    Parameters
    ----------
    page : int
        Events between two offsets that are held: a page is read whole.
    kept : int
        Pages that are held, those that were asked for last.
    """

    def __init__(
        self, path: Path, descriptor: int, *, page: int = PAGE, kept: int = KEPT_PAGES
    ) -> None:
        self._path = path
        self._page = page
        self._most = kept
        self._descriptor = os.dup(descriptor)
        weakref.finalize(self, os.close, self._descriptor)
        self._lock = threading.Lock()
        self._count = 0
        self._length = 0  # bytes of the events so far
        self._starts = array("Q")  # the first byte of every page
        self._open: list[Record] = []  # of the last page, which is not full
        self._kept: OrderedDict[int, list[Record]] = OrderedDict()

    @property
    def held(self) -> int:
        """How many events are in memory."""
        return len(self._open) + sum(len(page) for page in self._kept.values())

    def add(self, scanned: Scanned) -> None:
        """Take over the events that were read last, which follow those that are known."""
        if scanned.count - len(scanned.records) != self._count:
            raise ValueError(f"event {scanned.count} does not follow event {self._count}")
        with self._lock:
            for record, end in zip(scanned.records, scanned.ends, strict=True):
                self._put(record, end)

    def put(self, record: Record, end: int) -> None:
        """Take over the next event; its line ends before byte `end`."""
        with self._lock:
            self._put(record, end)

    def _put(self, record: Record, end: int) -> None:
        if self._count % self._page == 0:
            self._starts.append(self._length)
            self._open = []
        self._open.append(record)
        self._length = end
        self._count += 1
        if self._count % self._page == 0:
            self._keep(len(self._starts) - 1, self._open)

    def _keep(self, number: int, page: list[Record]) -> None:
        self._kept[number] = page
        self._kept.move_to_end(number)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def _of(self, number: int) -> list[Record]:
        """A page. The last one may still grow."""
        with self._lock:
            if number == len(self._starts) - 1:
                return self._open
            page = self._kept.get(number)
            if page is None:
                page = self._read(number)
            self._keep(number, page)
            return page

    def _read(self, number: int) -> list[Record]:
        start, stop = self._starts[number], self._starts[number + 1]
        pieces: list[bytes] = []
        at = start
        try:
            while at < stop and (piece := os.pread(self._descriptor, stop - at, at)):
                pieces.append(piece)
                at += len(piece)
        except OSError as error:
            raise RunFolderError(f"cannot read {self._path}: {error.strerror}") from error
        page = reread(self._path, b"".join(pieces), number * self._page + 1, start)
        if len(page) < self._page:
            raise RunFolderError(f"{self._path} is shorter than it was when it was read")
        return page

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Record]: ...
    def __getitem__(self, index: int | slice) -> Record | Sequence[Record]:
        """An event, or a list of those in a range: one that is long is held as long."""
        count = self._count
        if isinstance(index, slice):
            start, stop, step = index.indices(count)
            if step != 1:
                return [self[n] for n in range(start, stop, step)]
            return self._between(start, stop)
        if not -count <= index < count:
            raise IndexError(index)
        number, place = divmod(index + count if index < 0 else index, self._page)
        return self._of(number)[place]

    def _between(self, start: int, stop: int) -> list[Record]:
        found: list[Record] = []
        while start < stop:
            number, place = divmod(start, self._page)
            piece = self._of(number)[place : place + stop - start]
            found += piece
            start += len(piece)
        return found

    def __iter__(self) -> Iterator[Record]:
        """Those that there are at the beginning."""
        count = self._count
        for start in range(0, count, self._page):
            yield from self._between(start, min(count, start + self._page))


def read_on(path: Path, file: BinaryIO, before: Scanned, *, most: int = CHUNK) -> Scanned:
    """The events after those that were read before, of about `most` bytes.

    Raises
    ------
    JournalDamaged
        If a line is wrong and is no torn end.
    OSError
        If the file cannot be read.
    """
    file.seek(before.length)
    data = file.read(most)
    size = os.fstat(file.fileno()).st_size
    while b"\n" not in data and before.length + len(data) < size:  # a long line
        more = file.read(max(most, len(data)))
        if not more:
            break
        data += more
    whole = before.length + len(data) >= size
    try:
        return scan(path, data, before, whole=whole)
    except Unsure:
        return scan(path, data + file.read(), before)
