"""A noisy neighbour: bursts of computing and of memory traffic, of random length.

Run as a process of its own for each CPU that is to be disturbed; ends when its standard
input closes, so that it can't outlive the benchmark.
"""

from __future__ import annotations

import contextlib
import os
import random
import select
import subprocess
import sys
import time
from collections.abc import Iterator

BURST_S = (0.002, 0.06)
TRAFFIC_BYTES = 32 << 20


@contextlib.contextmanager
def noisy(count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Keep `count` neighbours at work while the block runs; yield their processes."""
    made = [
        subprocess.Popen(
            [sys.executable, "-P", __file__, str(number)],
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
    """Disturb until standard input closes; the argument seeds the pattern."""
    import numpy as np

    dice = random.Random(int(arguments[0]))
    source, target = np.ones(TRAFFIC_BYTES, np.uint8), np.zeros(TRAFFIC_BYTES, np.uint8)
    while not select.select([sys.stdin], [], [], dice.uniform(*BURST_S))[0]:
        stop = time.perf_counter() + dice.uniform(*BURST_S)
        traffic = dice.random() < 0.5
        while time.perf_counter() < stop:
            if traffic:
                np.copyto(target, source)
            else:
                sum(range(10_000))


if __name__ == "__main__":
    main(sys.argv[1:])
