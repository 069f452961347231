"""The panes under a pilot: zoom, layouts, folding, search, and what breaks."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.measurement import CaseTiming, Interval, Progress
from akg_tui.core.phases import Mode, Phase
from akg_tui.core.task import Case
from akg_tui.tui.panes.chart import ChartPane
from akg_tui.tui.panes.plan import PlanPane
from akg_tui.view.attempt_rows import AttemptRows
from akg_tui.view.controls.command_registry import key_of, named
from akg_tui.view.controls.deck_layout import PANE_NAMES, PANES, PRESETS, tab_at, tabs
from akg_tui.view.run_chart import draw
from akg_tui.view.run_snapshot import RunSnapshot
from akg_tui.view.spans import plain

from .moments import at_work, long_kernel
from .script import FakeHandle
from .stage import on_stage


async def test_all_ten_panes_come_to_their_digit_at_every_size() -> None:
    titles = ["1 plan", "2 kernel", "3 chart", "4 agent", "5 best", "6 att", "7 agents", "8 eval"]
    titles += ["9 machine", "0 roofline"]
    async with on_stage(at_work()) as stage:
        for size in ((120, 40), (80, 24), (200, 60)):
            await stage.resize(*size)
            for digit, title in enumerate(titles, 1):
                await stage.press(str(digit % 10))
                assert f"─ {title}" in stage.text()


async def test_tab_goes_through_all_panes_also_where_one_is_on_screen() -> None:
    async with on_stage(at_work(), (80, 24)) as stage:
        seen = []
        for _ in PANES:
            seen.append(stage.deck.active)
            await stage.press("tab")
        assert len(set(seen)) == len(PANES)
        assert stage.deck.active == seen[0]


async def test_w_goes_through_the_layouts_and_every_one_is_drawn() -> None:
    async with on_stage(at_work(), (200, 60)) as stage:
        seen = set()
        for name in [*list(PRESETS)[1:], "deck"]:
            await stage.press("w")
            assert stage.deck.preset == name
            seen.add(frozenset(stage.deck.shown))
            assert not any(pane.broken for pane in stage.deck.panes.values())
        assert len(seen) == len(PRESETS)


async def test_enter_unfolds_an_item_and_folds_it_again() -> None:
    async with on_stage(at_work()) as stage:
        await stage.press("1", "up", "up", "up", "up", "up", "up", "up", "up", "enter")
        assert "measured 31.0 % faster" in stage.text()
        await stage.press("enter")
        assert "measured 31.0 % faster" not in stage.text()


async def test_an_item_is_added_edited_moved_pinned_and_dropped_by_hand() -> None:
    handle = FakeHandle().to_phase(Phase.EVAL, settled=1)
    async with on_stage(handle) as stage:
        await stage.press("1", "a", *"unroll by 4", "enter")
        item = handle.state.items[-1]
        assert (item.text, item.pinned) == ("unroll by 4", True)
        assert "‣ unroll by 4" in stage.text()
        await stage.press("e", *["backspace"], "8", "enter")
        assert handle.state.item(item.id).text == "unroll by 8"
        place = [each.id for each in handle.state.pending].index(item.id)
        await stage.press("K")
        assert [each.id for each in handle.state.pending].index(item.id) == place - 1
        await stage.press("p")
        assert "p7 comes next, and only you drop it" in stage.text()
        assert handle.state.pending[0].id == item.id
        await stage.press("p")
        assert not handle.state.item(item.id).pinned
        await stage.press("x")
        assert f"drop {item.id}?" in stage.text()
        await stage.press("y")
        assert handle.state.item(item.id).word == "PENDING", "typing answers no question"
        await stage.press("n", "x")
        await stage.arm()
        await stage.press("y")
        assert handle.state.item(item.id).word == "DROPPED"
        await stage.press("x")
        assert "only an open item can be dropped" in stage.text()
        await stage.press("e")
        assert "only a pending item can be edited" in stage.text()


async def test_enter_in_the_table_of_attempts_goes_to_the_evidence() -> None:
    async with on_stage(at_work(), (200, 60)) as stage:
        await stage.press("6", "down", "down", "down", "enter")
        assert stage.deck.active == "plan"
        assert "values differ: 37 of 65536" in stage.text()
        assert "got nan, expected 0.0017" in stage.text()


async def test_the_table_by_case_is_there_where_the_task_has_cases() -> None:
    handle = at_work()
    async with on_stage(handle, (200, 60)) as stage:
        await stage.press("6", "c")
        assert "cases × attempts" not in stage.text()
        cases = (CaseTiming(name="short", ratio=Interval(2.0, 1.9, 2.1, 0.99)),)
        attempts = tuple(
            replace(each, measurement=replace(each.measurement, cases=cases))
            for each in handle.state.attempts
        )
        task = replace(handle.state.task, cases=(Case("short"),))
        handle._state = replace(handle.state, attempts=attempts, task=task)
        await stage.pull()
        await stage.press("c", "c")
        assert "cases × attempts" in stage.text()
        assert "2.00×" in stage.text()


def test_a_keep_that_was_taken_back_is_told_in_the_table_of_attempts() -> None:
    handle = FakeHandle().to_phase(Phase.EDIT, settled=3)
    number = handle.state.best.attempt
    assert handle.send(cmd.UndoKeep()) is None
    (undone,) = (row for row in map(plain, AttemptRows(handle.state, 100)) if "UNDO" in row)
    assert undone.split()[0] == str(number)
    assert "KEEP" not in undone


async def test_where_one_pane_is_on_screen_a_click_on_its_tab_goes_to_a_pane() -> None:
    async with on_stage(at_work(), (80, 24)) as stage:
        for name in ("log", "chart", "plan", "eval", "source"):
            row = next(
                n for n, r in enumerate(stage.text().split("\n")) if "1 plan" in r or " 1 " in r
            )
            sign = key_of(f"pane.{name}")
            column = f"{stage.text().split(chr(10))[row]} ".index(f" {sign} ") + 1
            await stage.pilot.click("#tabs", offset=(column, 0))
            await stage.pull()
            assert stage.deck.active == name


@pytest.mark.parametrize("room", [40, 78, 118, 198])
def test_a_tab_is_where_its_name_stands(room: int) -> None:
    for active in PANES:
        row = plain(tabs(active, room))
        found = {tab_at(column, active, room) for column in range(len(row))}
        assert found <= {None, *PANES}
        lit = [c for c in range(len(row)) if tab_at(c, active, room) == active]
        if lit and lit[-1] < room - 1:
            label = named(f"pane.{active}", PANE_NAMES[active])
            assert row[lit[0] : lit[-1] + 1].strip() == label


async def test_brackets_go_from_change_to_change_and_around() -> None:
    async with on_stage(long_kernel()) as stage:
        await stage.press("2", "g")
        for number in (30, 90, 150, 30):
            await stage.press("right_square_bracket")
            assert f"+ line_{number} = 0" in stage.text()
        await stage.press("left_square_bracket")
        assert "+ line_150 = 0" in stage.text()
        assert "change 3 of 3" in stage.text()


async def test_every_line_of_a_changed_kernel_is_found_beside_removed_ones() -> None:
    async with on_stage(long_kernel()) as stage:
        await stage.press("2", "slash", *":120", "enter")
        assert "line_120 = 120" in stage.text()
        assert "line 120" in stage.text()
        await stage.press("slash", *":x", "enter")
        assert "is not the number of a line" in stage.text()
        pane = stage.source
        for number in range(1, 201):
            assert pane.to_line(number) == f"line {number}"
            shown = range(pane.top, pane.top + pane.page)
            assert any(plain(pane.rows[row]).split()[0] == f"{number}" for row in shown)
        assert pane.to_line(202) == "there is no line 202"


async def test_the_place_of_a_change_depends_on_the_size_alone() -> None:
    sizes = (80, 24), (200, 60), (60, 16), (120, 40)
    fresh = []
    for size in sizes:
        async with on_stage(long_kernel(), size) as stage:
            fresh.append(stage.deck.panes["source"].scroll_offset.y)
    assert len(set(fresh)) > 2
    async with on_stage(long_kernel()) as stage:
        pane = stage.source
        for size, place in zip(sizes, fresh, strict=True):
            await stage.resize(*size)
            assert pane.top == place
        pane.to_row(100)
        await stage.resize(80, 24)
        assert pane.top == 100


async def test_a_search_finds_as_it_is_typed_and_leaves_what_it_found_in_sight() -> None:
    async with on_stage(long_kernel()) as stage:
        await stage.press("2", "g", "slash", *"line_17")
        assert "line_17 = 17" in stage.text()
        await stage.press("enter")
        assert "line_170 = 170" in stage.text()
        await stage.press("up")
        assert "line_17 = 17" in stage.text()
        await stage.press("enter", "escape")
        assert "line_170 = 170" in stage.text()
        assert stage.deck.focused is stage.deck.panes["source"]
        await stage.press("slash", *"nowhere")
        assert "not found: nowhere" in stage.text()


async def test_what_is_found_is_lit_and_shifts_nothing() -> None:
    handle = at_work()
    handle.tell(ev.ModelReplied(phase=Phase.EDIT, model="m", text="漢字 needle é needle [b]x[/b]"))
    async with on_stage(handle, (180, 60)) as stage:
        await stage.press("4")
        await stage.press("slash", *"needle")
        lit = [
            segment.text
            for strip in stage.app.screen._compositor.render_strips()
            for segment in strip
            if segment.style and segment.style.reverse
        ]
        assert lit.count("needle") == 2
        body = stage.text().splitlines()[3:50]
        await stage.press(*["backspace"] * len("needle"))
        assert stage.text().splitlines()[3:50] == body


async def test_enter_unfolds_a_tool_call_where_it_is_picked_and_nothing_jumps() -> None:
    async with on_stage(at_work()) as stage:
        log = stage.log
        await stage.press("4", "left_square_bracket")
        assert not log.follow
        await stage.press("down", "enter")
        assert "▾ edit_kernel success" in stage.text()
        place = log.top
        stage.handle.work()
        await stage.pull()
        assert log.top == place
        assert "▾ edit_kernel success" in stage.text()
        await stage.press("enter")
        assert "▾" not in stage.text()


def flood(handle: FakeHandle, name: str, count: int) -> None:
    for number in range(count):
        hint = ev.HintGiven(text=f"{name}{number}")
        handle.records.append(ev.Record(len(handle.records) + 1, handle.now, hint))


async def test_what_is_read_stays_in_place_while_old_entries_are_dropped() -> None:
    async with on_stage(at_work()) as stage:
        for _ in range(3):
            flood(stage.handle, "old", 1_200)
            await stage.pull()
        log = stage.log
        await stage.press("4", "up", *["up"] * 40)
        place = [row.split()[-2] for row in stage.text().splitlines() if " old" in row]
        for _ in range(3):
            flood(stage.handle, "new", 120)
            await stage.pull()
            assert [r.split()[-2] for r in stage.text().splitlines() if " old" in r] == place
        assert log.agent_log.skipped > 0


async def test_a_mistake_in_a_pane_shows_in_that_pane_and_the_run_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handle = at_work()

    def broken(self: PlanPane, look: RunSnapshot) -> None:
        raise ZeroDivisionError("plan \x1b[31m of zero")

    async with on_stage(handle) as stage:
        with monkeypatch.context() as patch:
            patch.setattr(PlanPane, "pull", broken)
            await stage.pull()
            assert "this cannot be shown" in stage.text()
            assert "ZeroDivisionError" in stage.text()
            assert "␛[31m" in stage.text()
            assert "2 kernel.py, p8" in stage.text()
            await stage.press("space")
            assert handle.state.paused
        handle.send(cmd.Unpause())
        await stage.pull()
        assert "✓ p1 FLAGS = -O3" in stage.text()
        assert "this cannot be shown" not in stage.text()


async def test_a_mistake_while_drawing_shows_in_the_pane_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(self: ChartPane, *rest: object) -> None:
        raise ValueError("no such scale")

    handle = at_work()
    async with on_stage(handle) as stage:
        with monkeypatch.context() as patch:
            patch.setattr(ChartPane, "paint", broken)
            await stage.press("c")
            assert "ValueError: no such scale" in stage.text()
        handle.work(lambda s: s.settled == 8)
        await stage.pull()
        assert "no such scale" not in stage.text()
        assert draw(stage.deck.panes["chart"].view, 40, 10)


async def test_a_kernel_that_cannot_be_read_is_told_in_its_pane_and_the_card_still_asks() -> None:
    handle = FakeHandle(mode=Mode.REVIEW).work()
    blob = handle.state.work_blob
    text = handle._blobs.pop(blob)
    async with on_stage(handle, (200, 60)) as stage:
        assert "this cannot be shown" in stage.text()
        assert blob[:20] in stage.text()
        assert "5 best: the seed" in stage.text()
        assert "KEEP attempt 1?" in stage.text()
        assert "Its lines cannot be read." in stage.text()
        await stage.press("r")
        assert stage.app.screen is stage.deck, "there is nothing to review"
        await stage.press("i", "g", "o", "space", "@", "4", "4", "enter")
        assert stage.app.screen is stage.deck
        await stage.press("escape")
        handle._blobs[blob] = text
        await stage.press("m")
        assert "this cannot be shown" not in stage.text()


async def test_the_table_of_knobs_shows_what_each_value_gains_and_what_is_untried() -> None:
    async with on_stage(at_work(), (120, 40)) as stage:
        await stage.press("6", "c", "z")
        told = stage.text()
        assert "knobs × values" in told
        assert "settings tried, the best was number" in told
        row = next(each for each in told.splitlines() if '"poly5"' in each)
        assert "untried" in row
        await stage.press("c")
        assert "6 attempts" in stage.text()


async def test_columns_and_code_beyond_the_edge_are_marked_and_can_be_reached() -> None:
    async with on_stage(FakeHandle().work(), (60, 16)) as stage:
        await stage.press("6")
        heads = next(row for row in stage.text().split("\n") if "verdict" in row)
        assert heads.rstrip("│ ").endswith("eager …")
        assert "pairs" not in heads
        assert "error of what is allowed" not in stage.text()
        await stage.press(*["right"] * 20)
        heads = next(row for row in stage.text().split("\n") if "pairs" in row)
        assert heads.startswith("│ # item")
        assert heads.rstrip("│ ").endswith("pairs")
        await stage.press("2", "slash", *"LANES", "enter", "escape")
        row = next(row for row in stage.text().split("\n") if "compile_cpp(SOURCE" in row)
        assert row.rstrip("│ ").endswith("…")


async def test_every_row_of_the_evaluation_can_be_reached_the_ratio_before_the_noise() -> None:
    noise = tuple(f"disturbance number {n} of the machine" for n in range(8))
    handle = FakeHandle().to_phase(Phase.EVAL, settled=3)
    blob = handle.state.work_blob
    assert handle.send(cmd.StartEval(ev.Purpose.CANDIDATE, 4, blob)) is None
    ratio = Interval(1.2, 1.1, 1.3, 0.95)
    handle.live.report(Progress("time", 6, 8, ratio=ratio, noise=noise, detectable=0.1))
    async with on_stage(handle, (60, 16)) as stage:
        await stage.press("8")
        assert "1.20×" in stage.text()
        assert noise[-1] not in stage.text()
        await stage.press(*["down"] * 8)
        assert noise[-1] in stage.text()
