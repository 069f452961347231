"""What was asked once is not asked again; what the run asks now is told wherever one looks."""

from __future__ import annotations

import pytest
from textual.events import AppBlur

from akg_tui.core import commands as cmd
from akg_tui.core.phases import Mode, Phase
from akg_tui.tui.screens.review import Review
from akg_tui.tui.screens.rounds import Rounds

from .script import FakeHandle
from .stage import Stage, on_stage
from .test_asking import answered, keeping
from .test_attention import heard

WAITS = "the run waits for you:"


def in_plan() -> FakeHandle:
    handle = FakeHandle(mode=Mode.REVIEW)
    handle.to_phase(Phase.PLAN, settled=0)
    return handle


async def ask(stage: Stage, text: str = "How far?") -> None:
    assert stage.handle.send(cmd.AskUser(text)) is None
    await stage.pull()


async def test_a_question_of_the_past_is_not_asked_again() -> None:
    handle = in_plan()
    async with on_stage(handle) as stage:
        await ask(stage)
        assert handle.state.question is not None
        asked = len(handle.records)
        handle.send(cmd.AnswerQuestion(1, "as far as it goes"))
        handle.work()
        gated = len(handle.records)
        assert handle.state.gate is not None
        handle.send(cmd.AnswerGate(1, approve=True))
        await stage.press("T")
        for seq, told in ((asked, "question asked"), (gated, "gate opened")):
            stage.app.travel_to(seq)
            await stage.arm()
            await stage.arm()
            assert f"WAIT_USER  event {seq}: {told}" in stage.text()
            assert not stage.deck.card.display
            assert "the keys count in a moment" not in stage.text()
            await stage.press("alt+y")
            assert "this is the past: L goes back" in stage.text()
            assert WAITS not in stage.text()
    assert answered(handle) == [
        cmd.AnswerQuestion(1, "as far as it goes"),
        cmd.AnswerGate(1, approve=True),
    ]


async def test_a_question_of_the_agent_is_told_to_who_looks_at_the_past() -> None:
    async with on_stage(in_plan()) as stage:
        await stage.press("T", "left")
        assert WAITS not in stage.text()
        await ask(stage)
        assert f"{WAITS} L live" in stage.text()
        await stage.press("L")
        await stage.arm()
        assert "How far?" in stage.text()


@pytest.mark.parametrize("kind", ["question", "gate"])
async def test_who_looks_at_the_past_and_elsewhere_is_called_for_what_is_asked_now(
    kind: str,
) -> None:
    handle = in_plan()
    async with on_stage(handle) as stage:
        codes = heard(stage)
        await stage.press("T", "left")
        stage.app.post_message(AppBlur())
        await stage.pilot.pause()
        await stage.pull()
        assert codes == []
        if kind == "question":
            await ask(stage)
        else:
            handle.work()
            await stage.pull()
        assert codes.count("\x07") == 1
        assert ("How far?" if kind == "question" else "KEEP attempt 1?") in "".join(codes)


async def test_a_comparison_of_rounds_says_that_the_run_waits() -> None:
    handle = FakeHandle(mode=Mode.REVIEW)
    handle.work()
    handle.send(cmd.AnswerGate(1, approve=True))
    handle.to_phase(Phase.EDIT, settled=1)
    async with on_stage(handle) as stage:
        await stage.press("v")
        assert isinstance(stage.app.screen, Rounds)
        assert WAITS not in stage.text()
        handle.work()
        assert handle.state.gate is not None
        await stage.pull()
        assert f"{WAITS} esc leads to it" in stage.text()
        await stage.press("right")
        assert f"{WAITS} esc leads to it" in stage.text()
        handle.send(cmd.AnswerGate(handle.state.gate.gate, approve=False))
        await stage.pull()
        assert WAITS not in stage.text()


async def test_a_review_says_that_the_run_waits_for_something_else() -> None:
    handle = keeping()
    async with on_stage(handle) as stage:
        await stage.press("r")
        assert isinstance(stage.app.screen, Review)
        handle.send(cmd.AnswerGate(1, approve=False))
        handle.to_phase(Phase.EVAL)
        await stage.pull()
        assert WAITS not in stage.text()
        handle.work()
        assert handle.state.gate is not None
        await stage.arm()
        assert f"{WAITS} esc leads to it" in stage.text()
        await stage.press("K", "D")
        assert answered(handle) == [cmd.AnswerGate(1, approve=False)]
