"""Creates a run from another run: a fork of its history.

The parent is read, without its lock, and never written. A fork is a self-contained sibling with the
parent's events up to the end of a round, line by line, and the commits of these events. It is built
beside its final path and renamed there, so a partial run never exists.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from akg_tui import __version__
from akg_tui.core import events as ev
from akg_tui.core.fold import evolve
from akg_tui.core.sanitize import Said
from akg_tui.core.state import RunState
from akg_tui.store.context_files import copy_context
from akg_tui.store.errors import HistoryError, RunFolderError
from akg_tui.store.filesystem import sync_folder, write_synced
from akg_tui.store.history import History
from akg_tui.store.journal_format import Inspected, continued, digest, inspect, lines_of
from akg_tui.store.run_folder import HISTORY, TASK, RunFolder, staged_run
from akg_tui.store.run_list import JOURNAL, check_is_run, check_plain, fold_journal


class Fork(Struct, frozen=True):
    """A finished fork: the event that states its origin, and the state after that event."""

    path: Path
    origin: ev.Forked
    state: RunState


def fork_run(
    parent: Path,
    round_number: int,
    *,
    version: str = __version__,
    clock: Callable[[], float] = time.time,
) -> Fork:
    """Make a separate run from `parent`, in its state when `round_number` was settled.

    Round 0 is the accepted baseline. The new folder is a sibling of the parent's; it can be resumed
    at once.

    Raises `RunFolderError` if there is no such round, or the folder cannot be written. Raises
    `JournalDamaged` or `HistoryError` if the parent cannot be trusted.
    """
    inspected, journal = _inspected(parent), parent / JOURNAL
    records = inspected.records
    history = records[: _end_of(parent, records, round_number)]
    state = fold_journal(journal, history)
    lines = lines_of(inspected.data, len(history))
    name = f"{parent.resolve().name}-r{round_number}"
    with staged_run(parent.resolve().parent, name) as (staged, path):
        forked = ev.Forked(
            run_id=path.name,
            parent=state.run_id,
            parent_path=str(parent.resolve()),
            round=round_number,
            seq=len(history),
            hash=digest(lines[-1]),
            version=version,
        )
        copy_task(parent, staged)
        salvages = _salvages(records[len(history) :], state)
        for event in salvages:
            history = [*history, ev.Record(len(history) + 1, state.last_at, event)]
            lines = lines_of(continued(lines, event, state.last_at), len(history))
        state = fold_journal(journal, history)
        salvaged = any(isinstance(record.event, ev.RunSalvaged) for record in records)
        _copy_history(parent, staged, state, history, salvaged=salvaged)
        now = clock()
        made = fold_journal(journal, [*history, ev.Record(len(history) + 1, now, forked)])
        write_synced(staged / JOURNAL, continued(lines, forked, now))
        sync_folder(staged)
    RunFolder.open(path, clock=clock).close()  # sets the refs, the work tree and PLAN.md
    return Fork(path, forked, made)


def _inspected(parent: Path) -> Inspected:
    check_is_run(parent)
    check_plain(parent)
    inspected = inspect(parent / JOURNAL)
    if inspected.fault is not None:
        raise inspected.fault
    return inspected


def _end_of(parent: Path, records: Sequence[ev.Record], round_number: int) -> int:
    """Return the number of events up to the end of the round."""
    first = last = 0
    for record in records:
        match record.event:
            case ev.BaselineAccepted() if round_number == 0:
                return record.seq
            case ev.Decided(round=number):
                first, last = first or number, number
                if number == round_number:
                    return record.seq
    if round_number == 0:
        raise RunFolderError(
            "{run}: has no accepted baseline, so there is nothing to fork", run=parent
        )
    settled = (
        Said("its rounds are {n} to {n2}", n=first, n2=last) if last else "no round is settled yet"
    )
    raise RunFolderError(
        "{run}: has no round {n}: {what}", run=parent, n=round_number, what=settled
    )


def copy_task(parent: Path, staged: Path) -> None:
    """Copy the files of a run's task into the folder of another run."""
    copies = staged / TASK
    copies.mkdir()
    for path in sorted((parent / TASK).iterdir()):
        if path.is_file() and not path.is_symlink():
            write_synced(copies / path.name, path.read_bytes())
    copy_context(parent / TASK, copies)
    sync_folder(copies)


def _salvages(later: Sequence[ev.Record], state: RunState) -> list[ev.RunSalvaged]:
    """Return the salvage events after the round, reduced to the attempts up to the round.

    A salvage changes kernels and commits also of earlier rounds: without its event the fork would
    look for their old ids, which are missing.
    """
    found = []
    for record in later:
        event = record.event
        if not isinstance(event, ev.RunSalvaged):
            continue
        known = {attempt.number for attempt in state.attempts}
        lost = tuple(number for number in event.lost if number in known)
        commits = tuple(pair for pair in event.commits if pair[0] in known)
        if not lost and not commits:
            continue
        best = None
        if state.best is not None and state.best.attempt in lost:
            best = [each.attempt for each in state.former if each.attempt not in lost][-1]
        event = replace(event, lost=lost, commits=commits, best=best)
        state = evolve(state, ev.Record(state.seq + 1, state.last_at, event))
        found.append(event)
    return found


def kernels_of(state: RunState, records: Iterable[ev.Record]) -> tuple[str, ...]:
    """Return the ids of the kernels that a resume can read, without those of the attempts."""
    edits = (record.event.blob for record in records if isinstance(record.event, ev.KernelEdited))
    items = (item.blob for item in state.items if item.blob)
    tried = (trial.blob for trial in state.trials)
    return tuple(dict.fromkeys((state.seed_blob, state.work_blob, *items, *edits, *tried)))


def _copy_history(
    parent: Path, staged: Path, state: RunState, records: Sequence[ev.Record], *, salvaged: bool
) -> None:
    """Copy the kernels that the events name, and the commits, each after its parent.

    A lost text of a trial ends no run. In a salvaged run that of an edit that no attempt needs can
    be missing too.
    """
    kernel_file = state.task.files.editable
    source = History.open(parent / HISTORY, kernel_file=kernel_file)
    target = History.create(staged / HISTORY, kernel_file=kernel_file)
    needed = (state.seed_blob, state.work_blob)
    tried = {trial.blob for trial in state.trials}
    for blob in kernels_of(state, records):
        try:
            kernel = source.read_files(blob)
        except HistoryError:
            if blob not in needed and (salvaged or blob in tried):
                continue
            raise
        target.write_files(kernel)
    for attempt in state.attempts:
        if not attempt.lost:
            target.copy_commit(source, attempt.commit)
