"""A gain that is probable and not proved: the item waits, and the harness measures it again."""

from __future__ import annotations

from akg_tui.agent.models.sweep import measured_settings
from akg_tui.agent.prompt import situation
from akg_tui.core import commands as cmd
from akg_tui.core import effects as fx
from akg_tui.core import events as ev
from akg_tui.core.phases import Gate, ItemState, Phase, Verdict
from akg_tui.core.plan.plan_document import render_plan
from akg_tui.core.recovery import opening
from akg_tui.core.state import Attempt
from akg_tui.core.stopping.limits import stop_reasons
from akg_tui.core.task import Policy
from tests.core.simulated import SimulatedRun, failed, faster, planned, report, unproved
from tests.core.test_levers import refusal


def until_measured(run: SimulatedRun) -> fx.Measure:
    """Take core's steps until a measurement is due; the agent has nothing to do before it."""
    while not isinstance(effect := run.next(), fx.Measure):
        assert effect is not None
        run.perform(effect)
    return effect


def verdicts(run: SimulatedRun) -> list[tuple[str, Verdict]]:
    return [(a.item, a.verdict) for a in run.state.attempts if a.number]


def last(run: SimulatedRun) -> Attempt:
    return run.state.attempts[-1]


# The item waits


def test_an_inconclusive_item_goes_behind_the_others_and_the_best_kernel_is_restored() -> None:
    run = planned("a", "b", "c")
    run.tries(unproved())
    item = run.state.item("p1")
    assert (item.state, item.attempt, item.word) == (ItemState.PENDING, 1, "INCONCLUSIVE")
    assert [each.id for each in run.state.pending] == ["p3", "p1"]
    assert run.state.active == "p2"
    assert run.state.best is not None
    assert run.state.work_blob == run.state.best.blob == "seed"
    assert (last(run).verdict, last(run).commit, last(run).blob) == (
        Verdict.INCONCLUSIVE,
        "c1",
        "b1",
    )
    assert item.ratio == last(run).measurement.ratio


def test_it_ends_a_streak_of_failures_and_counts_as_a_round_without_a_keep() -> None:
    run = planned("a", "b", "c", "d", policy=Policy(max_rounds_without_keep=3))
    run.tries(failed())
    assert run.state.fail_streak == 1
    run.tries(unproved())
    assert (run.state.fail_streak, run.state.settled) == (0, 2)
    assert not stop_reasons(run.state, run.now)
    run.tries(failed(), faster(1.0))  # what waits is measured again before the run ends
    assert run.state.finish_reason == "no KEEP in 3 rounds"


def test_when_its_turn_comes_the_harness_measures_the_same_kernel_and_the_prior_counts() -> None:
    run = planned("a", "b")
    run.tries(unproved(0.1, 0.2))
    run.edit()
    assert until_measured(run).prior == ()  # p2 was not measured before
    run.perform(until_measured(run), faster(1.0))
    again = until_measured(run)  # no visit of the agent in between
    assert again == fx.Measure(ev.Purpose.CANDIDATE, 3, "b1", "seed", (0.1, 0.2))
    assert (run.state.active, run.state.phase) == ("p1", Phase.EVAL)
    run.perform(again, faster(1.2))
    run.until_agent()
    assert verdicts(run) == [
        ("p1", Verdict.INCONCLUSIVE),
        ("p2", Verdict.DISCARD),
        ("p1", Verdict.KEEP),
    ]
    assert (last(run).round, last(run).again_of) == (3, 1)
    assert run.state.item("p1").state is ItemState.KEPT
    assert run.state.best is not None
    assert run.state.best.blob == "b1"


def test_the_third_inconclusive_measurement_settles_it_also_when_it_is_the_only_item() -> None:
    run = planned("a")
    run.edit()
    ratios: tuple[float, ...] = ()
    for count in range(3):
        effect = until_measured(run)
        assert effect.prior == ratios
        ratios = (*ratios, 0.1 * count, 0.2)
        run.perform(effect, unproved(*ratios))
    assert run.until_agent() == fx.RunAgent(Phase.PLAN)
    assert verdicts(run)[-1] == ("p1", Verdict.DISCARD)
    assert (
        last(run).reason
        == "not proved in 3 measurements: +18.0 % (-1.0 to +41.0) after 6 pairs of processes"
    )
    assert run.state.item("p1").state is ItemState.DISCARDED


def test_a_kept_kernel_in_between_gives_the_item_to_the_agent_with_what_was_measured() -> None:
    run = planned("a", "b")
    run.tries(unproved())
    assert run.tries(faster(2.0)) == fx.RunAgent(Phase.EDIT)
    assert (run.state.active, run.state.edited) == ("p1", False)
    told = (
        "An earlier kernel for p1 was measured against an earlier best kernel, not proved: +18.0 %"
    )
    assert told in situation(run.state, [])
    run.edit()
    assert until_measured(run).prior == ()
    run.perform(until_measured(run), unproved())
    assert until_measured(run).attempt == 4  # and that one is measured again


def test_an_undone_keep_makes_the_earlier_measurement_count_again() -> None:
    run = planned("a", "b", "c")
    run.tries(unproved(0.3))
    run.tries(faster(2.0))
    run.must(cmd.UndoKeep())
    run.edit()
    run.perform(until_measured(run), faster(1.0))
    assert until_measured(run).prior == (0.3,)


def test_it_was_approved_before_it_ran_so_the_edit_gate_does_not_ask_again() -> None:
    run = planned("a", "b")
    run.must(cmd.SetGate(Gate.EDIT, on=True))
    run.tries()
    run.must(cmd.AnswerGate(1, approve=True))
    run.until_agent(unproved())
    run.tries()
    run.must(cmd.AnswerGate(2, approve=True))
    run.until_agent(faster(1.0), faster(1.2))
    assert verdicts(run)[-1] == ("p1", Verdict.KEEP)
    assert run.state.gates_opened == 2


# It is not lost


def test_a_diagnosis_and_a_new_plan_leave_a_waiting_item_in_the_plan() -> None:
    run = planned("a", "b", "c", "d", "e")
    run.tries(unproved())
    for _ in range(3):
        run.tries(failed())
    assert run.state.phase is Phase.DIAGNOSE
    assert run.state.item("p1").state is ItemState.PENDING
    assert run.state.item("p5").state is ItemState.SUSPENDED
    run.turn(report())
    run.until_agent()
    refused = run.turn(cmd.RequestFinish("nothing left"))[0]
    assert refused is not None
    assert "p1 is to be measured again" in refused.why
    same = ev.PlannedItem("", "a", "the same thing under the same name")
    assert "repeats p1, which was INCONCLUSIVE" in refusal(run, cmd.SubmitPlan((same, same, same)))
    run.plan("f", "g", "h")
    assert [each.id for each in run.state.pending] == ["p1", "p6", "p7", "p8"]
    assert until_measured(run).blob == "b1"


def test_a_plan_that_never_comes_lets_a_waiting_item_be_measured() -> None:
    run = planned("a", "b", "c", "d")
    run.tries(unproved())
    for _ in range(3):
        run.tries(failed())
    run.turn(report())
    run.until_agent()
    run.must(cmd.Observe(ev.VisitFailed(phase=Phase.PLAN, reason="every setting was tried")))
    assert until_measured(run).blob == "b1"


def test_a_new_plan_drops_an_item_whose_measurement_does_not_count_any_more() -> None:
    run = planned("a", "b")
    run.tries(unproved())
    run.must(cmd.ForceReplan())
    run.tries(faster(2.0))
    run.plan("a", "c", "d")  # and may take its direction up again
    assert run.state.item("p1").state is ItemState.DROPPED


def test_other_words_for_a_waiting_item_are_given_to_the_agent() -> None:
    run = planned("a", "b")
    run.tries(unproved())
    run.must(cmd.EditItem("p1", "a, and unroll"))
    assert run.tries(faster(1.0)) == fx.RunAgent(Phase.EDIT)
    assert run.state.active == "p1"


# It is told


def test_plan_md_shows_that_an_item_waits_with_its_interval() -> None:
    run = planned("A=2", "A=3")
    run.tries(unproved())
    text = render_plan(run.state)
    assert "- [~] p1: A=2 (" in text
    assert "| p1 | INCONCLUSIVE | 1.180 [0.990, 1.410] | A=2 | probably faster, not proved" in text
    trials = measured_settings(run.state)
    assert [(t.setting, t.over_seed) for t in trials] == [({"A": 2}, 1.18)]
    run.tries(faster(2.0))  # now the item is the agent's
    text = render_plan(run.state)
    assert "| p1 | ACTIVE | 1.180 [0.990, 1.410] | A=2 | measured against an earlier best" in text
    assert [t.setting for t in measured_settings(run.state)] == [{"A": 3}]


def test_the_agent_hears_every_verdict_since_its_last_edit() -> None:
    run = planned("a", "b")
    run.tries(unproved())
    assert "Last verdict: p1 INCONCLUSIVE: probably faster, not proved yet" in situation(
        run.state, []
    )
    assert "Of these the harness measures again by itself: p1." in situation(run.state, [])
    run.tries(faster(1.0), faster(1.2))
    told = situation(run.state, [])
    assert "Last verdict: p2 DISCARD" in told
    assert "Last verdict: p1 KEEP, measured again: faster" in told
    assert "INCONCLUSIVE" not in told


# A person asks


def test_a_person_has_a_discarded_kernel_measured_again_next() -> None:
    run = planned("a", "b", "c")
    run.tries(faster(1.0, half=0.1))
    assert run.state.item("p1").state is ItemState.DISCARDED
    run.must(cmd.Remeasure("1"))
    assert [(each.id, each.pinned) for each in run.state.pending] == [("p1", True), ("p3", False)]
    run.tries(faster(1.0))
    assert verdicts(run) == [("p1", Verdict.DISCARD), ("p2", Verdict.DISCARD), ("p1", Verdict.KEEP)]


def test_a_person_who_asks_begins_the_count_anew_and_the_reason_counts_all() -> None:
    run = planned("a")
    run.edit()
    for _ in range(3):
        run.perform(until_measured(run), unproved())
    run.until_agent()
    run.must(cmd.Remeasure("p1"))
    run.plan("b", "c", "d")
    for item_id in ("p2", "p3", "p4"):
        run.must(cmd.DropItem(item_id))
    for _ in range(3):
        effect = until_measured(run)
        assert (effect.blob, effect.prior) == ("b1", (0.1, 0.2))
        run.perform(effect, unproved())
    run.until_agent()
    assert last(run).verdict is Verdict.DISCARD
    assert last(run).reason.startswith("not proved in 6 measurements")


def test_what_cannot_be_measured_again_is_refused_with_a_reason() -> None:
    run = planned("a", "b", "c", "d")
    run.tries(unproved())
    run.tries(failed())
    assert "there is no plan item p9" in refusal(run, cmd.Remeasure("p9"))
    assert "there is no attempt 7" in refusal(run, cmd.Remeasure("7"))
    assert "there is no attempt 0" in refusal(run, cmd.Remeasure("0"))
    assert "p4 was not measured yet" in refusal(run, cmd.Remeasure("p4"))
    assert "p2 is FAILED" in refusal(run, cmd.Remeasure("2"))
    run.must(cmd.Remeasure("p1"))
    run.tries(faster(1.0), unproved())
    assert refusal(run, cmd.Remeasure("1")) == "p1 was measured again since, as attempt 4"
    run.tries(faster(2.0))
    assert "against an earlier best kernel" in refusal(run, cmd.Remeasure("p3"))


def test_a_crash_while_it_is_measured_again_changes_nothing() -> None:
    run = planned("a")
    run.edit()
    run.perform(until_measured(run), unproved())
    effect = until_measured(run)
    run.must(cmd.StartEval(effect.purpose, effect.attempt, effect.blob))
    assert run.refold() == run.state
    for event in opening(run.state, 2, "0"):
        run.must(cmd.Observe(event))
    assert until_measured(run) == effect
    assert effect.prior == (0.1, 0.2)
