from __future__ import annotations

import pytest

from akg_tui.core import commands as cmd
from akg_tui.core.machine import Gate, Mode, Phase, Verdict
from akg_tui.tui.screens.review import Review

from .script import FakeHandle, Try, faster
from .stage import Stage, on_stage


def asking() -> FakeHandle:
    """A run that waits for the review of its first KEEP."""
    handle = FakeHandle(mode=Mode.REVIEW)
    handle.work()
    assert handle.state.gate is not None
    return handle


def answers(handle: FakeHandle) -> list[cmd.Command]:
    return [command for command in handle.sent if isinstance(command, cmd.AnswerGate)]


async def test_the_card_says_who_asks_and_what_would_happen() -> None:
    async with on_stage(asking()) as stage:
        await stage.arm()
        shown = stage.text()
    assert "DECIDE asks" in shown
    assert "KEEP attempt 1? p1 FLAGS = -O3" in shown
    assert "31.0 % faster (27.1 to 34.9), 95 % sure; 1.31× the seed if kept" in shown
    assert "+1 -1 lines against the best" in shown
    assert "typing never answers this" in shown


@pytest.mark.parametrize(
    ("key", "approve", "verdict"),
    [("alt+y", True, Verdict.KEEP), ("alt+n", False, Verdict.DISCARD)],
)
async def test_the_card_is_answered_by_its_keys(key: str, approve: bool, verdict: Verdict) -> None:
    handle = asking()
    async with on_stage(handle) as stage:
        await stage.arm()
        await stage.press(key)
        assert answers(handle) == [cmd.AnswerGate(1, approve=approve)]
        assert not stage.deck.card.display
        handle.work(lambda s: s.settled == 1)
    assert handle.state.attempts[-1].verdict is verdict


async def test_no_letter_answers_the_card_and_the_focus_stays() -> None:
    handle = asking()
    async with on_stage(handle) as stage:
        await stage.arm()
        await stage.press("1")
        for key in "abdehjklostuvwxyYNKD0":
            await stage.press(key)
        await stage.press("enter", "escape", "escape", "delete", "backspace")
        assert answers(handle) == []
        assert stage.deck.focused is stage.deck.panes["plan"]


async def test_what_is_typed_as_a_hint_answers_nothing() -> None:
    handle = asking()
    async with on_stage(handle) as stage:
        await stage.arm()
        await stage.press("i", *"yes keep y n", "enter")
        assert answers(handle) == []
        assert handle.state.hints == ("yes keep y n",)


async def test_a_card_that_has_just_appeared_takes_no_answer() -> None:
    handle = asking()
    async with on_stage(handle) as stage:
        await stage.press("alt+y")
        assert answers(handle) == []
        assert "not yet" in stage.text()
        handle.now += 0.4
        await stage.press("alt+y")
        assert answers(handle) == []
        handle.now += 0.2
        await stage.press("alt+y")
        assert answers(handle) == [cmd.AnswerGate(1, approve=True)]


async def test_each_question_is_armed_anew() -> None:
    handle = asking()
    async with on_stage(handle) as stage:
        await stage.arm()
        await stage.press("alt+y")
        handle.work()
        assert handle.state.gate is not None
        await stage.press("alt+y")
        assert len(answers(handle)) == 1


async def test_without_a_question_the_answer_keys_say_so() -> None:
    handle = FakeHandle()
    handle.to_phase(Phase.EVAL)
    async with on_stage(handle) as stage:
        await stage.press("alt+y")
        assert "nothing waits for an answer" in stage.text()


async def open_review(stage: Stage) -> None:
    await stage.press("r")
    assert isinstance(stage.app.screen, Review)
    await stage.arm()


async def test_the_review_shows_diff_and_measurement_side_by_side() -> None:
    async with on_stage(asking()) as stage:
        await open_review(stage)
        shown = stage.text()
    assert "review of attempt 1  p1 FLAGS = -O3" in shown
    assert "31.0 % faster (27.1 to 34.9), 95 % sure" in shown
    assert "8.1 ms → 6.18 ms a call, 8 pairs, error 2.4e-07 of 1.2e-05" in shown
    assert '- FLAGS = "-O1"' in shown
    assert '+ FLAGS = "-O3"' in shown


@pytest.mark.parametrize(("key", "approve"), [("K", True), ("D", False)])
async def test_the_review_answers_and_closes(key: str, approve: bool) -> None:
    handle = asking()
    async with on_stage(handle) as stage:
        await open_review(stage)
        await stage.press(key)
        assert answers(handle) == [cmd.AnswerGate(1, approve=approve)]
        assert stage.app.screen is stage.deck


async def test_a_comment_goes_with_the_answer() -> None:
    handle = asking()
    async with on_stage(handle) as stage:
        await open_review(stage)
        await stage.press("c", *"too Keen", "enter")
        assert "comment: too Keen" in stage.text()
        await stage.press("D")
        assert answers(handle) == [cmd.AnswerGate(1, approve=False, comment="too Keen")]
        handle.work(lambda s: s.settled == 1)
    assert handle.state.attempts[-1].reason == "rejected in review: too Keen"


async def test_the_review_is_armed_too() -> None:
    handle = asking()
    async with on_stage(handle) as stage:
        await stage.arm()
        await stage.press("r", "K")
        assert answers(handle) == []
        assert "not yet" in stage.text()


@pytest.mark.parametrize("key", ["escape", "q"])
async def test_leaving_the_review_answers_nothing(key: str) -> None:
    handle = asking()
    async with on_stage(handle) as stage:
        await open_review(stage)
        await stage.press(key)
        assert stage.app.screen is stage.deck
        assert answers(handle) == []
        assert stage.deck.card.display


async def test_a_candidate_can_be_read_before_it_is_measured() -> None:
    handle = FakeHandle(mode=Mode.REVIEW)
    handle.to_phase(Phase.EVAL)
    async with on_stage(handle) as stage:
        await open_review(stage)
        assert "not measured yet" in stage.text()
        await stage.press("K")
        assert "no answer is asked for this candidate now" in stage.text()
        handle.work()
        await stage.arm()
        assert "the run waits for you" in stage.text()
        await stage.press("K")
    assert answers(handle) == [cmd.AnswerGate(1, approve=True)]


async def test_an_open_review_tells_what_became_of_its_candidate() -> None:
    handle = FakeHandle()
    handle.to_phase(Phase.EVAL, settled=3)
    async with on_stage(handle) as stage:
        await open_review(stage)
        handle.work()
        await stage.pull()
        assert "▪ DISCARD slower: -9.0 %" in stage.text()
        assert '"online"' in stage.text()


async def test_without_a_candidate_there_is_nothing_to_review() -> None:
    handle = FakeHandle()
    handle.to_phase(Phase.PLAN)
    async with on_stage(handle) as stage:
        await stage.press("r")
        assert stage.app.screen is stage.deck
        assert "there is no candidate to review" in stage.text()


async def test_n_and_p_go_from_change_to_change() -> None:
    kernel = "".join(f"line_{n} = {n}\n" for n in range(200))
    old = kernel[kernel.index("line_20 ") : kernel.index("line_150 ")]
    new = old.replace("= 30\n", "= 31\n").replace("= 100\n", "= 101\n")
    plan = [[Try("two lines far apart", old, new, faster(1.2))]]
    handle = FakeHandle(mode=Mode.REVIEW, kernel=kernel, plans=plan)
    handle.work()
    async with on_stage(handle, (80, 24)) as stage:
        await open_review(stage)
        assert len(stage.app.screen.query_one("DiffView").hunks) == 2  # type: ignore[attr-defined]
        await stage.press("n")
        assert "hunk" in stage.text()
        await stage.press("n")
        assert "+ line_100 = 101" in stage.text()
        await stage.press("p")
        assert "+ line_30 = 31" in stage.text()


async def test_a_diff_of_three_thousand_lines_opens_with_a_screenful_of_rows() -> None:
    kernel = "".join(f"a_{n} = {n * 7 % 13}\n" for n in range(3_000))
    other = "".join(f"a_{n} = {n * 5 % 13} + 1\n" for n in range(3_000))
    handle = FakeHandle(
        mode=Mode.REVIEW, kernel=kernel, plans=[[Try("all", kernel, other, faster(1.2))]]
    )
    handle.work()
    async with on_stage(handle) as stage:
        await open_review(stage)
        diff = stage.app.screen.query_one("DiffView")
        assert len(diff.rows) == 6_000  # type: ignore[attr-defined]
        assert len(diff._strips) < 200  # type: ignore[attr-defined]


async def test_a_plan_and_an_edit_wait_on_the_same_card_where_their_gates_are_set() -> None:
    handle = FakeHandle()
    handle.send(cmd.SetGate(Gate.PLAN, on=True))
    handle.send(cmd.SetGate(Gate.EDIT, on=True))
    handle.work(lambda s: s.gate is not None)
    async with on_stage(handle) as stage:
        await stage.arm()
        assert "Go on with this plan?" in stage.text()
        assert "approve" in stage.text()
        await stage.press("alt+y")
        handle.work(lambda s: s.gate is not None)
        await stage.arm()
        assert "RUN the edit of attempt 1?" in stage.text()
        await stage.press("alt+y")
    assert answers(handle) == [cmd.AnswerGate(1, approve=True), cmd.AnswerGate(2, approve=True)]


async def test_the_line_for_hints_answers_the_agents_question() -> None:
    handle = FakeHandle()
    handle.send(cmd.SetGate(Gate.ASK, on=True))
    handle.work(lambda s: s.phase is Phase.PLAN)
    assert handle.send(cmd.AskUser("Which one?", ("wide", "deep"))) is None
    async with on_stage(handle) as stage:
        assert "the agent asks, i answers: Which one?" in stage.text()
        await stage.press("i", *"round", "enter")
        assert "'round' is not among the choices: wide, deep" in stage.text()
        await stage.press("i", *["backspace"] * 5, *"wide", "enter")
    assert handle.state.questions[0].answer == "wide"
