"""Runs whose fake judge takes the time of a kernel from its knobs, on a machine with a name.

Their kernel is one with five knobs, or that of a bundled sample.
"""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from akg_tui.agent.models.sweep import Sweep
from akg_tui.core.kernel.kernel_files import Kernel, files_of
from akg_tui.core.kernel.knobs import find_knobs
from akg_tui.core.measurement import Measurement
from akg_tui.core.phases import Mode, Verdict
from akg_tui.core.state import RunState
from akg_tui.core.task import Policy, Task
from akg_tui.engine.engine import Engine
from akg_tui.engine.run_memory import recollect
from akg_tui.memory.shelf import Shelf
from akg_tui.resources import sample
from akg_tui.store.run_folder import RunFolder
from akg_tui.store.task_folder import load_task
from tests.engine import fake_judge
from tests.engine.runs import Clock, make_task

KNOBS = 5
CHOICES = [1, 2, 4, 8, 16]
KERNEL = (
    "".join(f"K{n} = 1  # tune: {CHOICES}\n" for n in range(KNOBS))
    + "\n\nclass ModelNew:\n    pass\n"
)


class KnobJudge(fake_judge.FakeJudge):
    """The best kernel has the knob number n at its choice number n, where that many choices begin
    again with the first; others cost 10 % a step.
    """

    machine = "a Zen"

    async def evaluate(self, kernel: Kernel, incumbent: Kernel | None, **more: Any) -> Measurement:
        kernel, incumbent = (
            files_of(each or KERNEL, "kernel.py").text for each in (kernel, incumbent)
        )
        found = await super().evaluate(_as_speed(kernel), _as_speed(incumbent))
        base, cost = cost_of(incumbent), cost_of(kernel)
        ratio = replace(
            found.ratio, ratio=base / cost, low=base / cost * 0.99, high=base / cost * 1.01
        )
        environment = {"cpu": self.machine, "cpus": "2", "compiler": "a g++", "torch": "2.13"}
        return replace(
            found, ratio=ratio, environment=environment, candidate_ms=cost, baseline_ms=base
        )


def _as_speed(kernel: str) -> str:
    return 'SPEED = "A"\n' + kernel


def cost_of(kernel: str) -> float:
    cost = 1.0
    for number, knob in enumerate(find_knobs(kernel.split("\n"))):
        best = number % len(knob.choices)
        cost *= 1.1 ** abs(knob.choices.index(knob.value) - best)
    return cost


def create(
    folder: Path, *, rounds: int, name: str = "r", op: str = "speed", size: int = 0
) -> RunFolder:
    """A run of the kernel with five knobs, or for another `op` of the sample of that name.

    Another `size` is another reference of the operator.
    """
    made = folder if folder.is_dir() else make_task(folder)
    kernel = KERNEL if op == "speed" else (sample(op) / "kernel.py").read_text()
    (made / "kernel.py").write_text(kernel)
    with (made / "reference.py").open("a") as reference:
        reference.write(f"# size {size}\n" if size else "")
    task = Task(op=op, policy=Policy(max_rounds=rounds))
    return RunFolder.create(
        load_task(made), task=task, mode=Mode.AUTO, agent="sweep", version="0", clock=Clock(),
        name=name,
    )  # fmt: skip


def sweep(run: RunFolder, shelf: Shelf | None, *, seed: int = 0, judge: Any = KnobJudge) -> Engine:
    recall = partial(recollect, shelf=shelf) if shelf else None
    return Engine(run, Sweep(seed), judge, clock=run._clock, recall=recall)


def tuned(folder: Path, shelf: Shelf | None, *, rounds: int, **more: Any) -> RunFolder:
    """A finished run of the sweep agent; the caller closes it."""
    seed = more.pop("seed", 0)
    judge = more.pop("judge", KnobJudge)
    run = create(folder, rounds=rounds, **more)
    asyncio.run(sweep(run, shelf, seed=seed, judge=judge).run())
    return run


def learn(shelf: Shelf, run: RunFolder) -> bool:
    return shelf.learn(run.state, run.history.read_kernel)


def rounds_to(state: RunState, over_seed: float) -> int:
    """The round whose KEEP first made the best as fast as this, as a ratio over the seed."""
    kept = (a for a in state.attempts if a.number and a.verdict is Verdict.KEEP)
    return next(a.round for a in kept if a.over_seed and a.over_seed >= over_seed * 0.999)
