"""Inputs with their results, drawn while the judge is idle and handed out once.

Drawing ahead is safe: seeds are secret, the data lies in the judge's memory only, and the
reference's process that drew it has ended before a candidate's process begins.
"""

from __future__ import annotations

import random
import secrets
from collections import deque
from dataclasses import dataclass

from akg_tui.evaluate import verification_inputs
from akg_tui.evaluate.processes.shared_memory import SharedMemoryPool
from akg_tui.evaluate.reference import Draw, Loaded, Reference
from akg_tui.evaluate.verification_inputs import (
    UNUSUAL_CPU_S,
    UNUSUAL_IDLE_CPU_S,
    VerificationInputs,
)

DRAWS_AHEAD = 2
"""Draws for timing: one for the comparison and one for its confirmation."""

DRAWS_AHEAD_BYTES = 64 << 20
"""If both draws together exceed this, only one is drawn, of the size that was needed last."""

SPARE_SHARE = 1.25
"""The inputs drawn, as a multiple of those needed last: a faster candidate needs more."""

POOL_BLOCKS = 16
"""Blocks of memory for the clusters of a comparison: inputs and results of both sides, for all
clusters up to the first look that can show a gain."""

POOL_BYTES = 128 << 20


@dataclass(frozen=True)
class Need:
    """Inputs of a comparison: their number, those with results, and the least sufficient number."""

    count: int
    checkable: int
    at_least: int


class Prefetched:
    """The inputs of one judge's evaluations, drawn ahead where possible."""

    def __init__(self, reference: Reference, *, share: float = 1.0) -> None:
        self._reference = reference
        self._rng = random.Random(secrets.randbits(64))
        self._verification_inputs: VerificationInputs | None = None
        self._timed: deque[Draw] = deque()
        self._need: Need | None = None
        self.share = share
        """The share of the memory for inputs, where several cases have inputs of their own."""
        self.memory_pool = SharedMemoryPool(POOL_BLOCKS, int(share * POOL_BYTES))
        """Memory for the clusters of a comparison."""
        self._used: list[VerificationInputs | Draw] = []
        """Inputs handed out and closed; freed while the judge is idle, because freeing is slow."""

    def fill(self) -> None:
        """Draw missing inputs; can be interrupted at any point, complete draws are kept."""
        self.free_used()
        if not self._reference.examined:
            return
        self.memory_pool.fill()
        ahead = self._draws_ahead
        if self._verification_inputs is None or len(self._timed) < ahead:
            with self._reference.loaded() as loaded:
                while self._need is not None and len(self._timed) < ahead:
                    share = SPARE_SHARE if ahead > 1 else 1.0
                    count, checkable = (
                        int(share * self._need.count),
                        int(share * self._need.checkable),
                    )
                    need = Need(count, checkable, self._need.at_least)
                    self._timed.append(self._draw_timed(loaded, need))
                if self._verification_inputs is None:
                    self._verification_inputs = verification_inputs.draw(
                        self._reference, loaded, self._rng, UNUSUAL_IDLE_CPU_S
                    )

    def verification_inputs(self) -> VerificationInputs:
        """Return fresh verification inputs, which the caller closes."""
        self.free_used()
        drawn, self._verification_inputs = self._verification_inputs, None
        if drawn is None:
            with self._reference.loaded() as loaded:
                drawn = verification_inputs.draw(self._reference, loaded, self._rng, UNUSUAL_CPU_S)
        self._used.append(drawn)
        return drawn

    def timed(self, need: Need) -> Draw:
        """Return fresh inputs for timing, which the caller closes."""
        self._need = need
        while self._timed:
            drawn = self._timed.popleft()
            # A reference that was too slow to draw enough would be equally slow now.
            if drawn.count >= need.count or drawn.cut_short:
                break
            drawn.close()
        else:
            with self._reference.loaded() as loaded:
                drawn = self._draw_timed(loaded, need)
        self._used.append(drawn)
        return drawn

    def free_used(self) -> None:
        """Free the memory of inputs handed out and closed."""
        self._used.clear()

    @property
    def _draws_ahead(self) -> int:
        """Return the number of draws for timing to keep ready."""
        if self._need is None:
            return 0
        known = self._reference.description
        each = known.inputs.size * self._need.count + known.outputs.size * self._need.checkable
        return DRAWS_AHEAD if DRAWS_AHEAD * each <= self.share * DRAWS_AHEAD_BYTES else 1

    def _draw_timed(self, loaded: Loaded, need: Need) -> Draw:
        drawn = self._reference.draw_from(
            loaded, need.count, exact=False, checkable=need.checkable, at_least=need.at_least
        )
        drawn.inputs.map_in()
        return drawn
