"""The profiler of each target that has one."""

from __future__ import annotations

from akg_tui.evidence.profilers import Profiler
from akg_tui.evidence.profilers.msprof import Msprof
from akg_tui.evidence.profilers.ncu import Ncu

PROFILERS: dict[str, Profiler] = {"ascend": Msprof(), "cuda": Ncu()}
"""By the target's name."""
