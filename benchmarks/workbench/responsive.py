"""Time from a key to the screen while kernels misbehave.

A real run in a pseudo-terminal of 120×40: settings of one kernel that are wrong, hang,
exit and are slow, each evaluated for real. All the while `c` (the chart's unit) is
pressed, and the time to the next bytes of the screen that follow is taken. The bound
is a ratio to the same keys on the same screen after the run is over.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.workbench.misbehave import write_task
from benchmarks.workbench.terminal import Terminal

EVERY_S = 0.15
QUIET_KEYS = 40
RUN_LIMIT_S = 120
WORST_MS = 500.0
COMMAND = [sys.executable, "-m", "akg_tui"]


def _over(folder: Path) -> bool:
    return any('"RunFinished"' in path.read_text() for path in folder.glob("runs/*/events.jsonl"))


def main(_words: list[str]) -> bool:
    """Measure, print, and say whether the bound holds."""
    with tempfile.TemporaryDirectory() as base:
        folder = write_task(Path(base) / "task")
        screen = Terminal([*COMMAND, "tune", str(folder)])
        try:
            while not list(folder.glob("runs/*/events.jsonl")):
                screen.drain(0.1)
            busy: list[float] = []
            deadline = time.monotonic() + RUN_LIMIT_S
            while not _over(folder):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"the run did not end within {RUN_LIMIT_S} s")
                busy.append(screen.press(b"c"))
                screen.drain(EVERY_S)
            screen.drain(1.0)
            quiet = []
            for _ in range(QUIET_KEYS):
                quiet.append(screen.press(b"c"))
                screen.drain(EVERY_S)
        finally:
            screen.close()
    held = max(busy) <= WORST_MS
    figures = {
        "benchmark": "responsive",
        "keys": len(busy),
        "p50_ms": round(statistics.median(busy), 1),
        "p95_ms": round(statistics.quantiles(busy, n=20)[-1], 1),
        "worst_ms": round(max(busy), 1),
        "quiet_p50_ms": round(statistics.median(quiet), 1),
        "p50_over_quiet": round(statistics.median(busy) / statistics.median(quiet), 2),
        "held": held,
    }
    print(json.dumps(figures))
    return held
