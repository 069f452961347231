"""A run that no process works on: read whole, commanded, or moved to the trash.

Reading takes no lock. A command is applied in a separate session. A hand edit of PLAN.md that was
set aside is read as a change of the plan.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path

from akg_tui import __version__
from akg_tui.core.commands import Command
from akg_tui.core.decide import Rejected, decide
from akg_tui.core.events import AnyEvent, PlanChange, Record
from akg_tui.core.fold import evolve
from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.plan.edit import BadPlanEdit, read_plan_edit
from akg_tui.core.recovery import opening
from akg_tui.core.state import RunState
from akg_tui.store.errors import RunFolderError, StoreError, reading
from akg_tui.store.filesystem import make_folder, sync_folder
from akg_tui.store.history import History
from akg_tui.store.journal import read_through
from akg_tui.store.lock import RunLock
from akg_tui.store.projections import PLAN
from akg_tui.store.run_folder import HISTORY, RunFolder, numbered
from akg_tui.store.run_list import JOURNAL, check_is_run, fold_journal


class RunAtRest:
    """A run as read from its journal once. The history is opened on the first `kernel`."""

    def __init__(self, path: Path) -> None:
        """Read the journal.

        Raises `RunFolderError` or `JournalDamaged` if the folder is not a run, or its journal
        cannot be trusted.
        """
        check_is_run(path)
        self.path = path
        self.records: list[Record] = []
        self._last_line = read_through(path / JOURNAL, self.records.extend)
        self.state: RunState = fold_journal(path / JOURNAL, self.records)

    def states(self) -> Iterator[tuple[Record, RunState]]:
        """Yield each event with the state after it."""
        state: RunState | None = None
        for record in self.records:
            state = evolve(state, record)
            yield record, state

    def head_sha256(self) -> str:
        """Return the sha256 of the whole line, with its line end, of the last event read."""
        return hashlib.sha256(self._last_line).hexdigest()

    def kernel(self, blob: str) -> KernelFiles:
        """Return a kernel by its object id. Raises `HistoryError` when it is lost."""
        return self._history.read_kernel(blob)

    @cached_property
    def _history(self) -> History:
        return History.open(self.path / HISTORY, kernel_file=self.state.task.files.editable)


class Refused(StoreError):
    """Core does not allow the command now; the text is its reason. Nothing was journaled."""


def apply_at_rest(
    run: RunFolder, command: Command, *, clock: Callable[[], float] = time.time
) -> None:
    """Apply a command to an open run in a separate session, so no idle time counts as worked.

    Raises `Refused` if the command is not allowed; then not even the session is journaled. Raises
    `StoreError` if the run cannot be written.
    """
    events: list[AnyEvent] = [*opening(run.state, os.getpid(), __version__)]
    state = run.state
    for seq, event in enumerate(events, state.seq + 1):
        state = evolve(state, Record(seq, clock(), event))
    decided = decide(state, command, clock())
    if isinstance(decided, Rejected):
        raise Refused(decided.why)
    for event in (*events, *decided):
        run.append(event)
    run.project()


def command_at_rest(path: Path, command: Command) -> None:
    """Open the run at `path`, apply the command, close the run. Raises like `apply_at_rest`."""
    with contextlib.closing(RunFolder.open(path)) as run:
        apply_at_rest(run, command)


TRASH = ".trash"


def discard_run(run: Path) -> Path:
    """Move a run at rest, sound or damaged, to the trash; return its new path.

    Raises `RunLocked` if a process is at work on the run. Raises `RunFolderError` if the folder is
    not a run, or cannot be moved.
    """
    check_is_run(run)
    run = run.absolute()
    trash = run.parent / TRASH
    with RunLock.acquire(run):
        try:
            make_folder(run.parent, TRASH)
            place = next(p for name in numbered(run.name) if not (p := trash / name).exists())
            run.rename(place)
            sync_folder(run.parent)
        except OSError as error:
            raise RunFolderError(
                "cannot move {run} to {path}: {why}", run=run, path=trash, why=error.strerror
            ) from error
    return place


SIZE_LIMIT = 1 << 20


def read_kept_edit(run: Path, kept: str, state: RunState) -> PlanChange:
    """Return the changes that the edit under the name `kept` makes to the current plan.

    Raises `RunFolderError` if there is no such edit or it cannot be read; the message names file
    and line.
    """
    path = run / kept
    if not re.fullmatch(rf"{re.escape(PLAN)}\.edited-\d+", kept):
        raise RunFolderError("{path}: is not a hand edit of {file}", path=path, file=PLAN)
    if path.is_symlink():
        raise RunFolderError("{path}: is a link, which is not followed", path=path)
    with reading(path), path.open("rb") as file:
        data = file.read(SIZE_LIMIT + 1)
    if len(data) > SIZE_LIMIT:
        raise RunFolderError("{path}: is too large for a plan", path=path)
    try:
        return read_plan_edit(data.decode(), state)
    except UnicodeDecodeError as error:
        raise RunFolderError(
            "{path}: not UTF-8 text at byte {n}", path=path, n=error.start
        ) from error
    except BadPlanEdit as error:
        raise RunFolderError(f"{path}: {error}") from error
