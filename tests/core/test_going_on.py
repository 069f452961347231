"""A run that is over goes on as the same run, under other limits."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.effects import Hold, Measure
from akg_tui.core.fold import OutOfOrder
from akg_tui.core.phases import Overlay, Phase
from akg_tui.core.stopping.limits import more_rounds
from akg_tui.core.summary import best_of
from akg_tui.core.task import Policy
from tests.core.simulated import SimulatedRun, broken, failed, faster, planned
from tests.core.test_automation import AutomationPolicy, Goal
from tests.core.test_levers import refusal


def over(policy: Policy | None = None) -> SimulatedRun:
    """One KEEP, then the limit of rounds; an item is left."""
    run = planned("a", "b", "c", policy=policy or Policy(max_rounds=1))
    run.tries(faster(1.5))
    assert run.state.finished == "max rounds reached (1)"
    return run


def go_on(run: SimulatedRun, **limits: object) -> cmd.GoOn:
    return cmd.GoOn(replace(run.state.task.policy, **limits))


def test_a_run_that_is_over_goes_on_with_the_items_that_are_left() -> None:
    run = over()
    before = run.state
    assert best_of(before) is not None
    run.must(go_on(run, max_rounds=more_rounds(before, 2)))
    assert (run.state.phase, run.state.finished, run.state.final) == (Phase.PLAN, "", None)
    assert run.state.worked_s == before.worked_s
    run.until_agent()
    assert (run.state.phase, run.state.active) == (Phase.EDIT, "p2")
    run.tries(faster(1.2))
    assert run.tries(faster(0.9)) is None
    assert run.state.finished == "max rounds reached (3)"
    assert (run.state.run_id, run.state.settled) == (before.run_id, 3)
    assert run.state.final is not None
    assert run.refold() == run.state


def test_a_run_that_would_end_at_once_is_not_reopened_and_the_limit_is_named() -> None:
    tokens = AutomationPolicy(strict_heuristics=False, goals=(Goal("speedup", ">=", 1.4),))
    run = over(Policy(max_rounds=1, automation=tokens))
    assert refusal(run, go_on(run)) == (
        "the run would end again at once: max rounds reached (1); automation goals reached"
    )
    assert refusal(run, go_on(run, max_rounds=9)).endswith("at once: automation goals reached")
    run.must(go_on(run, max_rounds=9, automation=None))


def test_what_a_person_ended_goes_on_without_another_limit() -> None:
    run = planned("a", "b")
    run.must(cmd.Stop())
    run.until_agent()
    assert run.state.finished == "stopped by the user"
    run.must(go_on(run))
    run.until_agent()
    assert (run.state.phase, run.state.active) == (Phase.EDIT, "p1")


def test_a_run_that_is_stopped_in_a_pause_ends_without_going_on() -> None:
    run = planned("a", "b")
    run.must(cmd.Pause())
    assert run.next() == Hold(Overlay.PAUSED)
    run.must(cmd.Stop())
    run.until_agent()
    assert run.state.finished == "stopped by the user"
    assert not run.state.paused


def test_a_kernel_whose_evaluations_were_lost_is_evaluated_again() -> None:
    run = planned("a")
    run.tries(broken(), broken(), broken())
    assert run.state.finished
    run.must(go_on(run))
    assert run.entering() == (Phase.EVAL, "p1 edited")
    run.step()
    effect = run.next()
    assert isinstance(effect, Measure)
    assert effect.blob == "b1"


def test_a_kernel_that_was_not_written_in_time_is_written_further() -> None:
    run = SimulatedRun(policy=Policy(max_rounds=1), workflow="write")
    run.until_agent(failed())
    run.writes("w1", failed())
    assert run.state.finished
    run.must(go_on(run, max_rounds=2))
    assert (run.state.phase, run.state.round) == (Phase.WRITE, 2)
    run.writes("w2", faster(1.0))
    assert run.state.ok
    assert refusal(run, go_on(run, max_rounds=9)) == (
        "the kernel is correct: the workflow write is done"
    )


def test_a_run_without_a_correct_first_kernel_has_nothing_to_go_on_from() -> None:
    run = SimulatedRun()
    run.until_agent(failed("all of them differ"))
    assert "has no round to go on from" in refusal(run, go_on(run, max_rounds=40))


@pytest.mark.parametrize("phase", [Phase.EDIT, Phase.DONE])
def test_a_run_that_is_not_over_is_not_reopened(phase: Phase) -> None:
    run = planned("a")
    if phase is Phase.DONE:
        run = planned("a", policy=Policy(max_rounds=1))
        run.edit()
        while run.state.phase is not Phase.DONE:
            effect = run.next()
            assert effect is not None
            run.perform(effect)
    assert refusal(run, go_on(run, max_rounds=40)).startswith("the run is ")
    with pytest.raises(OutOfOrder, match="not over"):
        run.tell(ev.RunReopened(phase=Phase.PLAN, policy=Policy()))
