"""The panel of the policy: what ends the run, what is used of it, and how each is changed."""

from __future__ import annotations

from msgspec.structs import replace

from akg_tui.core.phases import Phase
from akg_tui.core.stopping.automation import AutomationPolicy
from akg_tui.core.stopping.goals import Goal
from akg_tui.tui.screens.command_line import CommandLine
from akg_tui.tui.screens.policy_panel import PolicyPanel
from akg_tui.view.controls.policy_words import settings
from akg_tui.view.status import header

from .script import FakeHandle, task
from .stage import Stage, on_stage

LIMITS = AutomationPolicy(
    strict_heuristics=False,
    max_tokens=500_000,
    max_cost_usd=5.0,
    goals=(Goal("speedup", ">=", 1.2), Goal("max_error", "<", 1e-9)),
)


def at_work() -> FakeHandle:
    the_task = task(max_rounds=8)
    policy = replace(the_task.policy, automation=LIMITS)
    handle = FakeHandle(the_task=replace(the_task, policy=policy)).to_phase(Phase.EDIT, settled=1)
    handle._state = replace(handle.state, input_tokens=6_000, output_tokens=600)
    return handle


def row(stage: Stage, word: str) -> str:
    return next(each for each in stage.text().splitlines() if f" {word} " in each)


async def test_the_panel_shows_each_limit_with_what_is_used_of_it_and_the_reason_to_stop() -> None:
    async with on_stage(at_work()) as stage:
        await stage.press("P")
        assert isinstance(stage.app.screen, PolicyPanel)
        assert "6.6k / 500k tokens" in row(stage, "tokens")
        assert "1 / 8 rounds" in row(stage, "rounds")
        assert "$0.00 / $5" in row(stage, "cost")
        assert "no limit" in row(stage, "experiments")
        assert "✓" in row(stage, "speedup >= 1.2, now")
        assert "◦" in row(stage, "max_error < 1e-09, now")
        assert "no condition to stop holds" in stage.text()
        await stage.press("escape")
        stage.handle.work()
        await stage.press("P")
        assert "auto-run stop condition: max rounds reached (8)" in stage.text()


async def test_a_limit_is_changed_from_its_row_and_a_switch_is_turned_there() -> None:
    async with on_stage(at_work()) as stage:
        await stage.press("P", "down", "down", "enter")
        assert isinstance(stage.app.screen, CommandLine)
        await stage.press(*["backspace"] * 6, *"9000", "enter")
        automation = stage.handle.state.task.policy.automation
        assert automation.max_tokens == 9000
        await stage.press("P")
        words = [each.word for each in settings(stage.handle.state, stage.handle.now)]
        await stage.press(*["down"] * words.index("logic"), "enter", "down", "enter")
        automation = stage.handle.state.task.policy.automation
        assert (automation.logic, automation.strict_heuristics) == ("OR", True)
        assert "OR: any goal ends the run" in stage.text()


def test_the_header_tells_the_tokens_of_how_many() -> None:
    handle = at_work()
    shown = "".join(text for text, _ in header(handle.state, handle.now, 200))
    assert "6.6k / 500k tokens" in shown
