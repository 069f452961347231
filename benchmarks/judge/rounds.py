"""Seconds that a round costs the harness, and the order that a race of settings finds.

Three sessions of a model (`sessions`), as the harness judges them: baseline, a sweep of 12 settings
against the seed, and rounds against the best kernel so far. Then a race of 12 settings of a softmax
of about a millisecond, one of which is the fastest by construction. With `--races` settings of a
kernel in C++ are raced again and again, and the best group of each race is compared with long races
of those that may be the fastest. The figures depend on the load of the machine, which is told
beside them.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from akg_tui.core.measurement import PRECISE, Outcome
from akg_tui.core.phases import Verdict
from akg_tui.core.task import Task, Timing
from akg_tui.core.verdict import decide_verdict
from akg_tui.engine.engine import BASELINE_S
from akg_tui.evaluate import Judge
from benchmarks.judge.sessions import FAST, LINEAR, SESSIONS, Session, linear

SOFTMAX = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, -1)


def get_inputs():
    return [torch.randn(64, 1024)]
"""
SETTING = """
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        for _ in range(TIMES):
            y = torch.softmax(x, -1)
        return y
"""
LONG_RACES = 5
MIN_GAIN = Timing().min_gain
TIMES = (26, 52, 30, 28, 27, 40, 104, 36, 25, 80, 32, 260)


async def hold(session: Session) -> dict[str, object]:
    """Judge the kernels of a session; return the seconds of its stages."""
    with tempfile.TemporaryDirectory() as folder:
        async with Judge(Task(op=session.name), session.reference, Path(folder)) as judge:
            start = time.monotonic()
            await judge.evaluate(session.seed, precise=PRECISE, within_s=BASELINE_S)
            baseline_s = time.monotonic() - start
            start = time.monotonic()
            await sweep(judge, session.seed, session.sweep)
            sweep_s = time.monotonic() - start
            best, rounds, kept = session.seed, [], 0
            for at, (kernel, correct) in enumerate(session.rounds):
                start = time.monotonic()
                found = await judge.evaluate(kernel, best)
                rounds.append(time.monotonic() - start)
                if (found.outcome is Outcome.CORRECT) is not correct:
                    raise SystemExit(f"{session.name}, kernel {at + 1}: {found.message}")
                if decide_verdict(found, MIN_GAIN).verdict is Verdict.KEEP:
                    best, kept = kernel, kept + 1
    return {
        "session": session.name,
        "baseline_s": round(baseline_s, 1),
        "rounds_s": [round(each, 1) for each in rounds],
        "median_s": round(statistics.median(rounds), 1),
        "sweep_s": round(sweep_s, 1),
        "all_s": round(baseline_s + sum(rounds) + sweep_s, 1),
        "kept": kept,
    }


async def verify(judge: Judge, kernels: Sequence[str]) -> None:
    """Verify settings in turn, as `sweep_kernel` does."""
    for at, kernel in enumerate(kernels):
        await judge.probe(kernel, timed=False, ahead=kernels[at + 1 :])


async def sweep(judge: Judge, incumbent: str, kernels: Sequence[str]) -> None:
    """Verify settings and race them with the incumbent, as `sweep_kernel` does."""
    await verify(judge, kernels)
    await judge.race([incumbent, *kernels], within_s=20.0)


async def agree(races: int, within_s: float) -> dict[str, object]:
    """Race 24 settings of the linear layer again and again, and those in front for long at last."""
    flags = ("-O3", FAST)
    kernels = [linear(*each) for each in itertools.product(flags, (2, 4, 6), (8, 16, 32, 64))]
    with tempfile.TemporaryDirectory() as folder:
        async with Judge(Task(op="linear_gelu"), LINEAR, Path(folder)) as judge:
            await verify(judge, kernels)
            best, seconds = [], []
            for _ in range(races):
                start = time.monotonic()
                outcome = await judge.race(kernels, within_s=within_s)
                seconds.append(time.monotonic() - start)
                best.append({at for at, each in enumerate(outcome.racers) if each.group == 1})
            front = sorted(set().union(*best))
            took = dict.fromkeys(front, 0.0)
            for _ in range(LONG_RACES if len(front) > 1 else 0):
                outcome = await judge.race([kernels[at] for at in front], within_s=4 * within_s)
                for at, racer in zip(front, outcome.racers, strict=True):
                    took[at] += racer.ms / LONG_RACES
    truly_best = min(front, key=took.__getitem__)
    return {
        "races_of_24": races,
        "race_s": round(statistics.median(seconds), 1),
        "with_the_best": sum(truly_best in each for each in best),
        "in_best_group": [len(each) for each in best],
        "held": sum(truly_best in each for each in best) >= 0.9 * races,
        "front_ms": [round(each, 3) for each in sorted(took.values())],
    }


async def race() -> dict[str, object]:
    """Return the seconds of verifying and of racing 12 settings, and where the fastest came in."""
    with tempfile.TemporaryDirectory() as folder:
        async with Judge(Task(op="softmax"), SOFTMAX, Path(folder)) as judge:
            kernels = [SETTING.replace("TIMES", str(times)) for times in TIMES]
            start = time.monotonic()
            await verify(judge, kernels)
            verified_s = time.monotonic() - start
            outcome = await judge.race(kernels, within_s=20.0)
            raced_s = time.monotonic() - start - verified_s
    groups = [each.group for each in outcome.racers]
    return {
        "verify_12_s": round(verified_s, 1),
        "race_12_s": round(raced_s, 1),
        "fastest_in_best_group": groups[TIMES.index(min(TIMES))] == 1,
        "in_best_group": groups.count(1),
    }


def main(arguments: list[str]) -> bool:
    """Print the figures; return whether the fastest setting was in the best group often enough."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks rounds")
    parser.add_argument("--races", type=int, default=0, help="races of 24 settings")
    races = parser.parse_args(arguments).races
    load = round(os.getloadavg()[0], 1)
    if races:
        told = asyncio.run(agree(races, within_s=20.0))
        print(json.dumps({"benchmark": "rounds", "load": load, **told}))
        return bool(told["held"])
    for session in SESSIONS:
        print(json.dumps(asyncio.run(hold(session))), flush=True)
    raced = asyncio.run(race())
    print(json.dumps({"benchmark": "rounds", "load": load, **raced}))
    return bool(raced["fastest_in_best_group"])
