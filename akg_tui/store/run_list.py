"""Finds runs, folds their journals and summarizes each in a line, without any lock.

Writes nothing and loads no git, so a run can be read while another process works on it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from akg_tui.core.effects import waits_for
from akg_tui.core.events import Record
from akg_tui.core.fold import evolve
from akg_tui.core.past_states import Past
from akg_tui.core.sanitize import Said, one_line
from akg_tui.core.state import RunState
from akg_tui.core.summary import Ratios, best_of, climb_of, verdict_counts
from akg_tui.core.user_commands import can_go_on
from akg_tui.store.errors import JournalDamaged, RunFolderError, StoreError, reading
from akg_tui.store.filesystem import ODD, odd_entry, unseen
from akg_tui.store.journal import read_through
from akg_tui.store.lock import holder

JOURNAL = "events.jsonl"
SEARCH_DEPTH = 6
CLIMB = 40  # rounds in `RunSummary.climb`


class RunSummary(Struct, frozen=True, kw_only=True):
    """A run in a list. If `damaged` gives a reason why it cannot be read, only `path` is set.

    `pid` is the process at work on the run; `over_seed` the ratio of the best over the seed, as in
    `best`; `climb` that ratio after each of the last rounds.
    `can_go_on`: it is not over, or more rounds would let it go on. `waits` is what a person has to
    do before it goes on (`akg_tui.core.effects.waits_for`).
    """

    path: str
    damaged: str = ""
    run_id: str = ""
    op: str = ""
    agent: str = ""
    started_at: float = 0.0
    last_at: float = 0.0
    pid: int | None = None
    phase: str = ""
    broke: str = ""
    stopped: str = ""
    finished: str = ""
    ok: bool = True
    rounds: int = 0
    max_rounds: int = 0
    verdicts: dict[str, int] = {}
    over_seed: float | None = None
    best: Ratios | None = None
    mode: str = ""
    climb: tuple[float, ...] = ()
    can_go_on: bool = True
    waits: str = ""

    def idle_s(self, now: float) -> float:
        """Return the seconds since the last event; 0 if the clock was set back since."""
        return max(0.0, now - self.last_at)

    @property
    def status(self) -> str:
        """The status: damaged, running, finished, failed, or, of a run that can be resumed, broken
        (its session), stopped (its model cannot be used) or open.
        """
        if self.damaged:
            return "damaged"
        if self.finished:
            return "finished" if self.ok else "failed"
        if self.pid is not None:
            return "running"
        return "broken" if self.broke else "stopped" if self.stopped else "open"

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {**msgspec.to_builtins(self), "status": self.status}

    def line(self) -> str:
        """Return the run as one printable line."""
        if self.damaged:
            return f"{one_line(self.path)}  damaged: {self.damaged}"
        best = "best -"
        if self.best is not None:
            best = f"best {'so far ' if self.best.provisional else ''}{self.best.line}"
        verdicts = ", ".join(f"{count} {name}" for name, count in self.verdicts.items() if count)
        cells = (
            one_line(self.path),
            self.op,
            f"{self.status} by process {self.pid}" if self.status == "running" else self.status,
            f"{self.phase} {self.rounds}/{self.max_rounds}",
            best,
            verdicts,
            one_line(self.finished or self.broke or self.stopped),
        )
        return "  ".join(cell for cell in cells if cell)


def list_runs(folder: Path) -> list[RunSummary]:
    """Return the runs at or below `folder`, oldest first. A damaged run is listed as damaged.

    Raises `RunFolderError` if `folder` is not a folder.
    """
    if why := unseen(folder):
        raise RunFolderError("{path}: cannot be looked at: {why}", path=folder, why=why)
    if not folder.is_dir():
        raise RunFolderError("{path}: is not a folder", path=folder)
    found = [summarize_run(run) for run in find_runs(folder)]
    return sorted(found, key=lambda run: (run.started_at, run.path))


def read_state(run: Path) -> RunState:
    """Return the current state of a run, without taking its lock.

    Raises `RunFolderError` if `run` is not a run. Raises `JournalDamaged` if its journal cannot be
    trusted.
    """
    check_is_run(run)
    folding = Folding(run / JOURNAL)
    read_through(run / JOURNAL, folding.take)
    return folding.state


def check_is_run(run: Path) -> None:
    """Raise `RunFolderError` unless `run` contains a journal."""
    if why := unseen(run / JOURNAL):
        raise RunFolderError("{path}: cannot be looked at: {why}", path=run, why=why)
    if not (run / JOURNAL).is_file():
        raise RunFolderError(
            "{path}: is not a run, expected a folder with {file}", path=run, file=JOURNAL
        )


def odd_in_run(path: str) -> bool:
    """Return whether what is at `path` in a run may be a link: nobody follows it.

    That is what is replaced whole, and what lies in the folders that confined processes write.
    """
    first, *below = path.split("/")
    if first in _CONFINED:
        return len(below) > _CONFINED[first]
    return not below and path.startswith(_REPLACED)


def check_plain(folder: Path, may_be_odd: Callable[[str], bool] = odd_in_run) -> None:
    """Raise `RunFolderError` if a run, which can be from elsewhere, has a link where we write.

    `may_be_odd` tells the paths that are not looked at.
    """
    with reading(folder):
        odd = odd_entry(folder, may_be_odd)
    if odd:
        raise RunFolderError(f"{folder / odd}: {ODD}")


_REPLACED = ("PLAN.md", "report.")
_CONFINED = {"notes": 0, "scratch": 2}
"""Folders of confined processes, each with the levels below it at which our own paths end."""


BROKEN_RULE = (ValueError, KeyError, AssertionError)
"""The exceptions that the fold raises for an event that breaks the rules of a run."""


def rule_broken(path: Path, record: Record, error: Exception) -> JournalDamaged:
    """Return the fault of a journal with an event that breaks the rules."""
    what = Said(
        "{name} breaks the rules of a run: {why}",
        name=type(record.event).__name__,
        why=str(error) or type(error).__name__,
    )
    return JournalDamaged(path, record.seq, what)


def fold_past(path: Path, past: Past) -> RunState:
    """Return the state after all events of `past`, those of the journal at `path`.

    Raises like `Folding`.
    """
    if not len(past):
        return fold_journal(path, ())
    try:
        return past.extend()
    except BROKEN_RULE as error:
        raise rule_broken(path, past.records[past.folded], error) from error


class Folding:
    """Folds the events of a journal, which are given in parts, into a state."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._state: RunState | None = None

    def take(self, records: Iterable[Record]) -> None:
        """Fold the next events. An event that breaks the rules raises `JournalDamaged`."""
        state = self._state
        for record in records:
            try:
                state = evolve(state, record)
            except BROKEN_RULE as error:
                raise rule_broken(self._path, record, error) from error
        self._state = state

    @property
    def state(self) -> RunState:
        """The state after all events. Raises `RunFolderError` if there were none."""
        if self._state is None:
            raise RunFolderError(
                "{path}: the journal holds no event, so there is no run to open", path=self._path
            )
        return self._state


def fold_journal(path: Path, records: Iterable[Record]) -> RunState:
    """Return the state after `records`, those of the journal at `path`. Raises like `Folding`."""
    folding = Folding(path)
    folding.take(records)
    return folding.state


def find_runs(folder: Path) -> Iterator[Path]:
    """Yield the runs at or below `folder`, without reading them."""
    top = len(folder.parts)
    for at, below, files in os.walk(folder):
        here = Path(at)
        if JOURNAL in files:
            below.clear()
            yield here
        deep = len(here.parts) - top >= SEARCH_DEPTH
        below[:] = [] if deep else sorted(name for name in below if not name.startswith("."))


def summarize_run(run: Path) -> RunSummary:
    """Return the summary of a run; an unreadable run is damaged, with the reason."""
    try:
        state = read_state(run)
    except StoreError as error:
        return RunSummary(path=str(run), damaged=str(error))
    return summary_of(str(run), state, None if state.finished else holder(run))


def summary_of(path: str, state: RunState, pid: int | None) -> RunSummary:
    """Return the summary of a run in this state; process `pid` works on it, or none."""
    best = best_of(state)
    return RunSummary(
        path=path,
        run_id=state.run_id,
        op=state.task.op,
        agent=state.agent,
        started_at=state.started_at,
        last_at=state.last_at,
        pid=pid,
        phase=state.phase,
        broke="" if state.finished else state.broke,
        stopped="" if state.finished else state.api_failure,
        finished=state.finished,
        ok=state.ok,
        rounds=state.rounds,
        max_rounds=state.task.policy.max_rounds,
        verdicts=verdict_counts(state),
        over_seed=best.over_seed.ratio if best else None,
        best=best,
        mode=state.mode.value,
        climb=tuple(climb_of(state)[-CLIMB:]),
        can_go_on=not state.finished or can_go_on(state),
        waits=waits_for(state),
    )
