"""While the model's reply is waited for, the judge measures; all other work comes first."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from akg_tui.agent.chat import ChatReply, ChatRequest, UserMessage
from akg_tui.agent.models.sweep import Sweep
from akg_tui.agent.prompt import idle_told
from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.events import Purpose
from akg_tui.core.kernel.kernel_files import Kernel
from akg_tui.core.kernel.knobs import knobs_in
from akg_tui.core.measurement import Measurement
from akg_tui.core.phases import Gate, Phase
from akg_tui.core.plan.idle_work import MOST_SETTINGS, idle_work
from akg_tui.core.state import RunState
from akg_tui.core.task import Baseline
from akg_tui.engine.engine import Engine
from akg_tui.store.run_folder import RunFolder
from akg_tui.view.event_words import line_texts
from tests.engine.fake_judge import FakeJudge
from tests.engine.runs import Clock, create, decisions
from tests.engine.test_engine import Killed, check_whole, kill_at
from tests.engine.test_inconclusive import BusyFakeJudge

Think = Callable[[Engine], Awaitable[None]]


class Thinking(Sweep):
    """The sweep behind a server: it thinks before each reply, and keeps what it was sent."""

    unfinished = None

    def __init__(self, think: Think) -> None:
        super().__init__(0)
        self.engine: Engine | None = None
        self.sent: list[str] = []
        self._think = think

    async def prepare(self, known: object) -> None:
        pass

    async def close(self) -> None:
        pass

    async def complete(self, request: ChatRequest, on_delta: Callable[[str], None]) -> ChatReply:
        assert self.engine is not None
        said = (message.text for message in request.messages if isinstance(message, UserMessage))
        self.sent.append("\n".join(said))
        await self._think(self.engine)
        return await super().complete(request, on_delta)


async def at_leisure(work: Engine) -> None:
    """Think until nothing is left to measure meanwhile."""
    await until(lambda: left(work) is None)


async def not_at_all(work: Engine) -> None:
    pass


async def until(there: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not there():
            await asyncio.sleep(0)


def left(work: Engine) -> object:
    best = work.state.best
    knobs = knobs_in(work.kernel(best.blob)) if best else ()
    return idle_work(work.state, work.state.last_at, knobs, {})


def start(
    folder: Path,
    think: Think,
    judge: type[FakeJudge] = FakeJudge,
    *,
    rounds: int = 3,
    baselines: Sequence[Baseline] = (),
    on: bool = True,
) -> Engine:
    run = create(folder / "task", rounds=rounds)
    agent = replace(run.state.task.agent, idle_work=on)
    run.state = replace(
        run.state, task=replace(run.state.task, agent=agent, baselines=tuple(baselines))
    )
    return engine(run, think, judge)


def engine(run: RunFolder, think: Think, judge: type[FakeJudge] = FakeJudge) -> Engine:
    model = Thinking(think)
    model.engine = Engine(run, model, judge, clock=run._clock)
    return model.engine


def judge_of(work: Engine) -> Any:
    return work._judge


def found(work: Engine) -> list[ev.IdleMeasured]:
    return [r.event for r in work.records if isinstance(r.event, ev.IdleMeasured)]


async def finish(work: Engine) -> None:
    async with asyncio.timeout(60):
        await work.run()
    await work.close()


async def test_each_setting_near_the_best_is_measured_once_and_told_once(tmp_path: Path) -> None:
    work = start(tmp_path, at_leisure)
    await finish(work)
    settings = [each for each in found(work) if each.purpose is Purpose.SETTING]
    keys = Counter((each.blob, *each.setting.items()) for each in settings)
    assert set(keys.values()) == {1}
    first = [each.setting for each in settings if each.blob == work.state.seed_blob]
    assert first[0] == {"SPEED": "B"}, "the nearest come first"
    assert {"SPEED": "C", "WIDTH": 2} in first, "then those around the fastest"
    assert work.state.settled == 3, "no round was used"
    model = work._model
    assert isinstance(model, Thinking)
    told = [sent.count('SPEED="C" +300.0 % (+296.0 to +304.0)') for sent in model.sent]
    assert set(told) == {0, 1}
    assert any('wrong or failed: SPEED="WRONG"' in sent for sent in model.sent)
    check_whole(work._folder)


async def test_a_finding_alone_keeps_nothing(tmp_path: Path) -> None:
    work = start(tmp_path / "at_leisure", at_leisure)
    await finish(work)
    other = start(tmp_path / "off", not_at_all, on=False)
    await finish(other)
    assert not found(other)
    assert decisions(work._folder) == decisions(other._folder)


async def test_what_the_end_wants_is_measured_early_and_only_once(tmp_path: Path) -> None:
    work = start(tmp_path, at_leisure, baselines=("compile",))
    await finish(work)
    kinds = [each.purpose for each in found(work)]
    assert kinds.count(Purpose.COMPILE) == 1
    assert judge_of(work).compiled == 1
    assert work.state.compiled is not None
    best = work.state.best
    assert best is not None
    assert work.state.final == next(
        each.measurement
        for each in found(work)
        if (each.purpose, each.blob) == ("final", best.blob)
    )
    ended = [r.event.purpose for r in work.records if isinstance(r.event, ev.EvalFinished)]
    assert ended[-1] is Purpose.FINAL


class Endless(FakeJudge):
    """Never ends a measurement of a setting that it is asked for while it yields."""

    def __init__(self, *how: Any) -> None:
        super().__init__(*how)
        self.under_way = 0
        self.cancelled = 0

    async def probe(self, *kernels: Any, **how: Any) -> Measurement:
        if not self.yields:
            return await super().probe(*kernels, **how)
        self.under_way += 1
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.under_way -= 1
        raise AssertionError

    async def evaluate(self, kernel: Kernel, incumbent: Kernel | None, **how: Any) -> Measurement:
        assert self.yields or not self.under_way, "the judge has one thing to do at a time"
        return await super().evaluate(kernel, incumbent, **how)


async def test_the_model_never_waits_and_what_was_interrupted_comes_last(tmp_path: Path) -> None:
    async def think(work: Engine) -> None:
        judge = judge_of(work)
        await until(lambda: judge.under_way == 1 or left(work) is None)

    work = start(tmp_path, think, Endless, rounds=4, baselines=("compile",))
    await finish(work)
    judge = judge_of(work)
    assert judge.cancelled > 1
    assert judge.under_way == 0
    assert {each.purpose for each in found(work)} == {Purpose.FINAL}
    assert work.state.settled == 4


async def test_a_tool_that_needs_the_machine_ends_idle_work_first(tmp_path: Path) -> None:
    reply = asyncio.Event()

    async def think(work: Engine) -> None:
        if work.state.phase is Phase.PLAN:
            await reply.wait()

    work = start(tmp_path, think, Endless)
    running = asyncio.create_task(finish(work))
    judge = judge_of(work)
    await until(lambda: judge.under_way == 1)
    assert work.live.activity == 'sweep is at work, meanwhile: SPEED="B" evaluation'
    async with work.computing:
        assert judge.under_way == 0
        assert judge.cancelled == 1
        assert work.live.activity == "sweep is at work"
    reply.set()
    await running


async def test_a_pause_ends_idle_work_and_none_begins(tmp_path: Path) -> None:
    reply = asyncio.Event()

    async def think(work: Engine) -> None:
        await reply.wait()

    work = start(tmp_path, think, Endless)
    running = asyncio.create_task(finish(work))
    judge = judge_of(work)
    await until(lambda: judge.under_way == 1)
    assert work.send(cmd.Pause()) is None
    await until(lambda: judge.under_way == 0)
    assert left(work) is None
    reply.set()
    await until(lambda: not work.state.turn_open)
    assert work.send(cmd.Unpause()) is None
    await running
    assert work.state.settled == 3


async def test_a_run_killed_in_idle_work_and_resumed_loses_and_doubles_nothing(
    tmp_path: Path,
) -> None:
    whole = start(tmp_path / "whole", at_leisure)
    await finish(whole)
    wanted = [(each.purpose, each.blob, tuple(each.setting.items())) for each in found(whole)]
    seqs = [r.seq for r in whole.records if isinstance(r.event, ev.IdleMeasured)]
    for number, (seq, after) in enumerate([(seqs[0], False), (seqs[1], True), (seqs[-1], False)]):
        near = seq - 1

        async def until_killed(work: Engine, near: int = near) -> None:
            await until(lambda: left(work) is None or work.state.seq >= near)

        work = start(tmp_path / str(number), until_killed)
        run = work._folder
        kill_at(run, seq, after=after)
        with pytest.raises(Killed):
            await finish(work)
        await _closed(work)
        again = RunFolder.open(run.path, clock=Clock(run.state.last_at))
        resumed = engine(again, at_leisure)
        await finish(resumed)
        made = [(each.purpose, each.blob, tuple(each.setting.items())) for each in found(resumed)]
        assert sorted(map(str, made)) == sorted(map(str, wanted))
        assert decisions(again) == decisions(whole._folder)
        check_whole(again)


async def _closed(work: Engine) -> None:
    try:
        await work.close()
    except Killed:
        work._folder.close()


class Unsure(BusyFakeJudge):
    needed = 3


async def test_more_samples_of_an_inconclusive_kernel_count_in_its_next_measurement(
    tmp_path: Path,
) -> None:
    work = start(tmp_path, at_leisure, Unsure, rounds=5)
    await finish(work)
    more = [each for each in found(work) if each.purpose is Purpose.CANDIDATE]
    assert more
    assert [len(each.measurement.log_ratios) for each in more] == [2] * len(more)
    again = [a for a in work.state.attempts if a.again_of is not None]
    assert again
    ratios = again[0].measurement.log_ratios
    assert len(ratios) == 3, "one of its own, one of idle time, one more"
    assert ratios[0] == pytest.approx(math.log(2.0)) or ratios[0] > 0


async def test_no_setting_runs_that_a_person_must_approve(tmp_path: Path) -> None:
    states: list[RunState] = []

    async def think(work: Engine) -> None:
        states.append(work.state)

    work = start(tmp_path, think)
    await finish(work)
    kept = next(each for each in states if each.best is not None and each.best.attempt)
    assert kept.best is not None
    knobs, now = knobs_in(work.kernel(kept.best.blob)), kept.last_at
    free = idle_work(replace(kept, idle=()), now, knobs, {})
    assert free is not None
    assert free.purpose is Purpose.SETTING
    gated = idle_work(replace(kept, idle=(), gates=(Gate.EDIT,)), now, knobs, {})
    assert gated is not None
    assert gated.purpose is Purpose.FINAL
    setting = next(each for each in found(work) if each.purpose is Purpose.SETTING)
    many = (replace(setting, incumbent=kept.best.blob),) * MOST_SETTINGS
    assert idle_work(replace(kept, idle=many), now, knobs, {}) == gated, "they are enough"


async def test_the_words_name_what_was_found(tmp_path: Path) -> None:
    work = start(tmp_path, at_leisure, baselines=("compile",))
    await finish(work)
    told: set[str] = set()
    words = idle_told(work.state, told)
    assert "While you thought: torch.compile against the reference: +50.0 %" in words
    assert idle_told(work.state, told) == ""
    assert "other values of the knobs of the best kernel, not faster: SPEED" in words
    best = work.state.best
    assert best is not None
    after_keep = replace(work.state, best=replace(best, blob="0" * 40))
    words = idle_told(after_keep, set())
    assert "knobs of the kernel that was the best before, not faster: SPEED" in words
    assert "torch.compile" in words, "it is against the reference"
    assert "against the seed" not in words, "it is of another kernel"
    slow = next(each for each in work.state.idle if each.purpose is Purpose.SETTING)
    several = tuple(replace(slow, setting={"WIDTH": n}) for n in range(20))
    words = idle_told(replace(work.state, idle=several), set())
    assert words.endswith(", WIDTH=6, WIDTH=7 and 12 more.")
    lines = [line for each in found(work) for line in line_texts(each, "plain", str)]
    assert 'while the model thought, SPEED="B": correct, 2.00× the best' in lines[0]
    assert line_texts(found(work)[0], "log", str)
    assert not line_texts(slow, "log", str), "of settings the log has the faster ones"
