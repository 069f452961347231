"""Limits, demands and hand edits of PLAN.md, from the ``:`` line of the workbench."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.phases import Phase
from akg_tui.tui.screens.command_line import CommandLine
from akg_tui.tui.screens.dialogs import Confirm
from akg_tui.view.controls.policy_words import BadLimit, limited

from .script import FakeHandle, task
from .stage import on_stage


def at_work() -> FakeHandle:
    return FakeHandle(the_task=task(max_rounds=3)).to_phase(Phase.EDIT, settled=2)


async def test_limits_are_changed_while_the_run_is_at_work_and_it_goes_beyond_the_old_ones() -> (
    None
):
    async with on_stage(at_work()) as stage:
        await stage.command("limits rounds=5 cost=2.5")
        assert "limits from now on: rounds=5 cost=2.5" in stage.text()
        policy = stage.handle.state.task.policy
        assert policy.max_rounds == 5
        assert policy.automation.max_cost_usd == 2.5
        stage.handle.work()
        assert stage.handle.state.settled == 5


async def test_a_run_that_is_over_goes_on_as_the_same_run_with_the_key_for_more_rounds() -> None:
    handle = FakeHandle(the_task=task(max_rounds=3)).work()
    handle.over.set()
    async with on_stage(handle) as stage:
        assert "+ goes on with more rounds" in stage.text()
        await stage.command("more x")
        assert "rounds needs a number above 0" in stage.text()
        handle.over.clear()
        await stage.press("plus", "enter")
        assert isinstance(handle.sent[-1], cmd.GoOn)
        assert "the run goes on: rounds=+20" in stage.text()
        assert handle.state.task.policy.max_rounds == 23
        assert not stage.work_is_done
        handle.work(lambda state: state.settled == 5)
        await stage.pull()
        assert "round 5/23" in stage.text()
        await stage.command("more 2")
        assert handle.state.task.policy.max_rounds == 25


def test_limits_are_added_to_removed_and_named_as_in_a_policy_file() -> None:
    before = limited(task(max_rounds=4).policy, "hours=2 tokens=900 patience=3")
    after = limited(before, "rounds=+2 max_hours=+1 maxTokens=none max_rounds_without_keep=none")
    assert (after.max_rounds, after.max_hours, after.max_rounds_without_keep) == (6, 3.0, None)
    assert after.automation.max_tokens is None
    more = limited(before, "experiments=7")
    assert (more.max_rounds, more.max_hours) == (4, 2), "what is not stated stays"
    assert (more.automation.max_tokens, more.automation.max_experiments) == (900, 7)
    assert limited(before, "rounds=+2", settled=9).max_rounds == 11
    with pytest.raises(BadLimit, match="no limit on cost yet"):
        limited(before, "cost=+2")


def test_goals_logic_and_heuristics_are_set_with_the_same_words() -> None:
    policy = limited(task().policy, "goal=speedup>=2 goal=max_error<1e-6 logic=or heuristics=on")
    assert [str(goal) for goal in policy.automation.goals] == ["speedup >= 2", "max_error < 1e-06"]
    assert (policy.automation.logic, policy.automation.strict_heuristics) == ("OR", True)
    policy = limited(policy, "goal=speedup>=3")
    assert [str(goal) for goal in policy.automation.goals] == ["max_error < 1e-06", "speedup >= 3"]
    assert limited(policy, "goals=none").automation == replace(policy.automation, goals=())
    declared = limited(policy, "goal='Mean R>=0.8'", metrics=("Mean R",)).automation
    assert str(declared.goals[-1]) == "Mean R >= 0.8"
    for text, told in (
        ("goal=pace>2", "'pace' is not measured"),
        ("goal='pace", "a quote is not closed"),
        ("logic=xor", "AND, OR"),
    ):
        with pytest.raises(BadLimit, match=told):
            limited(policy, text)


async def test_a_goal_on_a_metric_of_the_task_is_set_and_changed_by_name() -> None:
    handle = at_work()
    measured = replace(handle.state.task, metrics=("Mean R",))
    handle._state = replace(handle.state, task=measured)
    async with on_stage(handle) as stage:
        await stage.command("limits goal='Mean R>=0.8'")
        automation = stage.handle.state.task.policy.automation
        assert str(automation.goals[-1]) == "Mean R >= 0.8"
        await stage.command("limits goal='Min R>=0.8'")
        assert "'Min R' is not measured, expected one of: speedup" in stage.text()
        await stage.press("P", *["down"] * 8, "enter", "backspace", "backspace", *"9'", "enter")
        automation = stage.handle.state.task.policy.automation
        assert [str(goal) for goal in automation.goals] == ["Mean R >= 0.9"]


async def test_a_limit_that_cannot_be_read_changes_nothing_and_none_is_asked_for() -> None:
    async with on_stage(at_work()) as stage:
        for line, told in (
            ("limits laps=5", "no limit is called laps; there are: rounds, experiments"),
            ("limits rounds=x", "rounds needs a number above 0"),
        ):
            await stage.command(line)
            assert told in stage.text()
        await stage.command("limits")
        assert isinstance(stage.app.screen, CommandLine)
        await stage.press("backspace", "7", "enter")
        assert stage.handle.state.task.policy.max_rounds == 7
    assert sum(isinstance(each, cmd.ChangePolicy) for each in stage.handle.sent) == 1


@pytest.mark.parametrize("text", ["hours=0", "tokens=1.5", "rounds", "hours=inf", "cost=-1"])
def test_a_limit_is_a_number_above_zero(text: str) -> None:
    with pytest.raises(BadLimit, match="above 0"):
        limited(task().policy, text)


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("replan the flags lead nowhere", cmd.ForceReplan("the flags lead nowhere")),
        ("replan", cmd.ForceReplan()),
        ("diagnose", cmd.ForceDiagnosis()),
    ],
)
async def test_a_new_plan_or_a_diagnosis_is_called_for(line: str, command: cmd.Command) -> None:
    async with on_stage(at_work()) as stage:
        await stage.command(line)
        assert stage.handle.sent[-1] == command
        assert "is called for" in stage.text()


class Edited(FakeHandle):
    """A run whose PLAN.md was edited by hand."""

    def plan_change(self, kept: str) -> ev.PlanChange:
        assert kept == "PLAN.md.edited-1"
        number = len(self.state.items) + 1
        added = ev.PlannedItem(f"p{number}", "try bf16", "half the bytes")
        return ev.PlanChange(added=(added,), dropped=("p5",))


async def test_a_hand_edit_is_taken_over_after_a_question_that_lists_its_changes() -> None:
    handle = Edited().to_phase(Phase.EDIT, settled=2)
    async with on_stage(handle) as stage:
        await stage.command("adopt")
        assert "there is no hand edit of PLAN.md" in stage.text()
        handle._append(ev.PlanEdited(kept="PLAN.md.edited-1", sha256="0" * 64))
        await stage.pull()
        await stage.command("adopt")
        assert isinstance(stage.app.screen, Confirm)
        assert "take PLAN.md.edited-1 over?" in stage.text()
        assert "add p7 try bf16" in stage.text()
        assert "drop p5" in stage.text()
        await stage.press("n")
        assert handle.state.adopted == ()
        await stage.command("adopt")
        await stage.arm()
        await stage.press("y")
        assert handle.state.adopted == ("PLAN.md.edited-1",)
        assert "p7" in {item.id for item in handle.state.pending}
        assert "p5" not in {item.id for item in handle.state.pending}
