"""A hand edit of PLAN.md as a change of items: what was moved, added, reworded and left out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.events import PlanChange, PlannedItem
from akg_tui.core.phases import ItemState
from akg_tui.core.plan.edit import BadPlanEdit, read_plan_edit
from akg_tui.core.plan.plan_document import is_as_rendered, render_plan
from tests.core.simulated import SimulatedRun, faster, item, planned
from tests.core.test_levers import pending, refusal

KEPT = "PLAN.md.edited-1"


def row(run: SimulatedRun, item_id: str) -> str:
    (found,) = [line for line in render_plan(run.state).split("\n") if f"] {item_id}: " in line]
    return found + "\n"


def adopted(run: SimulatedRun, text: str) -> PlanChange:
    run.tell(ev.PlanEdited(kept=KEPT, sha256="0"))
    change = read_plan_edit(text, run.state)
    run.must(cmd.AdoptPlanEdit(KEPT, change))
    return change


def test_what_nobody_changed_is_no_change() -> None:
    run = planned("a", "A=1 (with B=2)", "c (an aside)")
    assert read_plan_edit(render_plan(run.state), run.state) == PlanChange()
    run.tell(ev.PlanEdited(kept=KEPT, sha256="0"))
    assert "changes no item" in refusal(run, cmd.AdoptPlanEdit(KEPT, PlanChange()))


def test_lines_moved_added_reworded_and_taken_out_become_one_event() -> None:
    run = planned("a", "b", "c", "d")
    plan = render_plan(run.state)
    two, three = row(run, "p2"), row(run, "p3")
    plan = plan.replace(two, "").replace(
        three, three.replace("p3: c", "p3: C=3") + "- try E=5 (it is wider)\n- plain\n"
    )
    plan = plan.replace(row(run, "p4"), "").replace("# Plan\n\n", "# Plan\n\n" + row(run, "p4"))
    change = adopted(run, plan)
    assert change.dropped == ("p2",)
    assert change.edited == (PlannedItem("p3", "C=3", item("c").rationale),)
    assert change.added == (PlannedItem("p5", "try E=5", "it is wider"), PlannedItem("p6", "plain"))
    assert pending(run) == ["p4", "p3", "p5", "p6"]
    assert run.state.item("p2").reason == "dropped by a person in PLAN.md"
    assert run.state.item("p5").pinned
    assert isinstance(run.records[-1].event, ev.PlanEditAdopted)
    assert refusal(run, cmd.AdoptPlanEdit(KEPT, change)) == f"{KEPT} was taken over already"
    assert is_as_rendered(render_plan(run.state))


def test_what_came_after_the_edit_is_neither_dropped_nor_reordered() -> None:
    run = planned("a", "b", "c")
    edited = render_plan(run.state).replace(row(run, "p2"), "")
    run.must(cmd.AddItem("later"))
    adopted(run, edited)
    assert pending(run) == ["p3", "p4"]


def test_what_was_settled_since_the_edit_is_left_alone() -> None:
    run = planned("a", "b", "c")
    edited = render_plan(run.state).replace("p1: a", "p1: something else")
    run.tries(faster())
    assert run.state.item("p1").state is ItemState.KEPT
    assert read_plan_edit(edited, run.state) == PlanChange()


def test_a_change_read_too_early_is_refused() -> None:
    run = planned("a", "b")
    text = render_plan(run.state).replace(row(run, "p2"), "- new\n")
    run.tell(ev.PlanEdited(kept=KEPT, sha256="0"))
    change = read_plan_edit(text, run.state)
    run.must(cmd.AddItem("mine"))
    assert "read the edit again" in refusal(run, cmd.AdoptPlanEdit(KEPT, change))


def test_a_long_item_that_plan_md_cut_keeps_its_words() -> None:
    run = planned("a", *(f"direction {n} " + "x" * 380 for n in range(20)))
    text = render_plan(run.state)
    assert read_plan_edit(text, run.state) == PlanChange()
    moved = text.replace(row(run, "p3"), "").replace(
        row(run, "p2"), row(run, "p3") + row(run, "p2")
    )
    change = read_plan_edit(moved, run.state)
    assert (change.edited, change.order[:2]) == ((), ("p3", "p2"))


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("do this instead", 1, "`items:`|heading"),
        ("items: 3\n# Plan\n\nplease hurry\n", 4, "expected an item such as"),
        ("items: 3\n# Plan\n- [ ] p1: a\n- [ ] p1: b\n", 4, "p1 stands there twice"),
        ("items: 3\n# Plan\n- [ ] " + "x" * 401, 3, "1 to 400 characters"),
        ("items: 3\n# Plan\n# Plan\n", 1, "found it 2 times"),
        ("# Plan\n- a\n", 1, "`items:`"),
    ],
)
def test_a_text_that_is_no_plan_is_told_by_line(text: str, line: int, why: str) -> None:
    with pytest.raises(BadPlanEdit, match=why) as told:
        read_plan_edit(text, planned("a", "b").state)
    assert told.value.line == line


@given(st.text(max_size=200))
def test_whatever_stands_in_the_list_is_read_or_refused(text: str) -> None:
    run = planned("a", "b")
    try:
        change = read_plan_edit(f"items: 2\n# Plan\n{text}", run.state)
    except BadPlanEdit:
        return
    run.tell(ev.PlanEdited(kept=KEPT, sha256="0"))
    run.send(cmd.AdoptPlanEdit(KEPT, change))
    assert run.refold() == run.state
