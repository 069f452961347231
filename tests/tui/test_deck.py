from __future__ import annotations

import pytest
from textual.events import DescendantFocus

from akg_tui.core import commands as cmd
from akg_tui.core.phases import Mode, Phase

from .moments import at_work, keeping
from .script import FakeHandle, Try, faster
from .stage import on_stage


async def test_a_terminal_that_is_too_small_is_served_and_told() -> None:
    async with on_stage(at_work()) as stage:
        for width, height in ((50, 12), (59, 40), (20, 4), (10, 2), (3, 1)):
            await stage.resize(width, height)
            await stage.press("1", "2", "3", "4", "5", "z", "tab")
            assert height < 12 or f"{width}×{height} is small" in stage.text()


KEYS = (
    # Keys pressed one after the other on one deck, and what is on the screen then.
    ("n", "stepping needs mode step, or a pause"),
    ("space", "PAUSED: space goes on"),
    ("space", "the run goes on"),
    ("c", "3 chart: × by tokens spent"),
    ("2 x", "that is for the plan: 1 goes there"),
)


async def test_keys_of_the_deck_do_what_they_say() -> None:
    async with on_stage(at_work(agent="claude", path="/nowhere/at/all")) as stage:
        for keys, told in KEYS:
            await stage.press(*keys.split())
            assert told in stage.text(), keys
        await stage.press("1", "tab")
        assert stage.deck.active == "source"
        await stage.press("shift+tab")
        assert stage.deck.active == "plan"
        await stage.press("i", *"draft", "escape")
        assert not stage.deck.hint.display
        assert stage.handle.state.hints == ()
        await stage.press("i", *" n q", "enter")
        assert stage.handle.state.hints == ("draft n q",)
        assert "you draft n q" in stage.text()
        assert stage.deck.focused is stage.plan
        await stage.press("R")
        assert "no report: " in stage.deck.footer.told
        assert "/nowhere/at/all" in stage.deck.footer.told


@pytest.mark.parametrize(
    ("size", "told"), [((58, 14), "KEEP attempt 1?"), ((30, 5), "KEEP? alt+y keep alt+n reject")]
)
async def test_however_small_the_terminal_a_question_can_be_answered(
    size: tuple[int, int], told: str
) -> None:
    async with on_stage(keeping(), size, armed=True) as stage:
        assert told in stage.text()
        await stage.press("alt+y")
    assert cmd.AnswerGate(1, approve=True) in stage.handle.sent


async def test_n_walks_plan_edit_eval_decide_one_at_a_time() -> None:
    handle = FakeHandle(mode=Mode.STEP).work()
    walked: list[Phase] = []
    async with on_stage(handle) as stage:
        assert "WAIT_STEP: n takes one step to BASELINE, m changes the mode" in stage.text()
        for _ in range(6):
            await stage.press("n")
            handle.work()
            await stage.pull()
            walked.append(handle.state.phase)
            assert f"⋯ {handle.state.phase}" in stage.text()
            assert "WAIT_STEP: n takes one step" in stage.text() or handle.state.gate
    assert walked == [
        Phase.BASELINE,
        Phase.PLAN,
        Phase.EDIT,
        Phase.EVAL,
        Phase.DECIDE,
        Phase.DECIDE,
    ]


async def test_m_goes_through_the_modes() -> None:
    async with on_stage(at_work()) as stage:
        seen = []
        for _ in range(3):
            await stage.press("m")
            await stage.arm()
            seen.append(stage.handle.state.mode)
            assert f"mode {stage.handle.state.mode}" in stage.text()
    assert seen == [Mode.REVIEW, Mode.STEP, Mode.AUTO]


async def test_m_lets_no_work_through_on_its_way_from_step_to_review() -> None:
    handle = FakeHandle(mode=Mode.STEP).work()
    async with on_stage(handle) as stage:
        await stage.press("m")
        assert "mode auto in a moment; m goes on to review" in stage.text()
        handle.work()
        await stage.press("m")
        assert handle.state.mode is Mode.REVIEW
        await stage.arm()
        assert handle.state.mode is Mode.REVIEW
    modes = [each.mode for each in handle.sent if isinstance(each, cmd.SetMode)]
    assert modes == [Mode.REVIEW]
    assert handle.state.settled == 0


@pytest.mark.parametrize("moves", ["J", "K"])
async def test_j_and_k_move_the_item_that_is_seen_and_keep_it_in_sight(moves: str) -> None:
    texts = [Try(f"LANES = {n}", "LANES = 1 ", "LANES = 4 ", faster(1.0)) for n in range(40)]
    handle = FakeHandle(plans=[texts]).to_phase(Phase.EDIT)
    async with on_stage(handle, (120, 24)) as stage:
        await stage.press("1", *["down"] * 4)
        await stage.press("J")
        await stage.press("pagedown", "pagedown")
        top = stage.plan.top
        order = [item.id for item in handle.state.pending]
        await stage.press(moves)
        assert [item.id for item in handle.state.pending] == order, "it was out of sight"
        assert "is picked here: the key again acts on it" in stage.text()
        assert stage.plan.top < top
        for _ in range(25):
            await stage.press("J")
            picked = stage.plan.picked
            assert stage.plan.sees(picked.id)


async def test_words_typed_after_a_refused_key_call_no_command() -> None:
    handle = FakeHandle().work()
    assert handle.state.finished
    async with on_stage(handle) as stage:
        before = stage.deck.shown, stage.deck.active, stage.app.screen
        await stage.press("i", *"undo z w q - R v 3 T")
        assert "no agent is there to read a hint" in stage.text()
        assert (stage.deck.shown, stage.deck.active, stage.app.screen) == before
        await stage.press("enter", "3")
        assert stage.deck.active == "chart", "after enter the keys are commands again"
        await stage.press("i", "x")
        handle.now += 2.0
        await stage.press("1")
        assert stage.deck.active == "plan", "after a moment too"


async def test_focus_and_zoom_survive_every_size() -> None:
    async with on_stage(at_work()) as stage:
        await stage.press("4", "z")
        for size in ((80, 24), (200, 60), (50, 12), (160, 30), (100, 30), (120, 40)):
            await stage.resize(*size)
            assert stage.deck.focused is stage.log
            assert stage.deck.zoomed
            assert [name for name, pane in stage.deck.panes.items() if pane.display] == ["log"]
        await stage.press("z")
        assert "1 plan" in stage.text()


async def test_a_key_that_is_quicker_than_the_news_of_the_last_focus_is_not_undone_by_it() -> None:
    async with on_stage(at_work()) as stage:
        deck = stage.deck
        deck.action_pane("best")
        late = DescendantFocus(deck.panes["best"])
        deck.action_pane("source")
        deck.on_descendant_focus(late)
        await stage.pilot.pause()
        assert deck.active == "source"
        assert deck.focused is deck.panes["source"]
        assert deck.shown.count("source") == 1


async def test_a_scrolled_log_stays_where_it_is_whatever_arrives() -> None:
    async with on_stage(at_work()) as stage:
        log = stage.log
        await stage.press("4", "up", "up", "up")
        place = log.scroll_offset.y
        assert not log.follow
        stage.handle.work()
        await stage.pull()
        assert log.scroll_offset.y == place
        await stage.press("f")
        assert log.follow
        assert log.scroll_offset.y == log.max_scroll_y
        await stage.press("g")
        assert (log.scroll_offset.y, log.follow) == (0, False)
        await stage.press("G")
        assert log.follow


def far_down() -> FakeHandle:
    """A run whose candidate changes line 150 of a long kernel, and waits for a review."""
    kernel = "".join(f"line_{n} = {n}\n" for n in range(1, 201))
    plan = [[Try("far down", "line_150 = 150", "line_150 = 0", faster(1.3))]]
    return FakeHandle(mode=Mode.REVIEW, kernel=kernel, plans=plan)


async def test_a_new_candidate_brings_its_change_into_sight_and_a_resize_keeps_it_there() -> None:
    handle = far_down()
    handle.to_phase(Phase.EVAL)
    async with on_stage(handle) as stage:
        assert "+ line_150 = 0" in stage.text()
        await stage.resize(120, 30)
        assert "+ line_150 = 0" in stage.text()
        handle.work()
        await stage.pull()
        assert "KEEP attempt 1?" in stage.text()
        assert "+ line_150 = 0" in stage.text()
        await stage.press("2", "g")
        await stage.resize(120, 35)
        assert "line_1 = 1" in stage.text(), "who has scrolled is left where they are"
        assert "line_150" not in stage.text()
