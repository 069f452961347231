"""What the next evaluation needs and no candidate can know: inputs with their results.

Owns what was drawn and not used yet; each piece is handed out once. All of it comes from the
judge's secret seeds and lies in the judge's memory alone, and the reference's process that drew
it has ended before a candidate's begins. So it may be drawn while there is nothing to judge,
which is when nobody waits for it, or else when it is asked for.
"""

from __future__ import annotations

import random
import secrets
from collections import deque
from dataclasses import dataclass

from akg_tui.evaluate import verification_inputs
from akg_tui.evaluate.processes.child_pool import ChildPool
from akg_tui.evaluate.processes.shared_memory import SharedMemoryPool
from akg_tui.evaluate.reference import Draw, Loaded, Reference
from akg_tui.evaluate.verification_inputs import DRAW_S, UNUSUAL_AHEAD_S, UNUSUAL_S, Trials

AHEAD = 2
"""Draws for timing: one for the comparison and one for its confirmation."""

AHEAD_BYTES = 64 << 20
"""Beyond this for both, one is kept, of the size that was needed the last time."""

ROOM = 1.25
"""More inputs than were needed the last time: a candidate that is faster needs more."""

POOLED = 16
"""Pieces of memory for the clusters of a comparison: inputs and results of both sides, for as
many clusters as the first look that can tell a gain needs."""

POOLED_BYTES = 128 << 20


@dataclass(frozen=True)
class Need:
    """Inputs of a comparison: how many, how many with results, and the fewest that will do."""

    count: int
    checkable: int
    at_least: int

    @property
    def roomier(self) -> Need:
        """The same with some to spare."""
        return Need(int(ROOM * self.count), int(ROOM * self.checkable), self.at_least)


class Prefetched:
    """Draws for the evaluations of one judge, ahead where it can."""

    def __init__(self, nursery: ChildPool, reference: Reference) -> None:
        self._nursery = nursery
        self._reference = reference
        self._dice = random.Random(secrets.randbits(64))
        self._trials: Trials | None = None
        self._timed: deque[Draw] = deque()
        self._need: Need | None = None
        self.pool = SharedMemoryPool(POOLED, POOLED_BYTES)
        """Memory for the clusters of a comparison."""
        self._used: list[Trials | Draw] = []
        """Kept until there is time to give so much memory back."""

    def fill(self, spares: int) -> None:
        """Draw what is missing, and have so many children ready.

        Can be broken off at any point, and keeps what is whole by then.
        """
        self.tidy()
        if not self._reference.examined:
            return
        self.pool.fill()
        if self._trials is None or self._lacks_timed():
            self._draw_missing()
        self._nursery.stock_idly(spares)

    def _draw_missing(self) -> None:
        with self._reference.loaded() as loaded:
            while self._need is not None and self._lacks_timed():
                need = self._need.roomier if self._ahead > 1 else self._need
                self._timed.append(self._draw_timed(loaded, need))
            if self._trials is None:
                self._trials = verification_inputs.draw(
                    self._reference, loaded, self._dice, UNUSUAL_AHEAD_S
                )

    def trials(self) -> Trials:
        """Return fresh trials, which the caller closes."""
        self.tidy()
        drawn, self._trials = self._trials, None
        if drawn is None:
            with self._reference.loaded() as loaded:
                drawn = verification_inputs.draw(self._reference, loaded, self._dice, UNUSUAL_S)
        self._used.append(drawn)
        return drawn

    def timed(self, need: Need) -> Draw:
        """Return fresh inputs to time with, which the caller closes."""
        self._need = need
        while self._timed:
            drawn = self._timed.popleft()
            # A reference too slow to draw all that is needed would be no faster now.
            if drawn.count >= need.count or drawn.cut_short:
                break
            drawn.close()
        else:
            with self._reference.loaded() as loaded:
                drawn = self._draw_timed(loaded, need)
        self._used.append(drawn)
        return drawn

    def tidy(self) -> None:
        """Give back the memory of what was handed out and closed."""
        self._used.clear()

    def _lacks_timed(self) -> bool:
        return len(self._timed) < self._ahead

    @property
    def _ahead(self) -> int:
        """How many draws for timing are worth having."""
        if self._need is None:
            return 0
        known = self._reference.description
        each = known.inputs.size * self._need.count + known.outputs.size * self._need.checkable
        return AHEAD if AHEAD * each <= AHEAD_BYTES else 1

    def _draw_timed(self, loaded: Loaded, need: Need) -> Draw:
        drawn = self._reference.draw_from(
            loaded,
            need.count,
            exact=False,
            checkable=need.checkable,
            seconds=DRAW_S,
            at_least=need.at_least,
        )
        drawn.inputs.map_in()
        return drawn
