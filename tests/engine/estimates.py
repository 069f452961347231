"""Estimate runs with a fake estimator: real folders, and estimates read from the kernel's text."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from akg_tui.agent.models.sweep import Sweep
from akg_tui.core.measurement import Estimate, Measurement, Outcome, Progress
from akg_tui.core.phases import Mode
from akg_tui.engine.engine import Engine
from akg_tui.store.run_folder import RunFolder
from akg_tui.store.task_folder import load_task
from tests.engine.fake_judge import FakeJudge
from tests.engine.runs import Clock

FAKE_ARCH = "fake_arch"
REFERENCE = """\
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.sin(x) + torch.cos(x)


def get_inputs():
    return [torch.randn(512, 256)]


def get_init_inputs():
    return []
"""
KERNEL = """\
import torch

# Twice the work, and a tenth of the estimate: what only a measurement finds out.
TIMES = 8  # tune: [8, 1, 16]


class ModelNew(torch.nn.Module):
    def forward(self, x):
        for _ in range(TIMES):
            y = torch.sin(x) + torch.cos(x)
        return y
"""
ESTIMATES = {"TIMES = 8": 10.0, "TIMES = 1 ": 5.0, "TIMES = 16": 1.0}
"""By the kernel's text. The last one is wrong, as an estimate can be."""


class FakeEstimatingJudge(FakeJudge):
    """Takes every kernel for correct, and its estimate from `ESTIMATES`."""

    async def evaluate(
        self,
        kernel: str,
        incumbent: str | None,
        *,
        precise: float | None = None,
        prior: tuple[float, ...] = (),
    ) -> Measurement:
        await asyncio.sleep(0)
        us = next(us for text, us in ESTIMATES.items() if text in kernel)
        found = Estimate(FAKE_ARCH, us, "the fake")
        return Measurement(outcome=Outcome.CORRECT, timed=False, estimate=found)


def make_task(folder: Path, *, arch: str = FAKE_ARCH) -> Path:
    """A task for the CPU in PyTorch, to be ranked by estimates."""
    folder.mkdir(parents=True)
    (folder / "task.toml").write_text(
        f'op = "waves"\nestimate = "{arch}"\n\n[target]\ndsl = "torch"\n\n'
        "[timing]\nbudget_s = 0.4\nmin_gain = 0.05\n\n"
        '[correctness]\ntrials = 1\nvalues = "drawn"\nfixed_shape = true\n\n'
        "[policy]\nmax_rounds = 2\n"
    )
    (folder / "reference.py").write_text(REFERENCE)
    (folder / "kernel.py").write_text(KERNEL)
    return folder


def estimate_run(
    folder: Path,
    *,
    arch: str = FAKE_ARCH,
    judge: Callable[[Callable[[Progress], None]], FakeJudge] = FakeEstimatingJudge,
) -> Path:
    """A finished estimate run of such a task by the sweep agent, with a shortlist of two."""
    loaded = load_task(make_task(folder, arch=arch))
    run = RunFolder.create(
        loaded,
        task=replace(loaded.task, workflow="tune"),
        mode=Mode.AUTO,
        agent="sweep",
        version="0",
        clock=Clock(),
        name="estimates",
    )

    async def work() -> None:
        engine = Engine(run, Sweep(0), judge, clock=run._clock)
        await engine.run()
        await engine.close()

    asyncio.run(work())
    return run.path
