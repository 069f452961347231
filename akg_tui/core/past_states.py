"""The state of a run after any past event, and the events that ended its rounds.

Pure. `Past` stores one state every `every` events; the stored states share pieces of their long
tuples. Any other state is folded from the nearest stored state before it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from itertools import chain
from operator import is_
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from akg_tui.core import events as ev
from akg_tui.core.fold import evolve
from akg_tui.core.phases import Verdict
from akg_tui.core.state import RunState

EVERY = 250
MOST = 512
READ = 512  # events in one read
NEAR = 48  # states stored near the requested event
NEAREST = 32  # minimum number of events between two near states


class Mark(Struct, frozen=True, gc=False):
    """The end of a round; `seq` is the event that settled it. Round 0 is the accepted baseline."""

    seq: int
    round: int
    attempt: int
    verdict: Verdict


class Past:
    """The states of a run, one after each of `records`; `records` may only grow.

    Parameters
    ----------
    records : sequence of Record
        The journal's events in order, numbered from 1. `Past` reads them in ranges and holds
        none of them.
    every : int
        Events between two stored states at the start; the attribute is the present value. To
        compute a state, at most `every` events are folded.
    most : int
        Maximum number of stored states. Above it, every second state is deleted.
    front : RunState, optional
        The state after some of the records, folded elsewhere: what was before it is not asked for.
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
        self._kept: list[Pieces] = []
        self._near: OrderedDict[int, Pieces] = OrderedDict()  # the last requested state comes last
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
        return len(self._kept) + len(self._near)

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
        base = self._before(seq)
        last = self._last
        if last is not None and (base.seq if base else 0) < last.seq < seq:
            state: RunState | None = last
        else:
            state = put_together(base) if base else None
        step = max(NEAREST, self.every // (NEAR // 3))
        done = state.seq if state else 0
        for start in range(done, seq, READ):
            for record in self.records[start : min(seq, start + READ)]:
                state = evolve(state, record)
                if state.seq % step == 0:
                    base = self._remember(state, base)
        assert state is not None
        return state

    def _before(self, seq: int) -> Pieces | None:
        place = bisect_right(self._kept, seq, key=lambda kept: kept.seq)
        found = self._kept[place - 1] if place else None
        least = found.seq if found else 0
        near = max((n for n in self._near if least < n <= seq), default=None)
        if near is None:
            return found
        self._near.move_to_end(near)
        return self._near[near]

    def _remember(self, state: RunState, base: Pieces | None) -> Pieces:
        pieces = self._near[state.seq] = taken_apart(state, base)
        while len(self._near) > NEAR:
            self._near.popitem(last=False)
        return pieces

    def _keep(self, state: RunState) -> None:
        self._kept.append(taken_apart(state, self._kept[-1] if self._kept else None))
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


LONG = ("items", "attempts", "former", "undone", "rules", "plan_edits", "adopted")
"""The fields of `RunState` that grow with a run. All others are bounded or have few values."""
PIECE = 64

_Cut = tuple[tuple[Any, ...], ...]


class Pieces(Struct, frozen=True):
    """A state without its long fields, and the long fields in pieces, in the order of `LONG`."""

    seq: int
    rest: RunState
    long: tuple[_Cut, ...]


_BARE: dict[str, Any] = dict.fromkeys(LONG, ())


def taken_apart(state: RunState, like: Pieces | None) -> Pieces:
    """Return the pieces of a state; pieces equal to those of `like` are shared with it."""
    shared = like.long if like is not None else ((),) * len(LONG)
    long = tuple(_cut(getattr(state, name), cut) for name, cut in zip(LONG, shared, strict=True))
    return Pieces(state.seq, replace(state, **_BARE), long)


def put_together(pieces: Pieces) -> RunState:
    """Return the state of which `taken_apart` made `pieces`."""
    whole = (tuple(chain.from_iterable(cut)) for cut in pieces.long)
    return replace(pieces.rest, **dict(zip(LONG, whole, strict=True)))


def _cut(values: tuple[Any, ...], like: _Cut) -> _Cut:
    cut = [values[at : at + PIECE] for at in range(0, len(values), PIECE)]
    for place, (piece, other) in enumerate(zip(cut, like, strict=False)):
        # The elements are usually identical objects, which makes this comparison fast.
        if piece == other:
            cut[place] = other
    return like if len(cut) == len(like) and all(map(is_, cut, like)) else tuple(cut)
