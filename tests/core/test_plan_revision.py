"""Single items dropped, reordered and reopened; streaks of DISCARDs; repeats in other words."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from akg_tui.agent.prompt import situation
from akg_tui.core import commands as cmd
from akg_tui.core import effects as fx
from akg_tui.core.phases import ItemState, Phase, Verdict
from akg_tui.core.plan.plan_document import render_plan
from akg_tui.core.task import Policy
from tests.core.simulated import SimulatedRun, failed, faster, item, planned, report, unproved

WHY = "the last figures point the other way"


def states(run: SimulatedRun) -> list[str]:
    return [each.state.value for each in run.state.items]


def refusal(run: SimulatedRun, command: cmd.Command) -> str:
    (refused,) = run.turn(command)
    assert refused is not None
    return refused.why


def test_the_agent_drops_one_item_and_reorders_the_others_with_a_reason() -> None:
    run = planned("a", "b", "c", "d")
    assert run.turn(cmd.RevisePlan(WHY, drop=("p3",), order=("p4", "p2"))) == [None]
    assert [each.id for each in run.state.pending] == ["p4", "p2"]
    assert run.state.item("p3").reason == f"dropped by the agent: {WHY}"
    assert run.state.active == "p1"  # its work goes on
    run.tries(faster(1.0))
    assert run.state.active == "p4"


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (cmd.RevisePlan("too short", drop=("p2",)), "the reason must have 15 to 400"),
        (cmd.RevisePlan(WHY), "nothing is changed"),
        (cmd.RevisePlan(WHY, drop=("p9",)), "there is no plan item p9"),
        (cmd.RevisePlan(WHY, drop=("p1",)), "p1 is under work: report_blocked"),
        (cmd.RevisePlan(WHY, reopen=("p2",)), "p2 is PENDING: only a closed item"),
        (cmd.RevisePlan(WHY, drop=("p2",), reopen=("p2",)), "p2 is named twice"),
        (cmd.RevisePlan(WHY, order=("p3",)), "has to name each pending item once: p2, p3"),
    ],
)
def test_a_revision_that_does_not_fit_the_plan_changes_nothing(
    command: cmd.RevisePlan, why: str
) -> None:
    run = planned("a", "b", "c")
    before = run.state.items
    assert why in refusal(run, command)
    assert run.state.items == before


def test_what_a_person_pinned_dropped_or_rejected_stays_so() -> None:
    run = planned("a", "b", "c")
    run.must(cmd.PinItem("p3"))
    assert "a person wants p3 tried" in refusal(run, cmd.RevisePlan(WHY, drop=("p3",)))
    late = cmd.RevisePlan(WHY, order=("p2", "p3"))
    assert "p2 cannot come before p3, which a person pinned" in refusal(run, late)
    run.must(cmd.DropItem("p2"))
    assert "p2 was closed by a person" in refusal(run, cmd.RevisePlan(WHY, reopen=("p2",)))


def test_a_failed_item_is_reopened_at_most_twice_and_the_agent_edits_it_anew() -> None:
    run = planned("a", "b")
    run.tries(failed())
    assert run.turn(cmd.RevisePlan(WHY, reopen=("p1",))) == [None]
    found = run.state.item("p1")
    assert (found.state, found.attempt, found.reopened) == (ItemState.PENDING, None, 1)
    assert found.rationale == WHY
    run.tries(faster(1.0))  # p2
    assert run.state.active == "p1"
    assert isinstance(run.next(), fx.RunAgent)  # not measured again by the harness
    run.tries(failed())
    assert run.state.phase is Phase.PLAN
    assert run.turn(cmd.RevisePlan(WHY, reopen=("p1",))) == [None]
    run.until_agent()
    assert (run.state.phase, run.state.active) == (Phase.EDIT, "p1")  # a plan by itself
    run.tries(faster(1.0))
    assert "reopened 2 times already" in refusal(run, cmd.RevisePlan(WHY, reopen=("p1",)))


def test_a_new_plan_adds_to_what_was_reopened_for_it() -> None:
    run = planned("a", "b", policy=Policy(min_plan_items=2))
    run.tries(failed())
    run.tries(failed())
    assert run.state.phase is Phase.PLAN
    assert run.turn(cmd.RevisePlan(WHY, reopen=("p1",))) == [None]
    assert run.state.plan_owed  # one item of two
    run.plan("c", "d")
    assert [each.id for each in run.state.pending] == ["p1", "p3", "p4"]


def test_every_closed_state_but_kept_leads_back_to_pending_by_a_reopening() -> None:
    run = planned("a", "b", "c", "d", "e", policy=Policy(fail_streak=9))
    run.tries(faster())
    run.tries(failed())
    run.tries(faster(1.0))
    run.must(cmd.ForceDiagnosis())
    run.until_agent()
    assert states(run) == ["KEPT", "FAILED", "DISCARDED", "SUSPENDED", "SUSPENDED"]
    run.turn(report())
    run.until_agent()
    assert "p1 is KEPT" in refusal(run, cmd.RevisePlan(WHY, reopen=("p1",)))
    assert run.turn(cmd.RevisePlan(WHY, reopen=("p2", "p3", "p4"))) == [None]
    assert states(run)[1:4] == ["PENDING"] * 3
    assert run.refold() == run.state
    assert "p2: b (the last figures" in render_plan(run.state)


def test_a_streak_of_discards_leads_to_a_diagnosis_with_its_reason() -> None:
    run = planned("a", "b", "c", "d", policy=Policy(discard_streak=3, on_discards="diagnose"))
    for _ in range(2):
        run.tries(faster(1.0))
    run.tries(failed())  # neither counts nor ends the streak
    assert run.state.phase is Phase.EDIT
    run.tries(faster(1.0))
    assert run.state.phase is Phase.DIAGNOSE
    assert run.state.phase_reason == "3 attempts were discarded since the last gain"
    run.turn(report())
    run.until_agent()
    assert (run.state.phase, run.state.discard_streak) == (Phase.PLAN, 0)


def test_a_keep_ends_a_streak_of_discards() -> None:
    run = planned("a", "b", "c", "d", policy=Policy(discard_streak=2))
    run.tries(faster(1.0))
    run.tries(faster())
    run.tries(faster(1.0))
    assert run.state.phase is Phase.EDIT
    assert run.state.discard_streak == 1


def test_a_streak_of_discards_may_lead_to_a_new_plan_instead() -> None:
    run = planned("a", "b", "c", policy=Policy(discard_streak=1))
    run.tries(faster(1.0))
    assert (run.state.phase, run.state.discard_streak) == (Phase.PLAN, 0)
    assert [each.id for each in run.state.pending] == ["p2", "p3"]
    run.begins("something else")
    assert states(run)[1:3] == ["DROPPED", "DROPPED"]


@pytest.mark.parametrize(
    ("agent", "why"),
    [("m", "10 attempts were discarded since the last gain"), ("sweep", "plan settled")],
)
def test_without_a_number_ten_discards_count_but_not_for_the_sweep(agent: str, why: str) -> None:
    run = planned(*"abcdefghij", agent=agent)
    for _ in range(10):
        assert run.state.phase is Phase.EDIT
        run.tries(faster(1.0))
    assert (run.state.phase, run.state.phase_reason) == (Phase.PLAN, why)
    assert run.state.replan_reason == (why if agent == "m" else "")


def test_being_blocked_at_an_item_sets_it_aside_and_the_others_go_on() -> None:
    run = planned("a", "b")
    text = "the instruction that it needs is not there on this machine"
    assert run.turn(cmd.ReportBlocked("environment", text, about="item")) == [None]
    assert run.state.active == "p1"  # until the turn is over, so that the visit is not cut off
    run.until_agent()
    found = run.state.item("p1")
    assert found.state is ItemState.SUSPENDED
    assert text in found.reason
    assert (run.state.phase, run.state.active) == (Phase.EDIT, "p2")
    assert run.refold() == run.state


def test_an_item_report_needs_an_item_that_is_the_agents_and_not_edited() -> None:
    blocked = cmd.ReportBlocked("other", "there is no way to go on with this one", about="item")
    run = SimulatedRun()
    run.until_agent()
    assert "no item is under work" in refusal(run, blocked)
    run.begins("a", "b")
    answers = run.turn(cmd.Edit("b1", "sha", 1, 1), blocked)
    assert "p1 has its edit" in answers[1].why
    run.until_agent(faster(1.0))
    assert run.state.active == "p2"
    run.state = replace(
        run.state, items=(run.state.items[0], replace(run.state.items[1], pinned=True))
    )
    refused = run.send(blocked)
    assert refused is not None
    assert "a person wants p2 tried" in refused.why


def test_three_items_in_a_row_that_are_blocked_end_the_run() -> None:
    run = planned("a", "b", "c", "d")
    for _ in range(3):
        blocked = cmd.ReportBlocked("other", "there is no way to go on with it", about="item")
        assert run.turn(blocked) == [None]
        run.until_agent()
    assert "no progress in 3 visits" in run.state.finished


def test_a_diagnosis_that_agrees_lets_the_agent_finish_early() -> None:
    run = planned("a", policy=Policy(min_rounds=5))
    run.tries(faster(1.0))
    assert refusal(run, cmd.RequestFinish("bored")).startswith("too early: 1 of at least 5")
    text = "nothing that is left could make it any faster"
    assert run.turn(cmd.ReportBlocked("impossible", text)) == [None]
    run.until_agent()
    assert run.state.phase is Phase.DIAGNOSE
    exhausted = cmd.ReportDiagnosis("the kernel moves each byte once", (), (), exhausted=True)
    assert run.turn(exhausted) == [None]
    run.until_agent()
    assert run.turn(cmd.RequestFinish("no direction left")) == [None]
    run.until_agent()
    assert run.state.finished == "the agent finished: no direction left"


def test_a_settled_round_ends_what_a_diagnosis_agreed_to() -> None:
    run = planned("a", policy=Policy(min_rounds=5))
    run.tries(faster(1.0))
    run.must(cmd.ForceDiagnosis())
    run.until_agent()
    run.turn(report(exhausted=True))
    run.until_agent()
    run.begins("one more")
    run.tries(faster())
    assert refusal(run, cmd.RequestFinish("bored")).startswith("too early")


@pytest.mark.parametrize(
    ("first", "again", "same"),
    [
        ("unroll the inner loop 4 times", "4 times unrolling of the inner loop", True),
        ("Use AVX-512 loads, aligned", "aligned loads using avx-512", True),
        ("unroll the inner loop 4 times", "unroll the inner loop 8 times", False),
        ("keep lanes with x < 0 apart", "keep lanes with x > 0 apart", False),
        ("drop check", "check drop", False),  # too short to be told apart by its words
    ],
)
def test_a_direction_in_other_words_is_recognised(first: str, again: str, same: bool) -> None:
    run = planned(first)
    run.tries(failed())
    (refused,) = run.turn(cmd.SubmitPlan((item(again),)))
    if same:
        assert refused is not None
        assert "repeats p1, which was FAILED (wrong values)" in refused.why
        assert "revise_plan can reopen p1" in refused.why
    else:
        assert refused is None


def test_an_item_whose_measurement_was_inconclusive_may_be_tried_again() -> None:
    run = planned("a longer direction", "b")
    run.tries(unproved())
    refused = run.send(cmd.RevisePlan(WHY, drop=("p1",)))
    assert refused is not None
    assert "measured again, without you" in refused.why
    run.tries(faster(1.0), unproved(), unproved())
    assert run.state.item("p1").state is ItemState.DISCARDED
    assert run.state.attempts[-1].reason.startswith("not proved in 3 measurements")
    run.begins("a longer direction")  # was not decided: it may be planned anew
    assert run.turn(cmd.Edit(run.state.attempts[1].blob, "sha", 1, 1)) == [None]


def test_a_kernel_that_was_settled_against_this_incumbent_is_not_measured_again() -> None:
    run = planned("a", "b", "c")
    run.tries(faster(1.0))
    (refused,) = run.turn(cmd.Edit("b1", "sha", 1, 1))
    assert refused is not None
    assert "this is the kernel of attempt 1 (p1), which was DISCARD" in refused.why
    run.tries(faster())
    assert run.state.attempts[-1].verdict is Verdict.KEEP
    assert run.turn(cmd.Edit("b1", "sha", 1, 1)) == [None]  # another incumbent


# An edit of another item


def edit_of(item_id: str, blob: str = "x1") -> cmd.Edit:
    return cmd.Edit(blob, "sha", 1, 1, item=item_id)


def test_an_edit_that_does_the_work_of_another_item_is_decided_under_its_name() -> None:
    run = planned("a", "b", "c")
    assert run.turn(edit_of("p3")) == [None]
    run.until_agent(faster(1.4))
    assert states(run) == ["ACTIVE", "PENDING", "KEPT"]
    assert [(a.item, a.verdict) for a in run.state.attempts[1:]] == [("p3", Verdict.KEEP)]
    assert run.refold() == run.state
    assert run.turn(edit_of("p1", "x2")) == [None]  # the active one may be named
    run.until_agent(faster(1.4))
    assert [a.item for a in run.state.attempts[1:]] == ["p3", "p1"]


def test_a_direction_that_was_slow_at_one_setting_is_open_for_others() -> None:
    run = planned("a", "b")
    run.tries(faster(0.88))
    assert states(run) == ["DISCARDED", "ACTIVE"]
    run.state = replace(run.state, agent="a-model")
    assert 'an edit with item="p1" measures another setting of it' in situation(run.state, [])
    for blob in ("x1", "x2"):
        assert run.turn(edit_of("p1", blob)) == [None]
        run.until_agent(faster(0.9))
        assert states(run) == ["DISCARDED", "ACTIVE"]
    assert "p1 was reopened 2 times already" in refusal(run, edit_of("p1", "x3"))


def test_an_edit_takes_no_item_up_against_a_person_or_beside_another_edit() -> None:
    run = planned("a", "b", "c", "d")
    run.tries(unproved())
    assert "p1 is to be measured again, without you" in refusal(run, edit_of("p1"))
    assert "there is no plan item p9" in refusal(run, edit_of("p9"))
    run.must(cmd.DropItem("p3", "no"))
    assert "p3 was closed by a person" in refusal(run, edit_of("p3"))
    first, second = run.turn(edit_of("p2", "x1"), edit_of("p4", "x2"))
    assert first is None
    assert second is not None
    assert second.why == "the kernel is edited for p2 already"
    run.until_agent(faster(1.0), faster(1.0))
    run.must(cmd.AddItem("mine"))
    run.must(cmd.PinItem("p5"))
    run.tries(faster(1.0))
    assert run.state.active == "p5"
    assert "a person wants p5 tried first" in refusal(run, edit_of("p2", "x5"))
