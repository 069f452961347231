"""Cost of a long run's prompts: a scripted model over a simulated prompt cache.

The run, the engine, the SDK and the socket are real; the server plays a competent model and
simulates the cache of the Messages API with its lives, on a clock that moves twenty seconds a
call. Kernels are not measured (a fake judge answers at once), so that only prompts count.
Tokens are four characters of JSON.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from akg_tui.core import events as ev
from akg_tui.core.usage import Totals, usage_report
from akg_tui.resources import sample_kernels
from akg_tui.store.run_folder import RunFolder
from tests.engine.runs import KERNEL
from tests.lab.player import Direction, Player
from tests.lab.runs import create, engine, of, play
from tests.lab.server import Lab

ROUNDS = 300
CALL_S = 20.0  # between two calls, on the cache's clock
BUDGET = 24_000
LEAST_SHARE = 0.95
MOST_GROWTH = 1.2
SETTLED_IN = 3  # rounds until the cache must hold
EARLY = 30


def directions() -> Iterator[Direction]:
    """Plan items: three with a gain, then items without one, at times three wrong ones."""
    why = "each row is read again for the sum, and the loads wait on memory for most of the time"
    yield Direction("use the faster form B of the loop", '^SPEED = "A"', 'SPEED = "B"', why)
    yield Direction("use the fastest form C of the loop", '^SPEED = "[AB]"', 'SPEED = "C"', why)
    for number in itertools.count(3):
        if number % 40 < 3:
            text = f"leave out the check of the last column, form {number}"
            yield Direction(text, '^SPEED = ".*', f'SPEED = "WRONG"  # {number}', why)
        else:
            text = f"unroll the inner loop {number} times and keep the partial sums apart"
            yield Direction(text, r"^WIDTH = \d+", f"WIDTH = {number}", why)


def kernel() -> str:
    """A sample's kernel, of real length, with the lines that the fake judge reads."""
    sample = (sample_kernels() / "row_softmax" / "kernel.py").read_text()
    return KERNEL + "\n" + "\n".join(f"# {line}" for line in sample.split("\n"))


async def scripted(folder: Path, rounds: int, budget: int) -> tuple[RunFolder, Lab]:
    """Play the whole run; the cache's clock moves with the calls."""
    now = itertools.count(0.0, CALL_S)
    async with Lab(Player(directions()), clock=lambda: next(now)) as lab:
        run = create(folder, lab.url, rounds=rounds, kernel=kernel())
        await play(engine(run, lab.url, budget=budget), limit_s=1_800.0)
    return run, lab


def figures(run: RunFolder, lab: Lab, rounds: int) -> dict[str, Any]:
    """The figures of a run, from its journal and the server."""
    report = usage_report(run.records)
    late = Totals()
    prompts: dict[int, list[int]] = {}
    for call in report.calls:
        prompts.setdefault(call.round, []).append(call.usage.prompt)
    for number, totals in report.by_round.items():
        if number > SETTLED_IN:
            late = Totals(late.calls + totals.calls, late.usage + totals.usage)
    last = max(number for number in prompts if number <= rounds)
    rebuilds = len(of(run, ev.ContextRebuilt))
    diagnoses = len(of(run, ev.DiagnosisReported))
    ten = range(EARLY - 4, EARLY + 6), range(last - 9, last + 1)
    early, end = (_mean(prompts, numbers) for numbers in ten)
    return {
        "rounds": run.state.settled,
        "calls": report.total.calls,
        "prompt_tokens": report.total.prompt_tokens,
        "cache_read_share_after_round_3": round(late.cache_read_share or 0.0, 4),
        f"prompt_tokens_round_{EARLY}": round(_mean(prompts, [EARLY])),
        f"prompt_tokens_round_{last}": round(_mean(prompts, [last])),
        "prompt_tokens_ten_rounds_early": round(early),
        "prompt_tokens_ten_rounds_late": round(end),
        "growth": round(_mean(prompts, [last]) / _mean(prompts, [EARLY]), 3),
        "largest_prompt": max(max(each) for each in prompts.values()),
        "rebuilds": rebuilds,
        "diagnoses": diagnoses,
        "broken_prefixes": len(lab.memory.faults),
        "new_conversations": lab.memory.fresh,
        "unexplained_conversations": lab.memory.fresh - 1 - rebuilds - diagnoses,
        "refused_requests": len(lab.refused),
    }


def _mean(prompts: dict[int, list[int]], rounds: Iterable[int]) -> float:
    counted = [tokens for number in rounds for tokens in prompts.get(number, ())]
    return sum(counted) / len(counted)


def held(found: dict[str, Any], rounds: int) -> bool:
    """Whether the bounds hold. Growth is for a long run: a short one sees one conversation grow."""
    return bool(
        found["rounds"] == rounds
        and found["cache_read_share_after_round_3"] >= LEAST_SHARE
        and (rounds < ROUNDS or found["growth"] <= MOST_GROWTH)
        and found["broken_prefixes"] == 0
        and found["unexplained_conversations"] == 0
        and found["refused_requests"] == 0
    )


def run() -> bool:
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch("os.fsync"),  # thousands of them; durability is not what is measured
    ):
        done, lab = asyncio.run(scripted(Path(folder) / "task", ROUNDS, BUDGET))
        found = figures(done, lab, ROUNDS)
        done.close()
    json.dump(found, sys.stdout)
    print()
    return held(found, ROUNDS)
