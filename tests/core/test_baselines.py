"""Eager and compile: when they are measured, and the one figure of the best kernel made of them."""

from __future__ import annotations

import msgspec
import pytest

from akg_tui.core import commands as cmd
from akg_tui.core import effects as fx
from akg_tui.core import events as ev
from akg_tui.core.measurement import Interval, Measurement
from akg_tui.core.phases import Mode, Phase
from akg_tui.core.summary import (
    Ratios,
    best_of,
    candidate_of,
    climb_of,
    ratios_of,
    reference_lines,
    summarize,
)
from akg_tui.core.task import Baseline, Policy, Task
from tests.core.simulated import SimulatedRun, broken, failed, faster, planned

COMPILED: tuple[Baseline, ...] = ("compile",)


def figures(best: Ratios) -> dict[str, float]:
    """The ratios of a kernel by what they are over."""
    return {name: found.ratio for name, found in best.named}


def measures(run: SimulatedRun) -> list[str]:
    return [r.event.purpose for r in run.records if isinstance(r.event, ev.EvalStarted)]


def finished(seed: Measurement | None = None, compiled: Measurement | None = None) -> SimulatedRun:
    """A run of one round and one KEEP."""
    run = SimulatedRun(policy=Policy(max_rounds=1), baselines=COMPILED)
    run.until_agent(seed or faster())
    run.begins("a")
    run.tries(faster(8.0), faster(3.0), compiled or faster())
    assert run.state.finished
    return run


def kept(
    *compiled: Measurement,
    seed: Measurement | None = None,
    baselines: tuple[Baseline, ...] = COMPILED,
    **changes: object,
) -> SimulatedRun:
    """A run whose first KEEP, 8 times as fast as the seed, is followed by `compiled`."""
    run = SimulatedRun(baselines=baselines, **changes)  # type: ignore[arg-type]
    run.until_agent(seed or faster())
    run.begins("a", "b")
    run.tries(faster(8.0), *compiled)
    return run


def while_compile_is_measured() -> SimulatedRun:
    """A run whose first KEEP is settled, at the measurement of torch.compile."""
    run = SimulatedRun(baselines=COMPILED)
    run.until_agent(faster())
    run.begins("a", "b")
    run.edit()
    while (effect := run.next()) != fx.Measure(ev.Purpose.COMPILE, 0, "", None):
        assert effect is not None
        run.perform(effect, faster(8.0))
    run.must(cmd.StartEval(ev.Purpose.COMPILE, 0, ""))
    return run


def test_the_first_keep_never_waits_for_compile() -> None:
    assert measures(planned("a", baselines=COMPILED)) == ["baseline"]
    run = planned("a", "b", "c", baselines=COMPILED)
    run.tries(failed())
    run.tries(faster(0.9))
    assert measures(run) == ["baseline", "candidate", "candidate"]
    run.tries(faster(1.2))
    assert measures(run)[3:] == ["candidate", "compile"]
    assert run.state.phase is Phase.PLAN
    assert measures(kept()) == ["baseline", "candidate", "compile"]


def test_compile_is_measured_once_and_only_where_the_task_wants_it() -> None:
    run = kept()
    run.tries(faster(2.0))
    assert measures(run) == ["baseline", "candidate", "compile", "candidate"]
    assert measures(kept(baselines=())) == ["baseline", "candidate"]


def test_a_run_that_ends_first_measures_compile_last() -> None:
    assert measures(finished()) == ["baseline", "candidate", "final", "compile"]
    run = SimulatedRun(policy=Policy(max_rounds=1), baselines=("eager", *COMPILED))
    run.until_agent()
    run.begins("a")
    run.tries(faster(0.9))
    assert measures(run) == ["baseline", "candidate", "compile"]
    assert run.state.finished


def test_a_person_leaves_compile_out_before_and_while_it_is_measured() -> None:
    run = planned("a", baselines=("compile", "max-autotune"))
    run.must(cmd.LeaveOutCompile())
    run.tries(faster(1.2))
    assert measures(run) == ["baseline", "candidate"]
    assert summarize(run.state)["compile_problem"] == "a person left it out"
    assert summarize(run.state)["max_autotune_problem"] == "a person left it out"

    run = while_compile_is_measured()
    run.must(cmd.LeaveOutCompile())
    assert run.state.running is None
    run.until_agent()
    assert run.state.phase is Phase.EDIT
    assert measures(run) == ["baseline", "candidate", "compile"]
    assert run.state == run.refold()


def test_what_cannot_be_left_out_is_refused() -> None:
    for run, why in (
        (planned("a"), "this run measures no torch.compile"),
        (kept(), "torch.compile is measured already"),
        (while_compile_is_measured(), "torch.compile is left out already"),
    ):
        if "left out" in why:
            run.must(cmd.LeaveOutCompile())
        refused = run.send(cmd.LeaveOutCompile())
        assert refused is not None
        assert refused.why == why


def test_a_keep_can_be_undone_while_compile_is_measured() -> None:
    run = while_compile_is_measured()
    run.must(cmd.UndoKeep())
    assert run.state.best is not None
    assert run.state.best.attempt == 0
    run.must(cmd.FinishEval(faster()))
    assert run.state.compiled is not None


def test_a_run_of_an_earlier_version_that_measured_compile_first_folds_and_goes_on() -> None:
    run = SimulatedRun(baselines=COMPILED)
    while run.state.best is None:
        run.perform(run.next())  # type: ignore[arg-type]
    run.tell(ev.EvalStarted(purpose=ev.Purpose.COMPILE, attempt=0, blob=""))
    run.tell(ev.EvalFinished(purpose=ev.Purpose.COMPILE, attempt=0, measurement=faster(1.25)))
    run.until_agent()
    run.begins("a")
    run.tries(faster(2.0))
    assert measures(run) == ["baseline", "compile", "candidate"]


@pytest.mark.parametrize(("compiled", "autotuned"), [(1.25, 1.5), (1.5, 1.25)])
def test_the_faster_mode_of_compile_counts(compiled: float, autotuned: float) -> None:
    modes: tuple[Baseline, ...] = ("max-autotune", "compile")
    run = kept(faster(compiled), faster(autotuned), seed=faster(3.0), baselines=modes)
    assert measures(run)[2:] == ["compile", "max-autotune"]
    best = best_of(run.state)
    assert best is not None
    assert figures(best) == pytest.approx({"seed": 8.0, "eager": 24.0, "compile": 16.0})
    assert dict(reference_lines(run.state))["compile"].ratio == pytest.approx(0.5)
    summary = summarize(run.state)
    assert summary["compile_vs_eager"]["ratio"] == compiled
    assert summary["max_autotune_vs_eager"]["ratio"] == autotuned


def test_a_mode_of_compile_that_fails_leaves_the_other_its_figure() -> None:
    failing = failed("no configuration fits")
    modes: tuple[Baseline, ...] = ("compile", "max-autotune")
    run = kept(faster(1.5), failing, seed=faster(3.0), baselines=modes)
    assert run.state.phase is Phase.EDIT
    best = best_of(run.state)
    assert best is not None
    assert figures(best) == pytest.approx({"seed": 8.0, "eager": 24.0, "compile": 16.0})
    summary = summarize(run.state)
    assert summary["max_autotune_problem"] == "no configuration fits"
    assert summary["compile_problem"] == ""


@pytest.mark.parametrize("fault", [failed("no C++ compiler was found"), broken()])
def test_a_compile_that_fails_is_told_and_the_run_goes_on(fault: Measurement) -> None:
    run = kept(fault, seed=faster(0.5))
    assert run.state.phase is Phase.EDIT
    assert run.state.eval_errors == 0
    assert summarize(run.state)["compile_problem"] == fault.message
    best = best_of(run.state)
    assert best is not None
    assert [name for name, _ in best.named] == ["seed", "eager"]


def test_a_stop_cuts_the_measurement_of_compile_off_and_measures_it_no_more() -> None:
    run = while_compile_is_measured()
    run.must(cmd.Stop())
    assert run.state.running is None
    run.until_agent()
    assert run.state.finished
    assert measures(run) == ["baseline", "candidate", "compile", "final"]
    assert run.state.compiled is None


def test_a_compile_cut_off_by_the_end_of_a_session_is_measured_by_the_next() -> None:
    run = while_compile_is_measured()
    run.tell(ev.EvalInterrupted(attempt=0, reason="session ended"))
    run.until_agent()
    run.tries(faster(0.9))
    assert measures(run) == ["baseline", "candidate", "compile", "compile", "candidate"]


def test_a_journal_of_an_older_version_has_no_compile() -> None:
    """Its task has no `baselines`, and its events no such purpose."""
    text = msgspec.json.encode(Task(op="op")).replace(b'"baselines":[],', b"")
    assert b"baselines" not in text
    assert msgspec.json.decode(text, type=Task).baselines == ()
    state = planned("a").state
    assert state.compiled is None
    assert summarize(state)["compile_vs_eager"] is None


def test_the_best_is_provisional_until_the_final_measurement_and_fresh_after_it() -> None:
    run = SimulatedRun(policy=Policy(max_rounds=2), baselines=COMPILED)
    run.until_agent(faster(0.5, 0.01))
    seed = best_of(run.state)
    assert seed is not None
    assert (seed.attempt, seed.provisional, seed.fresh) == (0, False, False)
    assert figures(seed) == {"eager": 0.5}
    run.begins("a", "b")
    run.tries(faster(8.0), faster(1.25, 0.01))
    best = best_of(run.state)
    assert best is not None
    assert best.provisional
    assert figures(best) == pytest.approx({"seed": 8.0, "eager": 4.0, "compile": 3.2})
    run.tries(faster(0.9), faster(3.0))
    best = best_of(run.state)
    assert best is not None
    assert (best.fresh, best.provisional) == (True, False)
    assert figures(best) == pytest.approx({"seed": 3.0, "eager": 1.5, "compile": 1.2})
    assert best.line == "3.00x seed · 1.50x eager · 1.20x compile"


def test_the_best_is_timed_against_eager_at_the_end_where_the_task_wants_it() -> None:
    run = SimulatedRun(policy=Policy(max_rounds=1), baselines=("eager",))
    run.until_agent(faster(0.5, 0.2))
    run.begins("a")
    run.tries(faster(8.0), faster(3.0), faster(1.4, 0.01))
    assert measures(run) == ["baseline", "candidate", "final", "eager"]
    best = best_of(run.state)
    assert best is not None
    assert figures(best) == {"seed": 3.0, "eager": 1.4}
    assert best.over_eager == Interval(1.4, 1.39, 1.41, 0.99), "its own interval, and no chain's"
    run.must(cmd.UndoKeep())
    assert run.state.final_eager is None


@pytest.mark.parametrize("fault", [failed(), broken()])
def test_a_best_that_cannot_be_timed_against_eager_keeps_the_chained_ratio(
    fault: Measurement,
) -> None:
    run = SimulatedRun(policy=Policy(max_rounds=1), baselines=("eager",))
    run.until_agent(faster(0.5))
    run.begins("a")
    run.tries(faster(8.0), faster(3.0), fault)
    assert run.state.finished
    assert run.state.ok
    best = best_of(run.state)
    assert best is not None
    assert figures(best) == {"seed": 3.0, "eager": 1.5}


def test_a_run_that_kept_nothing_is_not_timed_against_eager_again() -> None:
    run = SimulatedRun(policy=Policy(max_rounds=1), baselines=("eager",))
    run.until_agent(faster(0.5))
    run.begins("a")
    run.tries(faster(0.9))
    assert run.state.finished
    assert measures(run) == ["baseline", "candidate"]


def test_the_list_the_climb_and_the_summary_take_the_figure_of_the_best() -> None:
    state = finished(faster(0.5), faster(1.25)).state
    best = best_of(state)
    assert best is not None
    assert best.over_seed.ratio == 3.0
    assert ratios_of(state, state.attempts[1]) == best
    assert climb_of(state) == [1.0, 3.0]
    summary = summarize(state)
    assert summary["best"] == msgspec.to_builtins(best)
    assert summary["speedup_vs_seed"] == best.over_seed.ratio


def test_an_undone_keep_leaves_no_fresh_figure() -> None:
    run = finished()
    run.must(cmd.UndoKeep())
    best = best_of(run.state)
    assert best is not None
    assert (best.attempt, best.fresh, best.over_seed.ratio) == (0, False, 1.0)


def test_a_candidate_is_told_with_the_ratios_that_its_keep_would_give() -> None:
    run = planned("a", mode=Mode.REVIEW, baselines=COMPILED)
    run.tries(faster(2.0))
    candidate = candidate_of(run.state)
    assert candidate is not None
    assert candidate.over_seed.ratio == 2.0
    assert candidate.over_eager is not None
    assert candidate.over_eager.ratio == pytest.approx(3.0)


def test_bounds_of_a_chain_are_multiplied_and_its_confidence_is_lower() -> None:
    chain = Interval(2.0, 1.8, 2.2, 0.99).chained(Interval(0.5, 0.4, 0.6, 0.98))
    assert (chain.ratio, chain.low, chain.high) == pytest.approx((1.0, 0.72, 1.32))
    assert chain.confidence == pytest.approx(0.97)
    inverse = Interval(2.0, 1.6, 2.5, 0.99).inverse
    assert inverse == Interval(0.5, 0.4, 0.625, 0.99)
    assert Interval(1.0, -0.2, 2.2, 0.99).inverse is None


def test_the_lines_of_a_chart_are_eager_and_compile_over_the_seed() -> None:
    run = SimulatedRun(baselines=COMPILED)
    assert reference_lines(run.state) == ()
    run = kept(faster(1.25, 0.05), seed=faster(0.5, 0.1))
    lines = dict(reference_lines(run.state))
    assert lines["eager"].ratio == pytest.approx(2.0)
    assert (lines["eager"].low, lines["eager"].high) == pytest.approx((1 / 0.6, 1 / 0.4))
    assert lines["compile"].ratio == pytest.approx(2.5)


def test_times_agree_with_the_ratio_only_inside_its_interval() -> None:
    found = faster(2.06, 0.05)
    assert found.times_agree
    noisy = msgspec.structs.replace(found, baseline_ms=4.63, candidate_ms=3.35)
    assert not noisy.times_agree
