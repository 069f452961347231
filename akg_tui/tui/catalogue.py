"""The runs below a folder, found and read by a thread: what is in sight first.

Owns that thread, and the process that reads for it where there are many: folding journals
holds the interpreter, which the screen needs. The screen asks for a version and takes what is
there; it never waits. A journal is read again only when its size or time has changed.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from akg_tui.store.errors import RunFolderError
from akg_tui.store.run_list import JOURNAL, RunSummary, find_runs, summarize_run
from akg_tui.store.run_reader import Reader

LOOK_AGAIN_S = 1.0
SEARCH_AGAIN = 5  # of every so many looks, one searches the folders too
BREATH_S = 0.002  # between two journals, for the screen
MANY = 40  # unread journals from which on a process reads them
BATCH = 32  # journals that it is asked for at once


@dataclass
class Found:
    """A run: where it is, how its journal was when it was read, and what it told."""

    path: Path
    name: str  # the path from the folder that is listed
    size: int
    at: float  # seconds since the epoch: the journal's last change
    summary: RunSummary | None = None
    read: tuple[int, float, int | None] | None = None
    words: tuple[RunSummary, str] | None = None  # what a filter looks at, for this summary


class Catalogue:
    """`version` grows with every change."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.version = 0
        self.searched = False
        self.trouble = ""
        self._found: dict[Path, Found] = {}
        self.unread = 0
        self._order: list[Found] = []  # unread ones, the newest last
        self._wanted: tuple[Path, ...] = ()
        self._reader = Reader()
        self._stop = threading.Event()
        self._again = threading.Event()
        self._thread = threading.Thread(target=self._work, name="catalogue", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._again.set()
        self._reader.close()

    @property
    def runs(self) -> Sequence[Found]:
        """All that were found so far."""
        return list(self._found.values())

    @property
    def many(self) -> int:
        """How many were found so far."""
        return len(self._found)

    def want(self, paths: Sequence[Path]) -> None:
        """Which runs are in sight: they are read first, and looked at again and again."""
        self._wanted = tuple(paths)

    def refresh(self) -> None:
        """Search and look again now."""
        self._again.set()

    def _work(self) -> None:
        looks = 0
        while not self._stop.is_set():
            forced = self._again.is_set()
            self._again.clear()
            trouble = ""
            try:
                if forced or self.trouble or looks % SEARCH_AGAIN == 0:
                    self._search()
                self._look_again()
                self._read_all()
            except OSError as error:
                trouble = f"{self.folder}: {error.strerror or error}"
            except Exception as error:  # noqa: BLE001 - the list tells it, and is looked at again
                trouble = str(error) or type(error).__name__
            if trouble != self.trouble:
                self.trouble = trouble
                self.version += 1
            looks += 1
            self._again.wait(LOOK_AGAIN_S)

    def _search(self) -> None:
        if not self.folder.is_dir():
            self._found.clear()
            self.unread = 0
            raise RunFolderError(f"{self.folder}: is not a folder")
        there: set[Path] = set()
        for path in find_runs(self.folder):
            if self._stop.is_set():
                return
            there.add(path)
            if path not in self._found and (found := self._stat(path)):
                self._found[path] = found
                self.unread += 1
                self.version += 1
        for gone in self._found.keys() - there:
            self.unread -= self._found.pop(gone).summary is None
            self.version += 1
        self.searched = True
        self.version += 1

    def _stat(self, path: Path) -> Found | None:
        try:
            told = (path / JOURNAL).stat()
        except OSError:
            return None
        name = str(path.relative_to(self.folder)) if path != self.folder else path.name
        return Found(path, name, told.st_size, told.st_mtime)

    def _look_again(self) -> None:
        """Notice what has changed of the runs in sight, and of those at work."""
        live = [p for p, f in self._found.items() if f.summary and f.summary.status == "running"]
        for path in dict.fromkeys((*self._wanted, *live)):
            found, now = self._found.get(path), self._stat(path)
            if found is None or now is None:
                continue
            found.size, found.at = now.size, now.at
            if found.summary is not None and found.read != self._print(found):
                self._read(found)

    def _read_all(self) -> None:
        while not self._stop.is_set() and not self._again.is_set():
            found = self._next()
            if found is None:
                self._reader.close()
                return
            if self.unread >= MANY and found.path not in self._wanted:
                self._read_batch(found)
            else:
                self._read(found)
            self._stop.wait(BREATH_S)

    def _read_batch(self, first: Found) -> None:
        """Let the process read this one and those after it; what it does not tell is read here."""
        batch = [first]
        while len(batch) < BATCH and (found := self._next()) is not None:
            if found in batch:
                break
            batch.append(found)
        told = self._reader.read([found.path for found in batch])
        for found in batch:
            summary = told.get(str(found.path))
            self._take(found, summary if summary is not None else summarize_run(found.path))

    def _next(self) -> Found | None:
        for path in self._wanted:
            found = self._found.get(path)
            if found is not None and found.summary is None:
                return found
        while self._order:
            found = self._order.pop()
            if found.summary is None and found.path in self._found:
                return found
        if self.unread:
            unread = [found for found in self._found.values() if found.summary is None]
            self._order = sorted(unread, key=attrgetter("at"))
            return self._order.pop() if self._order else None
        return None

    def _print(self, found: Found) -> tuple[int, float, int | None]:
        from akg_tui.store.lock import holder

        finished = found.summary is not None and found.summary.finished
        return found.size, found.at, None if finished else holder(found.path)

    def _read(self, found: Found) -> None:
        self._take(found, summarize_run(found.path))

    def _take(self, found: Found, summary: RunSummary) -> None:
        self.unread -= found.summary is None
        found.summary = summary
        found.read = self._print(found)
        self.version += 1
