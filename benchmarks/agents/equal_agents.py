"""Equal agents on recorded replies: `python -m benchmarks equal_agents [--seeds N]`.

A scripted model tunes a softmax of three sizes for two agents that differ in name only, and its
replies are recorded; then one of the two is compared with itself on these replies. Engine, judge,
SDK and socket are real. From what all these runs gained and cost, A and B are drawn again a hundred
times: a comparison must show no difference in at least 95 of them.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import json
import os
import random
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from akg_tui import cli
from akg_tui.cli.usage_error import EXIT_NOT_CORRECT, EXIT_OK
from akg_tui.suite.gain_by_cost import Spent, rates
from benchmarks.lab.player import Direction, Player
from benchmarks.lab.replies import Reply
from benchmarks.lab.runs import KEY
from benchmarks.lab.server import Lab, Request
from tests.engine.runs import copy_sample

SAMPLE = "row_softmax"
ROWS = (64, 256, 1024)
"""A task each: the sample with so many rows."""

ROUNDS = 2
RESAMPLES = 100
PAIRS = 4
"""The pairs of each task in a resample: twelve in all, since seven can show a difference."""

LEAST_EQUAL = 95
SEED = 20_261_125

Runs = Mapping[str, Sequence[Spent]]
"""The gain and the cost of each run, by task."""


class Student:
    """A model that does the same in every run: one edit that helps much, one that harms much."""

    def __init__(self) -> None:
        self._player = Player(_directions())

    def __call__(self, request: Request) -> Reply:
        messages = request.body["messages"]
        if len(messages) == 1 and "Rounds settled: 0" in str(messages):  # a new run
            self._player = Player(_directions())
        return self._player(request)


def _directions() -> Iterator[Direction]:
    for flags, why in (
        ("-O3 -march=native -ffast-math", "let the compiler use the vector units of this machine"),
        ("-O0", "see what the kernel takes without the compiler's help"),
    ):
        yield Direction(why, r"^FLAGS = .*", f'FLAGS = "{flags}"')


@contextlib.contextmanager
def served(script: Any) -> Iterator[Lab]:
    """A server of scripted replies in a thread of its own: a command has its own event loop."""
    lab, ready, loop = Lab(script), threading.Event(), asyncio.new_event_loop()
    done = asyncio.Event()

    async def serve() -> None:
        async with lab:
            ready.set()
            await done.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    ready.wait()
    try:
        yield lab
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join()
        loop.close()


def shown(runs: Runs, *, better: float = 1.0) -> dict[str, int]:
    """Draw A and B from the same runs; return in how many resamples a difference is shown.

    The keys are the kinds of cost. B's gains are multiplied by `better`.
    """
    dice = random.Random(SEED)
    found: dict[str, int] = {}
    for _ in range(RESAMPLES):
        drawn = [
            (dice.choice(known), _times(dice.choice(known), better))
            for known in runs.values()
            for _ in range(PAIRS)
        ]
        for rate in rates(drawn):
            found[rate.per] = found.get(rate.per, 0) + rate.shown
    return found


def _times(spent: Spent, better: float) -> Spent:
    return Spent(
        gain=spent.gain * better,
        tokens=spent.tokens,
        cost_usd=spent.cost_usd,
        worked_s=spent.worked_s,
    )


def _bench(folder: Path, out: str, a: Path, b: Path, *more: str) -> dict[str, Any]:
    """Run `bench agents`, and return its last line."""
    words = ["bench", "agents", str(folder / "tasks"), "--out", str(folder / out), "--json"]
    words += ["--a", str(a), "--b", str(b), "--max-rounds", str(ROUNDS), *more]
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        if cli.main(words) not in (EXIT_OK, EXIT_NOT_CORRECT):
            raise SystemExit(f"bench agents did not end: {' '.join(words)}")
    last: dict[str, Any] = json.loads(told.getvalue().splitlines()[-1])
    return last


def main(words: Sequence[str]) -> bool:
    """Run and print; return whether the bound holds."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks equal_agents")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="pairs of each task")
    seeds = parser.parse_args(words).seeds
    with (
        tempfile.TemporaryDirectory() as made,
        served(Student()) as lab,
        mock.patch.dict(os.environ, ANTHROPIC_API_KEY=KEY),
    ):
        folder = Path(made)
        for rows in ROWS:
            task = copy_sample(folder / "tasks" / f"softmax{rows}", SAMPLE)
            with (task / "task.toml").open("a") as toml:
                toml.write(f"\n[reference.constants]\nROWS = {rows}\n")
        one, other = folder / "one.toml", folder / "other.toml"
        for path in (one, other):
            path.write_text(f'[agent]\nmodel = "lab"\nbase_url = "{lab.url}"\n')
        many = ("--seeds", str(seeds))
        recorded = _bench(folder, "recorded", one, other, "--record", str(folder / "tapes"), *many)
        asked = len(lab.requests)
        replayed = _bench(folder, "replayed", one, one, "--replay", str(folder / "tapes"), *many)
        assert len(lab.requests) == asked, "a replay asks no server"
    runs: dict[str, list[Spent]] = {}
    for pair in (*recorded["pairs"], *replayed["pairs"]):
        for side in "ab":
            told = {n: pair[f"{side}_{n}"] for n in ("gain", "tokens", "cost_usd")}
            spent = Spent(**told, worked_s=pair[f"{side}_s"])
            runs.setdefault(pair["task"].partition("-seed")[0], []).append(spent)
    differ = shown(runs)
    figures = {
        "runs": {name: [[s.gain, s.tokens, s.worked_s] for s in runs[name]] for name in runs},
        "pairs": len(replayed["pairs"]),
        "left_out": [*recorded["notes"], *replayed["notes"]],
        "recorded": recorded["rates"],
        "replayed": replayed["rates"],
        "resamples": RESAMPLES,
        "no_difference_in": {per: RESAMPLES - count for per, count in differ.items()},
        "bound": LEAST_EQUAL,
    }
    print(json.dumps({"benchmark": "equal_agents", **figures}))
    return bool(differ) and all(RESAMPLES - n >= LEAST_EQUAL for n in differ.values())
