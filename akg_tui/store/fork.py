"""Creates a run from another run: a fork of its history, which can be that of a damaged run.

The parent is read, without its lock, and never written. A fork is a self-contained sibling with the
parent's events up to the end of a round, line by line, and the commits of these events. It is built
beside its final path and renamed there, so a partial run never exists.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from msgspec import Struct

from akg_tui import __version__
from akg_tui.core import events as ev
from akg_tui.core.fold import evolve
from akg_tui.core.past_states import Past
from akg_tui.core.sanitize import Said
from akg_tui.core.state import Attempt, RunState
from akg_tui.store.context_files import copy_context
from akg_tui.store.errors import HistoryError, JournalDamaged, JournalTooNew, RunFolderError
from akg_tui.store.filesystem import sync_folder, write_synced
from akg_tui.store.history import History
from akg_tui.store.journal_format import Inspected, continued, digest, inspect, lines_of
from akg_tui.store.run_folder import HISTORY, TASK, RunFolder, read_reference, staged_run
from akg_tui.store.run_list import JOURNAL, check_is_run, check_plain, fold_past


class Fork(Struct, frozen=True):
    """A finished fork: the event that states its origin, and the state after that event.

    `damage` is what is wrong with the parent's journal behind the fork's part, or "".
    """

    path: Path
    origin: ev.Forked
    state: RunState
    damage: str


def fork_run(
    parent: Path,
    round_number: int | None = None,
    *,
    version: str = __version__,
    clock: Callable[[], float] = time.time,
) -> Fork:
    """Make a separate run from `parent`, in its state when `round_number` was settled.

    Round 0 is the accepted baseline; None is the last round whose best kernel is there. The new
    folder is a sibling of the parent's; it can be resumed at once. Of a damaged parent the sound
    beginning is used, and an attempt whose kernel is lost is listed and never used.

    Raises `RunFolderError` if there is no such round, or the folder cannot be written. Raises
    `JournalDamaged` or `HistoryError` if the parent cannot be trusted so far.
    """
    check_is_run(parent)
    check_plain(parent)
    inspected = inspect(parent / JOURNAL)
    past, fault = _sound(parent / JOURNAL, inspected)
    number, state = _chosen(parent, past, round_number, fault)
    read_reference(parent, state)  # nothing can be measured without it
    lines = lines_of(inspected.data, state.seq)
    name = f"{parent.resolve().name}-r{number}"
    with staged_run(parent.resolve().parent, name) as (staged, path):
        _copy_task(parent, staged)
        kernels = _kernels(state, past.records[: state.seq])
        forked = ev.Forked(
            run_id=path.name,
            parent=state.run_id,
            parent_path=str(parent.resolve()),
            round=number,
            seq=state.seq,
            hash=digest(lines[-1]),
            version=version,
            lost=_copy_history(parent, staged, state, kernels),
        )
        now = clock()
        state = evolve(state, ev.Record(state.seq + 1, now, forked))
        write_synced(staged / JOURNAL, continued(lines, forked, now))
        sync_folder(staged)
    RunFolder.open(path, clock=clock).close()  # sets the refs, the work tree and PLAN.md
    return Fork(path, forked, state, str(fault.what) if fault is not None else "")


def _sound(journal: Path, inspected: Inspected) -> tuple[Past, JournalDamaged | None]:
    """Return the sound beginning of a journal, and why it ends there, if it does.

    Raises the fault of a journal without a sound event, or of one that a newer version wrote.
    """
    records, fault = inspected.records, inspected.fault
    if isinstance(fault, JournalTooNew) or (fault is not None and not records):
        raise fault
    past = Past(records)
    try:
        fold_past(journal, past)
    except JournalDamaged as error:
        past, fault = Past(records[: error.line - 1]), error
    return past, fault


def _chosen(
    parent: Path, past: Past, wanted: int | None, fault: JournalDamaged | None
) -> tuple[int, RunState]:
    """Return the round `wanted`, or the last one that can be used, and the state at its end."""
    ends = {mark.round: mark.seq for mark in past.marks}
    if not ends and not wanted:
        raise RunFolderError(
            "{run}: has no accepted baseline, so there is nothing to fork", run=parent
        )
    if wanted is None:
        states = ((number, past.at(ends[number])) for number in reversed(ends))
        return next((pair for pair in states if _is_usable(parent, pair[1])), (0, past.at(ends[0])))
    if wanted in ends:
        return wanted, past.at(ends[wanted])
    if fault is not None:
        raise fault
    first, last = min(filter(None, ends), default=0), max(ends, default=0)
    rounds = (
        Said("its rounds are {n} to {n2}", n=first, n2=last) if last else "no round is settled yet"
    )
    raise RunFolderError("{run}: has no round {n}: {what}", run=parent, n=wanted, what=rounds)


def _is_usable(parent: Path, state: RunState) -> bool:
    """Return whether the kernel that a run in this state goes on from is there."""
    assert state.best is not None
    history = History.open(parent / HISTORY, kernel_file=state.task.files.editable)
    return _is_whole(history, state.attempts[state.best.attempt])


def _is_whole(history: History, attempt: Attempt) -> bool:
    with contextlib.suppress(HistoryError):
        return bool(history.read_commit(attempt.commit))
    return False


def _copy_task(parent: Path, staged: Path) -> None:
    """Copy the files of a run's task into the folder of another run."""
    copies = staged / TASK
    copies.mkdir()
    for path in sorted((parent / TASK).iterdir()):
        if path.is_file() and not path.is_symlink():
            write_synced(copies / path.name, path.read_bytes())
    copy_context(parent / TASK, copies)
    sync_folder(copies)


def _kernels(state: RunState, records: Iterable[ev.Record]) -> tuple[str, ...]:
    """Return the ids of the kernels that a resume can read, without those of the attempts."""
    edits = (record.event.blob for record in records if isinstance(record.event, ev.KernelEdited))
    tried = (trial.blob for trial in state.trials)
    return tuple(dict.fromkeys((state.seed_blob, state.work_blob, *edits, *tried)))


def _copy_history(
    parent: Path, staged: Path, state: RunState, kernels: Iterable[str]
) -> tuple[int, ...]:
    """Copy the kernels, and the commits of the attempts, each after its parent.

    Returns the attempts that are lost now. The seed and the best kernel must be there; another lost
    text ends no run.
    """
    kernel_file = state.task.files.editable
    source = History.open(parent / HISTORY, kernel_file=kernel_file)
    target = History.create(staged / HISTORY, kernel_file=kernel_file)
    for blob in kernels:
        try:
            kernel = source.read_files(blob)
        except HistoryError:
            if blob in (state.seed_blob, state.work_blob):
                raise
            continue
        target.write_files(kernel)
    lost: list[int] = []
    for attempt in (each for each in state.attempts if not each.lost):
        needed = state.best is not None and attempt.number in (0, state.best.attempt)
        if needed or _is_whole(source, attempt):
            target.copy_commit(source, attempt.commit)
        else:
            lost.append(attempt.number)
    return tuple(lost)
