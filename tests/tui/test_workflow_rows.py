"""The rows of the workbench in a run whose agent writes the kernel."""

from __future__ import annotations

import pytest

from akg_tui.core import commands as cmd
from akg_tui.core import effects as fx
from akg_tui.core.measurement import Progress
from akg_tui.core.phases import Gate, Phase
from akg_tui.core.task import Policy
from akg_tui.view.controls.approvals import requests
from akg_tui.view.evaluation_rows import EstimateHistory, eval_rows
from akg_tui.view.event_words import line_texts
from akg_tui.view.plan_rows import plan_view
from akg_tui.view.spans import plain
from akg_tui.view.status import header, phase_row, sparkline, status, upcoming
from tests.core.simulated import SimulatedRun, failed, faster
from tests.core.test_baselines import while_compile_is_measured
from tests.core.test_workflows import writing


def rail(run: SimulatedRun, room: int = 118) -> str:
    return plain(phase_row(run.state, run.state.phase_since + 4, room)).strip()


def test_the_rail_shows_the_phases_of_the_workflow() -> None:
    write = writing()
    assert rail(write) == "✓INIT ── ◦BASELINE ──  ▸ WRITE 4 s  ── ◦DONE"
    both = writing("write_then_tune")
    assert rail(both) == (
        "✓INIT ── ◦BASELINE ──  ▸ WRITE 4 s  ── ◦PLAN ── ◦EDIT ── ◦EVAL ── ◦DECIDE ── "
        "◦DIAGNOSE ── ◦DONE"
    )
    both.writes("w1", faster())
    assert rail(both).startswith("✓INIT ── ✓BASELINE ── ✓WRITE ──  ▸ PLAN 4 s  ── ◦EDIT")
    write.writes("w1", faster())
    assert rail(write) == "✓INIT ── ✓BASELINE ── ✓WRITE ──  ✓ DONE"


def test_a_writing_that_was_not_needed_is_not_among_the_phases_behind() -> None:
    run = SimulatedRun(workflow="write_then_tune")
    assert "◦WRITE" in rail(run)  # it may still be needed
    run.until_agent()
    assert "✓BASELINE ──  ▸ PLAN" in rail(run)
    assert "WRITE" not in rail(run)


def test_a_run_that_never_got_there_has_not_passed_the_phases_of_tuning() -> None:
    run = writing("write_then_tune", policy=Policy(max_rounds=1))
    run.writes("w1", failed())
    assert rail(run).startswith("✓INIT ── ✓BASELINE ── ✓WRITE ── ◦PLAN")
    assert rail(run).endswith("✗ DONE")


@pytest.mark.parametrize("room", [40, 78, 100, 118])
def test_the_rail_fits(room: int) -> None:
    run = writing("write_then_tune")
    assert len(plain(phase_row(run.state, run.state.phase_since + 4_000, room))) <= room
    if room >= 78:
        assert "DONE" in rail(run, room)


def test_what_comes_next_is_told() -> None:
    run = writing()
    assert upcoming(run.state, run.now) is Phase.BASELINE
    assert plain(status(run.state, "at work", None, run.now, 80)).endswith("then BASELINE")


def test_nothing_is_called_not_correct_before_it_was_checked() -> None:
    run = SimulatedRun(workflow="write_then_tune")
    while run.state.running is None:
        effect = run.next()
        if isinstance(effect, fx.Measure):
            run.must(cmd.StartEval(effect.purpose, effect.attempt, effect.blob))
        else:
            run.step()
    assert run.state.phase is Phase.BASELINE
    assert "no baseline yet" in plain(header(run.state, run.now, 118))
    run.must(cmd.FinishEval(failed()))
    assert "not correct yet" in plain(header(run.state, run.now, 118))


def test_header_and_panes_say_that_no_kernel_is_correct() -> None:
    run = writing(policy=Policy(max_rounds=7))
    run.writes("w1", failed("wrong values"))
    head = plain(header(run.state, run.now, 118))
    assert "│ round 2/7 │ not correct yet │ mode auto" in head
    assert "✗" not in head  # a try is no verdict
    assert plain(sparkline(run.state, 60)).startswith("no attempt yet: no kernel is correct")
    told = [plain(row) for row in plan_view(run.state, 40, 9).rows]
    assert [row.strip() for row in told[:2]] == ["no plan:", "the agent writes the kernel"]
    found = eval_rows(run.state, EstimateHistory(), run.now, 60, 12)
    assert [plain(row).strip() for row in found[:3]] == ["try 1 failed", "wrong", "wrong values"]
    both = writing("write_then_tune")
    told = [plain(row) for row in plan_view(both.state, 40, 9).rows]
    assert told[1].strip() == "a correct kernel comes first"


def test_the_request_before_a_written_kernel_runs_names_it() -> None:
    run = writing()
    run.must(cmd.SetGate(Gate.EDIT, on=True))
    run.writes("w1")
    (ask,) = requests(run.state, run.now, (7, 2))
    assert ask.title == "RUN the kernel that the agent wrote?"
    assert ask.who == "WRITE asks for the agent"
    assert ask.always.startswith("every later try of the agent to write the kernel")
    (opened,) = line_texts(run.records[-1].event, "headless", str)
    assert opened == "the written kernel waits for your review"


@pytest.mark.parametrize("room", [80, 120, 200])
def test_the_key_that_leaves_compile_out_stands_beside_its_measurement(room: int) -> None:
    run = while_compile_is_measured()
    doing = "measuring torch.compile, usually within 60 s"
    row = plain(status(run.state, doing, Progress("build"), run.now, room))
    assert row.startswith(doing)
    assert row.endswith("S leaves it out")
    assert len(row) <= room
