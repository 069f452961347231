"""A disturbed machine is told where a person looks: header, evaluation pane, plan, log."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from akg_tui.core import commands as cmd
from akg_tui.core import effects as fx
from akg_tui.core.measurement import CaseTiming, Measurement, Progress
from akg_tui.view.evaluation_rows import EstimateHistory, eval_rows
from akg_tui.view.plan_rows import plan_view
from akg_tui.view.spans import plain, width
from akg_tui.view.status import header
from tests.core.simulated import SimulatedRun, failed, faster, planned

WAITED = "the kernels waited for a CPU 31% of the time"
MOVED = "the CPU's clock moved between 1.20 and 3.40 GHz"


def noisy(detectable: float = 0.124, *sentences: str) -> Measurement:
    noise = sentences or (WAITED,)
    return replace(faster(1.0), clusters=12, deviation=0.2, detectable=detectable, noise=noise)


def quiet() -> Measurement:
    return replace(faster(1.0), deviation=0.01, detectable=0.012)


def due(effect: fx.Effect | None) -> cmd.StartEval:
    assert isinstance(effect, fx.Measure)
    return cmd.StartEval(effect.purpose, effect.attempt, effect.blob)


def head(run: SimulatedRun, room: int = 160, progress: Progress | None = None) -> str:
    row = header(run.state, run.state.last_at, room, progress)
    assert width(row) <= room
    return plain(row)


def after(*measurements: Measurement) -> SimulatedRun:
    run = planned(*(f"A = {n}" for n in range(9)))
    for each in measurements:
        run.tries(each)
    return run


def test_the_header_tells_what_noise_costs_until_a_timing_is_quiet_again() -> None:
    assert "noisy: gains under 12 % are not seen" in head(after(noisy()))
    assert "noisy: gains under 5.2 % are not seen" in head(after(noisy(0.052)))
    assert "noisy: gains under 100 % are not seen" in head(after(noisy(45765952.294)))
    assert "noisy" in head(after(noisy(), failed())), "a kernel that failed was not timed"
    assert "noisy" not in head(after(noisy(), quiet()))
    assert "noisy" not in head(after(quiet()))


def test_a_comparison_that_ended_early_does_not_tell_what_the_machine_hides() -> None:
    given_up = replace(noisy(0.91), clusters=4)
    by_case = replace(noisy(0.91), cases=tuple(CaseTiming(name=name) for name in "abc"))
    continued = replace(noisy(0.08), clusters=4, log_ratios=(0.01,) * 12)
    for few in (given_up, by_case):
        assert "│ noisy │" in head(after(few))
        assert "noisy" in head(after(few), 79)
    assert "gains under 8.0 % are not seen" in head(after(continued))


@pytest.mark.parametrize("room", [60, 79, 99, 119])
def test_the_badge_is_short_in_a_narrow_header_and_stays_there(room: int) -> None:
    assert "noisy (12 %)" in head(after(noisy()), room)
    assert "noisy (100 %)" in head(after(noisy(4.0)), room)


def test_a_run_that_is_over_is_not_called_noisy() -> None:
    run = planned("A = 1")
    run.must(cmd.Stop())
    run.tries(noisy())
    assert run.state.finished
    assert "noisy" not in head(run)


def test_an_evaluation_at_work_tells_its_own_noise() -> None:
    run = after(quiet())
    run.edit()
    run.step()
    assert run.send(due(run.next())) is None
    at_work = Progress("time", 12, 16, noise=(MOVED,), detectable=0.08)
    assert "gains under 8.0 % are not seen" in head(run, progress=at_work)
    assert "│ noisy │" in head(run, progress=replace(at_work, done=4))
    assert "│ noisy │" in head(run, progress=replace(at_work, stage="confirm"))
    assert "noisy" not in head(run, progress=Progress("time", 2, 12))
    assert "noisy" not in head(run, progress=replace(at_work, noise=()))
    seen = EstimateHistory()
    seen.see(run.state, at_work)
    rows = [plain(row) for row in eval_rows(run.state, seen, run.state.last_at, 70, 12)]
    assert f"noise {MOVED}" in rows


def test_the_disturbances_stand_beside_the_measurement() -> None:
    state = after(noisy(0.2, WAITED, MOVED)).state
    rows = [plain(row) for row in eval_rows(state, EstimateHistory(), state.last_at, 70, 12)]
    assert {f"noise {WAITED}", f"noise {MOVED}"} <= set(rows)
    told = "\n".join(plain(row) for row in plan_view(state, 100, 40, {"p1"}).rows)
    assert f"noise {WAITED}" in told
