"""A journal read while another process may be writing it: what is new, line by line.

Takes no lock and writes nothing. What the writer takes back (a line it could not make
durable) is noticed, and the journal read anew.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from akg_tui.core.events import Record
from akg_tui.store.errors import JournalDamaged, RunFolderError
from akg_tui.store.journal_lines import NO_LINE, Scanned, scan


class JournalTail:
    """The events of a journal so far. `more` reads what was written since."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._scanned = Scanned([], 0, NO_LINE)
        self._file = (0, 0)
        self._last_line = b""

    @property
    def records(self) -> Sequence[Record]:
        """Grows with `more`; another list when the journal was read anew."""
        return self._scanned.records

    def more(self) -> bool:
        """Read on; True when there is something new.

        Raises
        ------
        JournalDamaged
            If a line is wrong, and still is when the whole journal is read again.
        RunFolderError
            If the file cannot be read.
        """
        last = self._last_line
        found, data = self._read(self._scanned.length - len(last))
        # Another line may stand where one that was taken back had been.
        if found != self._file or data is None or not data.startswith(last):
            return self._anew()
        data = data[len(last) :]
        if not data:
            return False
        before, length = len(self._scanned.records), self._scanned.length
        try:
            scan(self.path, data, self._scanned)
        except JournalDamaged:
            return self._anew()
        self._remember(data[: self._scanned.length - length])
        return len(self._scanned.records) > before

    def _anew(self) -> bool:
        """Read all of it; what was read before is forgotten only when that succeeds."""
        self._file, data = self._read(0)
        self._scanned = scan(self.path, data or b"")
        self._last_line = b""
        self._remember((data or b"")[: self._scanned.length])
        return True

    def _remember(self, data: bytes) -> None:
        """The last line of what was taken over."""
        whole, end, _ = data.rpartition(b"\n")
        if end:
            self._last_line = whole[whole.rfind(b"\n") + 1 :] + end

    def _read(self, start: int) -> tuple[tuple[int, int], bytes | None]:
        """Which file it is, and its bytes from `start`; None when it is shorter than that."""
        try:
            with self.path.open("rb") as file:
                told = os.fstat(file.fileno())
                which = (told.st_dev, told.st_ino)
                if told.st_size < start:
                    return which, None
                file.seek(start)
                return which, file.read()
        except OSError as error:
            raise RunFolderError(f"cannot read {self.path}: {error.strerror}") from error
