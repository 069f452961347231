"""Limits of time in a real run: what is cut off, what is no work, what is evaluated at the end."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from akg_tui.agent.chat import ChatReply, ChatRequest, ModelFailed, ServerBusy
from akg_tui.agent.model_calls import Retry
from akg_tui.agent.models.sweep import Sweep
from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.kernel.kernel_files import Kernel
from akg_tui.core.measurement import Interval, Measurement, Outcome, Progress
from akg_tui.core.phases import ItemState
from akg_tui.core.task import CompileBaseline, Policy
from akg_tui.engine.engine import Engine
from akg_tui.headless.watched_run import run_as_json
from akg_tui.store.run_folder import RunFolder
from tests.engine.fake_judge import FakeJudge
from tests.engine.runs import KERNEL, create, decisions
from tests.engine.test_engine import check_whole

HOUR, NIGHT = 3600.0, 8 * 3600.0
MOMENT = 0.2
"""A limit in seconds, for which a test waits in fact."""


class Hand:
    """A clock that a test moves, and what the machine slept by it."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0
        self.slept = 0.0

    def __call__(self) -> float:
        return self.now


class Model(Sweep):
    """The sweep, which does something at its first call in EDIT."""

    def __init__(self, first: Callable[[], Any]) -> None:
        super().__init__(0)
        self._first: Callable[[], Any] | None = first

    async def complete(self, request: ChatRequest, on_delta: Callable[[str], None]) -> ChatReply:
        first = self._first
        if first is not None and "Phase EDIT" in request.messages[0].text:  # type: ignore[union-attr]
            self._first = None
            await first()
        return await super().complete(request, on_delta)


def begun(
    folder: Path, clock: Hand, first: Callable[[], Any], judge: type = FakeJudge, **policy: Any
) -> Engine:
    run = create(folder / "task", rounds=2)
    path = run.path
    run.close()
    run = RunFolder.open(path, clock=clock)
    work = Engine(run, Model(first), judge, clock=clock, suspended=lambda: clock.slept)
    assert work.send(cmd.ChangePolicy(Policy(max_rounds=2, **policy))) is None
    return work


def told(work: Engine, kind: type) -> list[Any]:
    return [record.event for record in work.records if isinstance(record.event, kind)]


async def silent() -> None:
    await asyncio.Event().wait()


async def test_a_model_that_does_not_answer_holds_no_run_beyond_its_hours(tmp_path: Path) -> None:
    clock = Hand()

    async def stalls() -> None:
        clock.now += MOMENT
        await silent()

    work = begun(tmp_path, clock, stalls, max_hours=MOMENT / HOUR)
    await work.run()
    assert work.state.finished.startswith("time budget reached")
    assert work.state.settled == 0
    await work.close()


async def test_a_limit_that_a_person_lowers_cuts_a_call_off_as_well(tmp_path: Path) -> None:
    clock = Hand()

    async def stalls() -> None:
        clock.now += HOUR
        policy = replace(work.state.task.policy, max_hours=0.5)
        assert work.send(cmd.ChangePolicy(policy)) is None
        await silent()

    work = begun(tmp_path, clock, stalls, max_hours=8.0)
    await work.run()
    assert work.state.finished == "time budget reached (0.5 h)"
    await work.close()


async def test_a_trial_that_was_proved_is_evaluated_when_the_time_cuts_the_agent_off(
    tmp_path: Path,
) -> None:
    clock = Hand()

    async def tries() -> None:
        kernel = work.kernel(work.state.work_blob)
        fast = kernel.having({kernel.main: KERNEL.replace('"A"  #', '"C"  #')})
        found = Measurement(outcome=Outcome.CORRECT, ratio=Interval(4.0, 3.9, 4.1, 0.99))
        assert work.send(cmd.RecordTrial(work.keep_kernel(fast), "an edit", found)) is None
        clock.now += MOMENT
        await silent()

    work = begun(tmp_path, clock, tries, max_hours=MOMENT / HOUR)
    await work.run()
    assert work.state.finished.startswith("time budget reached")
    (edited,) = told(work, ev.KernelEdited)
    assert (edited.note, edited.added, edited.removed) == (
        "trial 1, which was not submitted", 1, 1,
    )  # fmt: skip
    assert [(d[2], d[3]) for d in decisions(work._folder)] == [("p1", "KEEP")]
    check_whole(work._folder)
    await work.close()


async def test_a_proved_trial_whose_kernel_is_lost_ends_its_item_and_not_the_run(
    tmp_path: Path,
) -> None:
    async def tries() -> None:
        found = Measurement(outcome=Outcome.CORRECT, ratio=Interval(4.0, 3.9, 4.1, 0.99))
        assert work.send(cmd.RecordTrial("0" * 40, "an edit", found)) is None
        raise ModelFailed("no reply")

    work = begun(tmp_path, Hand(), tries, max_hours=1.0)
    await work.run()
    assert work.state.finished == "max rounds reached (2)"
    first = work.state.items[0]
    assert (first.state, first.reason) == (ItemState.DROPPED, "the kernel of its trial is lost")
    check_whole(work._folder)
    await work.close()


async def test_a_night_in_which_the_machine_slept_is_no_work(tmp_path: Path) -> None:
    clock = Hand()

    async def sleeps() -> None:
        clock.now += NIGHT
        clock.slept += NIGHT

    work = begun(tmp_path, clock, sleeps, max_hours=1.0)
    await work.run()
    assert work.state.finished == "max rounds reached (2)"
    assert [each.seconds for each in told(work, ev.MachineSlept)] == [NIGHT]
    assert work.state.worked_s == 0.0
    await work.close()


@pytest.mark.parametrize("looks_first", ["the visit", "the engine"])
async def test_a_night_in_a_wait_for_the_server_cuts_no_visit_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looks_first: str
) -> None:
    clock = Hand()
    cut: list[BaseException] = []

    async def is_busy() -> None:
        raise ServerBusy("busy")

    async def sleeps(seconds: float) -> None:
        clock.now += NIGHT
        clock.slept += NIGHT
        if looks_first == "the engine":
            for _ in range(9):
                await asyncio.sleep(0)

    async def asks(*given: Any, **options: Any) -> ChatReply:
        try:
            return await Retry.ask(work._loop.retry, *given, **options)
        except BaseException as error:
            cut.append(error)
            raise

    work = begun(tmp_path, clock, is_busy, max_hours=1.0)
    monkeypatch.setattr(work._loop.retry, "rest", sleeps)
    monkeypatch.setattr(work._loop.retry, "ask", asks)
    await work.run()
    assert work.state.finished == "max rounds reached (2)"
    assert cut == []
    assert [each.seconds for each in told(work, ev.MachineSlept)] == [NIGHT]
    await work.close()


async def test_a_wait_for_the_right_to_time_is_no_work(tmp_path: Path) -> None:
    clock = Hand()

    class Queued(FakeJudge):
        async def evaluate(self, kernel: Kernel, incumbent: Kernel | None, **how: Any) -> Any:
            self.on_progress(Progress("start"))
            clock.now += 3  # until it is told
            self.on_progress(Progress("time", waits_for="run x", waited_s=3.0))
            clock.now += NIGHT
            return await super().evaluate(kernel, incumbent, **how)

    async def nothing() -> None:
        return None

    work = begun(tmp_path, clock, nothing, Queued, max_hours=1.0)
    await work.run()
    assert work.state.finished == "max rounds reached (2)"
    waits = [each.waits for each in told(work, ev.TimingQueued)]
    assert waits == [True, False] * (len(waits) // 2)
    assert len(waits) >= 6
    assert work.state.worked_s == 0.0
    await work.close()


async def test_waits_that_are_too_short_to_be_told_are_no_work(tmp_path: Path) -> None:
    clock = Hand()

    class Shared(FakeJudge):
        async def evaluate(self, kernel: Kernel, incumbent: Kernel | None, **how: Any) -> Any:
            found = await super().evaluate(kernel, incumbent, **how)
            self.on_progress(Progress("start"))
            for turn in range(1, 10):
                clock.now += 1.0
                self.on_progress(Progress("time", done=turn, waited_s=0.5 * turn))
            return found

    async def nothing() -> None:
        return None

    work = begun(tmp_path, clock, nothing, Shared, max_hours=1.0)
    await work.run()
    waits = told(work, ev.TimingQueued)
    assert {(each.waits, each.before_s) for each in waits} == {(False, 4.5)}
    assert work.state.worked_s == 4.5 * len(waits)
    await work.close()


async def test_torch_compile_is_given_up_when_the_time_is_up(tmp_path: Path) -> None:
    clock = Hand()

    class Slow(FakeJudge):
        async def measure_compiled(self, baseline: CompileBaseline) -> Measurement:
            clock.now += MOMENT
            await silent()
            raise AssertionError

    async def nothing() -> None:
        return None

    work = begun(tmp_path, clock, nothing, Slow, max_hours=MOMENT / HOUR)
    task = replace(work.state.task, baselines=("compile",))
    work._folder.state = replace(work.state, task=task)
    await work.run()
    assert work.state.compiled is not None
    assert work.state.compiled.message == "the time of the run was up"
    await work.close()


@pytest.mark.parametrize("left", [False, True])
async def test_an_interrupted_run_ends_its_json_with_a_summary_unless_it_goes_on_elsewhere(
    tmp_path: Path, left: bool
) -> None:
    asked = asyncio.Event()

    async def stalls() -> None:
        asked.set()
        await silent()

    work = begun(tmp_path, Hand(), stalls, max_hours=8.0)
    out = io.StringIO()
    task = asyncio.create_task(run_as_json(work, out, lambda: left))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    last = json.loads(out.getvalue().splitlines()[-1])
    assert (last["type"] == "summary") is not left
    if not left:
        assert (last["ok"], last["reason"], last["run"]) == (False, "interrupted", work.path)
    await work.close()
