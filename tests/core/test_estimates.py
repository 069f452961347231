"""Runs of earlier versions: of estimates, and those that settle a shortlist."""

from __future__ import annotations

from pathlib import Path

import pytest

from akg_tui.core import commands as cmd
from akg_tui.core import effects as fx
from akg_tui.core.decide import Rejected
from akg_tui.core.fold import OutOfOrder, fold
from akg_tui.core.phases import Gate, ItemState, Phase, Verdict
from akg_tui.core.summary import best_of, summarize
from akg_tui.core.user_commands import can_go_on
from akg_tui.store.journal_format import inspect
from tests.core.simulated import SimulatedRun, failed, faster, shortlist, unproved

ESTIMATED = Path(__file__).parents[1] / "recorded" / "estimate_run.jsonl"
"""A journal of version 0.1.0: the seed at 10 µs, then 8.8 µs, a failure, and 9.5 µs."""


def test_a_recorded_run_of_estimates_is_read_and_claims_no_speed() -> None:
    found = inspect(ESTIMATED)
    assert found.fault is None
    state = fold(found.records)
    assert state is not None
    assert [a.verdict for a in state.attempts if a.number] == [
        Verdict.SHORTLIST, Verdict.FAIL, Verdict.DISCARD,
    ]  # fmt: skip
    assert state.item("p1").state is ItemState.SHORTLISTED
    assert (state.ok, can_go_on(state), best_of(state)) == (True, False, None)
    told = summarize(state)
    assert told["best"] is told["speedup_vs_seed"] is told["seed_ms"] is None
    assert told["verdicts"]["SHORTLIST"] == 1


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
