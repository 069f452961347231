"""The review of a candidate: what it shows, and that only what was measured is ever kept."""

from __future__ import annotations

import asyncio
import random

from textual.events import Key

from akg_tui.core import commands as cmd
from akg_tui.core.phases import Gate, ItemState, Mode
from akg_tui.tui.screens.review import Review
from akg_tui.view.controls import keymap as km

from .script import FakeHandle, Try, faster
from .stage import Stage, on_stage

TWO_HUNKS = "\n".join(f"line {n}" for n in range(60)) + "\n"


def two_hunks() -> FakeHandle:
    """A candidate of two hunks that waits for its review."""
    new = TWO_HUNKS.replace("line 10\n", "line ten\n").replace(
        "line 50\n", "line fifty\nand more\n"
    )
    handle = FakeHandle(
        mode=Mode.REVIEW,
        agent="claude",
        kernel=TWO_HUNKS,
        plans=[[Try("numbers as words", TWO_HUNKS, new, faster(1.3)), *more_items()]],
    )
    handle.work()
    assert handle.state.gate
    return handle


def more_items() -> list[Try]:
    return [Try("another", "line 20\n", "line twenty\n", faster(1.1))]


async def in_review(stage: Stage) -> Review:
    await stage.press("r")
    await stage.arm()
    assert isinstance(stage.app.screen, Review)
    return stage.app.screen


def answers(handle: FakeHandle) -> list[cmd.Command]:
    kinds = (cmd.AnswerGate, cmd.AddItem, cmd.Hint)
    return [command for command in handle.sent if isinstance(command, kinds)]


async def test_a_review_shows_the_measurement_its_interval_and_the_hunks() -> None:
    async with on_stage(two_hunks(), (80, 24)) as stage:
        await in_review(stage)
        for size in ((80, 24), (200, 60)):
            await stage.resize(*size)
            told = "30.0 % faster (26.1 to 33.9), 95 % sure", "hunk 1 of 2", "line ten", "K keep"
            assert [text for text in told if text not in stage.text()] == []


async def test_it_stands_side_by_side_where_there_is_room_and_s_changes_that() -> None:
    async with on_stage(two_hunks(), (120, 40)) as stage:
        review = await in_review(stage)
        assert review.diff.is_split
        (row,) = [r for r in stage.text().splitlines() if "line ten" in r]
        assert "- line 10" in row
        assert "+ line ten" in row
        await stage.press("s")
        rows = [r for r in stage.text().splitlines() if "line ten" in r or "- line 10" in r]
        assert len(rows) == 2
        await stage.resize(80, 24)
        await stage.press("s")
        assert "- line 10" in stage.text()


async def test_n_and_p_go_from_hunk_to_hunk_and_braces_change_the_context() -> None:
    async with on_stage(two_hunks(), (80, 24)) as stage:
        review = await in_review(stage)
        await stage.press("right_curly_bracket", "n")
        assert "hunk 2 of 2" in stage.text()
        assert "and more" in stage.text()
        await stage.press("p")
        assert "hunk 1 of 2" in stage.text()
        context = review.diff.context
        await stage.press("left_curly_bracket")
        assert review.diff.context == context - 3


async def test_k_keeps_and_a_comment_reaches_the_agent_as_a_hint() -> None:
    async with on_stage(two_hunks()) as stage:
        await in_review(stage)
        await stage.press("c", *"go on like this", "enter")
        await stage.arm()
        await stage.press("K")
        assert "keep: in a moment, unless something is typed" in stage.text()
        assert answers(stage.handle) == []
        await stage.arm()
        assert stage.app.screen is stage.deck
    comment = "go on like this"
    assert answers(stage.handle) == [
        cmd.AnswerGate(1, approve=True, comment=comment),
        cmd.Hint(f"On attempt 1: {comment}"),
    ]


async def test_with_a_hunk_left_out_nothing_can_be_kept() -> None:
    async with on_stage(two_hunks()) as stage:
        await in_review(stage)
        await stage.press("n", "x")
        assert "1 hunk left out" in stage.text()
        assert "⨯ line fifty" in stage.text()
        await stage.arm()
        await stage.press("K")
        assert "never measured" in stage.text()
        assert answers(stage.handle) == []
        await stage.press("x")
        await stage.arm()
        await stage.press("K")
        await stage.arm()
    assert answers(stage.handle) == [cmd.AnswerGate(1, approve=True)]


async def test_what_is_left_out_goes_back_to_the_agent_as_an_item_to_try() -> None:
    handle = two_hunks()
    async with on_stage(handle) as stage:
        await in_review(stage)
        await stage.press("n", "x", "B", *"too long", "enter")
    gate, item, hint = answers(handle)
    assert gate == cmd.AnswerGate(1, approve=False, comment="too long")
    assert item == cmd.AddItem(
        "attempt 1 again without hunk 2: numbers as words", "too long", before="p2"
    )
    assert isinstance(hint, cmd.Hint)
    assert "too long Make the same change again without these lines:" in hint.text
    assert "-line 50\n+line fifty\n+and more" in hint.text
    assert "line ten" not in hint.text
    handle.step()
    assert handle.state.item("p1").state is ItemState.DISCARDED
    assert handle.state.best.attempt == 0, "unmeasured code is never kept"
    assert handle.state.pending[0].pinned


async def test_the_words_typed_after_b_go_back_with_the_candidate_and_call_no_command() -> None:
    async with on_stage(two_hunks()) as stage:
        review = await in_review(stage)
        await stage.press("B", "enter")
        assert "say first what to change" in stage.text()
        await stage.press(*"xKDq no", "backspace")
        assert review.comment.value == "xKDq n"
        assert (review.diff.left_out, stage.app.screen) == (frozenset(), review)
        await stage.arm()
        assert answers(stage.handle) == [], "nothing is answered before enter"
        await stage.press("escape")
        assert stage.app.screen is review
        await stage.press("B", "o", "enter")
        assert stage.app.screen is stage.deck
    gate, item, _ = answers(stage.handle)
    assert gate == cmd.AnswerGate(1, approve=False, comment="xKDq no")
    assert isinstance(item, cmd.AddItem)


async def test_a_rejection_before_the_kernel_ran_is_asked_twice_also_of_the_mouse() -> None:
    handle = FakeHandle(agent="claude")
    handle.send(cmd.SetGate(Gate.EDIT, on=True))
    handle.work()
    async with on_stage(handle) as stage:
        review = await in_review(stage)
        for _ in range(2):
            assert stage.app.screen is review
            await stage.press("D")
            await stage.arm()
        assert stage.app.screen is stage.deck
    assert answers(handle)[0] == cmd.AnswerGate(1, approve=False)


async def test_a_rejected_edit_takes_the_comment_into_its_next_visit() -> None:
    handle = FakeHandle(agent="claude")
    handle.send(cmd.SetGate(Gate.EDIT, on=True))
    handle.work()
    async with on_stage(handle) as stage:
        await in_review(stage)
        await stage.press("x", "B", *"not the flags", "enter")
    assert not handle.state.edited
    (hint,) = handle.state.hints
    assert "rejected before it ran: not the flags" in hint


async def typed(stage: Stage, words: str, draw: random.Random, *, pause: bool) -> None:
    """Type at the pace of typing, below half a second a key, after a `pause` of more."""
    for number, key in enumerate(words):
        slow = pause and not number
        stage.handle.now += draw.uniform(0.6, 3.0) if slow else draw.uniform(0.02, 0.3)
        stage.app.pull_now()
        name = {" ": "space", "'": "apostrophe"}.get(key, key)
        await stage.app.on_event(Key(name, key))
        for _ in range(15):
            await asyncio.sleep(0)
        stage.app.pull_now()


async def test_words_never_answer_a_review_though_they_begin_with_its_letters_after_a_pause() -> (
    None
):
    draw = random.Random(20260702)
    letters = "KDBabdefghijklmnoprsuvwxyzKDBGHLN "
    async with on_stage(two_hunks(), (80, 24)) as stage:
        review = await in_review(stage)

        async def begun(words: str) -> None:
            if review.comment.display:  # B has opened the line: other words come without it
                await stage.press("escape")
            await typed(stage, words, draw, pause=True)

        for begin in ("Don't do it", "Keep it ", "But why ", "DDD ", "K K K ", "Do", "KD", "Be"):
            await begun(begin)
        for _ in range(25):
            many = draw.randint(2, 12)
            await begun("".join(draw.choices(letters, k=many)))
        await begun(" ")
        await typed(stage, " ", draw, pause=False)
        await stage.arm()
        assert answers(stage.handle) == []
        assert stage.app.screen is review
        await stage.press("D")
        await stage.arm()
        assert stage.app.screen is stage.deck
    assert answers(stage.handle)[0] == cmd.AnswerGate(1, approve=False)


async def test_a_letter_is_taken_back_by_whatever_is_typed_or_opened_after_it() -> None:
    async with on_stage(two_hunks()) as stage:
        await in_review(stage)
        for then in (("w",), ("escape", "r"), ("question_mark", "escape"), ("ctrl+p", "escape")):
            await stage.arm()
            await stage.press("K")
            assert "keep: in a moment" in stage.text()
            await stage.pilot.press(*then)
            await stage.arm()
            await stage.arm()
            assert answers(stage.handle) == [], then
            assert isinstance(stage.app.screen, Review)


async def test_a_key_that_writes_no_letter_answers_a_review_at_once() -> None:
    async with on_stage(two_hunks()) as stage:
        km.use(km.Keymap("mine", keys={"review.keep": ("f4",)}))
        stage.app.appearance.rekey()
        await in_review(stage)
        await stage.press("f4")
        assert answers(stage.handle) == [cmd.AnswerGate(1, approve=True)]
