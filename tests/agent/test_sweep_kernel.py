"""Sweeps of a model: the harness measures the settings of its knobs inside the item."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from akg_tui.agent.prompt import situation
from akg_tui.agent.tools.sweeps import MAX_CHOICES, MAX_KNOBS
from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.measurement import FailureKind, Measurement, Outcome
from akg_tui.core.phases import Gate
from akg_tui.core.plan.trial_budget import trials_left
from akg_tui.core.task import Policy
from tests.agent.test_tools import Caller, calling
from tests.engine.runs import KERNEL

TWO = KERNEL.replace('"A"  # tune: ["A", "B", "C", "WRONG"]', '"B"  # tune: ["B", "C"]')
WIDE = KERNEL.replace("[1, 2]", str(list(range(1, 20))))


def trials(caller: Caller) -> list[ev.KernelTried]:
    return [r.event for r in caller.engine.records if isinstance(r.event, ev.KernelTried)]


def probes(caller: Caller) -> list[tuple[bool, int, int]]:
    found: list[tuple[bool, int, int]] = caller.engine._judge.probes  # type: ignore[attr-defined]
    return found


def races(caller: Caller) -> list[int]:
    found: list[int] = caller.engine._judge.races  # type: ignore[attr-defined]
    return found


async def test_every_setting_is_measured_and_the_best_is_compared_and_submitted(
    tmp_path: Path,
) -> None:
    async with calling(tmp_path) as caller:
        told = await caller.good("sweep_kernel", text=TWO)
        rows = told.split("\n")
        assert rows[0].startswith("sweep 1 of p1: 4 of 4 settings")
        assert rows[1] == "settings of one group cannot be told apart"
        best = 'group 1: trial 3: SPEED="C" WIDTH=1: +300.0 % (+296.0 to +304.0), 1 ms'
        assert rows[2] == best
        groups = ["group 1: trial 4:", "group 2: trial 1:", "group 2: trial 2:"]
        assert [row[:17] for row in rows[3:6]] == groups
        assert rows[6].startswith("the judge's comparison of trial 3 is trial 5: correct, +300.0 %")
        # Five measurements are two trials.
        assert rows[7] == "3 trials of p1 are left"
        assert [each.sweep for each in trials(caller)] == [1] * 5
        assert trials(caller)[0].made_from == 'SPEED="B" WIDTH=1'
        assert probes(caller) == [(False, 0, 0)] * 4 + [(True, 0, 5)]
        assert races(caller) == [5]  # with the incumbent
        assert not caller.engine.state.edited
        await caller.good("submit_kernel", trial=5)
        work = caller.engine.kernel(caller.engine.state.work_blob)
        assert 'SPEED = "C"  # tune: ["B", "C"]' in work.text


async def test_a_sweep_without_a_source_is_of_the_kernel_and_submits_the_best(
    tmp_path: Path,
) -> None:
    async with calling(tmp_path) as caller:
        told = await caller.good("sweep_kernel", knobs=["SPEED"], submit=True)
        assert 'trial 1: SPEED="WRONG": wrong: wrong values' in told
        assert told.endswith("3 trials of p1 are left\nsubmitted: 1 lines added, 1 removed")
        text = caller.engine.kernel(caller.engine.state.work_blob).text
        assert text == KERNEL.replace('"A"  #', '"C"  #')


async def test_a_kernel_that_is_the_fastest_is_compared_with_itself_no_more(
    tmp_path: Path,
) -> None:
    async with calling(tmp_path) as caller:
        told = await caller.good("sweep_kernel", knobs=["WIDTH"], submit=True)
        rows = told.split("\n")
        assert rows[2].startswith("group 1: trial 1: WIDTH=1: ")
        assert rows[-2] == "no setting is faster than the kernel as it is: nothing was submitted"
        assert len(trials(caller)) == len(probes(caller)) == 2
        assert caller.engine.kernel(caller.engine.state.work_blob).text == KERNEL


async def test_an_edit_declares_the_knobs_that_are_swept(tmp_path: Path) -> None:
    async with calling(tmp_path) as caller:
        view = await caller.good("read_kernel")
        tag = view.split("\n")[1].split("|")[0]
        op = {"op": "replace", "from": tag, "to": tag, "lines": ['SPEED = "B"  # tune: ["B", "C"]']}
        told = await caller.good("sweep_kernel", edit={"ops": [op]}, knobs=["SPEED"])
        assert "sweep 1 of p1: 2 of 2 settings" in told


async def test_a_large_space_is_searched_within_what_the_trials_left_pay_for(
    tmp_path: Path,
) -> None:
    async with calling(tmp_path) as caller:
        told = await caller.good("sweep_kernel", text=WIDE)
        assert told.startswith("sweep 1 of p1: 19 of 76 settings")
        settings = [each.made_from for each in trials(caller)]
        assert len(settings) == 20
        assert len(set(settings[:19])) == 19
        assert told.endswith("0 trials of p1 are left")
        assert "all 5 trials of p1" in await caller.refused("sweep_kernel", text=WIDE)
        assert "all 5 trials of p1" in await caller.refused("try_kernel", text=WIDE)


async def test_a_sweep_tells_of_its_busiest_race(tmp_path: Path) -> None:
    async with calling(tmp_path) as caller:
        judge: Any = caller.engine._judge
        judge.race_noise = [(("drift",), 0.02), (("waits for a CPU",), 0.2), ((), 0.3)]
        told = await caller.good("sweep_kernel", text=WIDE)
        assert len(races(caller)) > 3
        seen = "the smallest gain that would be seen: 20.0%"
        assert told.startswith(f"the machine was busy: waits for a CPU; {seen}\nsweep 1 of p1")


async def test_listed_settings_are_measured_and_a_search_goes_on_from_them(
    tmp_path: Path,
) -> None:
    async with calling(tmp_path) as caller:
        guesses = [{"SPEED": "C"}, {"SPEED": "B", "WIDTH": 64}]  # 64 is none of its choices
        told = await caller.good("sweep_kernel", configs=guesses, submit=True)
        assert told.startswith("sweep 1 of p1: 3 of 12 settings")
        made = [each.made_from for each in trials(caller)]
        assert made == [
            'SPEED="A" WIDTH=1', 'SPEED="C" WIDTH=1', 'SPEED="B" WIDTH=64', 'SPEED="C" WIDTH=1',
        ]  # fmt: skip
        assert "WIDTH = 64  # tune: [1, 2, 64]" in caller.engine.kernel(trials(caller)[2].blob).text
        work = caller.engine.kernel(caller.engine.state.work_blob)
        assert work.text == KERNEL.replace('"A"  #', '"C"  #')
    async with calling(tmp_path / "more") as caller:
        await caller.good("sweep_kernel", configs=guesses, settings=6)
        made = [each.made_from for each in trials(caller)]
        assert made[:3] == ['SPEED="A" WIDTH=1', 'SPEED="C" WIDTH=1', 'SPEED="B" WIDTH=64']
        assert len(set(made[:6])) == 6


async def test_a_bounded_sweep_is_charged_for_what_it_measured(tmp_path: Path) -> None:
    async with calling(tmp_path) as caller:
        await caller.good("sweep_kernel", text=WIDE, settings=3)
        assert trials_left(caller.engine.state) == 4
        told = situation(caller.engine.state, [])
        assert "Sweep 1: trials 1 to 4, the last: correct" in told
        assert "Trials left for p1: 4 of 5." in told
        assert caller.engine.send(cmd.ChangePolicy(Policy(trials=2))) is None
        await caller.good("sweep_kernel", text=WIDE)
        assert len([each for each in trials(caller) if each.sweep == 2]) == 4


NOT_SWEPT: list[tuple[dict[str, Any], str]] = [
    ({"text": "class ModelNew:\n    pass\n"}, "the kernel declares no knob"),
    ({"text": KERNEL, "knobs": ["TILE"]}, "TILE is not declared; there are: SPEED, WIDTH"),
    ({"text": KERNEL.replace("[1, 2]", "[3]")}, "the value 1 is not among its choices"),
    ({"text": KERNEL, "trial": 1}, "give one source, not text and trial"),
    ({"configs": [{"SPEED": "C", "TILE": 1}]}, "TILE is not declared; there are: SPEED, WIDTH"),
    ({"configs": [{"WIDTH": 1}, {"WIDTH": [2]}]}, "configs[1]: WIDTH: a value is a number"),
    ({"configs": [{"WIDTH": n} for n in range(2, 22)]}, "configs: the trials left pay for 18"),
    ({"text": "x = ("}, "line 1: '(' was never closed; nothing was measured"),
    (
        {"text": KERNEL + "".join(f"K{n} = 1  # tune: [1, 2]\n" for n in range(MAX_KNOBS))},
        f"{MAX_KNOBS + 2} knobs are declared",
    ),
    (
        {"text": KERNEL.replace("[1, 2]", str(list(range(MAX_CHOICES + 1))))},
        f"WIDTH has {MAX_CHOICES + 1} choices",
    ),
]


async def test_what_cannot_be_swept_costs_nothing(tmp_path: Path) -> None:
    async with calling(tmp_path) as caller:
        for arguments, why in NOT_SWEPT:
            assert why in await caller.refused("sweep_kernel", **arguments)
        assert caller.engine.state.trials == ()
        assert probes(caller) == []


async def test_a_sweep_of_wrong_settings_is_an_error_with_the_table(tmp_path: Path) -> None:
    wrong = KERNEL.replace('"A"  # tune: ["A", "B", "C", "WRONG"]', '"WRONG"')
    async with calling(tmp_path) as caller:
        why = await caller.refused("sweep_kernel", text=wrong, submit=True)
        assert "trial 1: WIDTH=1: wrong: wrong values" in why
        assert not caller.engine.state.edited


async def test_a_sweep_ends_when_the_run_stops_or_the_judge_is_lost(tmp_path: Path) -> None:
    async with calling(tmp_path) as caller:
        judge: Any = caller.engine._judge
        real = judge.probe

        async def stopped(*args: Any, **kwargs: Any) -> Any:
            if len(probes(caller)) == 1:
                assert caller.engine.send(cmd.Pause()) is None
            return await real(*args, **kwargs)

        judge.probe = stopped
        told = await caller.good("sweep_kernel", text=TWO)
        assert told.startswith("sweep 1 of p1: 2 of 4 settings")
        assert "it ended early: the run pauses or has reached a limit" in told
        assert caller.engine.send(cmd.Unpause()) is None

        async def lost(*_: Any, **__: Any) -> Measurement:
            return Measurement(outcome=Outcome.ERROR, failure=FailureKind.JUDGE, message="gone")

        judge.probe = lost
        assert "the judge failed: gone" in await caller.refused("sweep_kernel", text=TWO)
        assert trials_left(caller.engine.state) == 4


async def test_the_judge_is_told_of_the_settings_that_follow(tmp_path: Path) -> None:
    async with calling(tmp_path) as caller:
        judge: Any = caller.engine._judge
        await caller.good("sweep_kernel", text=TWO)
        # The last is the judge's comparison.
        assert judge.ahead == [3, 2, 1, 0, 0]


async def test_a_sweep_has_the_time_of_the_trials_that_it_may_cost(tmp_path: Path) -> None:
    async with calling(tmp_path) as caller:
        judge = caller.engine._judge

        async def slow(*_: Any, limit_s: float, **__: Any) -> Measurement:
            await asyncio.sleep(limit_s)
            why = "given up in the build"
            return Measurement(outcome=Outcome.FAILED, failure=FailureKind.TIMEOUT, message=why)

        judge.probe = slow  # type: ignore[method-assign]
        assert caller.engine.send(cmd.ChangePolicy(Policy(trial_s=0.02))) is None
        why = await caller.refused("sweep_kernel", text=TWO)
        # Five measurements may cost two trials, so each of the first two used up one's time.
        assert why.startswith("sweep 1 of p1: 2 of 4 settings")
        assert "it ended early: its time is used up" in why


async def test_no_sweep_runs_code_that_a_person_must_approve(tmp_path: Path) -> None:
    async with calling(tmp_path) as caller:
        assert caller.engine.send(cmd.SetGate(Gate.EDIT, on=True)) is None
        assert "approves new code" in await caller.refused("sweep_kernel", text=TWO)
