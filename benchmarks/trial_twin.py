"""What trials and sweeps save: a scripted model tunes three kernels, with and without them.

One model, three tasks, the same 39 edits: structural ones, of which one a task does not compile at
first, and the values of two knobs. `edits` makes each an attempt, as a model had to before there
were trials; `trials` tries what may not compile and sweeps the knobs. The run, the engine, the SDK
and the socket are real, the judge is a fake one. Tokens are four characters of JSON.

Copied into the tree of an older version, `main(["--only", "edits"])` measures that version.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from akg_tui.core.kernel.kernel_files import Kernel, files_of
from akg_tui.core.measurement import FailureKind, Interval, Measurement, Outcome
from akg_tui.core.phases import Verdict
from akg_tui.core.usage import usage_report
from akg_tui.resources import sample_kernels
from akg_tui.store.run_folder import RunFolder
from benchmarks.lab import runs
from benchmarks.lab.player import Direction, Player
from benchmarks.lab.replies import Block, call
from benchmarks.lab.server import Lab
from tests.engine.fake_judge import FakeJudge

TASKS = ("row_softmax", "rms_norm", "hybrid_attention_mask")
LEAST_EDITS = 30
MOST_SHARE = 0.5
MOST_CALLS_A_ROUND = 1.5

HEAD = """\
FUSED = 0
PACKED = 0
PREFETCH = 0
THREADED = 0
TILE = 1
UNROLL = 1
"""
GAINS = {"FUSED": 1.5, "PACKED": 1.3, "PREFETCH": 1.1, "THREADED": 1.2}
BEST_OF = {"TILE": {1: 1.0, 2: 1.2, 4: 1.5, 8: 1.4, 16: 1.1},
           "UNROLL": {1: 1.0, 2: 1.1, 4: 1.05, 8: 1.2, 16: 0.9}}  # fmt: skip
BROKEN = "error()"
WHY = "each row is read again for the sum, and the loads wait on memory for most of the time"
OUTPUT = "\n".join(
    f"kernel.cpp:{line}:9: error: 'vfloat' was not declared in this scope; did you mean 'float'?"
    for line in range(40, 52)
)


class TwinJudge(FakeJudge):
    """Takes the lines at the head of a kernel for its speed; `error()` does not compile."""

    async def evaluate(self, kernel: Kernel, incumbent: Kernel | None, **how: Any) -> Measurement:
        await asyncio.sleep(0)
        text, base_text = (files_of(each or HEAD, "kernel.py").text for each in (kernel, incumbent))
        if BROKEN in text:
            return Measurement(
                outcome=Outcome.FAILED,
                failure=FailureKind.BUILD,
                message="kernel.cpp:40: 'vfloat' was not declared in this scope",
                detail=OUTPUT,
            )
        cost, base = _cost(text), _cost(base_text)
        ratio = base / cost
        return Measurement(
            outcome=Outcome.CORRECT,
            ratio=Interval(ratio, ratio * 0.99, ratio * 1.01, 0.99),
            candidate_ms=cost,
            baseline_ms=base,
        )


def _cost(kernel: str) -> float:
    cost = 16.0
    for name, value in re.findall(r"^([A-Z]+) = (\d+)", kernel, re.M):
        cost /= GAINS[name] ** int(value) if name in GAINS else BEST_OF[name][int(value)]
    return cost


def kernel(name: str) -> str:
    """A sample's kernel, of real length, below the lines that the fake judge reads."""
    sample = (sample_kernels() / name / "kernel.py").read_text()
    return (
        HEAD
        + "\n\nclass ModelNew:\n    pass\n\n\n"
        + "".join(f"# {line}\n" for line in sample.split("\n"))
    )


def structural() -> list[Direction]:
    """The directions that change the code."""
    told = {
        "FUSED": "fuse the two passes over a row into one, with a running maximum",
        "PACKED": "pack the rows so that a load brings sixteen values that are used at once",
        "PREFETCH": "fetch the next row ahead of the arithmetic of this one",
        "THREADED": "give each thread whole rows instead of strided parts of them",
    }
    return [Direction(text, f"^{name} = 0", f"{name} = 1", WHY) for name, text in told.items()]


def knobs() -> list[tuple[str, str]]:
    return [
        ("TILE", "how many rows a tile has"),
        ("UNROLL", "how often the inner loop is unrolled"),
    ]


def one_by_one() -> Iterator[Direction]:
    """Every edit as an item of its own: a broken one, and a mended one later."""
    first, *others = structural()
    yield Direction(f"{first.text}, vectorised by hand", first.line, f"{first.to}  # {BROKEN}", WHY)
    yield from others
    yield first
    for name, what in knobs():
        for value in (2, 4, 8, 16):
            text = f"{what}: {value}, so that more of it stays in the cache"
            yield Direction(text, rf"^{name} = \d+", f"{name} = {value}", WHY)


def with_sweeps() -> Iterator[Direction]:
    """The same work with an item for each direction; a knob is one direction."""
    yield from structural()
    for name, what in knobs():
        text = f"{what}: the best value, so that more of it stays in the cache"
        yield Direction(text, rf"^{name} = \d+", f"{name} = 1  # tune: [1, 2, 4, 8, 16]", WHY)


@dataclass
class Trying(Player):
    """Tries what it edits and submits it in the same call; the first edit is broken at first."""

    broke: bool = False
    edits: list[str] = field(default_factory=list)

    def _edit(self, view: str, active: str, call_id: str) -> Block:
        block = super()._edit(view, active, call_id)
        (op,) = block["input"]["ops"]
        (line,) = op["lines"]
        if "# tune:" in line:
            name = line.split(" ")[0]
            self.edits += ["swept"] * 4
            given = {"edit": {"ops": [op]}, "knobs": [name], "submit": True}
            return call("sweep_kernel", given, call_id)
        if not self.broke:
            self.broke = True
            op["lines"] = [f"{line}  # {BROKEN}"]
        self.edits.append("tried")
        return call("try_kernel", {"edit": {"ops": [op]}, "submit": True}, call_id)


async def _play(folder: Path, mode: str) -> list[tuple[RunFolder, Lab]]:
    done = []
    for name in TASKS:
        directions = list(with_sweeps() if mode == "trials" else one_by_one())
        player = (Trying if mode == "trials" else Player)(iter(directions))
        async with Lab(player) as lab:
            run = runs.create(folder / name, lab.url, rounds=len(directions), kernel=kernel(name))
            await runs.play(runs.engine(run, lab.url), limit_s=300.0)
        done.append((run, lab))
        if isinstance(player, Trying):
            assert len(player.edits) == len(list(one_by_one())), player.edits
    return done


def figures(mode: str) -> dict[str, Any]:
    """Play the three tasks, and return the sums over them."""
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch("os.fsync"),  # durability is not what is measured
        mock.patch.object(runs, "FakeJudge", TwinJudge),
    ):
        played = asyncio.run(_play(Path(folder), mode))
        calls = tokens = rounds = lost = 0
        speedups = []
        for run, lab in played:
            report, state = usage_report(run.records), run.state
            calls += report.total.calls
            tokens += report.total.prompt_tokens
            rounds += state.settled
            builds = [a for a in state.attempts if a.measurement.failure is FailureKind.BUILD]
            lost += len(builds)
            assert not lab.memory.faults
            assert not lab.refused
            assert state.count(Verdict.KEEP)
            speedups.append(round(_cost(HEAD) / _cost(run_text(run)), 3))
            run.close()
    return {
        "mode": mode,
        "edits": len(TASKS) * len(list(one_by_one())),
        "rounds": rounds,
        "calls": calls,
        "calls_a_round": round(calls / rounds, 3),
        "prompt_tokens": tokens,
        "rounds_lost_to_a_compile_error": lost,
        "speedups": speedups,
    }


def run_text(run: RunFolder) -> str:
    assert run.state.best is not None
    return run.history.read_kernel(run.state.best.blob).text


def main(words: list[str]) -> bool:
    """Play both, print the figures of both, and return whether the bounds hold."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks trial_twin")
    parser.add_argument("--only", choices=["edits", "trials"], help="play one of the two")
    wanted = parser.parse_args(words)
    if wanted.only:
        json.dump(figures(wanted.only), sys.stdout)
        print()
        return True
    before, after = figures("edits"), figures("trials")
    share = after["prompt_tokens"] / before["prompt_tokens"]
    for found in (before, {**after, "share_of_the_prompt_tokens": round(share, 3)}):
        json.dump(found, sys.stdout)
        print()
    return bool(
        before["edits"] >= LEAST_EDITS
        and share <= MOST_SHARE
        and after["calls_a_round"] <= MOST_CALLS_A_ROUND
        and not after["rounds_lost_to_a_compile_error"]
        and after["speedups"] == before["speedups"]
    )
