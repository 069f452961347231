"""Trials: a version is measured, journaled and told, and nothing of the run is settled by it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from akg_tui.agent.prompt import situation
from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.kernel.kernel_files import Place
from akg_tui.core.measurement import FailureKind, Measurement, Outcome, RaceOutcome, Roofline
from akg_tui.core.phases import Gate, Phase
from akg_tui.core.task import Policy
from tests.agent.live import held
from tests.agent.test_tools import Caller, calling
from tests.engine.runs import KERNEL

FAST = KERNEL.replace('"A"  #', '"C"  #')
SLOW = KERNEL.replace("WIDTH = 1", "WIDTH = 3")
WRONG = KERNEL.replace('"A"  #', '"WRONG"  #')


def events(caller: Caller, kind: type) -> list[Any]:
    return [r.event for r in caller.engine.records if isinstance(r.event, kind)]


async def test_a_trial_is_journaled_with_its_figures_and_changes_nothing(tmp_path: Path) -> None:
    async with calling(tmp_path) as caller:
        before = caller.engine.state
        told = await caller.good("try_kernel", text=FAST)
        assert told.startswith(
            "trial 1: correct, +300.0 % (+296.0 to +304.0) against the incumbent"
        )
        assert "1 ms a call, the incumbent 4 ms" in told
        assert told.endswith("4 trials of p1 are left")
        (tried,) = events(caller, ev.KernelTried)
        assert (tried.trial, tried.item, tried.made_from) == (1, "p1", "a whole text")
        assert caller.engine.kernel(tried.blob).text == FAST
        assert tried.measurement.candidate_ms == 1.0
        after = caller.engine.state
        assert (after.work_blob, after.edited) == (before.work_blob, False)
        assert (after.attempts, after.active) == (before.attempts, before.active)


async def test_a_failed_trial_tells_why_and_its_item_goes_on(tmp_path: Path) -> None:
    async with calling(tmp_path) as caller:
        why = await caller.refused("try_kernel", text=WRONG)
        assert "trial 1: wrong: wrong values" in why
        assert "4 trials of p1 are left" in why
        assert caller.engine.state.item("p1").state == "ACTIVE"
        await caller.good("submit_kernel", text=FAST)
        (edited,) = events(caller, ev.KernelEdited)
        assert caller.engine.kernel(edited.blob).text == FAST


async def test_the_line_of_an_error_comes_with_its_tag_and_can_be_edited_at_once(
    tmp_path: Path,
) -> None:
    async with calling(tmp_path) as caller:
        line = next(n for n, each in enumerate(KERNEL.splitlines(), 1) if "SPEED =" in each)
        measure = caller.engine.measure

        async def fails(*given: Any, **how: Any) -> Measurement:
            why = f"build: kernel.py:{line}: no such speed"
            if 'SPEED = "B"' in given[0].text:
                return Measurement(
                    outcome=Outcome.FAILED, failure=FailureKind.BUILD, message=why,
                    place=Place("kernel.py", line), max_error=2.0, tolerance=1.0,
                )  # fmt: skip
            return await measure(*given, **how)

        caller.engine.measure = fails  # type: ignore[method-assign]
        why = await caller.refused("try_kernel", text=KERNEL.replace('"A"  #', '"B"  #'))
        (tag,) = re.findall(rf"^({line}[a-z]{{2}})\|", why, re.M)
        assert "worst error" not in why  # the reason has the numbers
        op = {"op": "sub", "at": tag, "find": '"B"  #', "with": '"C"  #'}
        assert "trial 2: correct" in await caller.good("try_kernel", trial=1, edit={"ops": [op]})


async def test_an_edit_is_tried_then_edited_further_by_its_new_tags_and_submitted(
    tmp_path: Path,
) -> None:
    async with calling(tmp_path) as caller:
        view = await caller.good("read_kernel")
        first = re.findall(r"^(\d+[a-z]{2})\|", view, re.M)[0]
        op: dict[str, Any] = {"op": "sub", "at": first, "find": '"A"  #', "with": '"B"  #'}
        told = await caller.good("try_kernel", edit={"ops": [op]})
        (tag,) = re.findall(r"; now (\w+)$", told, re.M)
        op = {"op": "sub", "at": tag, "find": '"B"  #', "with": '"C"  #'}
        assert "trial 2: correct" in await caller.good("try_kernel", trial=1, edit={"ops": [op]})
        # The tags of the kernel itself still hold, and those of a trial belong to it alone.
        op = {"op": "sub", "at": first, "find": '"A"  #', "with": '"B"  #'}
        assert "REJECTED" in await caller.refused("edit_kernel", ops=[{**op, "at": tag}])
        await caller.good("submit_kernel", trial=2)
        (edited,) = events(caller, ev.KernelEdited)
        assert caller.engine.kernel(edited.blob).text == FAST
        assert [t.made_from for t in events(caller, ev.KernelTried)] == [
            "an edit of the kernel",
            "an edit of trial 1",
        ]


async def test_a_draft_of_the_notes_and_an_earlier_attempt_can_be_tried_and_submitted(
    tmp_path: Path,
) -> None:
    async with calling(tmp_path) as caller:
        path = caller.note("x.py", FAST)
        await caller.good("try_kernel", path=path)
        await caller.good("try_kernel", attempt=0)
        assert KERNEL.split("\n")[0] in await caller.good("read_kernel", attempt=0)
        assert FAST.split("\n")[0] in await caller.good("read_kernel", trial=1)
        assert "as it stands" in await caller.refused("submit_kernel", attempt=0)
        assert "no text of an attempt 7" in await caller.refused("submit_kernel", attempt=7)
        assert "there is no trial 3" in await caller.refused("submit_kernel", trial=3)
        await caller.good("submit_kernel", path=path)
        assert caller.engine.kernel(caller.engine.state.work_blob).text == FAST


async def test_values_of_knobs_make_a_version_and_edits_go_on_by_its_tags(tmp_path: Path) -> None:
    async with calling(tmp_path) as caller:
        view = await caller.good("read_kernel")
        told = await caller.good("try_kernel", set={"SPEED": "C"})
        assert told.startswith("trial 1: correct, +300.0 %")
        assert re.search(r"^OK kernel.py r1 .*; now 1[a-z]{2}$", told, re.M)
        second = re.findall(r"^(2[a-z]{2})\|", view, re.M)[0]
        op = {"op": "sub", "at": second, "find": "= 1 ", "with": "= 2 "}
        told = await caller.good("try_kernel", trial=1, edit={"ops": [op]}, set={"SPEED": "B"})
        both = FAST.replace("WIDTH = 1", "WIDTH = 2").replace('"C"  #', '"B"  #')
        assert caller.engine.kernel(caller.engine.state.trials[-1].blob).text == both
        assert [t.made_from for t in events(caller, ev.KernelTried)] == [
            'SPEED="C" in the kernel',
            'SPEED="B" in an edit of trial 1',
        ]
        await caller.good("submit_kernel", set={"WIDTH": 8})  # which is none of its choices
        work = caller.engine.kernel(caller.engine.state.work_blob).text
        assert work == KERNEL.replace("WIDTH = 1  # tune: [1, 2]", "WIDTH = 8  # tune: [1, 2, 8]")


async def test_an_edit_starts_from_a_note_or_an_attempt_by_the_tags_of_its_view(
    tmp_path: Path,
) -> None:
    async with calling(tmp_path) as caller:
        path = caller.note("draft.py", SLOW)
        assert "read the file first" in await caller.refused("try_kernel", path=path, edit={"ops": [
            {"op": "sub", "at": "1aa", "find": "A", "with": "C"}]})  # fmt: skip
        shown = {
            "path": path, "view": await caller.good("read_file", file_path=path),
        }, {"attempt": 0, "view": await caller.good("read_kernel", attempt=0)}  # fmt: skip
        for source in shown:
            tag = re.findall(r"^(1[a-z]{2})\|", str(source.pop("view")), re.M)[0]
            op = {"op": "sub", "at": tag, "find": '"A"  #', "with": '"C"  #'}
            await caller.good("try_kernel", **source, edit={"ops": [op]})
        texts = [caller.engine.kernel(trial.blob).text for trial in caller.engine.state.trials]
        assert texts == [SLOW.replace('"A"  #', '"C"  #'), FAST]
        plain = caller.note("script.py", "print(1)\n")
        assert "1|" not in await caller.good("read_file", file_path=plain)


async def test_on_a_busy_machine_trials_profiles_and_sweeps_begin_with_how_busy_it_was(
    tmp_path: Path,
) -> None:
    async with calling(tmp_path) as caller:
        measure = caller.engine.measure

        async def beside_others(*given: Any, **how: Any) -> Measurement:
            found = await measure(*given, **how)
            noise = ("the kernel waited for a CPU 80 % of the time",)
            slow = Roofline(1 << 20, "L2", 1e11, 0.1)
            return replace(found, noise=noise, detectable=0.34, roofline=slow)

        caller.engine.measure = beside_others  # type: ignore[method-assign]
        line = "the machine was busy: the kernel waited for a CPU 80 % of the time; "
        line += "the smallest gain that would be seen: 34.0%"
        told = await caller.good("try_kernel", set={"SPEED": "C"})
        assert told.startswith(f"{line}\ntrial 1: correct")
        assert "copy rate" not in told  # a kernel far from it is bound by something else
        told = await caller.good("profile_kernel", trial=1, verify=True)
        assert told.startswith(f'{{"machine": "{line}"')
        race = caller.engine._judge.race

        async def raced(*given: Any, **how: Any) -> RaceOutcome:
            noise = ("the kernels waited for a CPU 40 % of the time",)
            return replace(await race(*given, **how), noise=noise, detectable=0.12)

        caller.engine._judge.race = raced  # type: ignore[method-assign]
        told = await caller.good("sweep_kernel", text=KERNEL)
        line = "the machine was busy: the kernels waited for a CPU 40 % of the time; "
        assert told.startswith(f"{line}the smallest gain that would be seen: 12.0%\nsweep 1 of p1")


async def test_what_can_be_no_kernel_costs_no_trial(tmp_path: Path) -> None:
    bad: list[tuple[dict[str, Any], str]] = [
        ({}, "give a source"),
        ({"trial": 1, "path": "notes/a.py"}, "give one source, not path and trial"),
        ({"text": "x", "edit": {"ops": []}}, "an edit is made of the kernel"),
        ({"text": "x = ("}, "line 1: '(' was never closed; no trial was made"),
        ({"text": "x = 1\n"}, "the file defines no class ModelNew; no trial was made"),
        ({"path": "notes/none.py"}, "No such file"),
        ({"set": {"TILE": 1}}, "set: TILE is not declared; there are: SPEED, WIDTH"),
        ({"set": {"WIDTH": [1]}}, "set: WIDTH: a value is a number, a text, true or false"),
        ({"text": "class ModelNew: pass\n", "set": {"WIDTH": 1}}, "declares no knob"),
    ]
    async with calling(tmp_path) as caller:
        for arguments, why in bad:
            assert why in await caller.refused("try_kernel", **arguments)
        assert caller.engine.state.trials == ()
        assert caller.engine._judge.probes == []  # type: ignore[attr-defined]


async def test_trials_of_an_item_are_bounded_by_number_and_by_time(tmp_path: Path) -> None:
    async with calling(tmp_path) as caller:
        for _ in range(Policy().trials):
            await caller.good("try_kernel", text=SLOW)
        assert "all 5 trials of p1 are made" in await caller.refused("try_kernel", text=SLOW)
    async with held(tmp_path / "slow") as other:
        told = "built in 31 s, correct on 14 inputs, about 300x by 2 calls, given up in timing"

        async def slow(*_: Any, limit_s: float, **__: Any) -> Measurement:
            assert limit_s == 90.0
            return Measurement(outcome=Outcome.CORRECT, message=told)

        other._judge.probe = slow  # type: ignore[method-assign]
        assert other.send(cmd.ChangePolicy(Policy(trial_s=90.0))) is None
        assert f"trial 1: correct, {told}" in await Caller(other).good("try_kernel", text=SLOW)


async def test_a_lost_judge_costs_no_trial(tmp_path: Path) -> None:
    async with calling(tmp_path) as caller:

        async def lost(*_: Any, **__: Any) -> Measurement:
            return Measurement(outcome=Outcome.ERROR, failure=FailureKind.JUDGE, message="gone")

        caller.engine._judge.probe = lost  # type: ignore[method-assign]
        assert "no trial was counted: gone" in await caller.refused("try_kernel", text=SLOW)
        assert caller.engine.state.trials == ()


async def test_no_trial_runs_code_that_a_person_must_approve(tmp_path: Path) -> None:
    async with calling(tmp_path) as caller:
        assert caller.engine.send(cmd.SetGate(Gate.EDIT, on=True)) is None
        assert "approves new code" in await caller.refused("try_kernel", text=SLOW)


async def test_trials_belong_to_the_agent_in_phase_edit(tmp_path: Path) -> None:
    async with held(tmp_path, hold=Phase.PLAN) as other:
        assert "not allowed in phase PLAN" in await Caller(other).refused("try_kernel", text=SLOW)


async def test_the_trials_so_far_are_told_when_the_item_is_taken_up_again(tmp_path: Path) -> None:
    async with calling(tmp_path) as caller:
        await caller.refused("try_kernel", text=WRONG)
        told = situation(caller.engine.state, [])
        assert "Trial 1: wrong: wrong values\nTrials left for p1: 4 of 5." in told


async def test_a_good_trial_is_submitted_in_the_same_call_and_a_bad_one_is_not(
    tmp_path: Path,
) -> None:
    async with calling(tmp_path) as caller:
        assert "submitted" not in await caller.refused("try_kernel", text=WRONG, submit=True)
        slower = SLOW.replace('"A"  #', '"B"  #')
        told = await caller.good("try_kernel", text=KERNEL, submit=True)
        assert "not submitted" not in told
        assert "this is the kernel as it stands" in told
        assert not caller.engine.state.edited
        told = await caller.good("try_kernel", text=slower, submit=True)
        assert told.endswith("2 trials of p1 are left\nsubmitted: 2 lines added, 2 removed")
        assert caller.engine.kernel(caller.engine.state.work_blob).text == slower
