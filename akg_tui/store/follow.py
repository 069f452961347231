"""A journal read while another process may be writing it: what is new, line by line.

Takes no lock and writes nothing. What the writer takes back (a line it could not make
durable) is noticed, and the journal read anew.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from akg_tui.core.events import Record
from akg_tui.store.errors import JournalDamaged, RunFolderError
from akg_tui.store.journal_lines import Scanned
from akg_tui.store.journal_pages import CHUNK, Pages, read_on


class JournalTail:
    """The events of a journal so far. `more` reads what was written since, a chunk at a time.

    `chunk` is in bytes. The events stay on the disk (`akg_tui.store.journal_pages.Pages`).
    """

    def __init__(self, path: Path, *, chunk: int = CHUNK) -> None:
        self.path = path
        self._chunk = chunk
        self._pages: Pages | None = None
        self._scanned = Scanned()
        self._file = (0, 0)

    @property
    def records(self) -> Sequence[Record]:
        """Grows with `more`; another sequence when the journal was read anew."""
        return self._pages if self._pages is not None else ()

    @property
    def fresh(self) -> Sequence[Record]:
        """The events that the last `more` read; all after those before, unless it was anew."""
        return self._scanned.records

    def more(self) -> bool:
        """Read on, at most a chunk; True when there is something new, and perhaps more of it.

        Raises
        ------
        JournalDamaged
            If a line is wrong, and still is when the whole journal is read again.
        RunFolderError
            If the file cannot be read.
        """
        try:
            with self.path.open("rb") as file:
                if self._stands(file):
                    try:
                        return self._take(file)
                    except JournalDamaged:
                        if self._scanned.count == 0:
                            raise
                self._anew(file)
        except OSError as error:
            raise RunFolderError(f"cannot read {self.path}: {error.strerror}") from error
        return True

    def _stands(self, file: BinaryIO) -> bool:
        """Whether the file still holds what was read. What came last may be another line."""
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

    def _anew(self, file: BinaryIO) -> None:
        """Read all of it; what was read before is forgotten only when that succeeds."""
        other = JournalTail(self.path, chunk=self._chunk)
        other._stands(file)
        while other._take(file):
            pass
        self.__dict__.update(other.__dict__)
