"""Runs on a cluster: what comes back, what is refused; and a suite through Ray, if installed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import platform
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from akg_tui import cli
from akg_tui.core import events as ev
from akg_tui.core.task import Target, Task, Timing
from akg_tui.store.run_at_rest import RunAtRest
from akg_tui.suite import ray_fleet
from akg_tui.suite.ray_runs import Keeper, options_of, worked
from akg_tui.suite.run_copy import Parcel
from akg_tui.suite.task_list import Resources
from benchmarks.suite_cluster import tasks_in
from tests.engine.runs import create
from tests.suite.fake_suite import patched


class Handle:
    """Stands in for Ray's handle of the keeper; after `lost_after` parcels nothing arrives."""

    def __init__(self, keeper: Keeper, lost_after: int = 1_000_000) -> None:
        self.lost = asyncio.Event()
        self._keeper, self._left = keeper, lost_after
        self.open = SimpleNamespace(remote=self._open)
        self.take = SimpleNamespace(remote=self._take)

    async def _open(self, run: str, node: str, host: str) -> tuple[int, bytes]:
        return self._keeper.open(run, node, host)

    async def _take(self, run: str, number: int, parcel: bytes) -> bool:
        self._left -= 1
        if self._left < 0:
            self.lost.set()
            return True
        taken = self._keeper.take(run, number, parcel)
        assert RunAtRest(Path(run)).state, "the copy can be read at any moment"
        return taken


def decided(run: Path) -> list[tuple[int, object, str]]:
    events = [record.event for record in RunAtRest(run).records]
    return [(e.round, e.verdict, e.blob) for e in events if isinstance(e, ev.Decided)]


async def test_the_run_of_a_lost_node_is_resumed_from_what_came_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("akg_tui.suite.ray_runs.SEND_S", 0.0)
    runs = []
    for name in ("whole", "lost"):
        run = create(tmp_path / name)
        run.close()
        runs.append(run.path)
    whole, lost = runs
    keeper = Keeper()
    with contextlib.ExitStack() as patches:
        for patch in patched():
            patches.enter_context(patch)
        assert await worked(str(whole), Handle(keeper), "n1") == ("over", "")
        node = Handle(keeper, lost_after=4)
        work = asyncio.create_task(worked(str(lost), node, "n1"))
        await node.lost.wait()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert len(decided(lost)) < 5
        assert await worked(str(lost), Handle(keeper), "n2") == ("over", "")
    assert keeper.place(str(lost)) == (2, "n2", platform.node())
    assert decided(lost) == decided(whole)
    assert len(decided(lost)) == 5


def test_what_comes_from_an_actor_that_was_given_up_is_refused(tmp_path: Path) -> None:
    run = create(tmp_path / "task")
    run.close()
    keeper, name = Keeper(), str(run.path)
    first, copy = keeper.open(name, "n1", "h1")
    size = len(msgspec.msgpack.decode(copy, type=Parcel).journal)
    late = msgspec.msgpack.encode(Parcel(folders=(), files={}, offset=size, journal=b"late\n"))
    second, _ = keeper.open(name, "n2", "h2")
    assert second > first
    before = (run.path / "events.jsonl").read_bytes()
    assert not keeper.take(name, first, late)
    keeper.close(name)
    assert not keeper.take(name, second, late)
    assert (run.path / "events.jsonl").read_bytes() == before


def test_an_actor_asks_for_what_its_task_needs() -> None:
    task = Task(op="x", timing=Timing(threads=4))
    assert options_of(task, Resources()) == {"num_cpus": 4, "num_gpus": 0}
    gpu = Task(op="x", target=Target(backend="cuda"))
    assert options_of(gpu, Resources()) == {"num_cpus": 1, "num_gpus": 1}
    npu = Task(op="x", target=Target(backend="ascend"))
    assert options_of(npu, Resources()) == {
        "num_cpus": 1, "num_gpus": 0, "resources": {"NPU": 1},
    }  # fmt: skip
    stated = Resources(num_cpus=0.5, num_gpus=0, resources={"NPU": 1}, labels={"kind": "910b"})
    assert options_of(gpu, stated) == {
        "num_cpus": 0.5, "num_gpus": 0, "resources": {"NPU": 1}, "label_selector": {"kind": "910b"},
    }  # fmt: skip


def test_a_cluster_that_is_not_there_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert cli.main(["fleet", "status"]) == 2
    assert capsys.readouterr().err == (
        "akg-tui: no fleet is up; start one with: akg-tui fleet up\n"
    )
    monkeypatch.setattr(ray_fleet, "find_spec", lambda name: None)
    assert cli.main(["fleet", "up"]) == 2
    assert capsys.readouterr().err == "akg-tui: a fleet needs Ray: pip install 'akg-tui[ray]'\n"


@pytest.mark.timeout(280)
def test_a_suite_on_a_local_cluster_ends_as_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    tasks = tasks_in(tmp_path / "tasks", 1)
    assert cli.main(["fleet", "up", "--num-cpus", "1"]) == 0
    try:
        assert cli.main(["fleet", "up"]) == 2, "one is up"
        words = ["suite", str(tasks), "--out", str(tmp_path / "out"), "--ray-address", "fleet"]
        # Ray reads the token when it is imported, which a test may have done before.
        command = [sys.executable, "-m", "akg_tui", *words, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        assert [line["state"] for line in lines[:-1]] == ["queued", "running", "done"]
    finally:
        assert cli.main(["fleet", "down"]) == 0
