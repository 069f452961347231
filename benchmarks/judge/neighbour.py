"""Neighbours that disturb a measurement: a steady one, and many that come and go.

A steady neighbour makes short bursts of computing and of memory traffic. Irregular neighbours rest
and work for 10 ms to 5 s at a time: they compute, move memory, compile C++, or start many short
processes. Each is a process of its own, which ends when its standard input closes, so that it
can't outlive the benchmark.
"""

from __future__ import annotations

import contextlib
import math
import os
import random
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

STEADY_S = (0.002, 0.06)
IRREGULAR_S = (0.01, 5.0)
TRAFFIC_BYTES = 32 << 20
COMPILED = "#include <algorithm>\n#include <map>\n#include <string>\n#include <vector>\n"
COMPILERS = ("g++", "clang++")


@contextlib.contextmanager
def neighbours(load: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Keep neighbours at work while the block runs; yield their processes.

    A `load` of 1 is a steady neighbour for every second CPU. A larger `load` is the number of
    processes that work at one time, on average: twice as many neighbours, each resting half of its
    time.
    """
    steady = load == 1
    count = max(1, len(os.sched_getaffinity(0)) // 2) if steady else 2 * load
    made = [
        subprocess.Popen(
            [sys.executable, "-P", __file__, "steady" if steady else "irregular", str(number)],
            stdin=subprocess.PIPE,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
        for number in range(count)
    ]
    try:
        yield made
    finally:
        for process in made:
            process.communicate()


def main(arguments: list[str]) -> None:
    """Disturb until standard input closes: `steady` or `irregular`, and the pattern's seed."""
    import numpy as np

    kind, seed = arguments
    dice = random.Random(int(seed))
    source, target = np.ones(TRAFFIC_BYTES, np.uint8), np.zeros(TRAFFIC_BYTES, np.uint8)
    works: list[Callable[[], object]] = [
        lambda: sum(range(10_000)),
        lambda: np.copyto(target, source),
    ]
    if kind == "irregular":
        works.append(lambda: subprocess.run(["true"], check=True))
        if compiler := next(filter(None, map(shutil.which, COMPILERS)), None):
            command = [compiler, "-O2", "-x", "c++", "-c", "-o", os.devnull, "-"]
            works.append(
                lambda: subprocess.run(command, check=True, input=COMPILED, encoding="utf-8")
            )

    def seconds() -> float:
        if kind == "steady":
            return dice.uniform(*STEADY_S)
        return math.exp(dice.uniform(*map(math.log, IRREGULAR_S)))

    while not select.select([sys.stdin], [], [], seconds())[0]:
        stop, work = time.perf_counter() + seconds(), dice.choice(works)
        while time.perf_counter() < stop and not select.select([sys.stdin], [], [], 0)[0]:
            work()


if __name__ == "__main__":
    main(sys.argv[1:])
