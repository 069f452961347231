"""An estimate run on the screen: each figure is marked as an estimate, and no speed is claimed."""

from __future__ import annotations

import re

import pytest

from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.state import RunState
from akg_tui.store.run_list import summary_of
from akg_tui.view.attempt_rows import AttemptRows
from akg_tui.view.comparison import side_of
from akg_tui.view.evaluation_rows import EstimateHistory, eval_rows
from akg_tui.view.event_words import line_texts
from akg_tui.view.plan_rows import plan_view
from akg_tui.view.run_chart import AttemptSeries
from akg_tui.view.spans import plain
from akg_tui.view.status import header, sparkline, status
from tests.core.simulated import SimulatedRun, estimated, failed

RATIO = re.compile(r"\d×|\d x\b|faster|slower|speedup")


@pytest.fixture(scope="module")
def run() -> SimulatedRun:
    """The seed at 10 µs, then 8.8 µs, a failure, and 9.5 µs."""
    run = SimulatedRun(estimate="sm_90")
    run.until_agent(estimated(10.0))
    run.begins("a", "b", "c", "d")
    for found in (estimated(8.81), failed(), estimated(9.5)):
        run.tries(found)
    run.must(cmd.Stop())
    run.until_agent()
    return run


@pytest.fixture(scope="module")
def state(run: SimulatedRun) -> RunState:
    return run.state


@pytest.mark.parametrize("room", [80, 120, 160])
def test_the_header_says_that_the_run_estimates_and_for_which_arch(
    state: RunState, room: int
) -> None:
    assert "ESTIMATE sm_90 ~8.81 µs attempt 1" in plain(header(state, 0.0, room))


def test_before_the_baseline_the_header_says_that_the_run_estimates() -> None:
    assert "ESTIMATE sm_90" in plain(header(SimulatedRun(estimate="sm_90").state, 0.0, 80))


def test_the_counts_have_the_shortlist_in_the_place_of_what_was_kept(state: RunState) -> None:
    told = plain(header(state, 0.0, 160))
    assert "▪1 ✗1 ≋1" in told
    assert "✓" not in told


def test_the_table_of_attempts_has_estimates_and_what_binds(state: RunState) -> None:
    rows = [plain(row) for row in AttemptRows(state, 100)]
    assert rows[0].split() == ["#", "item", "verdict", "estimate", "binds", "error"]
    assert rows[3].startswith(" 1   p1  ≋ SHORTL  ~8.81 µs   memory")
    assert rows[4].split()[:3] == ["0", "seed", "~10"]


def test_the_chart_draws_estimates_in_its_one_unit(state: RunState) -> None:
    series = AttemptSeries()
    series.read(state)
    assert (series.arch, series.unit) == ("sm_90", "ms")
    assert series.has(state.attempts[1].verdict)
    assert series.plot(state, None).steps[0][1] == 10.0


def test_no_figure_on_the_screen_claims_a_speed(run: SimulatedRun, state: RunState) -> None:
    attempt = state.attempts[1]
    side = side_of(state, attempt, lambda blob: "")
    shown = [
        plain(header(state, 0.0, 160)),
        plain(status(state, "", None, 0.0, 160)),
        plain(sparkline(state, 120)),
        *(plain(row) for row in AttemptRows(state, 160)),
        *(plain(row) for row in plan_view(state, 100, 40, {"p1"}).rows),
        *(plain(row) for row in eval_rows(state, EstimateHistory(), 0.0, 80, 20)),
        *(plain(row) for row in (side.title, *side.about)),
        *(line for each in run.records for line in line_texts(each.event, "plain", str)),
        summary_of("runs/r", state, None).line(),
    ]
    claims = [line for line in shown if RATIO.search(line)]
    assert claims == []
    told = [line for line in shown if "8.81" in line]
    assert told
    assert [line for line in told if "~8.81" not in line] == []


def test_the_run_ends_with_what_to_do_next(run: SimulatedRun, state: RunState) -> None:
    over = run.records[-1].event
    assert isinstance(over, ev.RunFinished)
    assert "a shortlist of 1, measure it with akg-tui settle" in plain(
        status(state, "", None, 0.0, 200)
    )
