"""A run as a reader of all of it sees it: events, the states between them, kernels.

Takes no lock and writes nothing, so it may read a run while another process works on it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from akg_tui.core.events import Record
from akg_tui.core.fold import evolve
from akg_tui.core.state import RunState
from akg_tui.store.errors import JournalDamaged, RunFolderError
from akg_tui.store.history import History
from akg_tui.store.journal import read
from akg_tui.store.run_folder import HISTORY
from akg_tui.store.run_list import JOURNAL, check_is_run, fold_journal


class RunAtRest:
    """What a run's journal said when it was read. The history is opened when it is asked."""

    def __init__(self, path: Path) -> None:
        """Read the journal.

        Raises
        ------
        RunFolderError, JournalDamaged
            If it is not a run, or its journal cannot be trusted.
        """
        check_is_run(path)
        self.path = path
        self.records: list[Record] = read(path / JOURNAL)
        self.state: RunState = fold_journal(path / JOURNAL, self.records)
        self._history: History | None = None

    def states(self) -> Iterator[tuple[Record, RunState]]:
        """Each event with the state after it."""
        state: RunState | None = None
        for record in self.records:
            state = evolve(state, record)
            yield record, state

    def head_sha256(self) -> str:
        """The sha256 of the whole line, its end included, of the last event that was read."""
        number = len(self.records)
        try:
            with (self.path / JOURNAL).open("rb") as file:
                for at, line in enumerate(file, start=1):
                    if at == number:
                        return hashlib.sha256(line).hexdigest()
        except OSError as error:
            raise RunFolderError(f"cannot read {self.path / JOURNAL}: {error.strerror}") from error
        raise JournalDamaged(self.path / JOURNAL, number, number, "it is gone since it was read")

    def kernel(self, blob: str) -> str:
        """A kernel's text by its object id. Raises `HistoryError` when it is lost."""
        if self._history is None:
            name = self.state.task.files.editable
            self._history = History.open(self.path / HISTORY, kernel_file=name)
        return self._history.read_blob(blob).decode(errors="replace")
