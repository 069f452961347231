"""The reference under torch.compile: measured once a run, and never a reason to end it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from akg_tui.agent.models.sweep import Sweep
from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.measurement import Measurement, Progress
from akg_tui.core.phases import Mode
from akg_tui.core.summary import best_of
from akg_tui.core.task import Baseline, CompileBaseline, Policy, Task
from akg_tui.engine.engine import Engine
from akg_tui.headless.watched_run import closing_lines, narrate
from akg_tui.store.run_folder import RunFolder
from akg_tui.store.task_folder import load_task
from tests.engine.fake_judge import FakeJudge
from tests.engine.runs import Clock, make_task


def create(folder: Path, *baselines: Baseline) -> RunFolder:
    task = Task(op="speed", policy=Policy(max_rounds=3), baselines=baselines or ("compile",))
    return RunFolder.create(
        load_task(make_task(folder)),
        task=task, mode=Mode.AUTO, agent="sweep", version="0", clock=Clock(), name="r",
    )  # fmt: skip


class Session:
    """One process at work on the run; `judge` is its fake judge."""

    def __init__(self, run: RunFolder, kind: type[FakeJudge] = FakeJudge) -> None:
        def connect(on_progress: Callable[[Progress], None]) -> FakeJudge:
            self.judge = kind(on_progress)
            return self.judge

        self.engine = Engine(run, Sweep(0), connect, clock=run._clock)


class Faulty(FakeJudge):
    """A judge on a machine where torch.compile does not work."""

    def __init__(self, on_progress: Callable[[Progress], None]) -> None:
        super().__init__(on_progress)
        self.compile_fault = "InvalidCxxCompiler: no C++ compiler was found"


async def test_compile_and_max_autotune_are_measured_once_each_and_told(tmp_path: Path) -> None:
    session = Session(create(tmp_path / "task", "compile", "max-autotune"))
    work = session.engine
    doing: list[str] = []
    session.judge.on_compile = lambda: doing.append(work.live.activity)
    await work.run()
    assert session.judge.compiled == 2
    assert doing == [
        "measuring torch.compile, usually within 60 s",
        "measuring torch.compile with max-autotune, usually within 300 s",
    ]
    started = [r.event.purpose for r in work.records if isinstance(r.event, ev.EvalStarted)]
    assert started[:2] == ["baseline", "candidate"]
    assert started.count("compile") == 1
    told = [line for line in narrate(work.records) if line.startswith(("torch.", "max-"))]
    assert told[0] == "torch.compile is measured now, usually within 60 s, at most 300 s"
    assert [line for line in told if "measured now" not in line] == [
        "torch.compile correct, 1.50× eager [1.485, 1.515], 2 ms",
        "max-autotune correct, 2.00× eager [1.980, 2.020], 1.5 ms",
    ]
    best = best_of(work.state)
    assert best is not None
    assert [name for name, _ in best.named] == ["seed", "eager", "compile"]
    assert best.over_eager is not None
    assert dict(best.named)["compile"].ratio == pytest.approx(best.over_eager.ratio / 2)
    assert any(f"measured afresh: {best.line}" in line for line in closing_lines(work))
    await work.close()


async def test_a_compile_that_fails_is_one_line_and_the_run_goes_on(tmp_path: Path) -> None:
    session = Session(create(tmp_path / "task", "compile", "max-autotune"), Faulty)
    work = session.engine
    await work.run()
    assert work.state.ok
    assert work.state.settled == 3
    why = "InvalidCxxCompiler: no C++ compiler was found"
    told = [line for line in narrate(work.records) if line.startswith("torch.compile not")]
    assert told == [f"torch.compile not measured: build: {why}"]
    closing = [line for line in closing_lines(work) if "was not measured" in line]
    assert closing == [
        f"torch.compile was not measured: {why}",
        f"max-autotune was not measured: {why}",
    ]
    await work.close()


async def test_a_person_who_leaves_compile_out_waits_for_it_no_longer(tmp_path: Path) -> None:
    begun = asyncio.Event()

    class Slow(FakeJudge):
        async def measure_compiled(self, baseline: CompileBaseline) -> Measurement:
            self.compiled += 1
            begun.set()
            await asyncio.Event().wait()
            raise AssertionError("it was waited for")

    session = Session(create(tmp_path / "task", "compile", "max-autotune"), Slow)
    work = session.engine
    task = asyncio.create_task(work.run())
    async with asyncio.timeout(30):
        await begun.wait()
        assert work.send(cmd.LeaveOutCompile()) is None
        await task
    assert session.judge.compiled == 1
    assert work.state.ok
    assert work.state.settled == 3
    assert "torch.compile was not measured: a person left it out" in closing_lines(work)
    await work.close()
