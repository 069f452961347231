"""Room is used for what tells something: labels, gutters, kernel panes, rail and header."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from akg_tui.core.phases import Phase
from akg_tui.core.task import Policy
from akg_tui.engine.run_scanner import ListedRun
from akg_tui.store.run_list import RunSummary
from akg_tui.view.attempt_rows import AttemptRows
from akg_tui.view.controls.deck_layout import place
from akg_tui.view.controls.panes import Shape
from akg_tui.view.plan_rows import label
from akg_tui.view.run_rows import RunRows, column_heads
from akg_tui.view.spans import plain, width
from akg_tui.view.status import header, phase_row
from tests.core.simulated import failed, faster
from tests.core.test_workflows import writing

from .moments import at_work
from .script import FakeHandle, task
from .stage import Stage, on_stage


@pytest.mark.parametrize(
    ("text", "room", "shown"),
    [
        ("use a wider block", 30, "use a wider block"),
        ('FLAGS="-O3" (with LANES=1)', 40, 'FLAGS="-O3" (with LANES=1)'),
        ('FLAGS="-O3" (with EXP="libm64" LANES=1)', 20, 'FLAGS="-O3"'),
        ('FLAGS="-O3" PASSES="keep" LANES=4 (with A=1)', 26, "-O3, keep, LANES=4"),
        ('FLAGS="-O3 -march=native -ffast-math" N=4', 26, "-O3 -m…ve -ffast-math, N=4"),
        ("use a wider block, because it is 8", 12, "use a wider block, because it is 8"),
    ],
)
def test_the_label_of_an_item_shows_what_it_changes(text: str, room: int, shown: str) -> None:
    assert label(text, room) == shown


def kernel_rows(stage: Stage, name: str = "source") -> list[str]:
    pane = stage.deck.panes[name]
    region = pane.content_region
    rows = stage.text().splitlines()[region.y : region.bottom]
    return [row[region.x : region.right] for row in rows]


async def test_line_numbers_stay_when_a_kernel_is_scrolled_sideways() -> None:
    async with on_stage(at_work(3)) as stage:
        await stage.press("2", "g")
        pane = stage.deck.panes["source"]
        before = kernel_rows(stage)
        pane.scroll_to(x=9, animate=False, force=True)
        await stage.pull()
        after = kernel_rows(stage)
        assert [row[:6] for row in after[:20]] == [row[:6] for row in before[:20]]
        assert after[0][7:20] == before[0][16:29]


async def test_one_pane_shows_the_kernel_while_it_is_the_best_one() -> None:
    handle = FakeHandle().to_phase(Phase.EDIT, settled=3)
    async with on_stage(handle, (200, 60)) as stage:
        assert not stage.deck.panes["best"].display
        handle.to_phase(Phase.EVAL, settled=3)
        await stage.pull()
        assert stage.deck.panes["best"].display
        await stage.press("5")
        handle.to_phase(Phase.EDIT, settled=4)
        await stage.pull()
        assert stage.deck.panes["best"].display, "a pane with the focus stays"


def test_side_panes_grow_with_a_wide_terminal() -> None:
    def log(columns: int) -> int:
        return place((columns, 50), Shape.FIVE, "deck", "source")["log"].width

    assert log(180) == log(199) == 50
    assert log(200) > 50
    assert log(300) > log(240) > log(200)


@pytest.mark.parametrize("room", [30, 40, 58, 78])
def test_the_current_phase_is_never_what_is_cut_off(room: int) -> None:
    handle = FakeHandle().work(lambda state: state.phase is Phase.DECIDE)
    row = phase_row(handle.state, handle.now, room)
    assert "DECIDE" in plain(row)
    assert width(row) <= room
    done = FakeHandle(the_task=task(max_rounds=2)).work()
    assert "✓ DONE" in plain(phase_row(done.state, done.now, room))


@pytest.mark.parametrize(
    ("room", "best"), [(58, "~2.31× seed"), (70, "~2.31× seed · 0.97×? eager")]
)
def test_ratios_over_compile_and_eager_go_before_the_round(room: int, best: str) -> None:
    handle = FakeHandle(the_task=replace(task(max_rounds=999_999), op="softmax")).to_phase(
        Phase.EVAL, settled=3
    )
    row = plain(header(handle.state, handle.now, room))
    assert f"softmax │ round 4/999999 │ {best} " in row
    assert width(header(handle.state, handle.now, room)) <= room


def test_kernels_that_the_agent_wrote_in_vain_are_rows_of_the_attempts() -> None:
    run = writing("write_then_tune", policy=Policy(max_rounds=9))
    run.writes("w1", failed("values differ"))
    run.writes("w2", failed("no symbol"))
    told = [plain(row) for row in AttemptRows(run.state, 100)]
    assert [each.split()[:4] for each in told[1:]] == [
        ["w2", "written", "✗", "FAIL"],
        ["w1", "written", "✗", "FAIL"],
    ]
    assert "no symbol" in told[1]
    run.writes("w3", faster())
    told = [plain(row) for row in AttemptRows(run.state, 100)]
    assert told[1].split()[1] == "seed"
    assert told[2].split()[0] == "w2"


@pytest.mark.parametrize("finished", ["", "max rounds reached (4)"])
def test_the_selected_run_is_the_bright_one_whatever_its_state(finished: str) -> None:
    told = RunSummary(path="/r", op="op", agent="sweep", finished=finished)
    run = ListedRun(Path("/r"), "r", 1, 0.0, told)
    rows = RunRows([run, run], now=9.0, room=100, cursor=0)
    assert {role for _, role in rows[0]} <= {"accent", "strong", "figure", "chart.best"} | {
        "verdict.keep"
    }
    assert "text" in {role for _, role in rows[1]}


def test_the_name_of_a_run_has_room_or_no_column() -> None:
    told = RunSummary(path="/r", op="op", agent="sweep")
    run = ListedRun(Path("/r"), "gelu_bias/runs/20261126-025513-gelu_bias", 1, 0.0, told)
    for room in range(55, 180):
        head = plain(column_heads(room))
        row = plain(RunRows([run], now=9.0, room=room)[0])
        at = head.find("run", head.index("age"))
        shown = row[at:].rstrip() if at > 0 else ""
        assert at < 0 or len(shown) >= 12
        assert ("…" in row) == ("…" in shown)
    assert "run" not in plain(column_heads(77)).split()
    assert "run" in plain(column_heads(117)).split()
