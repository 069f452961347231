"""The roofline of one case: the least time that this machine's memory and arithmetic allow.

Pure. Williams, Waterman, Patterson (2009): a kernel that moves B bytes and computes F operations
takes at least max(B / bandwidth, F / peak); the larger side binds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from akg_tui.evaluate.targets.roofline import Level
    from akg_tui.evidence.findings import CaseWork
    from akg_tui.evidence.machine_rates import Rates

NEAR = 0.3
"""The share of a limit from which on the limit is what binds."""


class Roof(Struct, frozen=True):
    """The limits of one case. `bandwidth` is in bytes a second at `level`, `peak` in operations.

    0 stands for a rate that was not measured, and for a side that does not limit. `unknown` is the
    reason why nothing is known of the case.
    """

    case: str
    moved_bytes: int = 0
    operations: int = 0
    level: str = ""
    bandwidth: float = 0.0
    peak: float = 0.0
    dtype: str = ""
    unknown: str = ""

    @staticmethod
    def of(work: CaseWork, levels: Sequence[Level], rates: Rates | None, threads: int) -> Roof:
        """Return the limits of a case, from its work and the measured rates of the machine.

        The bandwidth is the copy rate of the nearest level that holds all bytes, as in
        `targets.roofline`, or of a farther one where that was measured faster: a nearer level is no
        slower. The peak is the rate of multiply-adds of float64, or else of float32:
        dot products of int8 and bfloat16 can be faster.
        """
        from akg_tui.evaluate.targets.roofline import level_for  # no screen needs the judge

        if work.unknown:
            return Roof(work.case, unknown=work.unknown)
        level, bandwidth = "", 0.0
        if levels and work.moved_bytes:
            first = levels.index(level_for(levels, work.moved_bytes))
            level = levels[first].name
            bandwidth = max(
                each.bandwidth * (threads if each is not levels[-1] else 1)
                for each in levels[first:]
            )
        peak = 0.0
        if rates is not None:
            peak = rates.float64 if work.dtype == "float64" else rates.float32
        return Roof(
            case=work.case,
            moved_bytes=work.moved_bytes,
            operations=work.operations,
            level=level,
            bandwidth=bandwidth,
            peak=peak,
            dtype=work.dtype,
        )

    @property
    def intensity(self) -> float:
        """The operations for each byte."""
        return self.operations / self.moved_bytes if self.moved_bytes else 0.0

    @property
    def memory_s(self) -> float:
        """The least time of moving all bytes, in seconds."""
        return self.moved_bytes / self.bandwidth if self.bandwidth else 0.0

    @property
    def compute_s(self) -> float:
        """The least time of all operations, in seconds."""
        return self.operations / self.peak if self.peak else 0.0

    @property
    def least_s(self) -> float:
        """The least time of a call, in seconds; 0 if no side is known."""
        return max(self.memory_s, self.compute_s)

    @property
    def binds(self) -> str:
        """The side that binds: `memory`, `arithmetic`, or "" if neither is known."""
        if not self.least_s:
            return ""
        return "memory" if self.memory_s >= self.compute_s else "arithmetic"

    def share(self, milliseconds: float | None) -> float | None:
        """Return which part of the limit that binds a call of this time reaches."""
        if not milliseconds or not self.least_s:
            return None
        return self.least_s * 1e3 / milliseconds
