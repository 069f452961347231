"""SIGKILL at chosen and at random moments: every run ends like one that was left alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from akg_tui.store.run_folder import RunFolder
from akg_tui.store.task_folder import TaskFolder
from tests.store import scripted

ROOT = Path(__file__).parents[2]


def crashing(run: Path, *arguments: object) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "tests.store.crashing", str(arguments[0]), str(run)]
        + [str(argument) for argument in arguments[1:]],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def undisturbed(task: TaskFolder, rounds: int = scripted.ROUNDS) -> Any:
    run = scripted.create_run(task, "undisturbed", rounds)
    scripted.recover(run)
    scripted.play(run)
    run.close()
    return json.loads(json.dumps(scripted.outcome(run)))


def consistent(path: Path) -> None:
    run = RunFolder.open(path)
    state = run.state
    assert state.best is not None
    refs = run.history.refs()
    assert refs.pop("refs/heads/best") == state.best.commit
    assert refs == {f"refs/akg/attempts/{a.number}": a.commit for a in state.attempts}
    kernel = (path / "work" / "kernel.py").read_bytes()
    assert kernel == run.history.read_blob(state.best.blob)
    fsck = subprocess.run(
        ["git", "-C", str(path / "history.git"), "fsck", "--strict", "--no-dangling"],
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert fsck.stdout == b""
    run.close()


@pytest.mark.parametrize(("first", "step"), [(1, 1), (2, 7), (5, 13)])
def test_a_run_killed_at_every_step_on_the_disk_ends_the_same(
    task: TaskFolder, first: int, step: int
) -> None:
    run = scripted.create_run(task)
    run.close()
    told = crashing(run.path, "points", first, step)
    assert told["kills"] >= 10
    assert told["outcome"] == undisturbed(task)
    consistent(run.path)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_run_killed_at_random_moments_ends_the_same(task: TaskFolder, seed: int) -> None:
    run = scripted.create_run(task, rounds=60)
    run.close()
    told = crashing(run.path, "random", seed, 25)
    assert told["kills"] >= 5
    assert told["outcome"] == undisturbed(task, 60)
    consistent(run.path)
