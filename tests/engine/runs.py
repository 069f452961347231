"""Real run folders with a fake judge: everything but the measuring is what a user gets."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from akg_tui.agent.models.sweep import Sweep
from akg_tui.core import events as ev
from akg_tui.core.phases import Mode
from akg_tui.core.task import Policy, Task
from akg_tui.engine.engine import Engine
from akg_tui.resources import sample
from akg_tui.store.run_folder import RunFolder
from akg_tui.store.task_folder import load_task
from tests.engine.fake_judge import FakeJudge

REFERENCE = """\
class Model:
    def forward(self, x):
        return x


def get_inputs():
    return []


def get_init_inputs():
    return []
"""

KERNEL = """\
SPEED = "A"  # tune: ["A", "B", "C", "WRONG"]
WIDTH = 1  # tune: [1, 2]


class ModelNew:
    pass
"""


SMALLER = {
    "row_softmax": "ROWS = 64\nCOLUMNS = 512",
    "hybrid_attention_mask": "HEADS = 2\nLENGTH = 128",
}
"""Sizes of bundled tasks of which a call takes a tenth of a millisecond."""


class Clock:
    """A clock that moves one second a look, so that two runs read the same times."""

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self.now = start

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def make_task(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "task.toml").write_text('op = "speed"\n')
    (folder / "reference.py").write_text(REFERENCE)
    (folder / "kernel.py").write_text(KERNEL)
    return folder


def copy_sample(folder: Path, name: str) -> Path:
    """A bundled task with a short timing budget, one small case, and no baselines besides."""
    shutil.copytree(sample(name), folder, ignore=shutil.ignore_patterns("runs"))
    toml = folder / "task.toml"
    text = toml.read_text().replace("budget_s = 8.0", "budget_s = 1.0")
    text = re.sub(r"\[\[cases\]\]\n(?:.+\n)+\n", "", text)
    text += f"\n[reference.constants]\n{SMALLER[name]}\n"
    toml.write_text(text.replace('baselines = ["eager"]', "baselines = []"))
    return folder


def create(folder: Path, *, rounds: int = 5, mode: Mode = Mode.AUTO) -> RunFolder:
    loaded = load_task(make_task(folder))
    task = Task(op="speed", policy=Policy(max_rounds=rounds))
    return RunFolder.create(
        loaded, task=task, mode=mode, agent="sweep", version="0", clock=Clock(), name="r"
    )


def engine(run: RunFolder) -> Engine:
    return Engine(run, Sweep(0), FakeJudge, clock=run._clock)


def decisions(run: RunFolder) -> list[tuple[object, ...]]:
    """What was decided, without the times (commit ids hold the time)."""
    return [
        (e.round, e.attempt, e.item, e.verdict, e.reason, e.blob)
        for e in (record.event for record in run.records)
        if isinstance(e, ev.Decided)
    ]
