"""Where in the past of a run a person stands, and how the past plays. Pure but for the place.

Events are the steps. Playing follows the run's own clock, long waits shortened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from akg_tui.core.events import Record
from akg_tui.core.past import Mark, Past
from akg_tui.tui.language import tr
from akg_tui.tui.look import Look
from akg_tui.tui.ondemand import First

SPEEDS = (1, 4, 16)
LONGEST_WAIT_S = 2.0  # of the run's time, in a play at 1×
MOST_AT_ONCE = 2_000  # events that a play passes between two looks


@dataclass(frozen=True)
class Moment:
    """A place in the past: after event `seq` of `last`.

    `at`, `first_at` and `last_at` are times of events, in seconds since the epoch. `speed` is
    0 where nothing plays. `grew` says whether the run went on since it was left.
    """

    seq: int
    last: int
    at: float
    first_at: float
    last_at: float
    mark: Mark | None
    rounds: int
    speed: int
    waits: bool
    marks: Sequence[Mark] = field(compare=False)


class Travel:
    """A journey through one run. `cursor` is the event that was last to happen; None is live."""

    def __init__(self, past: Past) -> None:
        self.past = past
        self.cursor: int | None = None
        self.speed = 0
        self._chosen = SPEEDS[1]
        self._budget = 0.0
        self._ticked = 0.0

    @property
    def last(self) -> int:
        return len(self.past)

    def go(self, seq: int) -> None:
        """To an event; the nearest one there is. What plays stops."""
        self.speed = 0
        self.cursor = max(1, min(self.last, seq))

    def live(self) -> None:
        self.speed, self.cursor = 0, None

    def step(self, events: int) -> None:
        self.go((self.cursor or self.last) + events)

    def to_round(self, step: int) -> None:
        """To the end of the next round, or of the one before."""
        self.go(self.past.next_round(self.cursor or self.last, step))

    def play(self, now: float) -> None:
        """Play on from here, or stand still. At the end it begins anew."""
        if self.speed:
            self.speed = 0
            return
        if self.cursor is None or self.cursor >= self.last:
            self.cursor = 1
        self.speed, self._ticked, self._budget = self._chosen, now, 0.0

    def faster(self, step: int) -> int:
        """The next speed, or the one before; it is the answer."""
        place = SPEEDS.index(self._chosen) + step
        self._chosen = SPEEDS[max(0, min(len(SPEEDS) - 1, place))]
        if self.speed:
            self.speed = self._chosen
        return self._chosen

    def tick(self, now: float) -> None:
        """Let the time since the last tick pass."""
        if not self.speed or self.cursor is None:
            return
        self._budget += max(0.0, now - self._ticked) * self.speed
        self._ticked = now
        records = self.past.records
        furthest = min(self.last, self.cursor + MOST_AT_ONCE)
        while self.cursor < furthest:
            gap = records[self.cursor].at - records[self.cursor - 1].at
            wait = min(LONGEST_WAIT_S, max(0.0, gap))
            if wait > self._budget:
                return
            self._budget -= wait
            self.cursor += 1
        if self.cursor >= self.last:
            self.speed = 0

    def moment(self, *, waits: bool) -> Moment:
        """Where it stands. `waits`: the live run asks something meanwhile."""
        assert self.cursor is not None
        records, marks = self.past.records, self.past.marks
        return Moment(
            seq=self.cursor,
            last=self.last,
            at=records[self.cursor - 1].at,
            first_at=records[0].at,
            last_at=records[-1].at,
            mark=self.past.round_at(self.cursor),
            rounds=marks[-1].round if marks else 0,
            speed=self.speed,
            waits=waits,
            marks=marks,
        )

    def records(self) -> Sequence[Record]:
        """The events up to here."""
        assert self.cursor is not None
        return First(self.past.records, self.cursor)


def look_back(now: Look, travel: Travel) -> Look:
    """What `now` would have shown at the place where `travel` stands."""
    assert travel.cursor is not None
    state = travel.past.at(travel.cursor)
    records = travel.records()
    moment = travel.moment(waits=now.waits)
    return replace(
        now,
        state=state,
        records=records,
        activity=tr("event {number}: {kind}", number=moment.seq, kind=told(records[-1])),
        progress=None,
        stream="",
        streams=lambda subagent: "",
        live_version=-1,
        now=moment.at,
        past=moment,
    )


def told(record: Record) -> str:
    """The kind of an event in words: ``eval finished``."""
    name = type(record.event).__name__
    return "".join(f" {c.lower()}" if c.isupper() and n else c for n, c in enumerate(name)).lower()
