"""Seconds that a round costs the harness: a seed 500 times slower than the kernels, and a race.

A masked attention whose seed works element by element (about a second a call) against one by
matrix products; then a race of 12 settings of a softmax of about a millisecond, one of which
is the fastest. The figures depend on the load of the machine, which is told beside them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from pathlib import Path

from akg_tui.core.measurement import Outcome
from akg_tui.core.task import Task
from akg_tui.evaluate import Judge

ATTENTION = """
import torch


class Model(torch.nn.Module):
    def forward(self, q, k, v):
        s = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        return torch.softmax(s, -1) @ v


def get_inputs():
    return [torch.randn(4, 96, 32) for _ in range(3)]
"""
FAST = ATTENTION.partition("\n\ndef get_inputs")[0].replace("class Model(", "class ModelNew(")
SEED = """
import torch


class ModelNew(torch.nn.Module):
    def forward(self, q, k, v):
        y, root = torch.empty_like(q), q.shape[-1] ** 0.5
        for b in range(q.shape[0]):
            for i in range(q.shape[1]):
                row = [torch.dot(q[b, i], k[b, j]) / root for j in range(k.shape[1])]
                weights, row_sum = torch.softmax(torch.stack(row), 0), torch.zeros(v.shape[-1])
                for j in range(v.shape[1]):
                    row_sum = row_sum + weights[j] * v[b, j]
                y[b, i] = row_sum
        return y
"""
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
TIMES = (26, 52, 30, 28, 27, 40, 104, 36, 25, 80, 32, 260)


async def slow_seed() -> dict[str, float]:
    """Return the seconds of a baseline, of a gain and of a loss beside a slow seed."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        async with Judge(Task(op="attention"), ATTENTION, Path(folder)) as judge:
            for name, kernel, incumbent in (
                ("baseline", SEED, None),
                ("gain", FAST, SEED),
                ("loss", SEED, FAST),
            ):
                start = time.monotonic()
                within_s = 8.0 if incumbent is None else None
                precise = 0.02 if incumbent is None else None
                told = await judge.evaluate(kernel, incumbent, precise=precise, within_s=within_s)
                if told.outcome is not Outcome.CORRECT:
                    raise SystemExit(f"{name}: {told.message}")
                found[f"{name}_s"] = round(time.monotonic() - start, 1)
    return found


async def race() -> dict[str, object]:
    """Return the seconds of verifying and of racing 12 settings, and where the fastest came in."""
    with tempfile.TemporaryDirectory() as folder:
        async with Judge(Task(op="softmax"), SOFTMAX, Path(folder)) as judge:
            kernels = [SETTING.replace("TIMES", str(times)) for times in TIMES]
            start = time.monotonic()
            for kernel in kernels:
                await judge.probe(kernel, timed=False)
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
    """Print the figures; return whether the fastest setting was in the best group."""
    argparse.ArgumentParser(prog="python -m benchmarks rounds").parse_args(arguments)
    load = round(os.getloadavg()[0], 1)
    seed, raced = asyncio.run(slow_seed()), asyncio.run(race())
    print(json.dumps({"benchmark": "rounds", "load": load, **seed, **raced}))
    return bool(raced["fastest_in_best_group"])
