"""Hints that point: what a reference stands for is what the agent reads. And the gates."""

from __future__ import annotations

import pytest
from textual.events import AppBlur, AppFocus

from akg_tui.core.phases import Gate, Phase
from akg_tui.hashline.tags import Tagger
from akg_tui.view.controls.completion import Kernel, NoSuchReference, offers, resolved
from akg_tui.view.diff import split_lines

from .script import FakeHandle
from .stage import Stage, on_stage


def at_work() -> FakeHandle:
    return FakeHandle(agent="claude").to_phase(Phase.EVAL, settled=7)


def kernel_of(handle: FakeHandle) -> Kernel:
    return Kernel("kernel.py", split_lines(handle.kernel(handle.state.work_blob).text))


def tag(handle: FakeHandle, number: int) -> str:
    return f"@{number}{Tagger(handle.tag_key).tag(number, kernel_of(handle).lines[number - 1])}"


def test_a_line_and_an_item_are_told_to_the_agent_in_full() -> None:
    handle = at_work()
    kernel = kernel_of(handle)
    at = tag(handle, 10)
    told = resolved(f"use {at} as @p3 did", handle.state, [kernel], handle.tag_key)
    assert told.split("\n") == [
        f"use {at} as @p3 did",
        "@p3 is the plan item p3 (KEPT): LANES = 16",
        f"{at} is line 10 of kernel.py: {kernel.lines[9]}",
    ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("as @p99", "there is no item p99: the items go up to p9"),
        ("see @9999ab", "there is no @9999"),
        ("see @10qq", "line 10 is @10"),
    ],
)
def test_a_reference_to_nothing_is_told(text: str, why: str) -> None:
    handle = at_work()
    with pytest.raises(NoSuchReference, match=why):
        resolved(text, handle.state, [kernel_of(handle)], handle.tag_key)


def test_a_line_of_the_best_kernel_is_known_too() -> None:
    handle = at_work()
    assert handle.state.best
    best = Kernel("the best kernel.py", split_lines(handle.kernel(handle.state.best.blob).text))
    number = next(
        n
        for n, (a, b) in enumerate(zip(best.lines, kernel_of(handle).lines, strict=True), 1)
        if a != b
    )
    at = f"@{number}{Tagger(handle.tag_key).tag(number, best.lines[number - 1])}"
    told = resolved(at, handle.state, [kernel_of(handle), best], handle.tag_key)
    assert f"of the best kernel.py: {best.lines[number - 1]}" in told


def test_addresses_of_mail_are_no_references() -> None:
    handle = at_work()
    text = "ask me@p3x or a@home"
    assert resolved(text, handle.state, [kernel_of(handle)], handle.tag_key) == text


def test_what_was_begun_is_completed() -> None:
    handle = at_work()
    assert offers("as @p", handle.state, kernel_of(handle), handle.tag_key)[0] == "as @p9"
    assert offers("see @10", handle.state, kernel_of(handle), handle.tag_key) == [
        f"see {tag(handle, 10)}"
    ]
    assert offers("no reference", handle.state, kernel_of(handle), handle.tag_key) == []


async def test_tab_completes_and_the_hint_is_sent_with_what_it_stands_for() -> None:
    async with on_stage(at_work()) as stage:
        await stage.press("i", *"like @p", "tab")
        assert stage.deck.hint.value == "like @p9"
        assert "p9 PENDING: LANES = 4" in stage.text()
        await stage.press("tab", "enter")
        (hint,) = stage.handle.state.hints
        assert hint == "like @p8\n@p8 is the plan item p8 (ACTIVE): LANES = 8"


async def test_a_hint_by_name_is_sent_with_what_it_stands_for_too() -> None:
    async with on_stage(at_work()) as stage:
        await stage.press("colon", *"tell like @p8", "enter")
        (hint,) = stage.handle.state.hints
        assert hint == "like @p8\n@p8 is the plan item p8 (ACTIVE): LANES = 8"
        await stage.press("colon", *"tell like @p77", "enter")
        assert "there is no item p77" in stage.text()
        assert len(stage.handle.state.hints) == 1
        await stage.press("colon", "up")
        assert "tell like @p77" in stage.text(), "it can be mended"


async def test_a_hint_with_a_wrong_reference_stays_on_its_line() -> None:
    async with on_stage(at_work()) as stage:
        await stage.press("i", *"like @p77", "enter")
        assert stage.handle.state.hints == ()
        assert "there is no item p77" in stage.text()
        assert stage.deck.hint.value == "like @p77"


async def test_gates_are_set_one_by_one_and_stand_beside_the_mode() -> None:
    async with on_stage(at_work()) as stage:
        await stage.press("M")
        assert "e ◦ off  edit" in stage.text()
        await stage.press("e", "p")
        assert "e ✓ on   edit" in stage.text()
        assert set(stage.handle.state.gates) == {Gate.EDIT, Gate.PLAN}
        await stage.press("p", "escape")
        assert stage.handle.state.gates == (Gate.EDIT,)
        assert "mode auto +edit" in stage.text()


async def to_another_window_and_back(stage: Stage, *, at_once: bool) -> None:
    stage.app.post_message(AppBlur())
    if not at_once:
        await stage.pull()
    stage.app.post_message(AppFocus())
    await stage.pull()


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("key", ["i", "slash", "a"])
async def test_a_line_stays_open_while_another_window_has_the_keys(key: str, at_once: bool) -> None:
    async with on_stage(at_work()) as stage:
        await stage.press("1" if key == "a" else "2", key, *"un")
        await to_another_window_and_back(stage, at_once=at_once)
        await stage.press(*"roll")
        line = stage.deck.hint if key == "i" else stage.deck.prompt
        assert line.display
        assert (line.has_focus, line.value) == (True, "unroll")
        assert "unroll" in stage.text(), "what is typed is seen"


async def test_a_line_is_left_by_going_to_another_pane() -> None:
    async with on_stage(at_work()) as stage:
        await stage.press("i", *"un")
        await to_another_window_and_back(stage, at_once=False)
        await stage.pilot.click("#chart")
        await stage.pull()
        assert not stage.deck.hint.display
        await stage.press("i")
        assert stage.deck.hint.value == "un"
