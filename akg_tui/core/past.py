"""The past of a run: its state after any event, and where its rounds ended. Pure.

A state is immutable and shares what did not change with its neighbours, so one is kept
every few hundred events and any other is folded from the one before it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from msgspec import Struct

from akg_tui.core import events as ev
from akg_tui.core.fold import evolve
from akg_tui.core.machine import Verdict
from akg_tui.core.state import RunState

EVERY = 250


class Mark(Struct, frozen=True, gc=False):
    """The end of a round: the event that settled it. Round 0 is the accepted baseline."""

    seq: int
    round: int
    attempt: int
    verdict: Verdict


class Past:
    """The states of a run, one after each of `records`, which may only grow.

    Parameters
    ----------
    records : sequence of Record
        The journal's events in order, the first with the number 1.
    every : int
        Events between two states that are kept. A state costs the fold of at most so many.
    """

    def __init__(self, records: Sequence[ev.Record], *, every: int = EVERY) -> None:
        self._records = records
        self._every = every
        self._kept: list[RunState] = []
        self._seqs: list[int] = []
        self._marks: list[Mark] = []
        self._marked = 0
        self._last: RunState | None = None

    def __len__(self) -> int:
        return len(self._records)

    @property
    def records(self) -> Sequence[ev.Record]:
        return self._records

    @property
    def folded(self) -> int:
        """The event whose state was asked for last; 0 before any."""
        return self._last.seq if self._last is not None else 0

    def note(self, state: RunState) -> None:
        """Keep a state that somebody folded anyway, where it comes after all that are known."""
        if state.seq - (self._seqs[-1] if self._seqs else 0) >= self._every:
            self._keep(state)

    def extend(self, upto: int | None = None) -> RunState:
        """Fold all that is not folded yet, up to event `upto`. The state after it.

        Raises what `evolve` raises for a journal that breaks the rules.
        """
        return self.at(len(self._records) if upto is None else upto)

    def at(self, seq: int) -> RunState:
        """The state after event `seq` (from 1 to the number of events)."""
        if not 1 <= seq <= len(self._records):
            raise IndexError(f"there is no event {seq}: there are 1 to {len(self._records)}")
        if self._last is not None and self._last.seq == seq:
            return self._last
        place = bisect_right(self._seqs, seq)
        state = self._kept[place - 1] if place else None
        last = self._last
        if last is not None and (state.seq if state else 0) < last.seq <= seq:
            state = last
        # Folded beyond all that is kept: keep states on the way.
        keeps = place == len(self._kept)
        for index in range(state.seq if state else 0, seq):
            state = evolve(state, self._records[index])
            self._last = state
            if keeps and state.seq % self._every == 0:
                self._keep(state)
        assert state is not None
        self._last = state
        return state

    def _keep(self, state: RunState) -> None:
        if not self._seqs or state.seq > self._seqs[-1]:
            self._kept.append(state)
            self._seqs.append(state.seq)

    @property
    def marks(self) -> Sequence[Mark]:
        """The ends of all rounds so far, in order."""
        records = self._records
        for index in range(self._marked, len(records)):
            event, seq = records[index].event, records[index].seq
            if isinstance(event, ev.Decided):
                self._marks.append(Mark(seq, event.round, event.attempt, event.verdict))
            elif isinstance(event, ev.BaselineAccepted):
                self._marks.append(Mark(seq, 0, 0, Verdict.KEEP))
        self._marked = len(records)
        return self._marks

    def round_at(self, seq: int) -> Mark | None:
        """The round that was settled last when event `seq` had happened; None before any."""
        marks = self.marks
        place = bisect_right(marks, seq, key=lambda mark: mark.seq)
        return marks[place - 1] if place else None

    def next_round(self, seq: int, step: int) -> int:
        """The event that ends the next round after `seq`, or with -1 the one before it.

        Where there is none, the last event, or the first.
        """
        marks = self.marks
        if step > 0:
            place = bisect_right(marks, seq, key=lambda mark: mark.seq)
            return marks[place].seq if place < len(marks) else len(self._records)
        place = bisect_left(marks, seq, key=lambda mark: mark.seq)
        return marks[place - 1].seq if place else 1
