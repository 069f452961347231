"""Compares variants of a function in one process, for an agent's script.

A first look: by CPU time, in turns, so that other work of the machine weighs little. Decides
nothing; what counts is measured by the judge. Must never import torch.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

UNTIL = "AKG_SCRIPT_UNTIL"
"""The environment variable with the time, by the monotonic clock, at which a script is stopped."""

SAMPLE_NS = 1_000_000
"""The CPU time of a sample; a clock that ticks in microseconds then errs by a thousandth."""

LEAST_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Timed:
    """A variant: microseconds of CPU time a call, and its speed over that of the first variant.

    `low` and `high` are the quartiles of the rounds' ratios.
    """

    name: str
    least_us: float
    median_us: float
    ratio: float
    low: float
    high: float


def remaining() -> float:
    """Return the seconds until this script is stopped; infinity where nobody stops it."""
    until = os.environ.get(UNTIL)
    return float(until) - time.monotonic() if until else math.inf


def bench(variants: Mapping[str, Callable[[], object]], seconds: float = 3.0) -> list[Timed]:
    """Time variants in turns, print a line for each, and return them, the fastest first.

    Each round takes one sample of every variant, each time in another order. The CPU time is that
    of all threads of this process, so variants are comparable that use equally many.
    """
    calls = {name: _calls_of_sample(act) for name, act in variants.items()}
    samples: dict[str, list[float]] = {name: [] for name in variants}
    names, rounds = list(variants), 0
    until = time.monotonic() + min(seconds, remaining() - 1.0)
    while rounds < LEAST_ROUNDS or time.monotonic() < until:
        for name in names:
            samples[name].append(_sample(variants[name], calls[name]))
        names = names[1:] + names[:1]
        rounds += 1
    base = next(iter(samples.values()), [])
    found = [_timed(name, own, base) for name, own in samples.items()]
    found.sort(key=lambda each: -each.ratio)
    for each in found:
        print(
            f"{each.name}: {each.median_us:.4g} us of CPU a call (least {each.least_us:.4g}), "
            f"{each.ratio:.3f} x {next(iter(variants))} ({each.low:.3f} to {each.high:.3f} in half "
            f"of {rounds} rounds)",
            flush=True,
        )
    return found


def _calls_of_sample(act: Callable[[], object]) -> int:
    act()
    return max(1, math.ceil(SAMPLE_NS / max(1.0, _sample(act, 1))))


def _sample(act: Callable[[], object], calls: int) -> float:
    """Return the nanoseconds of CPU time of a call."""
    begin = time.process_time_ns()
    for _ in range(calls):
        act()
    return max(1, time.process_time_ns() - begin) / calls


def _timed(name: str, own: list[float], base: list[float]) -> Timed:
    ratios = [first / mine for first, mine in zip(base, own, strict=True)]
    low, ratio, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return Timed(name, min(own) / 1e3, statistics.median(own) / 1e3, ratio, low, high)
