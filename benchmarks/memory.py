"""Rounds of a second run until it has the best kernel of a first one, with and without memory.

The sweep agent searches 3,125 settings whose times a fake judge computes, so that only the search
counts; runs, journals and the memory's files are real. Each pair of runs has seeds of its own.
"""

from __future__ import annotations

import json
import math
import statistics
import tempfile
from pathlib import Path

from akg_tui.memory.shelf import Shelf
from tests.memory.runs import learn, rounds_to, tuned

PAIRS = 12
ROUNDS = 30
SHARE = 1 / 3


def main(_words: list[str]) -> bool:
    """Print the figures; False when a run with the memory needs more than a third."""
    pairs = [_pair(seed) for seed in range(PAIRS)]
    shares = [with_memory / first for first, _, with_memory in pairs]
    held = max(shares) <= SHARE
    never = [without for _, without, _ in pairs if math.isinf(without)]
    told = {
        "benchmark": "memory",
        "pairs": PAIRS,
        "rounds": ROUNDS,
        "first_median": statistics.median(first for first, _, _ in pairs),
        "second_without_memory_median": statistics.median_low([pair[1] for pair in pairs]),
        "second_without_memory_never": len(never),
        "second_with_memory_median": statistics.median(second for _, _, second in pairs),
        "largest_share": round(max(shares), 3),
        "ok": held,
    }
    print(json.dumps({**told, "second_without_memory_median": _finite(told)}))
    return held


def _finite(told: dict[str, object]) -> object:
    median = told["second_without_memory_median"]
    return median if math.isfinite(float(str(median))) else f"more than {ROUNDS}"


def _pair(seed: int) -> tuple[int, float, int]:
    """Return the rounds of the first run, and of the second without and with the memory."""
    with tempfile.TemporaryDirectory() as folder:
        shelf = Shelf(Path(folder) / "memory")
        first = tuned(Path(folder) / "first", None, rounds=ROUNDS, seed=seed)
        assert first.state.best is not None
        reached = first.state.best.over_seed
        needed = rounds_to(first.state, reached)
        learn(shelf, first)
        first.close()
        found: list[float] = []
        for name, known in (("without", None), ("with", shelf)):
            second = tuned(Path(folder) / name, known, rounds=ROUNDS, seed=1000 + seed)
            try:
                found.append(rounds_to(second.state, reached))
            except StopIteration:
                found.append(math.inf)
            second.close()
        return needed, found[0], int(found[1])
