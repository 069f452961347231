"""Workflows: tables that are checked when they are built, and the runs that follow them."""

from __future__ import annotations

import pytest

from akg_tui.core import commands as cmd
from akg_tui.core import effects as fx
from akg_tui.core import events as ev
from akg_tui.core.measurement import FailureKind, Measurement, Outcome
from akg_tui.core.phases import (
    TUNE,
    BadWorkflow,
    Gate,
    Mode,
    Overlay,
    Phase,
    Row,
    Workflow,
)
from akg_tui.core.recovery import opening
from akg_tui.core.stopping.automation import AutomationPolicy
from akg_tui.core.summary import summarize
from akg_tui.core.task import Policy
from akg_tui.core.usage import usage_report
from tests.core.simulated import SimulatedRun, broken, failed, faster

INIT, WRITE, DONE = Phase.INIT, Phase.WRITE, Phase.DONE


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ({DONE: Row(())}, "INIT is missing"),
        ({INIT: Row(())}, "DONE is missing"),
        ({INIT: Row((WRITE,)), DONE: Row(())}, "INIT leads to WRITE, which has no row"),
        (
            {INIT: Row((DONE,)), WRITE: Row((WRITE,), "agent", ("x",)), DONE: Row(())},
            "WRITE has no way to DONE",
        ),
        (
            {INIT: Row((DONE,)), WRITE: Row((DONE,), "agent", ("x",)), DONE: Row(())},
            "WRITE cannot be reached",
        ),
        ({INIT: Row((DONE,)), DONE: Row((INIT,))}, "DONE is the end, and cannot be left"),
        (
            {INIT: Row((WRITE,)), WRITE: Row((DONE,), "agent"), DONE: Row(())},
            "WRITE needs both an agent and",
        ),
    ],
)
def test_a_workflow_in_which_a_run_could_be_lost_cannot_be_built(
    rows: dict[Phase, Row], told: str
) -> None:
    with pytest.raises(BadWorkflow, match=f"workflow tune: {told}"):
        Workflow("tune", rows)


def writing(workflow: str = "write", **changes: object) -> SimulatedRun:
    """In WRITE, because the first kernel is not correct."""
    run = SimulatedRun(workflow=workflow, **changes)  # type: ignore[arg-type]
    run.until_agent(failed("it has no ModelNew"))
    assert run.next() == fx.RunAgent(Phase.WRITE)
    return run


def phases(run: SimulatedRun) -> list[Phase]:
    return [r.event.phase for r in run.records if isinstance(r.event, ev.PhaseEntered)]


def test_write_ends_with_the_first_correct_kernel() -> None:
    run = writing()
    for number in range(1, 4):
        run.writes(f"w{number}", failed(f"wrong values {number}"))
        assert (run.state.phase, run.state.work_blob) == (Phase.WRITE, f"w{number}")
    run.writes("w4", faster())
    state = run.state
    assert (state.finished, state.ok) == ("the kernel is correct", True)
    assert state.best is not None
    assert (state.best.attempt, state.best.blob) == (0, "w4")
    assert (state.settled, state.tries) == (4, 4)
    assert phases(run) == [Phase.BASELINE, *[Phase.WRITE, Phase.BASELINE] * 4, Phase.DONE]
    assert run.refold() == state


def test_a_correct_first_kernel_is_not_written_again() -> None:
    write = SimulatedRun(workflow="write")
    write.until_agent()
    assert (write.state.finished, write.state.settled) == ("the kernel is correct", 0)
    tune = SimulatedRun(workflow="write_then_tune")
    tune.until_agent()
    assert (tune.state.phase, tune.state.settled) == (Phase.PLAN, 0)


def test_a_wrong_seed_is_mended_and_then_tuned_against_what_was_written() -> None:
    run = writing("write_then_tune", policy=Policy(max_rounds=4))
    run.writes("w1", failed())
    run.writes("w2", faster(0.9))
    assert run.state.phase is Phase.PLAN
    run.begins("a", "b")
    run.tries(faster(2.0))
    assert [(a.number, a.round, a.blob) for a in run.state.attempts] == [(0, 2, "w2"), (1, 3, "b1")]
    final = run.tries(faster(1.0), faster(1.9))
    assert final is None
    measured = [r.event for r in run.records if isinstance(r.event, ev.EvalStarted)]
    assert measured[-1].purpose is ev.Purpose.FINAL
    assert run.state.seed_blob == "w2"
    assert run.state.finished == "max rounds reached (4)"
    told = summarize(run.state)
    assert (told["workflow"], told["rounds"], told["tries_to_write"]) == ("write_then_tune", 4, 2)


def test_a_run_without_a_workflow_in_its_journal_is_tuned() -> None:
    run = SimulatedRun()
    assert run.state.workflow is TUNE
    run.until_agent(failed("wrong values"))
    assert run.state.finished == "the kernel is not correct before any change: wrong values"


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        (Policy(max_rounds=3), "max rounds reached (3)"),
        (Policy(max_rounds_without_keep=3), "no KEEP in 3 rounds"),
        (
            Policy(automation=AutomationPolicy(max_experiments=3)),
            "max experiments reached (3/3)",
        ),
    ],
)
@pytest.mark.parametrize("workflow", ["write", "write_then_tune"])
def test_a_model_that_never_gets_there_is_stopped_by_the_policy(
    workflow: str, policy: Policy, why: str
) -> None:
    run = writing(workflow, policy=policy)
    for number in range(1, 4):
        run.writes(f"w{number}", failed(f"wrong values {number}"))
    state = run.state
    assert state.finished == f"{why}; the kernel is not correct: wrong values 3"
    assert not state.ok
    assert state.finish_reason == state.stop_conditions[0] == why
    assert phases(run)[-2:] == [Phase.BASELINE, Phase.DONE]


def test_a_model_that_writes_nothing_is_stopped() -> None:
    run = writing()
    for _ in range(3):
        run.must(cmd.Observe(ev.VisitFailed(phase=Phase.WRITE, reason="no call of a tool")))
    run.until_agent()
    assert run.state.finished == (
        "the agent made no progress in 3 visits: no call of a tool; "
        "the kernel is not correct: it has no ModelNew"
    )


def test_a_try_ends_the_count_of_visits_without_one() -> None:
    run = writing()
    for number in range(4):
        run.must(cmd.Observe(ev.VisitFailed(phase=Phase.WRITE, reason="no call")))
        run.writes(f"w{number}", failed())
    assert run.state.phase is Phase.WRITE


def test_what_is_not_the_kernels_fault_ends_the_run() -> None:
    run = writing()
    run.writes("w1", broken(FailureKind.REFERENCE))
    assert (run.state.finished, run.state.ok) == ("the judge was lost", False)
    assert run.state.settled == 0


def test_a_judge_lost_during_a_try_measures_it_again() -> None:
    run = writing("write_then_tune")
    run.writes("w1", broken(), broken(), faster())
    assert (run.state.phase, run.state.tries) == (Phase.PLAN, 1)


def test_a_person_stops_a_run_that_writes() -> None:
    run = writing()
    run.must(cmd.Stop("enough"))
    run.until_agent()
    assert run.state.finished == "enough; the kernel is not correct: it has no ModelNew"


def test_a_kernel_that_is_not_timed_is_written_and_not_tuned() -> None:
    untimed = Measurement(outcome=Outcome.CORRECT, message="interpreted", timed=False)
    write, both = writing(), writing("write_then_tune")
    write.writes("w1", untimed)
    both.writes("w1", untimed)
    assert write.state.ok
    assert both.state.finished == "there is nothing to tune by: interpreted"


def test_what_a_killed_session_wrote_last_goes_back_to_the_last_measured_kernel() -> None:
    run = writing()
    run.writes("w1", failed())
    run.must(cmd.Observe(ev.ModelReplied(phase=Phase.WRITE, model="m")))
    run.must(cmd.Edit("w2", "sha", 1, 1))
    assert run.state.work_blob == "w2"
    for event in opening(run.state, 2, "0"):
        run.must(cmd.Observe(event))
    assert (run.state.work_blob, run.state.edited) == ("w1", False)
    assert run.next() == fx.RunAgent(Phase.WRITE)


def test_a_written_kernel_waits_at_the_gate_before_it_first_runs() -> None:
    run = writing()
    run.must(cmd.SetGate(Gate.EDIT, on=True))
    assert run.writes("w1") == fx.Hold(Overlay.WAIT_USER, Phase.BASELINE)
    assert run.state.gate is not None
    assert run.state.gate.attempt == 0
    run.must(cmd.AnswerGate(1, approve=False, comment="no inline assembly"))
    assert run.until_agent() == fx.RunAgent(Phase.WRITE)
    assert run.state.work_blob == "seed"
    assert run.state.hints == (
        "the kernel that you wrote was rejected before it ran: no inline assembly",
    )
    assert run.writes("w2") == fx.Hold(Overlay.WAIT_USER, Phase.BASELINE)
    run.must(cmd.AnswerGate(2, approve=True, always=True))
    run.until_agent(failed())
    run.writes("w3", faster())
    assert run.state.finished == "the kernel is correct"


def test_step_mode_waits_before_and_after_a_try() -> None:
    run = SimulatedRun(workflow="write", mode=Mode.STEP)
    run.until_agent()
    run.must(cmd.Step())
    assert run.until_agent(failed()) == fx.Hold(Overlay.WAIT_STEP, Phase.WRITE)


def test_a_plan_cannot_be_demanded_where_there_is_none() -> None:
    run = writing()
    for command in (cmd.AddItem("wider blocks"), cmd.ForceReplan(), cmd.ForceDiagnosis()):
        refused = run.send(command)
        assert refused is not None
        assert refused.why == "the workflow write has no plan: give the agent a hint"
    both = writing("write_then_tune")
    refused = both.send(cmd.ForceDiagnosis())
    assert refused is not None
    assert refused.why == "the run is in WRITE: the first plan is yet to come"
    both.must(cmd.AddItem("wider blocks"))
    both.must(cmd.DropItem("p1"))
    assert both.next() == fx.RunAgent(Phase.WRITE)  # an empty plan does not end the writing


def test_each_try_is_a_round_in_the_account_of_tokens() -> None:
    run = writing("write_then_tune")
    run.writes("w1", failed())
    run.writes("w2", faster())
    run.plan("a")
    assert sorted(dict(usage_report(run.records).by_round)) == [1, 2, 3]
