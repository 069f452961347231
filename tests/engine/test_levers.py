"""A person's hands on a run at work, over a real run folder: what is cut off, and what goes on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from akg_tui.agent.chat import ChatModel, ChatReply, ChatRequest, ToolUse, UserMessage
from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.phases import Gate, ItemState, Mode, Phase, Verdict
from akg_tui.core.questions import GLANCE_S
from akg_tui.engine.engine import Engine
from akg_tui.store.run_folder import RunFolder
from tests.engine.fake_judge import FakeJudge
from tests.engine.runs import Clock, create, engine
from tests.engine.test_engine import best_in_git, check_whole


class Waiting:
    """A model that plans, then thinks in EDIT until it is cut off; it counts its visits."""

    name = "sweep"

    def __init__(self) -> None:
        self.prompts: list[str] = []
        self.cut_off = 0

    async def complete(self, request: ChatRequest, on_delta: Callable[[str], None]) -> ChatReply:
        prompt = request.messages[0]
        assert isinstance(prompt, UserMessage)
        self.prompts.append(prompt.text)
        if prompt.text.startswith("Phase PLAN"):
            why = "the figures so far point this way"
            number = len(self.prompts)
            items = [{"text": f"direction {number}{c}", "rationale": why} for c in "abc"]
            return ChatReply("", (ToolUse(f"u{number}", "submit_plan", {"items": items}),))
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cut_off += 1
            raise
        raise AssertionError


async def until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not done():
            await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def at_work(run: RunFolder, model: ChatModel) -> AsyncIterator[Engine]:
    """Yield an engine at work on the run, and end it with the block."""
    work = Engine(run, model, FakeJudge, clock=run._clock)
    task = asyncio.create_task(work.run())
    yield work
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await work.close()


async def test_dropping_the_item_under_work_cuts_the_visit_off_and_the_next_one_begins(
    tmp_path: Path,
) -> None:
    run = create(tmp_path / "task")
    model = Waiting()
    async with at_work(run, model) as work:
        await until(lambda: len(model.prompts) == 2)
        assert work.state.active == "p1"
        assert work.send(cmd.DropItem("p1")) is None
        await until(lambda: len(model.prompts) == 3)
        assert (model.cut_off, work.state.active) == (1, "p2")
        assert work.send(cmd.ForceReplan("think of memory")) is None
        await until(lambda: len(model.prompts) == 5)
        assert "a person wants a new plan: think of memory" in model.prompts[3]
        assert model.prompts[4].startswith("Phase EDIT")
        assert work.state.item("p2").state is ItemState.DROPPED
    assert model.cut_off == 3
    assert not run.state.turn_open


async def test_an_undo_while_the_agent_works_moves_best_after_its_line_in_the_journal(
    tmp_path: Path,
) -> None:
    run = create(tmp_path / "task", rounds=7)
    work = engine(run)
    task = asyncio.create_task(work.run())
    await until(lambda: bool(work.state.former) and work.state.phase is Phase.EDIT)
    best = work.state.best
    assert best is not None
    assert best_in_git(run.path) == work.kernel(best.blob).text
    assert work.send(cmd.UndoKeep("not that one")) is None
    after = work.state.best
    assert after is not None
    assert after != best
    assert best_in_git(run.path) == work.kernel(after.blob).text
    assert "| UNDONE |" in (run.path / "PLAN.md").read_text()
    await task
    assert work.state.ok
    check_whole(run)
    refs = run.history.refs()
    assert refs[f"refs/akg/attempts/{best.attempt}"] == best.commit
    await work.close()
    again = RunFolder.open(run.path, clock=Clock(run.state.last_at))
    assert again.state.undone == (best.attempt,)
    again.close()


class Asking(Waiting):
    """It asks in PLAN before it plans."""

    async def complete(self, request: ChatRequest, on_delta: Callable[[str], None]) -> ChatReply:
        prompt = request.messages[0]
        assert isinstance(prompt, UserMessage)
        if "You asked" not in prompt.text:
            self.prompts.append(prompt.text)
            question = {"message": "Which one first?", "timeout": 500.0, "default": "a"}
            return ChatReply("", (ToolUse("q", "ask_user", question),))
        return await super().complete(request, on_delta)


async def test_a_question_in_mode_auto_waits_for_an_answer_while_a_screen_shows_the_run(
    tmp_path: Path,
) -> None:
    run = create(tmp_path / "task", mode=Mode.AUTO)
    model = Asking()
    async with at_work(run, model) as work:
        work.live.screens = 1
        await until(lambda: work.state.question is not None)
        asked = next(r.event for r in work.records if isinstance(r.event, ev.QuestionAsked))
        assert asked.timeout_s == GLANCE_S, "the agent would have waited for 500 s"
        assert work.send(cmd.HoldQuestion(1)) is None
        assert work.send(cmd.AnswerQuestion(1, "the wide one")) is None
        await until(lambda: work.state.phase is Phase.EDIT)
        assert "the person answered: the wide one" in model.prompts[1]


async def test_a_question_with_nobody_there_ends_no_visit(tmp_path: Path) -> None:
    run = create(tmp_path / "task", mode=Mode.AUTO)

    class Once(Asking):
        async def complete(
            self, request: ChatRequest, on_delta: Callable[[str], None]
        ) -> ChatReply:
            if len(request.messages) > 1 and len(self.prompts) == 1:
                self.answer = request.messages[-1]
                return await Waiting.complete(self, request, on_delta)
            return await super().complete(request, on_delta)

    model = Once()
    async with at_work(run, model) as work:
        await until(lambda: work.state.phase is Phase.EDIT)
        assert "your default holds: a" in str(model.answer)


async def test_a_hint_given_while_the_model_is_at_work_is_not_lost(tmp_path: Path) -> None:
    run = create(tmp_path / "task")
    heard: list[str] = []

    class Slow(Waiting):
        async def complete(
            self, request: ChatRequest, on_delta: Callable[[str], None]
        ) -> ChatReply:
            heard.append(str(request.messages))
            if len(heard) == 1:
                work.send(cmd.Hint("use smaller blocks"))
                return ChatReply("let me think")
            return await super().complete(request, on_delta)

    async with at_work(run, Slow()) as work:
        await until(lambda: work.state.phase is Phase.EDIT)
        assert "use smaller blocks" not in heard[0]
        assert "use smaller blocks" in heard[1]
        assert work.state.hints == ()


async def test_gates_hold_plan_and_edit_and_a_hand_edit_is_adopted_while_they_do(
    tmp_path: Path,
) -> None:
    run = create(tmp_path / "task", rounds=2)
    work = engine(run)
    for gate in (Gate.PLAN, Gate.EDIT):
        assert work.send(cmd.SetGate(gate, on=True)) is None
    task = asyncio.create_task(work.run())
    await until(lambda: work.live.activity.startswith("waiting for a review"))
    assert (work.state.phase, work.live.activity) == (
        Phase.PLAN,
        "waiting for a review of the plan",
    )
    plan = run.path / "PLAN.md"
    wanted = 'SPEED="C" WIDTH=2'
    plan.write_text(plan.read_text().replace("# Plan\n\n", f"# Plan\n\n- {wanted}\n"))
    assert work.send(cmd.AddItem('SPEED="WRONG" WIDTH=2')) is None  # a projection finds the edit
    change = work.plan_change("PLAN.md.edited-1")
    assert [item.text for item in change.added] == [wanted]
    assert work.send(cmd.AdoptPlanEdit("PLAN.md.edited-1", change)) is None
    assert work.state.pending[0].text == wanted
    assert work.state.gate is not None
    assert work.send(cmd.AnswerGate(work.state.gate.gate, approve=True)) is None
    for _ in range(2):
        await until(lambda: work.state.phase is Phase.EDIT and work.state.gate is not None)
        assert work.send(cmd.AnswerGate(work.state.gate.gate, approve=True)) is None
        await until(lambda: work.state.phase is not Phase.EDIT or task.done())
    await task
    first = work.state.attempts[1]
    assert (work.state.item(first.item).text, first.verdict) == (wanted, Verdict.KEEP)
    kinds = [r.event.kind for r in run.records if isinstance(r.event, ev.GateOpened)]
    assert kinds == ["plan", "edit", "edit"]
    await work.close()


async def test_a_run_that_is_over_works_on_in_the_same_process_after_a_person_raised_its_limit(
    tmp_path: Path,
) -> None:
    run = create(tmp_path / "task", rounds=2)
    work = engine(run)
    await work.run()
    assert work.state.finished == "max rounds reached (2)"
    policy = replace(work.state.task.policy, max_rounds=4)
    assert work.send(cmd.GoOn(policy)) is None
    await work.run()
    assert (work.state.settled, work.state.finished) == (4, "max rounds reached (4)")
    check_whole(run)
    await work.close()
