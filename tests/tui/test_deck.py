from __future__ import annotations

import pytest
from textual.events import DescendantFocus
from textual.widgets import Input

from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.phases import Mode, Phase
from akg_tui.tui.panes.source import SourcePane
from akg_tui.tui.screens.dialogs import Help
from akg_tui.view.agent_log import MAX_ENTRIES, SLICE
from akg_tui.view.code_rows import CodeRows, Colours, Texts
from akg_tui.view.diff import compare

from .script import KERNEL, FakeHandle, Try, faster
from .stage import on_stage


def at_work(**options: object) -> FakeHandle:
    """A run in its eighth round, under evaluation."""
    handle = FakeHandle(**options)  # type: ignore[arg-type]
    handle.to_phase(Phase.EVAL, settled=7)
    return handle


async def test_all_panes_are_on_screen_at_120_by_40() -> None:
    async with on_stage(at_work()) as stage:
        shown = stage.text()
    for title in ("1 plan", "2 kernel.py, p8 +1 -1 against the best", "3 chart", "4 agent log"):
        assert title in shown
    assert "✓ p1 FLAGS = -O3" in shown
    assert "- LANES = 16" in shown
    assert "+ LANES = 8" in shown
    assert "✓ KEEP p7 faster: +58.0 %" in shown
    assert "~3.64× seed · 1.53× eager" in shown


async def test_best_and_working_source_stand_side_by_side_at_200_by_60() -> None:
    async with on_stage(at_work(), (200, 60)) as stage:
        shown = stage.text()
    assert "5 best: attempt 7" in shown
    assert "2 kernel.py, p8" in shown


async def test_at_80_by_24_there_are_tabs_and_a_sparkline() -> None:
    async with on_stage(at_work(), (80, 24)) as stage:
        assert "1 plan   2 kernel   3 chart   4 log   5 best" in stage.text()
        assert "1.00× → 3.64×" in stage.text()
        titles = {
            "1": "1 plan ─",
            "2": "2 kernel.py",
            "3": "3 chart:",
            "4": "4 agent",
            "5": "5 best:",
        }
        for key, title in titles.items():
            await stage.press(key)
            assert title in stage.text()


@pytest.mark.parametrize("size", [(50, 12), (59, 40), (20, 4), (10, 2), (3, 1)])
async def test_a_terminal_that_is_too_small_is_served_and_told(size: tuple[int, int]) -> None:
    async with on_stage(at_work(mode=Mode.AUTO), size) as stage:
        await stage.press("1", "2", "3", "4", "5", "z", "tab")
        if size[0] >= 50 and size[1] >= 12:
            assert f"{size[0]}×{size[1]} is small" in stage.text()


async def test_however_narrow_the_terminal_the_answer_keys_stay_in_sight() -> None:
    async with on_stage(FakeHandle(mode=Mode.REVIEW).work(), (30, 5), armed=True) as stage:
        assert "KEEP? alt+y keep alt+n reject" in stage.text()


async def test_in_a_small_terminal_the_question_is_one_line() -> None:
    async with on_stage(FakeHandle(mode=Mode.REVIEW).work(), (58, 14), armed=True) as stage:
        assert "KEEP attempt 1?" in stage.text()
        await stage.press("alt+y")
    assert cmd.AnswerGate(1, approve=True) in stage.handle.sent


async def test_n_walks_plan_edit_eval_decide_one_at_a_time() -> None:
    handle = FakeHandle(mode=Mode.STEP).work()
    walked: list[Phase] = []
    async with on_stage(handle) as stage:
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


async def test_a_step_without_step_mode_is_refused_with_the_reason() -> None:
    async with on_stage(at_work()) as stage:
        await stage.press("n")
        assert "stepping needs mode step, or a pause" in stage.text()


async def test_space_pauses_and_goes_on() -> None:
    async with on_stage(at_work()) as stage:
        await stage.press("space")
        assert stage.handle.state.paused
        assert "PAUSED: space goes on" in stage.text()
        await stage.press("space")
        assert not stage.handle.state.paused


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
        top = stage.deck.plan.top
        order = [item.id for item in handle.state.pending]
        await stage.press(moves)
        assert [item.id for item in handle.state.pending] == order, "it was out of sight"
        assert "is picked here: the key again acts on it" in stage.text()
        assert stage.deck.plan.top < top
        for _ in range(25):
            await stage.press("J")
            picked = stage.deck.plan.picked
            assert picked is not None
            assert stage.deck.plan.sees(picked.id)


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


async def test_a_hint_is_written_on_its_own_line_and_sent_by_enter() -> None:
    async with on_stage(at_work(agent="claude")) as stage:
        await stage.press("i", *"try n q", "enter")
        assert stage.handle.state.hints == ("try n q",)
        assert "you try n q" in stage.text()
        assert stage.deck.focused is stage.deck.panes["source"]


async def test_escape_leaves_the_hint_and_keeps_the_draft() -> None:
    async with on_stage(at_work()) as stage:
        await stage.press("i", *"draft", "escape")
        assert not stage.deck.hint.display
        assert stage.handle.state.hints == ()
        await stage.press("i")
        assert stage.deck.query_one("#hint", Input).value == "draft"


async def test_focus_and_zoom_survive_every_size() -> None:
    async with on_stage(at_work()) as stage:
        await stage.press("4", "z")
        for size in ((80, 24), (200, 60), (50, 12), (160, 30), (100, 30), (120, 40)):
            await stage.resize(*size)
            assert stage.deck.focused is stage.deck.log_pane
            assert stage.deck.zoomed
            assert [name for name, pane in stage.deck.panes.items() if pane.display] == ["log"]
        await stage.press("z")
        assert "1 plan" in stage.text()


async def test_tab_moves_the_focus_and_makes_another_pane_active() -> None:
    async with on_stage(at_work()) as stage:
        await stage.press("1")
        assert stage.deck.active == "plan"
        await stage.press("tab")
        assert stage.deck.active == "source"
        await stage.press("shift+tab")
        assert stage.deck.active == "plan"


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


async def test_five_shows_the_best_kernel_where_there_is_room_for_one() -> None:
    async with on_stage(at_work()) as stage:
        await stage.press("5")
        assert "5 best: attempt 7" in stage.text()
        assert "2 kernel.py" not in stage.text()
        await stage.press("2")
        assert "2 kernel.py, p8" in stage.text()


async def test_a_scrolled_log_stays_where_it_is_whatever_arrives() -> None:
    async with on_stage(at_work()) as stage:
        log = stage.deck.log_pane
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


async def test_the_log_follows_what_arrives() -> None:
    async with on_stage(at_work()) as stage:
        stage.handle.work()
        await stage.pull()
        assert stage.deck.log_pane.scroll_offset.y == stage.deck.log_pane.max_scroll_y
        assert "the run is over" in stage.text()


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


async def test_who_has_scrolled_the_kernel_is_left_where_they_are() -> None:
    handle = far_down()
    handle.to_phase(Phase.EVAL)
    async with on_stage(handle) as stage:
        await stage.press("2", "g")
        await stage.resize(120, 35)
        assert "line_1 = 1" in stage.text()
        assert "line_150" not in stage.text()


async def test_c_changes_the_unit_of_the_chart() -> None:
    async with on_stage(at_work()) as stage:
        assert "3 chart: × over the seed" in stage.text()
        await stage.press("c")
        assert "3 chart: time a call" in stage.text()


async def test_help_lists_every_key_and_escape_closes_it() -> None:
    async with on_stage(at_work(), (120, 60)) as stage:
        await stage.press("question_mark")
        assert isinstance(stage.app.screen, Help)
        shown = stage.text()
        assert "Take one transition, in mode step or while paused" in shown
        assert "alt+y" in shown
        await stage.press("escape")
        assert stage.app.screen is stage.deck


async def test_the_palette_finds_a_command_and_runs_it() -> None:
    async with on_stage(at_work()) as stage:
        await stage.pilot.press("ctrl+p", *"run pause")
        await stage.pull()
        await stage.press("enter")
        assert stage.handle.state.paused


async def test_a_theme_is_worn_at_once() -> None:
    async with on_stage(at_work()) as stage:
        stage.app.appearance.apply_theme("paper")
        await stage.pull()
        assert stage.app.theme == "paper"
        inks = {
            segment.style.color.get_truecolor().hex
            for strip in stage.app.screen._compositor.render_strips()
            for segment in strip
            if segment.style and segment.style.color
        }
        assert "#2b2622" in inks, "paper's ink"
        assert "#e8ddd0" not in inks, "ember's ink"


RUBBISH = "\x1b]0;x\x07[red]\u202e"
SHOWN = "␛]0;x␇[red]<U+202E>"


async def test_rubbish_in_kernel_item_and_message_shows_literally() -> None:
    kernel = KERNEL.replace("LANES = 1 ", f"LANES = 1  # {RUBBISH}\nX = 1 ")
    plan = [[Try(f"item {RUBBISH}", '"-O1"  #', '"-O3"  #', faster(1.3))]]
    handle = FakeHandle(kernel=kernel, plans=plan, mode=Mode.REVIEW).work()
    handle.tell(ev.VisitFailed(phase=Phase.DECIDE, reason=f"because {RUBBISH}"))
    async with on_stage(handle, (200, 60)) as stage:
        shown = stage.text()
        assert f"LANES = 1  # {SHOWN}" in shown
        assert f"item {SHOWN}" in shown
        assert f"because {SHOWN}" in shown
        await stage.press("r")
        assert f"item {SHOWN}" in stage.text()
        assert "\x1b" not in stage.text()


async def test_a_flood_of_records_is_one_pull_and_one_redraw(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handle = at_work()
    async with on_stage(handle) as stage:
        log = stage.deck.log_pane
        puts: list[int] = []
        put = log.put
        monkeypatch.setattr(log, "put", lambda rows, **k: (puts.append(len(rows)), put(rows, **k)))
        pulls = stage.app.clock.pulls
        for number in range(20_000):
            handle.records.append(
                ev.Record(len(handle.records) + 1, handle.now, ev.HintGiven(text=f"h{number}"))
            )
        stage.app.pull_now()
        assert stage.app.clock.pulls == pulls + 1
        assert len(puts) == 1
        assert puts[0] < 2 * SLICE, "the older ones are wrapped later, a slice at a time"
        assert log.agent_log.seen == len(handle.records)
        while log.agent_log.unwrapped:
            stage.app.pull_now()
        assert len(puts) <= MAX_ENTRIES // SLICE + 2
        drawn = len(puts)
        await stage.press("1")
        assert stage.deck.active == "plan"
        assert "h19999" in stage.text()
        assert len(puts) == drawn, "what did not change is not drawn again"


async def test_a_hidden_pane_is_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []
    build = SourcePane._build
    monkeypatch.setattr(
        SourcePane, "_build", lambda self, *a: (built.append(self.id or ""), build(self, *a))
    )
    async with on_stage(at_work(), (80, 24)):
        assert set(built) == {"source"}


async def test_best_and_working_kernel_scroll_together_where_both_are_seen() -> None:
    async with on_stage(FakeHandle().to_phase(Phase.EVAL, settled=3), (200, 60)) as stage:
        best, working = stage.deck.panes["best"], stage.deck.panes["source"]
        assert isinstance(best, SourcePane)
        assert isinstance(working, SourcePane)
        await stage.resize(200, 40)
        await stage.press("2", "G")
        assert working.top > 0
        assert best.best_line_of(best.top) == working.best_line_of(working.top)
        await stage.press("5", "g")
        assert (best.top, working.top) == (0, 0)
        best.scroll_to(y=5, animate=False)
        await stage.pull()
        assert best.top == 5
        assert working.best_line_of(working.top) == 6


def test_a_row_of_the_kernel_under_work_stands_beside_a_line_of_the_best() -> None:
    pane = SourcePane("source", Colours(), Texts(), working=True)
    old, new = ["a", "b", "c", "d"], ["a", "x", "y", "c", "d"]
    pane.put(CodeRows(compare(old, new), b"k", old=None, new=None))
    lines = [pane.best_line_of(index) for index in range(len(pane.rows))]
    assert lines == sorted(lines)
    assert (lines[0], lines[-1]) == (1, 4)
    for line in range(1, 5):
        assert pane.best_line_of(pane.row_of_best(line)) == line


async def test_the_report_is_written_from_the_deck_or_it_is_told_why_not() -> None:
    async with on_stage(FakeHandle(path="/nowhere/at/all").work()) as stage:
        await stage.press("R")
        assert "no report: " in stage.deck.footer.view[1]
        assert "/nowhere/at/all" in stage.deck.footer.view[1]


async def test_the_tour_of_a_run_shows_the_pane_that_each_step_is_about() -> None:
    async with on_stage(FakeHandle().to_phase(Phase.EDIT, settled=2)) as stage:
        await stage.press(*":tour", "enter")
        assert "1/5  the plan" in stage.text()
        assert stage.deck.active == "plan"
        await stage.press("enter", "enter")
        assert "3/5  your say" in stage.text()
        assert stage.deck.active == "log"
