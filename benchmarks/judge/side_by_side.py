"""Three evaluations on one machine at once, against the same ones alone: do their figures agree?

Two runs and an `eval`: three judges measure a softmax that is done several times against one that
is done more often. They take turns by the lease of `akg_tui.evaluate.targets.lease`, or with
`--without` time when they please. Also the seconds that each waited, and what a lease costs alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from pathlib import Path

from akg_tui.core.measurement import Interval, Measurement
from akg_tui.core.task import Task, Timing
from akg_tui.evaluate import Judge
from akg_tui.evaluate.targets.lease import Claim, Lease
from benchmarks.judge.rounds import SETTING, SOFTMAX

PAIRS = {"run 1": (40, 26), "run 2": (26, 26), "eval": (30, 26)}
"""How often the incumbent and the candidate compute the softmax."""

COST_OF = 1_000


def lease_ms(path: str) -> float:
    """Return the milliseconds that a free lease costs for one slice."""
    lease = Lease(Claim(path, "benchmark"), time.sleep)
    start = time.perf_counter()
    for _ in range(COST_OF):
        with lease.held():
            pass
    return (time.perf_counter() - start) / COST_OF * 1e3


async def measured(judges: dict[str, Judge], *, at_once: bool) -> dict[str, Measurement]:
    """Return the measurements, made one after the other or at once."""

    async def one(name: str) -> Measurement:
        incumbent, candidate = (SETTING.replace("TIMES", str(each)) for each in PAIRS[name])
        return await judges[name].evaluate(candidate, incumbent, precise=0.02)

    if at_once:
        return dict(zip(judges, await asyncio.gather(*map(one, judges)), strict=True))
    return {name: await one(name) for name in judges}


def agree(one: Interval | None, other: Interval | None) -> bool:
    """Return whether two intervals have a value in common."""
    return bool(one and other and one.low <= other.high and other.low <= one.high)


async def trials(times: int, budget_s: float, *, leased: bool) -> dict[str, object]:
    """Return how often the figures at once agree with those alone, with seconds and widths."""
    found: dict[str, list[float]] = {"alone_s": [], "at_once_s": [], "waited_s": []}
    apart: list[str] = []
    shown: list[dict[str, str]] = []
    with tempfile.TemporaryDirectory() as folder:
        path, task = f"{folder}/lease", Task(op="softmax", timing=Timing(budget_s=budget_s))
        judges = {
            name: Judge(
                task,
                SOFTMAX,
                Path(folder) / name,
                lease=Claim(path, name) if leased else None,
            )
            for name in PAIRS
        }
        try:
            for _ in range(times):
                alone = await measured(judges, at_once=False)
                start = time.monotonic()
                at_once = await measured(judges, at_once=True)
                found["at_once_s"].append(time.monotonic() - start)
                found["alone_s"].append(sum(each.elapsed_s for each in alone.values()))
                found["waited_s"].append(sum(each.waited_s for each in at_once.values()))
                apart += [n for n in judges if not agree(alone[n].ratio, at_once[n].ratio)]
                told = {name: f"{told_of(alone[name])} {told_of(at_once[name])}" for name in judges}
                shown.append(told)
        finally:
            for judge in judges.values():
                await judge.close()
        seconds = {name: round(sum(each) / times, 1) for name, each in found.items()}
        cost = {"lease_ms": round(lease_ms(path), 3)}
    return {
        "figures": times * len(PAIRS),
        "apart": apart,
        **seconds,
        **cost,
        "alone, at once": shown,
    }


def told_of(measurement: Measurement) -> str:
    """Return the interval of a measurement in short."""
    ratio = measurement.ratio
    return f"{ratio.ratio:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]" if ratio else "none"


def main(arguments: list[str]) -> bool:
    """Print the figures; return whether those at once agree with those alone."""
    options = argparse.ArgumentParser(prog="python -m benchmarks side_by_side")
    options.add_argument("--times", type=int, default=5, metavar="N")
    options.add_argument("--budget", type=float, default=4.0, metavar="S", help="of a comparison")
    options.add_argument("--without", action="store_true", help="without a lease")
    given = options.parse_args(arguments)
    load = round(os.getloadavg()[0], 1)
    found = asyncio.run(trials(given.times, given.budget, leased=not given.without))
    print(json.dumps({"benchmark": "side_by_side", "load": load, **found}))
    return not found["apart"]
