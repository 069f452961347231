"""Record: kernels that need knowledge of this judge. Some pass: docs/judge.md lists them.

`python -m benchmarks cheats --expert` evaluates them.
"""

from __future__ import annotations

from benchmarks.judge.expert.samples_and_memory import MEMORY_TRICKS, SAMPLES_AND_MEMORY
from benchmarks.judge.expert.server_loop import SERVER_LOOP, SERVER_LOOP_TRICKS
from benchmarks.judge.ordinary.cheat import Cheat, Slowpoke

EXPERT: tuple[Cheat | Slowpoke, ...] = (
    *SERVER_LOOP,
    *SAMPLES_AND_MEMORY,
    *SERVER_LOOP_TRICKS,
    *MEMORY_TRICKS,
)
