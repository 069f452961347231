"""Rounds of a second run until it is as fast as a first one, with and without its memory.

The sweep agent searches the settings of two operators: one with 3,125, whose second run is of the
same reference, and the sample `masked_cumsum` with 288, whose second run is of another size, so
that settings alone are recalled. A fake judge computes the times, so that only the search counts;
runs, journals and the memory's files are real, and both operators share one memory. Each pair of
runs has seeds of its own.
"""

from __future__ import annotations

import json
import math
import statistics
import tempfile
from pathlib import Path

from akg_tui.memory.shelf import Shelf
from tests.memory.runs import learn, rounds_to, tuned

PAIRS = 6
ROUNDS = 30
SHARE = 1 / 3
TASKS = {"speed": 0, "masked_cumsum": 4096}
"""The operators, and another size of the second run; 0: it is of the same reference."""


def main(_words: list[str]) -> bool:
    """Print the figures; False when runs with the memory need more than a third at the median."""
    pairs = [_pairs_of_tasks(seed) for seed in range(PAIRS)]
    held = [_told(op, [each[op] for each in pairs]) for op in TASKS]
    return all(held)


def _told(op: str, pairs: list[tuple[int, float, float]]) -> bool:
    first, without, with_memory = (list(each) for each in zip(*pairs, strict=True))
    told = {
        "benchmark": "memory",
        "op": op,
        "pairs": PAIRS,
        "rounds": ROUNDS,
        "first_median": statistics.median(first),
        "second_without_memory_median": _finite(statistics.median_low(without)),
        "second_without_memory_never": sum(map(math.isinf, without)),
        "second_with_memory_median": _finite(statistics.median_low(with_memory)),
        "second_with_memory_most": _finite(max(with_memory)),
        "ok": statistics.median(with_memory) <= SHARE * statistics.median(first),
    }
    print(json.dumps(told))
    return bool(told["ok"])


def _finite(rounds: float) -> object:
    return rounds if math.isfinite(rounds) else f"more than {ROUNDS}"


def _pairs_of_tasks(seed: int) -> dict[str, tuple[int, float, float]]:
    """Return by operator the rounds of a first run, and of a second without and with the memory."""
    with tempfile.TemporaryDirectory() as folder:
        path, reached, needed = Path(folder), {}, {}
        shelf = Shelf(path / "memory")
        for op in TASKS:
            run = tuned(path / f"{op}-first", None, rounds=ROUNDS, seed=seed, op=op)
            assert run.state.best is not None
            reached[op] = run.state.best.over_seed
            needed[op] = rounds_to(run.state, reached[op])
            learn(shelf, run)
            run.close()
        return {op: (needed[op], *_second(path, op, shelf, seed, reached[op])) for op in TASKS}


def _second(path: Path, op: str, shelf: Shelf, seed: int, reached: float) -> tuple[float, float]:
    found = []
    for name, known in (("without", None), ("with", shelf)):
        run = tuned(
            path / f"{op}-{name}", known, rounds=ROUNDS, seed=1000 + seed, op=op, size=TASKS[op]
        )
        try:
            found.append(float(rounds_to(run.state, reached)))
        except StopIteration:
            found.append(math.inf)
        run.close()
    return found[0], found[1]
