"""Duration of `akg-tui report` on a run of 1,000 rounds, with real files and git.

Measured as a user meets it, a process from start to end, beside one for a run of 10 rounds.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.report import runs

ROUNDS = 1000
REPEATS = 5
BOUND_S = 10.0


def _seconds(run: Path) -> float:
    begin = time.perf_counter()
    command = [sys.executable, "-m", "akg_tui", "report", str(run)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def main(_words: list[str]) -> bool:
    """Print the figures; False when the report of the long run is too slow."""
    held = True
    with tempfile.TemporaryDirectory() as folder:
        for rounds in (10, ROUNDS):
            made = runs.closed(runs.finished(Path(folder) / str(rounds), rounds=rounds))
            spent = statistics.median(_seconds(made) for _ in range(REPEATS))
            size = {each.suffix[1:]: each.stat().st_size for each in made.glob("report.*")}
            held = spent <= BOUND_S
            told = {"rounds": rounds, "report_s": round(spent, 2), "bytes": size, "ok": held}
            print(json.dumps({"benchmark": "report", **told}))
    return held
