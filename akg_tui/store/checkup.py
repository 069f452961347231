"""Checks a run on disk and reports each damage, its consequence and its repair.

Reads only: takes no lock and repairs nothing, so a run at work can be checked. Owns `Check`, the
result of every check, including the checks of `akg-tui doctor`.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from shlex import quote

from msgspec import Struct

from akg_tui.core.state import RunState
from akg_tui.store.errors import HistoryError, JournalDamaged, JournalTooNew, StoreError
from akg_tui.store.history import History, broken_refs, kernel_id
from akg_tui.store.journal_format import Inspected, inspect
from akg_tui.store.lock import holder
from akg_tui.store.projections import WORK, work_files
from akg_tui.store.run_folder import HISTORY, read_reference
from akg_tui.store.run_list import JOURNAL, check_is_run, fold_journal


class Health(StrEnum):
    """`warn` is a finding that stops nothing; `bad` is a finding that stops something."""

    OK = "ok"
    WARN = "warn"
    BAD = "bad"


class Check(Struct, frozen=True):
    """The result of one check: the finding, its health, and how to repair it ("" if fine)."""

    name: str
    health: Health
    found: str
    mend: str = ""


def ok(name: str, found: str) -> Check:
    return Check(name, Health.OK, found)


def warn(name: str, found: str, mend: str = "") -> Check:
    return Check(name, Health.WARN, found, mend)


def bad(name: str, found: str, mend: str = "") -> Check:
    return Check(name, Health.BAD, found, mend)


_REDONE = "nothing to do: the next resume makes it anew"


def check_run(run: Path) -> list[Check]:
    """Check lock, journal, history, work tree and reference of a run.

    Objects and work tree are compared with the state folded from the sound part of
    the journal; these checks are skipped if that part cannot be folded.

    Raises `RunFolderError` if `run` is not a run.
    """
    check_is_run(run)
    inspected = inspect(run / JOURNAL)
    found = [_lock(run), _journal(run, inspected)]
    try:
        state = fold_journal(run / JOURNAL, inspected.records)
    except JournalDamaged as error:
        return [*found, bad("rules", str(error), _fork(run))]
    except StoreError as error:
        return [*found, bad("rules", str(error), "nothing can be saved: begin a new run")]
    found.append(ok("rules", f"folds to phase {state.phase}, {state.settled} rounds settled"))
    found += _history(run, state)
    return [*found, _work(run, state), _task(run, state)]


def _fork(run: Path) -> str:
    return f"go on from its last sound round with: akg-tui fork {quote(str(run))}"


def _lock(run: Path) -> Check:
    pid = holder(run)
    if pid is None:
        return ok("lock", "no process is at work on the run")
    return warn("lock", f"process {pid} is at work: what it has not finished may look wrong here")


def _journal(run: Path, inspected: Inspected) -> Check:
    count = f"{len(inspected.records)} events"
    if inspected.fault is not None:
        after = len(inspected.data) - inspected.length
        told = f"{inspected.fault}; {count} before it are sound, {after} bytes are not"
        newer = isinstance(inspected.fault, JournalTooNew)
        return bad("journal", told, "update akg-tui" if newer else _fork(run))
    if torn := len(inspected.data) - inspected.length:
        told = f"{count}, then {torn} bytes at byte {inspected.length} that are no whole event"
        mend = "a write was cut off; the next resume takes them away"
        return warn("journal", told, mend)
    return ok("journal", f"{count}, {inspected.length} bytes: checksums, order and chain are right")


def _history(run: Path, state: RunState) -> list[Check]:
    path = run / HISTORY
    try:
        history = History.open(path, kernel_file=state.task.files.editable)
        left = sorted(str(lock.relative_to(path)) for lock in path.rglob("*.lock"))
        broken = broken_refs(path)
    except (HistoryError, OSError) as error:
        if (path / "objects").is_dir() and not (path / "HEAD").exists():
            return [warn("history", "HEAD is gone, so the objects cannot be looked at", _REDONE)]
        return [bad("history", str(error), f"begin a new run from the kernel in {run / WORK}")]
    found = ok("history", "the repository opens, without a stale lock")
    if names := ", ".join([*left, *broken]):
        found = warn("history", f"left behind or without content: {names}", _REDONE)
    return [found, _objects(run, history, state)]


def _objects(run: Path, history: History, state: RunState) -> Check:
    kernels = [("the seed", state.seed_blob), ("the kernel at work", state.work_blob)]
    lost = [f"{what} ({blob[:10]})" for what, blob in kernels if not history.holds(blob)]
    gone = [attempt for attempt in state.attempts if attempt.lost]
    for attempt in (each for each in state.attempts if not each.lost):
        try:
            history.read_commit(attempt.commit)
        except HistoryError as error:
            text = "" if history.holds(attempt.blob) else ", its kernel's text too"
            lost.append(f"attempt {attempt.number}, {attempt.verdict}: {error}{text}")
    if lost:
        return bad("objects", "; ".join(lost), _fork(run))
    count = f"{len(state.attempts) - len(gone)} attempts"
    if gone:
        numbers = ", ".join(str(attempt.number) for attempt in gone)
        return warn("objects", f"{count} are whole; lost before this run was made: {numbers}")
    return ok("objects", f"{count}: every commit, tree and kernel is whole")


def _work(run: Path, state: RunState) -> Check:
    files = state.task.files
    file = run / WORK / files.kernel if len(files.names) == 1 else run / WORK
    try:
        same = kernel_id(work_files(run, files)) == state.work_blob
    except OSError as error:
        return warn("work tree", f"cannot read {error.filename}: {error.strerror}", _REDONE)
    if same:
        return ok("work tree", "holds the kernel that the journal says")
    mend = "the next resume writes over it: copy it first if it is yours"
    return warn("work tree", f"{file} holds another kernel than the journal says", mend)


def _task(run: Path, state: RunState) -> Check:
    try:
        read_reference(run, state)
    except StoreError as error:
        return bad("reference", str(error), "put the old file back: the task folder may have it")
    return ok("reference", "the copy is the one that the run began with")
