"""A run on disk: journal, history, projections and lock together, and the state folded from them.

All work on a run goes through `RunFolder`. An event is checked against the rules before it is
written, so a journal never contains an event that cannot be folded.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import shutil
import time
from collections.abc import Callable, Iterator
from itertools import chain, count
from pathlib import Path

from akg_tui.core.events import AnyEvent, Record, RunCreated
from akg_tui.core.fold import evolve
from akg_tui.core.phases import Mode
from akg_tui.core.sanitize import Said, name_fault
from akg_tui.core.state import RunState
from akg_tui.core.task import Act, Task
from akg_tui.store.context_files import write_context
from akg_tui.store.errors import BadTask, RunFolderError, reading
from akg_tui.store.filesystem import sync_folder, write_synced
from akg_tui.store.history import History
from akg_tui.store.journal import Journal
from akg_tui.store.lock import RunLock
from akg_tui.store.projections import hand_edit, project, set_aside
from akg_tui.store.run_list import JOURNAL, Folding, check_is_run, check_plain
from akg_tui.store.task_folder import TASK_FILE, TaskFolder

RUNS = "runs"
HISTORY = "history.git"
TASK = "task"


class RunFolder:
    """One run, open for work, made by `create` or `open`; `close` releases the lock.

    `records` are all events so far, and `state` their fold; both change with every `append`.
    """

    def __init__(
        self,
        path: Path,
        lock: RunLock,
        journal: Journal,
        history: History,
        state: RunState,
        *,
        clock: Callable[[], float],
    ) -> None:
        self.path = path
        self.history = history
        self.reference = read_reference(path, state)
        self.records = journal.records
        self.state = state
        self.allowed: frozenset[Act] = frozenset()
        """The acts outside the sandbox that the user allows this run (`akg_tui.engine.trust`)."""
        self._lock = lock
        self._journal = journal
        self._clock = clock

    @classmethod
    def create(
        cls,
        folder: TaskFolder,
        *,
        task: Task,
        mode: Mode,
        agent: str,
        version: str,
        clock: Callable[[], float],
        name: str,
    ) -> RunFolder:
        """Create a run of `task` and open it.

        `task` is the folder's task, changed by the command line. `name` is the run's folder and id,
        see `staged_run`.

        Raises `StoreError` if the folder cannot be written.
        """
        if not re.fullmatch(r"\w[\w.-]*", name):
            raise ValueError(Said("not a name for a run: {name}", name=repr(name)))
        runs = folder.path / RUNS
        if runs.is_symlink() and not runs.resolve().is_relative_to(folder.path.resolve()):
            raise BadTask(runs, None, "", "is a link that leads out of the folder")
        with staged_run(runs, name) as (staged, path):
            blob = _write_files(staged, folder, task)
            created = RunCreated(
                run_id=path.name,
                task=task,
                mode=mode,
                agent=agent,
                version=version,
                reference_sha256=hashlib.sha256(folder.reference.encode()).hexdigest(),
                kernel_sha256=folder.kernel.sha256,
                kernel_blob=blob,
            )
            with RunLock.acquire(staged) as lock:
                journal = Journal.open(staged / JOURNAL, lock=lock)
                with contextlib.closing(journal):
                    journal.append(created, clock())
        return cls.open(path, clock=clock)

    @classmethod
    def open(cls, path: Path, *, clock: Callable[[], float] = time.time) -> RunFolder:
        """Open a run for work: take its lock, recover, and make the projections anew.

        Raises `RunLocked` if another process is at work on the run. Raises `JournalDamaged`,
        `HistoryError` or `RunFolderError` if the folder is not a run, or cannot be trusted or
        written.
        """
        check_is_run(path)
        check_plain(path)
        with contextlib.ExitStack() as begun:
            lock = begun.enter_context(RunLock.acquire(path))
            folding = Folding(path / JOURNAL)
            journal = Journal.open(path / JOURNAL, lock=lock, take=folding.take)
            begun.callback(journal.close)
            state = folding.state
            history = History.open(path / HISTORY, kernel_file=state.task.files.editable, lock=lock)
            _check_history(history, state)
            opened = cls(path, lock, journal, history, state, clock=clock)
            opened.project()
            begun.pop_all()
        return opened

    def append(self, event: AnyEvent) -> Record:
        """Check one event, make it durable, and fold it into the state.

        Raises `OutOfOrder` or `IllegalTransition` if the rules do not allow the event
        (`akg_tui.core.fold`); nothing was written. Raises `JournalWriteError` if it could not be
        made durable; the state is as before.
        """
        prepared = self._journal.prepare(event, self._clock())
        state = evolve(self.state, prepared.record)
        record = self._journal.commit(prepared)
        self.state = state
        return record

    def project(self) -> None:
        """Make refs, work tree and PLAN.md match the state. Raises `StoreError`.

        A hand edit of PLAN.md becomes an event and is set aside before PLAN.md is overwritten.
        """
        if edit := hand_edit(self.path):
            # The event exists already if a crash came between the event and the move.
            if edit not in self.state.plan_edits:
                self.append(edit)
            set_aside(self.path, edit)
        project(self.path, self.history, self.state)

    def close(self) -> None:
        """Close the journal and release the lock; further calls do nothing."""
        self._journal.close()
        self._lock.release()


@contextlib.contextmanager
def staged_run(runs: Path, name: str) -> Iterator[tuple[Path, Path]]:
    """Yield a folder to build a run in, and its final path below `runs`; rename it at the end.

    When `name` is taken, `-2`, `-3`, … is added. After an error both folders are removed, so a
    partial run never exists.

    Raises `RunFolderError` if a file in the folder cannot be read or written.
    """
    if why := name_fault(name):
        raise RunFolderError("cannot make a run: {why}", why=why)
    staged: Path | None = None
    try:
        if not runs.is_dir():
            runs.mkdir(parents=True)
            sync_folder(runs.parent)
        staged, path = _reserve(runs, name)
        yield staged, path
        staged.rename(path)
        sync_folder(runs)
    except OSError as error:
        where = error.filename or runs
        raise RunFolderError(
            "cannot make a run: {path}: {why}", path=where, why=error.strerror
        ) from error
    finally:
        if staged is not None:
            shutil.rmtree(staged, ignore_errors=True)  # exists only after an error


def _reserve(runs: Path, name: str) -> tuple[Path, Path]:
    """Make a folder to build in, and reserve its final path; return both."""
    for wanted in numbered(name):
        staged, path = runs / f".{wanted}.new", runs / wanted
        try:
            staged.mkdir()
        except FileExistsError:
            continue
        if not path.exists():
            break
        staged.rmdir()
    return staged, path


def numbered(name: str) -> Iterator[str]:
    """Yield `name`, then `name` with `-2`, `-3`, … after it, without an end."""
    return chain([name], (f"{name}-{number}" for number in count(2)))


def _write_files(staged: Path, folder: TaskFolder, task: Task) -> str:
    """Write the initial files of a run except the journal; return the kernel's object id."""
    copies = staged / TASK
    copies.mkdir()
    write_synced(copies / TASK_FILE, folder.toml.encode())
    write_synced(copies / task.files.reference, folder.reference.encode())
    for name, text in folder.tools:
        write_synced(copies / name, text.encode())
    write_context(copies, folder.context)
    sync_folder(copies)
    history = History.create(staged / HISTORY, kernel_file=task.files.editable)
    return history.write_kernel(folder.kernel)


def _check_history(history: History, state: RunState) -> None:
    """Raise `HistoryError` if an object of the run is lost: now, instead of hours later."""
    history.read_files(state.work_blob)
    history.read_files(state.seed_blob)
    for attempt in state.attempts:
        if not attempt.lost:
            history.read_commit(attempt.commit)


def read_reference(run: Path, state: RunState) -> str:
    """Return the run's copy of the reference. Raises `RunFolderError` if it has changed since."""
    path = run / TASK / state.task.files.reference
    with reading(path):
        data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != state.reference_sha256:
        raise RunFolderError(
            "{path}: was changed after the run began, so its measurements would not "
            "compare; put the old file back, or begin a new run",
            path=path,
        )
    return data.decode()
