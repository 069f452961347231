"""The state of a run after any past event, and the events that ended its rounds.

Pure. `Past` stores one state every `every` events. Any other state is folded from the nearest
stored state before it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from msgspec import Struct

from akg_tui.core import events as ev
from akg_tui.core.fold import evolve
from akg_tui.core.phases import Verdict
from akg_tui.core.state import RunState

EVERY = 250
MOST = 128
READ = 512  # events in one read


class Mark(Struct, frozen=True, gc=False):
    """The end of a round; `seq` is the event that settled it. Round 0 is the accepted baseline."""

    seq: int
    round: int
    attempt: int
    verdict: Verdict


class Past:
    """The states of a run, one after each of `records`; `records` may only grow.

    - `records`: the journal's events in order, numbered from 1. `Past` reads them in ranges and
      holds none of them.
    - `every`: events between two stored states at the start; the attribute is the present value. To
      compute a state, at most `every` events are folded.
    - `most`: maximum number of stored states. Above it, every second state is deleted.
    - `front`: the state after some of the records, folded elsewhere: none before it is asked for.
    """

    def __init__(
        self,
        records: Sequence[ev.Record],
        *,
        every: int = EVERY,
        most: int = MOST,
        front: RunState | None = None,
    ) -> None:
        self.records = records
        self.every = every
        self._most = most
        self._kept: list[RunState] = []
        self._marks: list[Mark] = []
        self._front = front  # after the last folded event
        self._last: RunState | None = None

    def __len__(self) -> int:
        return len(self.records)

    @property
    def folded(self) -> int:
        """The number of the last folded event; 0 before any."""
        return self._front.seq if self._front is not None else 0

    @property
    def kept(self) -> int:
        """The number of stored states."""
        return len(self._kept)

    def extend(self, upto: int | None = None) -> RunState:
        """Fold the events up to `upto` that are not folded yet; return the state after `upto`.

        Raises the errors of `evolve` for a journal that breaks the rules.
        """
        stop = len(self.records) if upto is None else upto
        state = self._front
        for start in range(self.folded, stop, READ):
            for record in self.records[start : min(stop, start + READ)]:
                self._front = state = evolve(state, record)
                self._mark(record)
                if state.seq % self.every == 0:
                    self._keep(state)
        return self.at(stop)

    def at(self, seq: int) -> RunState:
        """Return the state after event `seq`; raise `IndexError` when there is no such event."""
        if not 1 <= seq <= len(self.records):
            raise IndexError(f"there is no event {seq}: there are 1 to {len(self.records)}")
        front = self._front
        if front is None or seq > front.seq:
            return self.extend(seq)
        if seq == front.seq:
            return front
        if self._last is None or self._last.seq != seq:
            self._last = self._again(seq)
        return self._last

    def _again(self, seq: int) -> RunState:
        """Fold an earlier state again, from the nearest stored state before it."""
        place = bisect_right(self._kept, seq, key=lambda kept: kept.seq)
        state = self._kept[place - 1] if place else None
        last = self._last
        if last is not None and (state.seq if state else 0) < last.seq < seq:
            state = last
        for start in range(state.seq if state else 0, seq, READ):
            for record in self.records[start : min(seq, start + READ)]:
                state = evolve(state, record)
        assert state is not None
        return state

    def _keep(self, state: RunState) -> None:
        self._kept.append(state)
        if len(self._kept) > self._most:
            self.every *= 2
            self._kept = [kept for kept in self._kept if kept.seq % self.every == 0]

    def _mark(self, record: ev.Record) -> None:
        event = record.event
        if isinstance(event, ev.Decided):
            self._marks.append(Mark(record.seq, event.round, event.attempt, event.verdict))
        elif isinstance(event, ev.BaselineAccepted):
            self._marks.append(Mark(record.seq, 0, 0, Verdict.KEEP))

    @property
    def marks(self) -> Sequence[Mark]:
        """The ends of all rounds so far, in order."""
        if self.folded < len(self.records):
            self.extend()
        return self._marks

    def round_at(self, seq: int) -> Mark | None:
        """Return the last round that was settled up to event `seq`; None when there is none."""
        marks = self.marks
        place = bisect_right(marks, seq, key=lambda mark: mark.seq)
        return marks[place - 1] if place else None

    def next_round(self, seq: int, step: int) -> int:
        """Return the event that ends the next round after `seq`, or with `step` -1 the last before.

        Without such a round, return the last event, or with -1 the first.
        """
        marks = self.marks
        if step > 0:
            place = bisect_right(marks, seq, key=lambda mark: mark.seq)
            return marks[place].seq if place < len(marks) else len(self.records)
        place = bisect_left(marks, seq, key=lambda mark: mark.seq)
        return marks[place - 1].seq if place else 1
