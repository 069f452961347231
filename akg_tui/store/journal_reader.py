"""A journal read from disk: its events by number, and the lines that another process appends.

Takes no lock and writes nothing. Holds one byte offset for each page of events, so memory hardly
grows with the run.
"""

from __future__ import annotations

import os
import threading
import weakref
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import accumulate, islice
from pathlib import Path
from typing import BinaryIO, overload

from akg_tui.core.events import Record
from akg_tui.store.errors import JournalDamaged, RunFolderError, reading
from akg_tui.store.journal_format import Scanned, Unsure, digest, reread, scan_into

PAGE = 64  # events
KEPT_PAGES = 40  # more than the newest events that a screen shows
CHUNK = 1 << 18  # bytes read and checked at once


class Pages(Sequence[Record]):
    """All events of a journal, which the reader passes to `add` in order as it reads them.

    Thread-safe. The file that is open as `descriptor` stays open, so that events can be read again
    after the journal was renamed or deleted; `path` is the name in faults. Every access raises
    `RunFolderError` when the file cannot be read, and `JournalDamaged` when its content differs
    from the first read.

    - `page`: events per stored offset: a page is read whole.
    - `kept`: number of cached pages, the most recently used ones.
    """

    def __init__(
        self, path: Path, descriptor: int, *, page: int = PAGE, kept: int = KEPT_PAGES
    ) -> None:
        self._path = path
        self._page = page
        self._max_kept = kept
        self._descriptor = os.dup(descriptor)
        weakref.finalize(self, os.close, self._descriptor)
        self._lock = threading.Lock()
        self._count = 0
        self._length = 0  # bytes of the events so far
        self._starts = array("Q")  # the byte offset of every page
        self._open: list[Record] = []  # events of the last page, which is not full
        self._kept: OrderedDict[int, list[Record]] = OrderedDict()

    @property
    def held(self) -> int:
        """The number of events in memory."""
        return len(self._open) + sum(len(page) for page in self._kept.values())

    @property
    def length(self) -> int:
        """The number of bytes of all events."""
        return self._length

    def add(self, scanned: Scanned) -> None:
        """Add the events of the last read; raise ValueError if they leave a gap."""
        if scanned.count - len(scanned.records) != self._count:
            raise ValueError(f"event {scanned.count} does not follow event {self._count}")
        with self._lock:
            for record, end in zip(scanned.records, scanned.ends, strict=True):
                self._put(record, end)

    def put(self, record: Record, end: int) -> None:
        """Add the next event; its line ends before byte `end`."""
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

    def skip(self, file: BinaryIO, count: int) -> bytes:
        """Add the first `count` events of a journal, each to be checked when it is first read.

        Returns the line of the last, which is read now. Raises `JournalDamaged` if there are fewer.
        """
        starts = accumulate(map(len, islice(file, count)), initial=0)
        self._starts.extend(islice(starts, 0, count, self._page))
        start = self._starts[-1]
        file.seek(start)
        first = self._page * (len(self._starts) - 1) + 1
        last = list(islice(file, count - first + 1))
        page = reread(self._path, b"".join(last), first, start)
        if not page or page[-1].seq != count:
            raise JournalDamaged(self._path, count, "it is not there")
        self._open, self._count, self._length = page, count, start + sum(map(len, last))
        return last[-1]

    def _keep(self, number: int, page: list[Record]) -> None:
        self._kept[number] = page
        self._kept.move_to_end(number)
        while len(self._kept) > self._max_kept:
            self._kept.popitem(last=False)

    def _page_at(self, number: int) -> list[Record]:
        """Return a page. The last page can still grow."""
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
        with reading(self._path):
            while at < stop and (piece := os.pread(self._descriptor, stop - at, at)):
                pieces.append(piece)
                at += len(piece)
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
        """Return an event, or a list for a range: the memory of a list grows with the range."""
        count = self._count
        if isinstance(index, slice):
            start, stop, step = index.indices(count)
            if step != 1:
                return [self[n] for n in range(start, stop, step)]
            return self._between(start, stop)
        if not -count <= index < count:
            raise IndexError(index)
        number, place = divmod(index + count if index < 0 else index, self._page)
        return self._page_at(number)[place]

    def _between(self, start: int, stop: int) -> list[Record]:
        found: list[Record] = []
        while start < stop:
            number, place = divmod(start, self._page)
            piece = self._page_at(number)[place : place + stop - start]
            found += piece
            start += len(piece)
        return found

    def __iter__(self) -> Iterator[Record]:
        """Yield the events that exist when the iteration begins."""
        count = self._count
        for start in range(0, count, self._page):
            yield from self._between(start, min(count, start + self._page))


def read_on(path: Path, file: BinaryIO, before: Scanned, *, most: int = CHUNK) -> Scanned:
    """Read the events after those in `before`, about `most` bytes of them.

    Raises `JournalDamaged` if a line is wrong and is no torn end. Raises `OSError` if the file
    cannot be read.
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
        return scan_into(before.on(), path, data, whole=whole)
    except Unsure:
        return scan_into(before.on(), path, data + file.read(), whole=True)


class JournalTail:
    """The events of a journal so far. `more` reads the events written since, a chunk at a time.

    `chunk` is in bytes. The events stay on the disk (`akg_tui.store.journal_reader.Pages`).
    """

    def __init__(self, path: Path, *, chunk: int = CHUNK) -> None:
        self.path = path
        self._chunk = chunk
        self._pages: Pages | None = None
        self._scanned = Scanned()
        self._file = (0, 0)

    @property
    def records(self) -> Sequence[Record]:
        """All events so far; `more` extends them, or replaces the sequence after a new read."""
        return self._pages if self._pages is not None else ()

    def more(self) -> bool:
        """Read at most one chunk; return True if events were read, in which case more can follow.

        Raises `JournalDamaged` if a line is wrong, and still is when the whole journal is read
        again. Raises `RunFolderError` if the file cannot be read.
        """
        with reading(self.path), self.path.open("rb") as file:
            if self._is_unchanged(file):
                try:
                    return self._take(file)
                except JournalDamaged:
                    if self._scanned.count == 0:
                        raise
            self._read_anew(file)
        return True

    def skip(self, count: int) -> None:
        """Take the first `count` events as read: the process at work has folded them.

        Raises `JournalDamaged` if the last of them is not as it was written, and `RunFolderError`.
        """
        with reading(self.path), self.path.open("rb") as file:
            self._is_unchanged(file)
            assert self._pages is not None
            last = self._pages.skip(file, count)
            self._scanned = Scanned(count, self._pages.length, digest(last), last=last)

    def _is_unchanged(self, file: BinaryIO) -> bool:
        """Return whether the file and the last line read from it are unchanged."""
        told = os.fstat(file.fileno())
        which = (told.st_dev, told.st_ino)
        if self._scanned.count == 0:
            if which != self._file or self._pages is None:
                self._file, self._pages = which, Pages(self.path, file.fileno())
            return True
        last = self._scanned.last
        file.seek(self._scanned.length - len(last))
        return which == self._file and file.read(len(last)) == last

    def _take(self, file: BinaryIO) -> bool:
        scanned = read_on(self.path, file, self._scanned, most=self._chunk)
        assert self._pages is not None
        self._pages.add(scanned)
        self._scanned = scanned
        return bool(scanned.records)

    def _read_anew(self, file: BinaryIO) -> None:
        """Read the whole journal again; the old events are replaced only when that succeeds."""
        other = JournalTail(self.path, chunk=self._chunk)
        other._is_unchanged(file)
        while other._take(file):
            pass
        self.__dict__.update(other.__dict__)
