"""What a person may do to a run: items, gates, demands and undo, and what each is refused for."""

from __future__ import annotations

import pytest

from akg_tui.agent.models.sweep import measured_settings
from akg_tui.agent.prompt import standing
from akg_tui.core import commands as cmd
from akg_tui.core import effects as fx
from akg_tui.core import events as ev
from akg_tui.core.fold import OutOfOrder, evolve
from akg_tui.core.phases import Gate, ItemState, Mode, Overlay, Phase, Verdict
from akg_tui.core.plan.plan_document import render_plan
from akg_tui.core.stopping.limits import stop_reasons
from akg_tui.core.summary import summarize
from akg_tui.core.task import Policy
from tests.core.simulated import SimulatedRun, failed, faster, item, planned, report
from tests.core.test_automation import AutomationPolicy, Goal


def kept(*texts: str, **changes: object) -> SimulatedRun:
    """The first item was kept, the second is active."""
    run = planned(*texts, **changes)
    run.tries(faster(1.5))
    return run


def refusal(run: SimulatedRun, command: cmd.Command) -> str:
    before = run.state
    refused = run.send(command)
    assert refused is not None
    assert run.state is before
    return refused.why


def pending(run: SimulatedRun) -> list[str]:
    return [each.id for each in run.state.pending]


# Items


def test_a_persons_item_stands_where_it_was_put_and_only_a_person_drops_it() -> None:
    run = planned("a", "b", "c")
    run.must(cmd.AddItem("mine", before="p2"))
    run.must(cmd.AddItem("mine too"))
    assert pending(run) == ["p4", "p2", "p3", "p5"]
    run.must(cmd.ForceReplan())
    run.until_agent()
    assert run.state.phase is Phase.PLAN
    run.plan("d", "e")
    assert pending(run) == ["p4", "p5", "p6", "p7"]
    assert run.state.item("p2").state is ItemState.DROPPED
    run.must(cmd.DropItem("p4", "changed my mind"))
    assert run.state.item("p4").reason == "dropped by a person: changed my mind"
    assert pending(run) == ["p5", "p6", "p7"]


def test_items_are_worked_on_in_the_order_a_person_gave_them() -> None:
    run = planned("a", "b", "c", "d")
    run.must(cmd.ReorderItems(("p4", "p2", "p3")))
    run.must(cmd.PinItem("p3"))
    assert pending(run) == ["p3", "p4", "p2"]
    assert "- [!] p3: c" in render_plan(run.state)
    assert render_plan(run.state).index("p3: c") < render_plan(run.state).index("p4: d")
    run.tries(failed())
    assert run.state.active == "p3"


def test_a_pinned_item_survives_a_diagnosis_and_is_worked_on_after_it() -> None:
    run = planned("a", "b", "c", "d", "e")
    run.must(cmd.PinItem("p5"))
    run.must(cmd.ReorderItems(("p2", "p3", "p4", "p5")))
    for _ in range(3):
        run.tries(failed())
    assert run.state.phase is Phase.DIAGNOSE
    assert run.state.item("p4").state is ItemState.SUSPENDED
    run.turn(report())
    assert run.until_agent() == fx.RunAgent(Phase.PLAN)  # a plan is owed, though p5 is pending
    refused = run.turn(cmd.RequestFinish("no direction left"))[0]
    assert refused is not None
    assert "a person wants p5 tried" in refused.why
    run.begins("f")
    assert run.state.active == "p5"


def test_a_plan_that_never_comes_lets_a_persons_item_go_on() -> None:
    run = planned("a")
    run.must(cmd.AddItem("mine"))
    run.must(cmd.ForceReplan())
    run.until_agent()
    run.must(cmd.Observe(ev.VisitFailed(phase=Phase.PLAN, reason="no result")))
    run.until_agent()
    assert run.state.active == "p2"


def test_edited_words_are_the_ones_that_count() -> None:
    run = planned("a", "b")
    run.must(cmd.EditItem("p2", "B=2  now"))
    assert (run.state.item("p2").text, run.state.item("p2").rationale) == (
        "B=2 now",
        item("b").rationale,
    )
    assert refusal(run, cmd.EditItem("p2", "B=2 now")) == "p2 says that already"


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (cmd.AddItem("  "), "1 to 400 characters"),
        (cmd.AddItem("B "), "p2 says the same already"),
        (cmd.AddItem("x", before="p1"), "p1 is under work"),
        (cmd.AddItem("x", before="p9"), "there is no plan item p9"),
        (cmd.AddItem("x", "y" * 401), "at most 400 characters"),
        (cmd.EditItem("p1", "x"), "p1 is under work: it can be dropped, not edited"),
        (cmd.EditItem("p2", "c"), "p3 says the same already"),
        (cmd.DropItem("q"), "there is no plan item q"),
        (cmd.ReorderItems(("p2",)), "each pending item once: p2, p3"),
        (cmd.ReorderItems(("p2", "p3")), "that is the order already"),
        (cmd.PinItem("p2", pinned=False), "p2 is not pinned"),
        (cmd.PinItem("p1"), "p1 is under work"),
        (cmd.SetGate(Gate.KEEP, on=False), "the gate keep is off already"),
        (cmd.UndoKeep(), "no KEEP to undo"),
        (cmd.ForceDiagnosis(), "nothing was tried yet"),
        (cmd.AdoptPlanEdit("PLAN.md.edited-1", ev.PlanChange()), "there is no hand edit"),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_reason(command: cmd.Command, why: str) -> None:
    assert why in refusal(planned("a", "b", "c"), command)


def test_a_settled_item_can_be_neither_edited_nor_dropped() -> None:
    run = kept("a", "b")
    assert refusal(run, cmd.DropItem("p1")) == "p1 is KEPT: only an open item can be dropped"
    assert "only a pending item can be edited" in refusal(run, cmd.EditItem("p1", "x"))


def test_dropping_the_item_under_work_undoes_its_edit_and_voids_the_visit() -> None:
    run = planned("a", "b")
    began = run.state
    run.must(cmd.Observe(ev.ModelReplied(phase=Phase.EDIT, model="m")))
    run.must(cmd.Edit("b1", "sha", 1, 1))
    run.must(cmd.DropItem("p1"))
    assert fx.visit_is_void(began, run.state)
    assert (run.state.work_blob, run.state.edited) == ("seed", False)
    run.must(cmd.Observe(ev.TurnInterrupted(reason="dropped")))
    run.until_agent()
    assert run.state.active == "p2"


def test_an_item_at_its_evaluation_is_settled_first() -> None:
    run = planned("a", "b")
    run.edit()
    run.step()
    assert "its round is settled first" in refusal(run, cmd.DropItem("p1"))


def test_ids_are_never_used_again_whoever_adds() -> None:
    run = planned("a", "b")
    run.must(cmd.AddItem("mine"))
    run.must(cmd.DropItem("p3"))
    run.must(cmd.AddItem("mine"))
    assert [each.id for each in run.state.items] == ["p1", "p2", "p3", "p4"]
    bad = ev.ItemAdded(item=ev.PlannedItem("p3", "x"))
    with pytest.raises(OutOfOrder):
        evolve(run.state, ev.Record(run.state.seq + 1, 0.0, bad))


# Demands


def test_a_forced_replan_ends_the_visit_and_the_plan() -> None:
    run = planned("a", "b")
    began = run.state
    run.must(cmd.ForceReplan("think of memory"))
    assert fx.visit_is_void(began, run.state)
    run.until_agent()
    assert run.state.phase is Phase.PLAN
    assert run.state.item("p1").state is ItemState.DROPPED
    assert "a person wants a new plan: think of memory" in " ".join(run.state.hints)
    assert refusal(run, cmd.ForceReplan()) == "a plan is being made already"


def test_a_forced_replan_lets_an_edit_that_was_made_be_settled() -> None:
    run = planned("a", "b")
    run.edit()
    run.must(cmd.ForceReplan())
    run.until_agent(faster())
    assert (run.state.settled, run.state.phase) == (1, Phase.PLAN)


def test_a_pinned_item_under_work_is_settled_before_a_demand_is_met() -> None:
    run = planned("a", "b")
    run.must(cmd.PinItem("p2"))
    run.tries(failed())
    assert run.state.active == "p2"
    began = run.state
    run.must(cmd.ForceDiagnosis("look closer"))
    assert not fx.visit_is_void(began, run.state)
    run.tries(failed())
    assert (run.state.settled, run.state.phase) == (2, Phase.DIAGNOSE)


@pytest.mark.parametrize("phase", [Phase.EDIT, Phase.PLAN])
def test_a_diagnosis_can_be_called_for_and_suspends_the_direction(phase: Phase) -> None:
    run = kept("a", "b", "c")
    if phase is Phase.PLAN:
        run.must(cmd.ForceReplan())
        run.until_agent()
    assert run.state.phase is phase
    run.must(cmd.ForceDiagnosis("why so slow"))
    run.until_agent()
    assert run.state.phase is Phase.DIAGNOSE
    assert run.state.active is None
    assert not run.state.pending
    assert refusal(run, cmd.ForceReplan()) == "a diagnosis is under way, and a new plan follows it"
    run.turn(report())
    run.until_agent()
    assert run.state.phase is Phase.PLAN


# Gates


def test_a_mode_sets_the_gates_and_each_can_be_set_beside_it() -> None:
    run = SimulatedRun(mode=Mode.REVIEW)
    assert run.state.gates == (Gate.KEEP, Gate.ASK)
    run.must(cmd.SetGate(Gate.KEEP, on=False))
    run.must(cmd.SetGate(Gate.PLAN, on=True))
    assert run.state.gates == (Gate.PLAN, Gate.ASK)
    run.must(cmd.SetMode(Mode.AUTO))
    assert run.state.gates == ()


def test_a_plan_waits_at_its_gate_and_a_rejected_one_is_made_again() -> None:
    run = SimulatedRun()
    run.must(cmd.SetGate(Gate.PLAN, on=True))
    run.until_agent()
    run.plan("a", "b")
    assert run.until_agent() == fx.Hold(Overlay.WAIT_USER, Phase.EDIT)
    run.must(cmd.AnswerGate(1, approve=False, comment="too timid"))
    assert run.until_agent() == fx.RunAgent(Phase.PLAN)
    assert run.state.item("p1").reason == "rejected in review: too timid"
    assert "the plan was rejected: too timid" in " ".join(run.state.hints)
    run.begins("c")
    run.must(cmd.AnswerGate(2, approve=True))
    assert run.until_agent() == fx.RunAgent(Phase.EDIT)


def test_new_code_waits_at_the_edit_gate_before_it_first_runs() -> None:
    run = SimulatedRun()
    run.must(cmd.SetGate(Gate.EDIT, on=True))
    run.until_agent()
    run.begins("a", "b")
    assert run.tries() == fx.Hold(Overlay.WAIT_USER, Phase.EVAL)
    run.must(cmd.AnswerGate(1, approve=False))
    assert (run.state.work_blob, run.state.active) == ("seed", "p1")
    assert run.until_agent() == fx.RunAgent(Phase.EDIT)
    run.tries()
    run.must(cmd.AnswerGate(2, approve=True))
    run.until_agent(faster())
    assert run.state.count(Verdict.KEEP) == 1


def test_an_open_gate_is_answered_by_its_number_and_keeps_no_run_from_ending() -> None:
    run = SimulatedRun()
    run.must(cmd.SetGate(Gate.PLAN, on=True))
    run.until_agent()
    run.begins("a")
    assert refusal(run, cmd.AnswerGate(9, approve=True)) == "gate 9 is not open"
    run.must(cmd.Stop())
    run.until_agent()
    assert run.state.finished == "stopped by the user"


# Undo


def test_an_undone_keep_makes_the_best_before_it_best_again() -> None:
    run = kept("A=1", "A=2", "A=3")
    run.tries(faster(1.2))
    assert run.state.best is not None
    assert run.state.best.attempt == 2
    began = run.state
    run.must(cmd.UndoKeep("uses fast math"))
    assert fx.visit_is_void(began, run.state)
    assert (run.state.best.attempt, run.state.work_blob) == (1, "b1")
    assert [a.verdict for a in run.state.attempts] == [Verdict.KEEP] * 3
    undone = run.state.item("p2")
    assert undone.word == "UNDONE"
    assert undone.reason.startswith("undone by a person: uses fast math (was faster:")
    assert "| p2 | UNDONE |" in render_plan(run.state)
    assert "took the KEEP of p2 back" in " ".join(standing(run.state, set()))
    assert [k["undone"] for k in summarize(run.state)["keeps"]] == [False, True]
    measured = [(each.setting, each.over_seed) for each in measured_settings(run.state)]
    assert measured == [({"A": 1}, 1.5), ({"A": 2}, None)]
    run.must(cmd.ForceReplan())
    run.until_agent()
    refused = run.turn(cmd.SubmitPlan((item("A=2"),)))[0]
    assert refused is not None
    assert "repeats p2, which was UNDONE (undone by a person: uses fast math" in refused.why
    run.must(cmd.UndoKeep())
    assert run.state.best.attempt == 0
    assert "the best kernel is the seed" in refusal(run, cmd.UndoKeep())


def test_nothing_is_undone_under_a_candidate_that_builds_on_it() -> None:
    run = kept("a", "b", mode=Mode.AUTO)
    run.must(cmd.SetGate(Gate.KEEP, on=True))
    run.edit()
    run.step()
    run.must(cmd.StartEval(ev.Purpose.CANDIDATE, 2, "b2"))
    assert "attempt 2, which builds on the KEEP of attempt 1, is being measured" in refusal(
        run, cmd.UndoKeep()
    )
    run.must(cmd.FinishEval(faster()))
    run.until_agent()
    assert "attempt 2 builds on the KEEP of attempt 1 and waits for your review" in refusal(
        run, cmd.UndoKeep()
    )
    run.must(cmd.AnswerGate(1, approve=False))
    run.perform(run.next())  # type: ignore[arg-type]
    run.must(cmd.UndoKeep())


def measuring_on_a_keep() -> SimulatedRun:
    """A run that measures attempt 2, which builds on the KEEP of attempt 1."""
    run = kept("a", "b")
    run.edit()
    run.step()
    run.must(cmd.StartEval(ev.Purpose.CANDIDATE, 2, "b2"))
    return run


@pytest.mark.parametrize(("ratio", "undone"), [(0.9, [1]), (1.5, [2, 1])])
def test_a_queued_undo_waits_until_the_round_that_builds_on_the_keep_is_settled(
    ratio: float, undone: list[int]
) -> None:
    run = measuring_on_a_keep()
    run.must(cmd.UndoKeep("not exact", queue=True))
    assert run.state.best is not None
    assert run.state.best.attempt == 1, "nothing changes under the candidate"
    assert "is queued already" in refusal(run, cmd.UndoKeep(queue=True))
    run.must(cmd.Pause())
    folded = run.refold()
    assert folded == run.state, "a crash keeps it"
    run.must(cmd.FinishEval(faster(ratio)))
    while not run.state.decided_here:
        run.must(cmd.Unpause()) if run.state.paused else run.perform(run.next())  # type: ignore[arg-type]
    step = run.next()
    assert isinstance(step, fx.Step)
    assert [(e.attempt, e.comment) for e in step.events if isinstance(e, ev.KeepUndone)] == [
        (attempt, "not exact") for attempt in undone
    ]
    run.perform(step)
    assert (run.state.best.attempt, run.state.undo_queued) == (0, None)


def test_a_queued_undo_can_be_taken_back_and_is_nothing_new_where_nothing_waits() -> None:
    run = measuring_on_a_keep()
    assert refusal(run, cmd.WithdrawUndo()) == "no undo is queued"
    run.must(cmd.UndoKeep(queue=True))
    run.must(cmd.WithdrawUndo())
    assert run.refold().undo_queued is None
    run.must(cmd.FinishEval(faster(0.9)))
    run.until_agent()
    assert run.state.best is not None
    assert run.state.best.attempt == 1
    run.must(cmd.UndoKeep(queue=True))
    assert run.state.best.attempt == 0, "no candidate builds on it: it is undone at once"


def test_a_goal_reached_by_an_undone_keep_is_not_reached() -> None:
    goal = AutomationPolicy(goals=(Goal("speedup", ">", 1.4, scope="any"),))
    run = kept("a", "b", policy=Policy(automation=AutomationPolicy(strict_heuristics=False)))
    run.must(cmd.UndoKeep())
    run.must(cmd.ChangePolicy(Policy(automation=goal)))
    assert stop_reasons(run.state, run.now) == ()


def test_the_keep_of_a_run_that_is_over_can_be_undone() -> None:
    run = kept("a", policy=Policy(max_rounds=1))
    assert run.state.finished
    assert run.state.final is not None
    run.must(cmd.UndoKeep("not that one"))
    assert run.state.final is None
    assert run.state.best is not None
    assert run.state.best.attempt == 0
    assert "the run is over" in refusal(run, cmd.Pause())
