"""A model writes the kernel: on the command line, with the real judge."""

from __future__ import annotations

import json
from pathlib import Path

from akg_tui.core import events as ev
from akg_tui.problems.seeds import UNWRITTEN
from akg_tui.store.journal import read
from benchmarks.lab.player import Player
from benchmarks.lab.server import Lab
from tests.cli.test_cli import here, refused
from tests.cli.test_served_model import SMALL_KERNEL, akg, small_task

KERNEL = SMALL_KERNEL.replace("return torch.relu(x) * 2", "{body}\n        return y")
RAISES, WRONG, RIGHT = (
    KERNEL.format(body=body)
    for body in ("y = x.rely()", "y = torch.relu(x)", "y = torch.relu(x) * 2")
)
UNFINISHED = "import torch\n\nGAIN = 2\n"


def unwritten(folder: Path) -> Path:
    """A task without a kernel, as `new --seed write` makes it, with a short timing budget."""
    return small_task(folder / "task", UNWRITTEN, "write_then_tune")


def run_of(task: Path) -> Path:
    (run,) = (task / "runs").iterdir()
    return run


def phases(run: Path) -> list[str]:
    events = [record.event for record in read(run / "events.jsonl")]
    return [event.phase.value for event in events if isinstance(event, ev.PhaseEntered)]


async def test_a_model_that_needs_four_tries_from_nothing_gets_there(tmp_path: Path) -> None:
    task = unwritten(tmp_path)
    player = Player(iter(()), iter((UNFINISHED, RAISES, WRONG, RIGHT)))
    async with Lab(player) as lab:
        code, out, errors = await akg(
            "tune", "task", "--workflow", "write", "--agent", "m", "--base-url", lab.url,
            "--headless", "--json", cwd=tmp_path,
        )  # fmt: skip
    assert (code, errors) == (0, "")
    summary = json.loads(out.splitlines()[-1])
    assert (summary["ok"], summary["reason"]) == (True, "the kernel is correct")
    assert (summary["workflow"], summary["tries_to_write"]) == ("write", 4)
    run = run_of(task)
    assert phases(run) == ["BASELINE", *["WRITE", "BASELINE"] * 4, "DONE"]
    assert (run / "work" / "kernel.py").read_text() == RIGHT
    asked = [block["text"] for m in lab.requests[-1].body["messages"] for block in m["content"]
             if block["type"] == "text"]  # fmt: skip
    for why in ("The first kernel is not correct: line 1: the file defines no class ModelNew",
                "Your try 1 is not correct: line 1: the file defines no class ModelNew",
                "Your try 2 is not correct: kernel.py:6: AttributeError",
                "Your try 3 is not correct: wrong values"):  # fmt: skip
        assert any(why in text for text in asked), why
    assert lab.refused == lab.memory.faults == []


def test_the_sweep_agent_is_refused_where_a_kernel_is_to_be_written(tmp_path: Path) -> None:
    task = unwritten(tmp_path)
    cannot = "workflow write_then_tune: the sweep agent cannot write a kernel"
    refused(here("tune", task, "--headless"), cannot)
    words = "tune", task, "--headless", "--workflow", "tune"
    refused(here(*words), "kernel.py:1: ModelNew: is missing")
    assert not (task / "runs").exists()
