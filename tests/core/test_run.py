"""A run through core, told as the sequences of phases that a user would see."""

import pytest
from msgspec.structs import replace

from akg_tui.core import commands as cmd
from akg_tui.core import effects as fx
from akg_tui.core import events as ev
from akg_tui.core.measurement import FailureKind, Measurement, Outcome
from akg_tui.core.phases import Gate, ItemState, Mode, Overlay, Phase, Verdict
from akg_tui.core.stopping.automation import AutomationPolicy
from akg_tui.core.stopping.limits import stop_reasons
from akg_tui.core.task import Policy
from tests.core.simulated import SimulatedRun, broken, failed, faster, planned, report


def test_a_faster_kernel_is_kept_and_becomes_the_incumbent() -> None:
    run = planned("a", "b")
    run.tries(faster(1.5))
    best = run.state.best
    assert best is not None
    assert (best.attempt, best.blob, best.over_seed) == (1, "b1", 1.5)
    assert run.state.item("p1").state is ItemState.KEPT
    assert run.state.active == "p2"


def test_a_discard_and_a_fail_restore_the_best_kernel() -> None:
    run = planned("a", "b", "c")
    run.tries(faster(1.0))
    assert run.state.work_blob == "seed"
    run.edit()
    assert run.state.work_blob == "b2"
    run.until_agent(failed())
    assert run.state.work_blob == "seed"
    assert [i.state for i in run.state.items] == [
        ItemState.DISCARDED,
        ItemState.FAILED,
        ItemState.ACTIVE,
    ]


def test_the_agent_cannot_skip_the_evaluation_of_an_edit() -> None:
    run = planned("a")
    run.edit()
    assert run.state.phase is Phase.EDIT
    refused = run.send(cmd.Settle("c1"))
    assert refused is not None
    run.step()
    assert run.state.phase is Phase.EVAL
    assert run.send(cmd.Edit("other", "sha", 1, 1)) is not None
    assert run.send(cmd.RequestFinish("enough")) is not None
    assert run.state.work_blob == "b1"


def test_three_failures_in_a_row_suspend_the_plan_and_call_for_a_diagnosis() -> None:
    run = planned("a", "b", "c", "d")
    for _ in range(3):
        run.until_agent(failed())
        run.edit()
    run.until_agent(failed())
    assert run.state.phase is Phase.DIAGNOSE
    assert run.state.item("p4").state is ItemState.SUSPENDED
    run.turn(report("A=1"))
    run.until_agent()
    assert run.state.phase is Phase.PLAN
    assert run.state.fail_streak == 0


def test_a_discard_between_failures_breaks_the_streak() -> None:
    run = planned("a", "b", "c", "d", "e")
    for measurement in (failed(), failed(), faster(1.0), failed(), failed()):
        run.tries(measurement)
    assert run.state.phase is Phase.PLAN
    assert run.state.fail_streak == 2


def test_the_run_ends_at_max_rounds_and_measures_the_best_afresh() -> None:
    run = planned("a", "b", policy=Policy(max_rounds=1))
    run.tries(faster(2.0), faster(1.9))
    assert run.state.finished == "max rounds reached (1)"
    assert run.state.ok
    assert run.state.final is not None
    assert run.state.final.ratio is not None
    assert run.state.final.ratio.ratio == 1.9


def test_a_kernel_wrong_at_baseline_ends_the_run_as_not_ok() -> None:
    run = SimulatedRun()
    run.until_agent(failed("wrong values"))
    assert not run.state.ok
    assert "not correct before any change" in run.state.finished


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (FailureKind.TIMEOUT, "ran out of time before any change: no answer after 120 s"),
        (FailureKind.BUILD, "does not run before any change: no answer after 120 s"),
        (FailureKind.GUARD, "is refused before any change: no answer after 120 s"),
    ],
)
def test_a_baseline_that_failed_otherwise_is_not_called_incorrect(
    kind: FailureKind, told: str
) -> None:
    run = SimulatedRun()
    run.until_agent(replace(failed("no answer after 120 s"), failure=kind))
    assert run.state.finished == f"the kernel {told}"


def test_a_lost_judge_is_tried_again_and_then_told() -> None:
    run = SimulatedRun()
    run.until_agent(broken(), broken(), faster())
    assert run.state.phase is Phase.PLAN
    lost = SimulatedRun()
    lost.until_agent(broken(), broken(), broken())
    assert not lost.state.ok
    assert lost.state.finished == "the judge was lost"


def test_a_broken_reference_is_not_tried_again() -> None:
    run = SimulatedRun()
    run.until_agent(broken(FailureKind.REFERENCE))
    assert not run.state.ok


def test_a_judge_lost_in_the_middle_ends_the_run_with_the_best_kept() -> None:
    run = planned("a", "b")
    run.tries(faster(2.0))
    run.tries(broken(), broken(), broken())
    assert run.state.finished
    assert not run.state.ok
    assert run.state.best is not None
    assert run.state.best.attempt == 1


def test_step_mode_waits_before_every_transition_and_n_walks_one() -> None:
    run = SimulatedRun(mode=Mode.STEP)
    for phase in (Phase.BASELINE, Phase.PLAN):
        hold = run.until_agent()
        assert hold == fx.Hold(Overlay.WAIT_STEP, phase)
        run.must(cmd.Step())
        assert run.send(cmd.Step()) is not None
        assert run.until_agent() is not None
        assert run.state.phase is phase
    run.plan("a")
    assert run.until_agent() == fx.Hold(Overlay.WAIT_STEP, Phase.EDIT)


def test_a_keep_in_review_waits_for_an_answer_and_a_step_does_not_answer_it() -> None:
    run = planned("a", mode=Mode.REVIEW)
    assert run.tries(faster()) == fx.Hold(Overlay.WAIT_USER)
    assert run.send(cmd.Step()) is not None
    assert run.send(cmd.AnswerGate(7, approve=True)) is not None
    gate = run.state.gate
    assert gate is not None
    run.must(cmd.AnswerGate(gate.gate, approve=False, comment="too clever"))
    run.until_agent()
    attempt = run.state.attempts[-1]
    assert attempt.verdict is Verdict.DISCARD
    assert attempt.reason == "rejected in review: too clever"
    assert run.state.best is not None
    assert run.state.best.attempt == 0


def test_a_pause_lets_nothing_new_begin() -> None:
    run = planned("a")
    run.must(cmd.Pause())
    run.edit()
    assert run.next() == fx.Hold(Overlay.PAUSED, Phase.EVAL)
    run.must(cmd.Step())
    run.step()
    assert run.next() == fx.Hold(Overlay.PAUSED)
    run.must(cmd.Unpause())
    assert isinstance(run.next(), fx.Measure)


def test_an_interrupted_turn_undoes_its_edit_and_the_item_starts_again() -> None:
    run = planned("a")
    run.must(cmd.Observe(ev.ModelReplied(phase=Phase.EDIT, model="m")))
    run.must(cmd.Edit("b1", "sha", 1, 1))
    run.must(cmd.Observe(ev.TurnInterrupted(reason="killed")))
    assert run.state.work_blob == "seed"
    assert run.next() == fx.RunAgent(Phase.EDIT)


def test_an_item_that_got_no_edit_is_dropped() -> None:
    run = planned("a")
    run.must(cmd.Observe(ev.VisitFailed(phase=Phase.EDIT, reason="no result")))
    run.until_agent()
    assert run.state.item("p1").state is ItemState.DROPPED
    assert run.state.phase is Phase.PLAN


@pytest.mark.parametrize(("least", "most", "needed"), [(1, 20, 1), (2, 12, 2), (9, 2, 2)])
def test_finish_is_refused_before_min_rounds_and_accepted_after(
    least: int, most: int, needed: int
) -> None:
    run = SimulatedRun(policy=Policy(min_rounds=least, max_rounds=most))
    for settled in range(needed):
        run.until_agent()
        (refused,) = run.turn(cmd.RequestFinish("bored"))
        assert refused is not None
        assert refused.why == f"too early: {settled} of at least {needed} rounds are settled"
        run.begins(f"direction {settled}")
        run.tries(faster())
    if run.state.settled < most:
        assert run.turn(cmd.RequestFinish("no direction left")) == [None]
        run.until_agent()
        assert run.state.finished == "the agent finished: no direction left"


def test_a_stop_during_an_evaluation_settles_the_round_first() -> None:
    run = planned("a", "b")
    run.edit()
    run.perform(run.next())  # type: ignore[arg-type]
    run.must(cmd.Stop())
    run.until_agent(faster())
    assert run.state.finished == "stopped by the user"
    assert run.state.settled == 1
    assert run.state.best is not None
    assert run.state.best.attempt == 1


def test_time_between_sessions_is_not_worked_time() -> None:
    run = SimulatedRun()
    run.until_agent()
    worked = run.state.worked_s
    from akg_tui.core.fold import evolve

    opened = ev.SessionOpened(pid=1, version="0", resumed=True)
    later = evolve(run.state, ev.Record(run.state.seq + 1, 1e6, opened))
    assert later.worked_s == worked
    assert later.worked(1e6 + 5) == worked + 5
    for change in (
        ev.PolicyChanged(policy=Policy(max_rounds=40), source=ev.COMMAND_LINE),
        ev.ModeChanged(mode=Mode.STEP, source=ev.COMMAND_LINE),
        ev.PlanEdited(kept="PLAN.md.edited-1", sha256="0" * 64),
    ):
        assert evolve(run.state, ev.Record(run.state.seq + 1, 1e6, change)).worked_s == worked


def at_work() -> SimulatedRun:
    run = planned("a", policy=Policy(max_hours=1.0))
    assert isinstance(run.next(), fx.RunAgent)
    return run


def test_what_was_under_way_when_a_pause_was_called_for_counts_as_it_ends() -> None:
    run = at_work()
    run.must(cmd.Pause())
    worked = run.state.worked_s
    run.clock_off += 100
    run.must(cmd.Observe(ev.ModelReplied(phase=Phase.EDIT, model="m", text="x", tool_calls=0)))
    run.must(cmd.Observe(ev.TurnEnded()))
    assert 100 <= run.state.worked_s - worked <= 103  # an event is a second
    worked = run.state.worked_s
    run.clock_off += 1000
    assert run.state.worked(run.now) == worked


def test_a_step_in_a_pause_is_worked() -> None:
    run = at_work()
    run.must(cmd.Pause())
    run.must(cmd.Step())
    began = run.state.worked(run.now)
    assert run.state.worked(run.now + 60) == began + 60


def test_an_open_gate_keeps_no_run_from_ending_by_its_wall_clock() -> None:
    run = SimulatedRun(policy=Policy(automation=AutomationPolicy(max_wall_clock=3600.0)))
    run.must(cmd.SetGate(Gate.PLAN, on=True))
    run.until_agent()
    run.begins("a")
    assert run.next() == fx.Hold(Overlay.WAIT_USER, Phase.EDIT)
    run.clock_off += 3600
    entering = run.entering()
    assert entering is not None
    assert entering[0] is Phase.DONE


def test_a_turn_that_goes_on_beside_an_open_question_is_work() -> None:
    run = SimulatedRun()
    run.must(cmd.SetGate(Gate.ASK, on=True))
    run.until_agent()
    run.must(cmd.Observe(ev.ModelReplied(phase=Phase.PLAN, model="m", tool_calls=2)))
    run.must(cmd.AskUser("which way?"))
    worked = run.state.worked_s
    run.clock_off += 60
    assert run.state.worked(run.now) >= worked + 60
    run.must(cmd.Observe(ev.TurnEnded()))
    worked = run.state.worked_s
    run.clock_off += 60
    assert run.state.worked(run.now) == worked


def test_a_final_measurement_that_errs_is_not_repeated_for_ever() -> None:
    run = planned("a", policy=Policy(max_rounds=1))
    run.tries(faster(), broken(), broken(), broken())
    assert run.state.finished
    assert run.state.final is not None
    assert run.state.final.outcome is Outcome.ERROR


def test_a_first_kernel_that_was_verified_only_ends_the_run_with_the_reason() -> None:
    run = SimulatedRun()
    run.until_agent(Measurement(outcome=Outcome.CORRECT, timed=False, message="no times here"))
    assert run.state.phase is Phase.DONE
    assert run.state.best is None
    assert not run.state.ok
    assert run.state.finished == "there is nothing to tune by: no times here"


def test_a_wait_for_the_models_server_has_no_sense_once_the_run_is_to_end() -> None:
    """Also inside a turn, where a subagent waits and nothing is due."""
    run = SimulatedRun()
    run.until_agent()
    run.must(cmd.Observe(ev.ModelReplied(phase=Phase.PLAN, model="m", tool_calls=1)))
    assert not fx.wait_over(run.state, run.now)
    run.must(cmd.Pause())
    assert fx.wait_over(run.state, run.now)
    run.must(cmd.Unpause())
    run.must(cmd.Stop())
    assert fx.due(run.state, run.now) is None
    assert fx.wait_over(run.state, run.now)


def test_a_diagnosis_is_waited_for_beyond_a_limit_that_does_not_end_it() -> None:
    """Where the wait ended and the visit began again at once, the server would be flooded."""
    run = SimulatedRun()
    run.until_agent()
    run.plan("a", "b", "c", "d")
    for _ in range(3):
        run.until_agent()
        run.tries(failed())
    assert run.state.phase is Phase.DIAGNOSE
    run.must(cmd.ChangePolicy(Policy(max_rounds=1)))
    assert stop_reasons(run.state, run.now)
    assert not fx.wait_over(run.state, run.now)
    assert run.next() == fx.RunAgent(Phase.DIAGNOSE)
