"""Runs that rank by estimates, and the runs that settle them."""

from __future__ import annotations

import pytest

from akg_tui.agent.models.sweep import read_trials
from akg_tui.agent.prompt import visit_prompt
from akg_tui.core import commands as cmd
from akg_tui.core import effects as fx
from akg_tui.core import events as ev
from akg_tui.core.decide import Rejected
from akg_tui.core.fold import OutOfOrder
from akg_tui.core.measurement import Estimate, Measurement
from akg_tui.core.phases import Gate, ItemState, Phase, Verdict
from akg_tui.core.plan.plan_document import render_plan
from akg_tui.core.summary import best_of, summarize
from akg_tui.core.task import Policy
from akg_tui.core.verdict import decide_by_estimate
from tests.core.simulated import SimulatedRun, estimated, failed, faster, shortlist, unproved


def ranked(*texts: str, **changes: object) -> SimulatedRun:
    """An estimate run in EDIT: the seed has an estimate of 10 µs, and these are its items."""
    run = SimulatedRun(estimate="sm_90", **changes)  # type: ignore[arg-type]
    run.until_agent(estimated(10.0))
    run.begins(*texts)
    return run


def finished(run: SimulatedRun) -> str:
    run.must(cmd.Stop())
    run.until_agent()
    return run.state.finished


@pytest.mark.parametrize(
    ("measured", "verdict", "words"),
    [
        (estimated(9.0), Verdict.SHORTLIST, "lower estimate: ~9 µs for sm_90"),
        (estimated(9.95), Verdict.DISCARD, "lower estimate, but not by more than 1 %: ~9.95 µs"),
        (estimated(10.0), Verdict.DISCARD, "no lower estimate: ~10 µs"),
        (estimated(12.0), Verdict.DISCARD, "the best so far ~10 µs; what binds: memory"),
        (failed("sm_90: attend: out of shared memory"), Verdict.FAIL, "out of shared memory"),
        (faster(3.0), Verdict.DISCARD, "no estimate"),  # a time is no estimate, and no KEEP here
    ],
)
def test_a_verdict_by_estimate_is_never_a_keep_and_claims_no_speed(
    measured: Measurement, verdict: Verdict, words: str
) -> None:
    found = decide_by_estimate(measured, Estimate("sm_90", 10.0, "memory"), min_gain=0.01)
    assert found.verdict is verdict
    assert words in found.reason
    assert "faster" not in found.reason
    assert "slower" not in found.reason


def test_a_shortlisted_kernel_is_the_base_of_the_next_item_until_it_is_undone() -> None:
    run = ranked("a", "b", "c", "d")
    run.tries(estimated(8.0))
    assert run.state.item("p1").state is ItemState.SHORTLISTED
    assert run.state.work_blob == "b1"
    run.tries(estimated(9.0))
    assert run.state.item("p2").state is ItemState.DISCARDED  # 9 is lower than the seed's 10 only
    run.tries(estimated(6.0))
    assert [attempt.number for attempt in run.state.shortlist] == [3, 1]
    run.must(cmd.UndoKeep("it moves the work to the host"))
    assert [attempt.number for attempt in run.state.shortlist] == [1]
    assert run.state.best_estimate == Estimate("sm_90", 8.0, "memory")
    assert run.state.item("p3").word == "UNDONE"


def test_a_run_ends_with_its_shortlist_and_without_a_figure() -> None:
    run = ranked("a", "b", "c", baselines=("eager", "compile"))
    run.tries(estimated(8.0))
    run.tries(failed())
    over = finished(run)
    assert over.endswith("nothing was timed: a shortlist of 1, measure it with akg-tui settle")
    assert run.state.ok
    assert best_of(run.state) is None
    told = summarize(run.state)
    assert told["best"] is told["speedup_vs_seed"] is told["seed_ms"] is None
    assert [each["attempt"] for each in told["estimate"]["shortlist"]] == [1]
    assert told["estimate"]["best"] == {"arch": "sm_90", "us": 8.0, "binds": "memory"}
    measured = [r.event.purpose for r in run.records if isinstance(r.event, ev.EvalStarted)]
    assert set(measured) == {ev.Purpose.BASELINE, ev.Purpose.CANDIDATE}


def test_a_run_without_a_lower_estimate_says_so() -> None:
    run = ranked("a", "b")
    run.tries(estimated(10.0))
    assert finished(run).endswith("no kernel has a lower estimate than the seed")


def test_a_run_of_estimates_goes_on_with_more_rounds() -> None:
    run = ranked("a", "b", policy=Policy(max_rounds=1))
    run.tries(estimated(8.0))
    assert run.state.finished
    run.must(cmd.GoOn(Policy(max_rounds=3)))
    assert run.state.phase is Phase.PLAN


def test_a_goal_is_not_met_by_an_estimate() -> None:
    run = ranked("a", "b")
    run.tries(estimated(1.0))
    assert run.state.best is not None
    assert run.state.best.speedup.ratio == 1.0
    assert not run.state.goals_met


def test_the_sweep_reads_the_estimates_as_ratios_over_the_seeds() -> None:
    run = ranked("BLOCK=64", "BLOCK=32", "BLOCK=16", "a")
    run.tries(estimated(5.0))
    run.tries(estimated(20.0))
    run.tries(failed())
    run.must(cmd.ForceReplan(""))
    run.until_agent()
    prompt = visit_prompt(run.state)
    assert "estimate: sm_90 (nothing is timed)" in render_plan(run.state)
    assert [(t.setting, t.over_seed) for t in read_trials(prompt)] == [
        ({"BLOCK": 64}, 2.0),
        ({"BLOCK": 32}, 0.5),
        ({"BLOCK": 16}, None),
    ]


def test_the_gate_keep_asks_before_a_kernel_is_shortlisted() -> None:
    run = ranked("a", "b")
    run.must(cmd.SetGate(Gate.KEEP, on=True))
    run.tries(estimated(8.0))
    gate = run.state.gate
    assert gate is not None
    run.must(cmd.AnswerGate(gate.gate, approve=False, comment="odd"))
    run.until_agent()
    assert run.state.attempts[1].verdict is Verdict.DISCARD
    assert run.state.attempts[1].reason == "rejected in review: odd"


# Settling


def settling(*blobs: str, **changes: object) -> SimulatedRun:
    run = SimulatedRun(**changes)  # type: ignore[arg-type]
    run.tell(shortlist(*blobs))
    return run


def test_each_kernel_of_the_shortlist_is_measured_against_the_best_and_no_agent_works() -> None:
    run = settling("k1", "k2", "k3")
    run.until_agent(faster(), faster(1.4), faster(0.9), failed(), faster(1.4))
    assert run.state.finished == "the shortlist is settled"
    assert [(a.blob, a.verdict) for a in run.state.attempts] == [
        ("seed", Verdict.KEEP),
        ("k1", Verdict.KEEP),
        ("k2", Verdict.DISCARD),
        ("k3", Verdict.FAIL),
    ]
    assert run.state.attempts[2].incumbent == "k1"
    best = best_of(run.state)
    assert best is not None
    assert best.fresh
    assert summarize(run.state)["settles"]["parent"] == "estimates"


def test_a_kernel_that_was_not_decided_is_measured_again_also_against_another_best() -> None:
    run = settling("k1", "k2")
    run.until_agent(faster(), unproved(), faster(1.4), faster(1.1))
    tried = [(a.blob, a.incumbent) for a in run.state.attempts if a.number]
    assert tried == [("k1", "seed"), ("k2", "seed"), ("k1", "k2")]


def test_failures_in_a_row_lead_to_no_diagnosis() -> None:
    run = settling("k1", "k2", "k3", "k4")
    run.until_agent(faster(), failed(), failed(), failed(), failed())
    assert run.state.finished == "the shortlist is settled"
    assert run.state.count(Verdict.FAIL) == 4


def test_a_kernel_that_a_person_rejects_before_it_runs_is_dropped() -> None:
    run = settling("k1", "k2")
    run.must(cmd.SetGate(Gate.EDIT, on=True))
    run.until_agent(faster())
    gate = run.state.gate
    assert gate is not None
    run.must(cmd.AnswerGate(gate.gate, approve=False))
    run.until_agent()
    assert run.state.item("p1").state is ItemState.DROPPED
    assert run.state.work_blob == "k2"


@pytest.mark.parametrize(
    "command",
    [
        cmd.AddItem("another direction"),
        cmd.ForceReplan(""),
        cmd.ForceDiagnosis(""),
        cmd.Edit("x", "sha", 1, 1),
        cmd.ReportBlocked("other", "nothing here can be made faster", "run"),
        cmd.AskUser("May I?", (), None, None),
    ],
)
def test_nobody_plans_edits_or_asks_in_a_run_that_settles(command: cmd.Command) -> None:
    run = settling("k1")
    while not (run.state.phase is Phase.EDIT and run.state.active):
        effect = run.next()
        assert effect is not None
        run.perform(effect)
    before = run.state
    assert isinstance(run.send(command), Rejected)
    assert run.state is before
    assert isinstance(run.next(), fx.Step)


def test_only_a_new_run_takes_a_shortlist() -> None:
    run = SimulatedRun()
    run.until_agent()
    with pytest.raises(OutOfOrder):
        run.tell(shortlist("k1"))
