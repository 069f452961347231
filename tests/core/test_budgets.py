"""Budgets: what is work and what is a wait, and what is still measured when a limit ends a run."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from akg_tui.core import commands as cmd
from akg_tui.core import effects as fx
from akg_tui.core import events as ev
from akg_tui.core.fold import OutOfOrder
from akg_tui.core.measurement import Measurement, Roofline
from akg_tui.core.phases import TUNE, Gate, ItemState, Mode, Phase, Row, Verdict, Workflow
from akg_tui.core.recovery import opening
from akg_tui.core.stopping.automation import AutomationPolicy
from akg_tui.core.stopping.goals import Goal
from akg_tui.core.stopping.limits import stop_reasons, time_left
from akg_tui.core.task import Policy
from akg_tui.view.controls.policy_words import settings
from tests.core.simulated import SimulatedRun, failed, faster, planned, unproved

HOUR, NIGHT = 3600.0, 8 * 3600.0


def said(event: ev.AnyEvent) -> Callable[[SimulatedRun], None]:
    return lambda run: run.tell(event)


def does(*commands: cmd.Command) -> Callable[[SimulatedRun], None]:
    return lambda run: [run.must(each) for each in commands] and None


def asks(run: SimulatedRun) -> None:
    run.must(cmd.SetGate(Gate.ASK, on=True))
    run.turn(cmd.AskUser("which?", choices=("a", "b")))


def begins_a_step(run: SimulatedRun) -> None:
    run.must(cmd.SetMode(Mode.STEP))
    run.edit()


def opens_a_gate(run: SimulatedRun) -> None:
    run.must(cmd.SetGate(Gate.EDIT, on=True))
    run.edit()
    run.step()


def opens_a_plan_gate(run: SimulatedRun) -> None:
    does(cmd.SetGate(Gate.PLAN, on=True), cmd.ForceReplan())(run)
    run.until_agent()
    run.begins("c")


def opens_a_keep_gate(run: SimulatedRun) -> None:
    run.must(cmd.SetGate(Gate.KEEP, on=True))
    run.tries(faster(1.5))


def is_measured(run: SimulatedRun) -> None:
    run.edit()
    effect = run.next()
    while not isinstance(effect, fx.Measure):
        assert effect is not None
        run.perform(effect)
        effect = run.next()
    run.must(cmd.StartEval(effect.purpose, effect.attempt, effect.blob))


def waits_in_a_queue(run: SimulatedRun) -> None:
    is_measured(run)
    run.tell(ev.TimingQueued(waits=True))


def wakes(*commands: cmd.Command) -> Callable[[SimulatedRun], None]:
    """The machine slept for a part of the wait, which a person ends."""

    def end(run: SimulatedRun) -> None:
        run.tell(ev.MachineSlept(seconds=NIGHT / 2))
        does(*commands)(run)

    return end


def reopened(run: SimulatedRun) -> None:
    for event in opening(run.state, 2, "0"):
        run.tell(event)


WAITS: dict[str, tuple[Callable[[SimulatedRun], None], Callable[[SimulatedRun], None]]] = {
    "a pause": (does(cmd.Pause()), does(cmd.Unpause())),
    "a pause and a hint": (does(cmd.Pause()), does(cmd.Hint("x"), cmd.Unpause())),
    "a question": (asks, does(cmd.AnswerQuestion(1, "a"))),
    "a plan": (opens_a_plan_gate, does(cmd.AnswerGate(1, approve=True))),
    "an edit": (opens_a_gate, does(cmd.AnswerGate(1, approve=True))),
    "a KEEP": (opens_a_keep_gate, does(cmd.AnswerGate(1, approve=True))),
    "a step": (begins_a_step, does(cmd.Step())),
    "an unusable model": (said(ev.ApiFailed(reason="no key")), does(cmd.Unpause())),
    "no session": (said(ev.ContextRebuilt(reason="x")), reopened),
    "a crash in an evaluation": (is_measured, reopened),
    "a sleep": (lambda run: None, said(ev.MachineSlept(seconds=NIGHT))),
    "a sleep in an evaluation": (is_measured, said(ev.MachineSlept(seconds=NIGHT))),
    "a sleep in a pause": (does(cmd.Pause()), wakes(cmd.Unpause())),
    "a sleep at a gate": (opens_a_gate, wakes(cmd.AnswerGate(1, approve=True))),
    "a queue": (waits_in_a_queue, said(ev.TimingQueued(waits=False))),
    "a queue and a hint": (waits_in_a_queue, does(cmd.Hint("x"))),
    "a queue and a crash": (waits_in_a_queue, reopened),
}


@pytest.mark.parametrize("wait", WAITS)
def test_an_hour_of_work_is_an_hour_within_2_percent_whatever_a_run_waited_for(wait: str) -> None:
    run = planned("a", "b", policy=Policy(max_hours=1.0))
    begin, end = WAITS[wait]
    run.clock_off += HOUR / 2
    begin(run)
    told = run.state.worked(run.now)
    run.clock_off += NIGHT
    if run.state.resting:  # the clock on the screen stands still, and no limit ends the wait
        assert run.state.worked(run.now) == told
        assert isinstance(run.next(), fx.Hold | fx.Measure)
        assert time_left(run.state, run.now) is None
    end(run)
    if wait == "a queue and a hint":
        run.tell(ev.TimingQueued(waits=False))
    assert not stop_reasons(run.state, run.now)
    left = time_left(run.state, run.now)
    assert left is not None
    assert HOUR / 2 * 0.98 <= left <= HOUR / 2
    run.clock_off += left + 0.01
    assert stop_reasons(run.state, run.now) == ("time budget reached (1 h)",)


def test_the_wall_clock_counts_a_sleep() -> None:
    run = planned("a", policy=Policy(automation=AutomationPolicy(max_wall_clock=HOUR)))
    run.clock_off += NIGHT
    run.tell(ev.MachineSlept(seconds=NIGHT))
    assert stop_reasons(run.state, run.now) == ("wall clock reached (3600 s)",)


def test_a_diagnosis_ends_when_the_time_is_up() -> None:
    run = planned("a", "b", "c", "d", policy=Policy(max_hours=1.0))
    for _ in range(3):
        run.tries(failed())
    assert run.state.phase is Phase.DIAGNOSE
    run.clock_off += HOUR
    assert run.entering() == (Phase.DONE, "time budget reached (1 h)")


# The bound of memory


def at_share(share: float, *, bounds: bool = True, ratio: float = 1.5) -> Measurement:
    roof = Roofline(1 << 20, "L2", 1e11, share, bounds)
    return replace(faster(ratio), roofline=roof)


def test_a_best_kernel_near_the_bound_of_memory_ends_the_run_and_says_so() -> None:
    run = planned("a", "b", "c", "d")
    run.tries(at_share(0.84))
    run.tries(at_share(0.99, ratio=1.0))  # is not the best
    assert stop_reasons(run.state, run.now) == ()
    run.tries(at_share(0.91))
    reason = "bound of memory reached (91% of it; the limit is 85%)"
    assert run.state.finished == reason
    row = next(each for each in settings(run.state, run.now) if each.word == "bound")
    assert row.told == "91% / 85%"


@pytest.mark.parametrize(
    ("measured", "limit"),
    [
        (faster(1.5), 0.85),  # nothing is known of its memory
        (at_share(0.91, bounds=False), 0.85),
        (at_share(0.91), 0.95),
        (at_share(3.0), None),
    ],
)
def test_where_memory_is_no_bound_or_not_near_the_run_goes_on(
    measured: Measurement, limit: float | None
) -> None:
    run = planned("a", "b", policy=Policy(max_bound_share=limit))
    run.tries(measured)
    assert run.state.phase is Phase.EDIT


# What the harness measures again is no round of the agent


def test_a_kernel_measured_again_is_no_round_no_experiment_and_no_round_without_a_keep() -> None:
    limited = AutomationPolicy(max_experiments=3)
    policy = Policy(max_rounds=3, max_rounds_without_keep=3, automation=limited)
    run = planned("a", policy=policy)
    run.tries(unproved(), unproved(), unproved())  # the third measurement settles it
    assert run.state.item("p1").state is ItemState.DISCARDED
    assert (run.state.settled, run.state.rounds) == (3, 1)
    assert stop_reasons(run.state, run.now) == ()
    run.begins("b", "c")
    run.tries(failed())
    assert stop_reasons(run.state, run.now) == ()
    run.tries(failed())
    assert run.state.finish_reason == "max rounds reached (3)"
    assert [a.round for a in run.state.attempts] == [0, 1, 2, 3, 4, 5]


def until_over(run: SimulatedRun, *measurements: Measurement) -> list[tuple[str, Verdict]]:
    run.until_agent(*measurements)
    assert run.state.finished
    return [(a.item, a.verdict) for a in run.state.attempts if a.number]


def test_what_waits_to_be_measured_again_is_so_before_a_limit_ends_the_run() -> None:
    run = planned("a", "b", "c", policy=Policy(max_rounds=2))
    run.tries(unproved())
    run.edit()
    settled = until_over(run, faster(1.0), faster(1.3))
    assert settled == [
        ("p1", Verdict.INCONCLUSIVE),
        ("p2", Verdict.DISCARD),
        ("p1", Verdict.KEEP),
    ]
    assert run.state.finished == "max rounds reached (2)"
    assert run.state.item("p3").state is ItemState.PENDING
    assert run.refold() == run.state


def test_an_item_under_work_makes_room_for_it_and_stays_in_the_plan() -> None:
    run = planned("a", "b", "c")
    run.tries(unproved())
    policy = replace(run.state.task.policy, automation=AutomationPolicy(max_tokens=1))
    run.must(cmd.ChangePolicy(policy))
    run.tell(ev.ModelReplied(phase=Phase.EDIT, model="m", input_tokens=9))
    run.tell(ev.TurnEnded())
    assert run.state.active == "p2"
    assert until_over(run, faster(1.3))[-1] == ("p1", Verdict.KEEP)
    assert [each.id for each in run.state.pending] == ["p2", "p3"]


@pytest.mark.parametrize("how", ["a person", "a goal", "the time"])
def test_a_wanted_end_or_a_spent_time_measures_nothing_again(how: str) -> None:
    run = planned("a", "b", policy=Policy(max_hours=1.0))
    run.tries(unproved())
    if how == "a person":
        run.must(cmd.Stop("enough"))
    elif how == "a goal":
        goals = (Goal("ratio", ">", 0.5, scope="any"),)
        policy = replace(run.state.task.policy, automation=AutomationPolicy(goals=goals))
        run.must(cmd.ChangePolicy(policy))
    else:
        run.clock_off += HOUR
    assert until_over(run) == [("p1", Verdict.INCONCLUSIVE)]


def test_a_table_without_the_way_to_an_edit_ends_without_that_measurement() -> None:
    rows = {**TUNE.rows, Phase.DECIDE: Row((Phase.PLAN, Phase.DONE))}
    run = planned("a", "b", policy=Policy(max_rounds=1), table=Workflow("tune", rows))
    run.edit()
    assert until_over(run, unproved()) == [("p1", Verdict.INCONCLUSIVE)]


def test_another_item_cannot_be_activated_beside_one_with_an_edit() -> None:
    run = planned("a", "b")
    run.edit()
    with pytest.raises(OutOfOrder, match="p2 cannot be activated while p1 is active"):
        run.tell(ev.ItemActivated(item="p2", round=1))


# A trial that was proved, and not submitted


def tried(run: SimulatedRun, blob: str, ratio: float) -> None:
    run.must(cmd.RecordTrial(blob, "an edit of the kernel", faster(ratio)))


def submitted(run: SimulatedRun) -> fx.SubmitTrial | None:
    effect = run.next()
    if not isinstance(effect, fx.SubmitTrial):
        return None
    run.must(cmd.Edit(effect.blob, "sha", 1, 1, "trial"))
    return effect


@pytest.mark.parametrize("how", ["tokens", "the time", "its turns"])
def test_a_proved_trial_is_evaluated_where_no_edit_of_the_agent_comes_any_more(how: str) -> None:
    run = planned("a", policy=Policy(max_hours=1.0))
    tried(run, "t1", 1.2)
    tried(run, "t2", 1.4)
    tried(run, "t3", 0.9)
    assert submitted(run) is None  # it is the agent's turn
    if how == "tokens":
        run.tell(ev.CallRefused(reason="token budget has no room"))
    elif how == "the time":
        run.clock_off += HOUR
    else:
        run.tell(ev.VisitFailed(phase=Phase.EDIT, reason="no result in 20 turns"))
    assert submitted(run) == fx.SubmitTrial(2, "t2")
    run.until_agent(faster(1.4))
    assert run.state.attempts[-1].verdict is Verdict.KEEP
    assert run.state.best is not None
    assert run.state.best.blob == "t2"


@pytest.mark.parametrize("how", ["a person", "a gate", "not proved", "other best", "attempt"])
def test_a_trial_is_not_submitted_against_a_person_nor_without_a_proof(how: str) -> None:
    run = planned("a", "b")
    tried(run, "b1" if how == "attempt" else "t1", 1.02 if how == "not proved" else 1.4)
    if how == "a gate":
        run.must(cmd.SetGate(Gate.EDIT, on=True))
    if how == "other best":
        run.tries(faster(1.5))
    if how == "attempt":
        run.tries(faster(1.0))
        run.must(cmd.RevisePlan("it was a busy machine then", reopen=("p1",), order=("p1",)))
    run.tell(ev.CallRefused(reason="token budget has no room"))
    if how == "a person":
        run.must(cmd.Stop("enough"))
    assert submitted(run) is None


def test_the_report_of_a_diagnosis_is_not_asked_for_when_a_kernel_waits_at_the_end() -> None:
    run = planned("a", "b", "c", "d")
    run.tries(unproved())
    for _ in range(3):
        run.tries(failed())
    assert run.state.phase is Phase.DIAGNOSE
    run.tell(ev.CallRefused(reason="token budget has no room"))
    assert until_over(run, faster(1.3))[-1] == ("p1", Verdict.KEEP)
