"""A thread that finds and reads the runs below a folder and the user's detached ones, for a list.

Reads run folders and never writes.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from akg_tui.engine.detached import registered
from akg_tui.store.errors import RunFolderError
from akg_tui.store.lock import holder
from akg_tui.store.run_list import JOURNAL, RunSummary, find_runs, summarize_run

RESCAN_S = 1.0
SEARCH_AGAIN = 5  # rounds between two searches of the folders
BREATH_S = 0.002  # pause between two journals, so that the screen can refresh


@dataclass
class ListedRun:
    """A listed run: its folder, the size and time of its journal, and its summary."""

    path: Path
    name: str  # the path relative to the listed folder
    size: int
    at: float  # the journal's last change, in seconds since the epoch
    summary: RunSummary | None = None
    read: tuple[int, float, int | None] | None = None
    words: tuple[RunSummary, str] | None = None  # the text that a filter searches, for this summary


class RunScanner:
    """A thread that finds runs and reads their summaries. `version` grows with every change."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.version = 0
        self.searched = False
        self.trouble = ""
        self._found: dict[Path, ListedRun] = {}
        self._detached: set[Path] = set()  # those of the registry that were at work
        self.unread = 0
        self._order: list[ListedRun] = []  # unread runs, the newest last
        self._wanted: tuple[Path, ...] = ()
        self._stop = threading.Event()
        self._again = threading.Event()
        self._forced = False
        self._thread = threading.Thread(target=self._work, name="catalogue", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._again.set()

    @property
    def runs(self) -> Sequence[ListedRun]:
        """All runs found so far."""
        return list(self._found.values())

    @property
    def many(self) -> int:
        """The number of runs found so far."""
        return len(self._found)

    def want(self, paths: Sequence[Path]) -> None:
        """Set the visible runs, which are read first and checked for changes in every round."""
        self._wanted = tuple(paths)

    def refresh(self) -> None:
        """Start the next search and read at once."""
        self._forced = True
        self._again.set()

    def _work(self) -> None:
        rounds = 0
        while not self._stop.is_set():
            self._again.clear()
            forced, self._forced = self._forced, False
            trouble = ""
            try:
                if forced or self.trouble or rounds % SEARCH_AGAIN == 0:
                    self._search()
                self._check_changed()
                self._read_all()
            except OSError as error:
                trouble = f"{self.folder}: {error.strerror or error}"
            except RunFolderError as error:
                trouble = error.said
            except Exception as error:  # noqa: BLE001 - shown in the list, retried next round
                trouble = str(error) or type(error).__name__
            if trouble != self.trouble:
                self.trouble = trouble
                self.version += 1
            rounds += 1
            self._again.wait(RESCAN_S)

    def _search(self) -> None:
        if not self.folder.is_dir():
            self._found.clear()
            self.unread = 0
            raise RunFolderError("{path}: is not a folder", path=self.folder)
        there: set[Path] = set()
        for path in find_runs(self.folder):
            if self._stop.is_set():
                return
            self._note(path, there)
        detached = (Path(each.run) for each in registered())
        self._detached.update(path for path in detached if holder(path) is not None)
        below = {path.resolve() for path in there} if self._detached else set()
        for path in self._detached - below:
            self._note(path, there)
        for gone in self._found.keys() - there:
            self.unread -= self._found.pop(gone).summary is None
            self.version += 1
        self.searched = True
        self.version += 1

    def _note(self, path: Path, there: set[Path]) -> None:
        there.add(path)
        if path not in self._found and (found := self._stat(path)):
            self._found[path] = found
            self.unread += 1
            self.version += 1

    def _stat(self, path: Path) -> ListedRun | None:
        try:
            told = (path / JOURNAL).stat()
        except OSError:
            return None
        name = str(path)
        if path.is_relative_to(self.folder):
            name = str(path.relative_to(self.folder)) if path != self.folder else path.name
        return ListedRun(path, name, told.st_size, told.st_mtime)

    def _check_changed(self) -> None:
        """Read again each visible or running run whose journal has changed."""
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
                return
            self._read(found)
            self._stop.wait(BREATH_S)

    def _next(self) -> ListedRun | None:
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

    def _print(self, found: ListedRun) -> tuple[int, float, int | None]:
        finished = found.summary is not None and found.summary.finished
        return found.size, found.at, None if finished else holder(found.path)

    def _read(self, found: ListedRun) -> None:
        summary = summarize_run(found.path)
        self.unread -= found.summary is None
        found.summary = summary
        found.read = self._print(found)
        self.version += 1
