"""Creates a new run from the sound parts of a damaged run, which stays unchanged.

The journal's longest sound prefix from which a resume works is copied line by line, so its chain
stays valid; the kernels that still exist go into a new history. An event lists the losses; nothing
is invented to replace them.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from akg_tui.core.events import Decided, KeepUndone, RunSalvaged
from akg_tui.core.fold import evolve
from akg_tui.core.phases import ADVANCES, Phase
from akg_tui.core.sanitize import name_fault, one_line
from akg_tui.core.state import Attempt, RunState
from akg_tui.core.task import names_of
from akg_tui.store.context_files import copy_context
from akg_tui.store.errors import HistoryError, JournalTooNew, RunFolderError, RunLocked, writing
from akg_tui.store.filesystem import sync_folder, sync_tree, write_synced
from akg_tui.store.fork import kernels_of
from akg_tui.store.history import History, kernel_id
from akg_tui.store.journal_format import Inspected, continued, inspect, lines_of
from akg_tui.store.lock import holder
from akg_tui.store.projections import PLAN, WORK
from akg_tui.store.run_folder import HISTORY, TASK, RunFolder
from akg_tui.store.run_list import JOURNAL, check_is_run, check_plain
from akg_tui.store.task_folder import TASK_FILE, TOOL_FILES, tool_files


class Salvaged(Struct, frozen=True):
    """The result of a salvage. `dropped` are whole events that could not be kept."""

    path: str
    events: int
    rounds: int
    dropped: int
    lost: tuple[int, ...]
    best: int | None
    told: tuple[str, ...]


def salvage(run: Path, out: Path) -> Salvaged:
    """Write a new run to `out`, which must not exist yet, and open it once.

    Raises `RunFolderError` if there is nothing to save, or `out` cannot be created. Raises
    `JournalTooNew` if a newer version wrote the journal: nothing is damaged then. Raises
    `RunLocked` if a process is at work on the run.
    """
    check_is_run(run)
    check_plain(run)
    if (pid := holder(run)) is not None:
        raise RunLocked(run, pid)
    if out.exists():
        raise RunFolderError(f"{out}: is there already, expected a new folder")
    if why := name_fault(out.name):
        raise RunFolderError(f"cannot make a run: {why}")
    inspected = inspect(run / JOURNAL)
    if isinstance(inspected.fault, JournalTooNew):
        raise inspected.fault
    damaged = _DamagedRun(run, inspected)
    staged = out.with_name(f".{out.name}.new")
    try:
        with writing(out):
            out.parent.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(staged, ignore_errors=True)  # left by a killed salvage
            staged.mkdir()
            event = _fill(staged, out.name, damaged)
            sync_tree(staged)
            staged.rename(out)
            sync_folder(out.parent)
    finally:
        shutil.rmtree(staged, ignore_errors=True)  # exists only after an error
    with contextlib.closing(RunFolder.open(out)) as opened:  # check that the new run opens
        state = opened.state
    return Salvaged(
        path=str(out),
        events=damaged.state.seq,
        rounds=state.settled,
        dropped=damaged.dropped,
        lost=event.lost,
        best=state.best.attempt if state.best else None,
        told=damaged.told(event),
    )


class _DamagedRun:
    """The last usable state of a damaged run, and the kernels that still exist."""

    def __init__(self, run: Path, inspected: Inspected) -> None:
        self.run = run
        self.inspected = inspected
        if not inspected.records:
            raise RunFolderError(f"{run}: no event can be read, so there is nothing to save")
        first = evolve(None, inspected.records[0])
        self.history: History | None = None  # None if it cannot be opened
        editable = first.task.files.editable
        with contextlib.suppress(HistoryError):
            self.history = History.open(run / HISTORY, kernel_file=editable)
        # A kernel is identified by its hash, so any files with its bytes will do.
        found = self._kernels(names_of(editable))
        self._found: dict[str, dict[str, bytes]] = {kernel_id(each): each for each in found}
        if self.kernel(first.seed_blob) is None:
            raise RunFolderError(f"{run}: the first kernel's text is lost, so no run can go on")
        self.reference = self._reference(first)
        self.folded, self.state = self._last_usable(first)
        self.dropped = len(inspected.records) - self.state.seq

    def kernel(self, blob: str) -> dict[str, bytes] | None:
        """Return the files of the kernel with this id, or None when one is lost."""
        if blob not in self._found and self.history is not None:
            with contextlib.suppress(HistoryError):
                self._found[blob] = self.history.read_files(blob)
        return self._found.get(blob)

    def _kernels(self, names: tuple[str, ...]) -> Iterator[dict[str, bytes]]:
        """Yield the kernel's files in the work tree and in the task folder, where all are there."""
        for place in zip(*(self._files(WORK, name) for name in names), strict=True):
            if all(file.is_file() for file in place):
                contents = [file.read_bytes() for file in place]
                yield dict(zip(names, contents, strict=True))

    def _contents(self, folder: str, name: str) -> Iterator[bytes]:
        """Yield the bytes of a file in this folder of the run and in the task folder, if present.

        A run is by default TASK/runs/RUN. The caller accepts the bytes only by their hash.
        """
        for file in self._files(folder, name):
            if file.is_file():
                yield file.read_bytes()

    def _files(self, folder: str, name: str) -> tuple[Path, Path]:
        return self.run / folder / name, self.run.resolve().parent.parent / name

    def _reference(self, state: RunState) -> bytes:
        name = state.task.files.reference
        for data in self._contents(TASK, name):
            if hashlib.sha256(data).hexdigest() == state.reference_sha256:
                return data
        raise RunFolderError(
            f"{self.run}: the reference that the run began with is lost; put it back as "
            f"{self.run / TASK / name}, nothing can be measured without it"
        )

    def _last_usable(self, state: RunState) -> tuple[int, RunState]:
        """Return the number of events that fold, and the last state from which a resume works."""
        usable, folded = state, state.seq
        for record in self.inspected.records[1:]:
            try:
                state = evolve(state, record)
            except (ValueError, KeyError, AssertionError):
                break
            folded = state.seq
            if self._usable(state):
                usable = state
        return folded, usable

    def _usable(self, state: RunState) -> bool:
        if state.best is None or self.kernel(state.best.blob) is not None:
            return self.kernel(state.work_blob) is not None
        # The incumbent is lost: only between rounds does nothing depend on it.
        between = state.active is None and state.running is None and not state.turn_open
        return between and state.phase is not Phase.DONE

    def fallback(self) -> int | None:
        """Return the newest earlier best that exists, when the best is lost; else None."""
        best = self.state.best
        if best is None or self.kernel(best.blob) is not None:
            return None
        whole = [each.attempt for each in self.state.former if self.kernel(each.blob) is not None]
        return whole[-1]  # the list begins with the seed, which exists

    def parents(self) -> dict[int, int]:
        """Return for each attempt the number of the best attempt when it was made."""
        found: dict[int, int] = {}
        bests = [0]
        for record in self.inspected.records[: self.state.seq]:
            match record.event:
                case Decided(attempt=attempt, verdict=verdict):
                    found[attempt] = bests[-1]
                    if verdict in ADVANCES:
                        bests.append(attempt)
                case KeepUndone():
                    bests.pop()
        return found

    def damage(self) -> str:
        """Return the fault of the journal in a line; "" if the journal is sound."""
        if self.inspected.fault is not None:
            return str(self.inspected.fault.what)
        if self.folded < len(self.inspected.records):
            return f"event {self.folded + 1} breaks the rules of a run"
        return ""

    def told(self, event: RunSalvaged) -> tuple[str, ...]:
        """Return the losses that a person should read, a line each."""
        lines = []
        if damage := self.damage():
            lines.append(f"the journal ends before event {self.folded + 1}: {damage}")
        after = len(self.inspected.data) - self.inspected.length
        if after:
            lines.append(f"{after} bytes of the journal are not sound and were left out")
        if self.dropped:
            count = f"{self.dropped} sound events after event {self.state.seq}"
            lines.append(f"{count} were left out: a kernel that they build on is lost")
        if event.lost:
            numbers = ", ".join(str(number) for number in event.lost)
            lines.append(f"the kernel's text is lost of attempt {numbers}; the results are kept")
        if event.commits:
            lines.append(f"{len(event.commits)} commits were made anew, with other ids")
        if event.best is not None:
            lines.append(f"the best kernel is lost: attempt {event.best} is the incumbent again")
        return tuple(lines)


def _fill(staged: Path, name: str, damaged: _DamagedRun) -> RunSalvaged:
    """Write all files of the new run, its journal last; return the salvage event."""
    state = damaged.state
    task = staged / TASK
    task.mkdir()
    # The run's copies of the tools too: without them the agent would resume with other tools.
    for copied in dict.fromkeys((TASK_FILE, *TOOL_FILES, *tool_files(state.task))):
        if (file := damaged.run / TASK / copied).is_file():
            write_synced(task / copied, file.read_bytes())
    copy_context(damaged.run / TASK, task)
    write_synced(task / state.task.files.reference, damaged.reference)
    for edit in sorted(damaged.run.glob(f"{PLAN}.edited-*")):
        shutil.copyfile(edit, staged / edit.name)
    history = History.create(staged / HISTORY, kernel_file=state.task.files.editable)
    kept = damaged.inspected.records[: state.seq]
    for blob in kernels_of(state, kept):
        if (kernel := damaged.kernel(blob)) is not None:
            history.write_files(kernel)
    lost = tuple(a.number for a in state.attempts if a.lost or damaged.kernel(a.blob) is None)
    event = RunSalvaged(
        run_id=name,
        source=one_line(damaged.run.name, 200),
        damage=damaged.damage(),
        lost=lost,
        commits=tuple(_rebuild(damaged, history, lost)),
        best=damaged.fallback(),
    )
    # The event has the time of the last line: no work was done between the two.
    lines = lines_of(damaged.inspected.data, state.seq)
    write_synced(staged / JOURNAL, continued(lines, event, state.last_at))
    return event


def _rebuild(
    damaged: _DamagedRun, history: History, lost: tuple[int, ...]
) -> Iterable[tuple[int, str]]:
    """Write each attempt's commit; yield the attempts whose commit id changed, with the new id.

    A commit names its parent, so every commit after a lost attempt has a new id too.
    """
    parents = damaged.parents()
    made: dict[int, str] = {}
    for attempt in damaged.state.attempts:
        if attempt.number in lost:
            continue
        kernel = damaged.kernel(attempt.blob)
        assert kernel is not None
        blob = history.write_files(kernel)
        message, at = _message_and_time(damaged, attempt)
        parent = parents.get(attempt.number)
        while parent in lost:
            parent = parents[parent]
        commit = history.commit(blob, None if parent is None else made[parent], message, at)
        made[attempt.number] = commit
        if commit != attempt.commit:
            yield attempt.number, commit


def _message_and_time(damaged: _DamagedRun, attempt: Attempt) -> tuple[str, float]:
    """Return the old commit's message and time, or what the journal still has of them."""
    if damaged.history is not None:
        with contextlib.suppress(HistoryError):
            return damaged.history.message_and_time(attempt.commit)
    item = next((i for i in damaged.state.items if i.id == attempt.item), None)
    subject = f"{item.id}: {item.text}" if item else "seed kernel"
    ratio = attempt.measurement.ratio
    message = History.message_for(subject, attempt.round, attempt.item, attempt.verdict, ratio)
    return message, attempt.at
