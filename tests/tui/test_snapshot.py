from __future__ import annotations

import unicodedata

import pytest
from msgspec.structs import replace

from akg_tui.core.measurement import Interval, Measurement, Outcome, Progress
from akg_tui.core.phases import Mode, Phase
from akg_tui.core.task import Agent
from akg_tui.view import formatting, glyphs
from akg_tui.view.plan_rows import plan_view
from akg_tui.view.run_chart import AttemptSeries, Plot, draw
from akg_tui.view.spans import plain, width
from akg_tui.view.status import header, keys_line, phase_row, sparkline, status, upcoming

from .script import FakeHandle, Try, faster, task


def chart_of(handle: FakeHandle) -> Plot:
    trace = AttemptSeries()
    trace.read(handle.state)
    return trace.plot(handle.state, None)


def test_the_header_tells_task_round_best_mode_and_time() -> None:
    handle = FakeHandle().to_phase(Phase.EVAL, settled=3)
    row = plain(header(handle.state, handle.now, 118))
    best = "~2.31× seed · 0.97×? eager"
    assert f"row_softmax │ cpp on cpu zen4 │ round 4/12 │ {best} │ mode auto" in row
    assert row.endswith(formatting.clock(handle.state.worked(handle.now)))


@pytest.mark.parametrize(
    ("agent", "told"),
    [
        (Agent("claude-x"), "│ api.anthropic.com"),
        (Agent("m", base_url="http://10.0.0.1:8080/v1"), "│ 10.0.0.1:8080"),
        (Agent(), "✗0  "),
    ],
)
def test_the_header_names_the_server_that_the_model_is_asked_at(agent: Agent, told: str) -> None:
    handle = FakeHandle(the_task=replace(task(), agent=agent)).to_phase(Phase.EVAL, settled=3)
    row = plain(header(handle.state, handle.now, 118))
    assert told in row


@pytest.mark.parametrize("room", [70, 78, 98])
def test_in_a_narrow_header_a_long_name_gives_way_and_the_figures_stay(room: int) -> None:
    handle = FakeHandle(the_task=replace(task(), op="fused_" * 10)).to_phase(Phase.EVAL, settled=3)
    row = plain(header(handle.state, handle.now, room))
    assert "~2.31× seed · 0.97×? eager" in row
    assert "round 4/12" in row
    assert "fused_" in row
    assert width(header(handle.state, handle.now, room)) <= room


@pytest.mark.parametrize("room", [10, 20, 40, 58, 78, 118, 198])
def test_no_row_is_wider_than_its_room(room: int) -> None:
    handle = FakeHandle(mode=Mode.REVIEW).work()
    state, now = handle.state, handle.now
    progress = Progress("time", 3, 8, "a message", Interval(1.1, 1.0, 1.2, 0.95))
    rows = [
        header(state, now, room),
        phase_row(state, now, room),
        status(state, "measuring", progress, now, room),
        sparkline(state, room),
        keys_line([("space", "pause"), ("n", "step")], room, "more: ?"),
        *plan_view(state, room, 40).rows,
    ]
    assert max(width(row) for row in rows) <= room


def test_the_rail_marks_the_live_phase_and_the_time_in_it() -> None:
    handle = FakeHandle().to_phase(Phase.EVAL)
    row = plain(phase_row(handle.state, handle.state.phase_since + 12.4, 118))
    assert "✓EDIT" in row
    assert "▸ EVAL 12 s" in row
    assert "◦DECIDE" in row
    handle = FakeHandle(mode=Mode.REVIEW).work()
    assert handle.state.phase is Phase.DECIDE
    row = plain(phase_row(handle.state, handle.now, 118))
    assert "✓EDIT ── ✓EVAL" in row, "EDIT comes next, and it is done for this round"


def test_what_comes_next_is_told_through_a_whole_run() -> None:
    handle = FakeHandle()
    guesses: list[tuple[Phase, Phase | None]] = []
    while handle.step():
        guesses.append((handle.state.phase, upcoming(handle.state, handle.now)))
    assert (Phase.PLAN, Phase.EDIT) in guesses
    assert (Phase.EVAL, Phase.DECIDE) in guesses
    assert (Phase.DECIDE, Phase.PLAN) in guesses
    assert upcoming(handle.state, handle.now) is None
    last = FakeHandle(the_task=task(max_rounds=1)).work(lambda s: s.phase is Phase.DECIDE)
    assert upcoming(last.state, last.now) is Phase.DONE


def test_the_plan_tells_each_state_with_sign_and_word() -> None:
    handle = FakeHandle().to_phase(Phase.EVAL, settled=7)
    view = plan_view(handle.state, 34, 9)
    told = [plain(row) for row in view.rows]
    assert told[0].split() == ["✓", "p1", "FLAGS", "=", "-O3", "1.31×", "KEPT"]
    assert told[3].split()[-2:] == ["0.91×", "DISC"]
    assert told[4].startswith("✗ p5")
    assert told[4].split()[-1] == "FAIL"
    assert told[7].split()[:2] == ["▸", "p8"]
    assert view.at == 7


def test_where_there_is_room_the_plan_tells_reasons() -> None:
    handle = FakeHandle().to_phase(Phase.EVAL, settled=7)
    view = plan_view(handle.state, 34, 30)
    rows = view.rows
    assert len(rows) == 18
    assert view.at == 14
    assert plain(rows[0]) == "✓ p1 FLAGS = -O3"
    assert plain(rows[1]) == "     1.31× KEPT faster: +31.0 % (…"
    assert plain(rows[15]) == "     ACTIVE a declared knob"
    wide = plan_view(handle.state, 130, 30).rows
    assert "values differ: 37 of 65536, the first at [3, 17]" in plain(wide[4])
    assert plain(wide[4]).rstrip().endswith("FAILED")
    # In a row each these two would lose their ends, so all get two.
    long = plan_view(handle.state, 70, 30).rows
    assert len(long) == 18
    assert plain(long[1]) == "     1.31× [1.271, 1.349] KEPT faster: +31.0 % (+27.1 to +34.9)"
    assert "values differ: 37 of 65536, the first at [3, 17]" in plain(long[9])
    assert len(plan_view(handle.state, 70, 17).rows) == 9


def test_the_sparkline_tells_rise_and_last_attempt() -> None:
    handle = FakeHandle().work()
    row = plain(sparkline(handle.state, 78))
    assert "1.00× → 3.64×" in row
    assert "last p9 ▪ DISCARD" in row


def test_without_an_attempt_the_chart_says_what_is_awaited() -> None:
    (row,) = draw(chart_of(FakeHandle().to_phase(Phase.BASELINE)), 70, 10)
    assert plain(row) == "no attempt yet: the baseline comes first"


@pytest.mark.parametrize(("wide", "high"), [(1, 1), (12, 3), (15, 3), (300, 90)])
def test_a_chart_of_any_size_is_drawn(wide: int, high: int) -> None:
    rows = draw(chart_of(FakeHandle().work()), wide, high)
    assert len(rows) <= max(1, high)
    assert max(width(row) for row in rows) <= wide


def test_a_wide_range_of_ratios_is_drawn_on_a_logarithmic_axis() -> None:
    tries = [
        Try("FLAGS = -O3", '"-O1"  #', '"-O3"  #', faster(6.0)),
        Try("EXP = libm32", '"libm64"  #', '"libm32"  #', faster(5.0)),
    ]
    handle = FakeHandle(plans=[tries]).work()
    rows = [plain(row) for row in draw(chart_of(handle), 60, 14)]
    labels = [row[:6].strip() for row in rows if row[:6].strip()]
    assert labels == ["20×", "10×", "5×", "eager", "1×"]


def test_every_sign_is_one_column_wide_in_every_terminal() -> None:
    signs = {glyphs.FRESH, glyphs.DONE, glyphs.LIVE, glyphs.WAITS, glyphs.IDLE, glyphs.TOOL}
    signs |= {sign for sign, _ in glyphs.VERDICT.values()}
    signs |= {sign for sign, *_ in glyphs.ITEM.values()}
    assert {unicodedata.east_asian_width(sign) for sign in signs} <= {"N", "Na"}


def test_a_kernel_without_times_is_shown_as_verified_only() -> None:
    handle = FakeHandle().to_phase(Phase.EVAL)
    untimed = Measurement(outcome=Outcome.CORRECT, timed=False, message="an interpreter")
    state = replace(handle.state, baseline=untimed, attempts=())
    row = plain(header(state, handle.now, 118))
    assert "│ verified only │" in row
    assert "×" not in row
    assert plain(sparkline(state, 60)).strip() == "verified only: there are no times to draw"
