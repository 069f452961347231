"""Seed 000, workflows between one state and full control: a phase table in a task's folder."""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from akg_tui.agent.prompt import situation
from akg_tui.agent.tools.registry import allowed, offered
from akg_tui.core import commands as cmd
from akg_tui.core.phases import WORKFLOWS, Phase, StatedPhase, user_workflow
from akg_tui.core.task import Policy, Task
from akg_tui.engine.run_service import RunRequest, begin, prepare
from akg_tui.report.gather import gather
from akg_tui.store.errors import BadTask
from akg_tui.store.fork import fork_run
from akg_tui.store.run_at_rest import RunAtRest
from akg_tui.store.run_folder import RunFolder
from akg_tui.view.spans import plain
from akg_tui.view.status import phase_row
from tests.core.simulated import SimulatedRun, failed, faster
from tests.engine.runs import engine, make_task

LEAN = """\
[BASELINE]
to = ["PLAN", "DONE"]

[PLAN]
to = ["EDIT", "DONE"]
tools = ["submit_plan", "read_kernel", "finish"]
duty = "Each item names the loop that it changes."

[EDIT]
to = ["EVAL", "DONE"]

[EVAL]
to = ["DECIDE", "DONE"]

[DECIDE]
to = ["EDIT", "DONE"]
"""
"""One plan, without a diagnosis, carried out to its end."""

WITHOUT_EDIT = LEAN.replace('to = ["EDIT", "DONE"]\n', 'to = ["PLAN", "DONE"]\n').replace(
    'to = ["PLAN", "DONE"]\ntools', 'to = ["EDIT", "DONE"]\ntools'
)
"""A new plan after each round."""


def with_table(folder: Path, text: str = LEAN, name: str = "lean.toml") -> Path:
    made = make_task(folder)
    (made / "task.toml").write_text(f'op = "speed"\nworkflow = "{name}"\n')
    (made / name).write_text(text)
    return made


async def test_a_run_keeps_the_table_of_its_task_through_all_that_reads_its_folder(
    tmp_path: Path,
) -> None:
    task = with_table(tmp_path / "task")
    run = begin(prepare(RunRequest(task)))
    (task / "lean.toml").unlink()
    work = engine(run)
    await work.run()
    state = run.state
    assert (state.finished, state.ok) == ("the workflow ends with its plan", True)
    assert not {Phase.PLAN, Phase.DIAGNOSE} & set(state.workflow.rows[Phase.DECIDE].to)
    rail = plain(phase_row(state, state.phase_since, 118)).strip()
    assert rail == "✓INIT ── ✓BASELINE ── ✓PLAN ── ✓EDIT ── ✓EVAL ── ✓DECIDE ──  ✓ DONE"
    await work.close()
    moved = Path(shutil.move(run.path, tmp_path / "alone"))
    with closing(RunFolder.open(moved)) as again:
        assert again.state.workflow == state.workflow
    about = gather(RunAtRest(moved), may_export=False).about
    assert (about.workflow, about.table) == ("lean.toml", state.workflow)
    with closing(RunFolder.open(fork_run(moved, 1).path)) as fork:
        assert fork.state.workflow == state.workflow


def the_table(text: str) -> SimulatedRun:
    stated = msgspec.convert(tomllib.loads(text), dict[str, StatedPhase])
    table = user_workflow("own.toml", stated)
    return SimulatedRun(table=table, policy=Policy(fail_streak=2, max_rounds=6))


def test_failures_in_a_row_lead_to_no_diagnosis_that_the_table_does_not_have() -> None:
    run = the_table(LEAN)
    run.until_agent()
    run.begins("a", "b", "c")
    run.tries(failed())
    run.tries(failed())
    assert run.state.phase is Phase.EDIT
    for command, why in (
        (cmd.ForceDiagnosis(), "the workflow own.toml has no diagnosis"),
        (cmd.ForceReplan(), "the workflow own.toml plans once"),
    ):
        refused = run.send(command)
        assert refused is not None
        assert refused.why == why
    run.tries(faster())
    assert run.state.finished == "the workflow ends with its plan"


def test_a_table_may_ask_for_a_new_plan_after_each_round() -> None:
    run = the_table(WITHOUT_EDIT)
    run.until_agent()
    run.begins("a", "b")
    run.tries(faster())
    assert run.state.phase is Phase.PLAN
    run.begins("c")
    assert [item.text for item in run.state.items if item.state == "ACTIVE"] == ["c"]


def test_a_duty_is_told_and_only_the_named_tools_may_be_called(tmp_path: Path) -> None:
    run = the_table(LEAN)
    run.until_agent()
    assert "The workflow asks besides: Each item names the loop" in situation(run.state, [])
    known = offered(tmp_path, run.state.task, {})
    assert allowed(known, Phase.PLAN) == ["finish", "read_kernel", "submit_plan"]
    plain_task = offered(tmp_path, Task(op="op"), {})
    assert set(known) == set(plain_task)  # the list that a model gets stays the same
    assert allowed(known, Phase.EDIT) == allowed(plain_task, Phase.EDIT)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda t: t + "[DIAGNOS]\nto = []\n", "lean.toml:17: DIAGNOS: is no phase, expected some"),
        (
            lambda t: t.replace('to = ["EVAL", "DONE"]', 'to = ["EVAL", "DECIDE", "DONE"]'),
            "lean.toml:10: EDIT.to: leads to DECIDE, expected some of EVAL, PLAN, DIAGNOSE, DONE",
        ),
        (
            lambda t: t.replace('to = ["EVAL", "DONE"]', 'to = ["EVAL"]'),
            "lean.toml:10: EDIT.to: does not lead to DONE, which a run may need",
        ),
        (
            lambda t: t.replace(
                'to = ["EDIT", "DONE"]\ntools', 'to = ["EDIT", "DONE", "DIAGNOSE"]\ntools'
            ),
            "lean.toml:5: PLAN.to: leads to DIAGNOSE, which has no row",
        ),
        (
            lambda t: t + '[WRITE]\nto = ["BASELINE", "DONE"]\n',
            "lean.toml:18: WRITE.to: cannot be reached from INIT",
        ),
        (
            lambda t: t.replace('["submit_plan", ', '["submit_plain", "submit_plan", '),
            "lean.toml:6: PLAN.tools: names the tool submit_plain, which does not exist",
        ),
        (
            lambda t: t.replace('["submit_plan", ', '["edit_kernel", "submit_plan", '),
            "lean.toml:6: PLAN.tools: names the tool edit_kernel, which may not be called in it",
        ),
        (
            lambda t: t.replace('"submit_plan", ', ""),
            "lean.toml:6: PLAN.tools: lacks the tool submit_plan, which does its work",
        ),
        (
            lambda t: t + 'duty = "be strict"\n',
            "lean.toml:17: DECIDE.duty: has no agent: the harness works in it",
        ),
        (lambda t: t.replace("duty", "duties"), "lean.toml:7: PLAN.duties: is not a known field"),
        (lambda t: t + "[", "lean.toml:17: not valid TOML"),
    ],
)
def test_a_table_in_which_a_run_could_be_lost_is_refused_by_its_line(
    tmp_path: Path, change: Callable[[str], str], told: str
) -> None:
    with pytest.raises(BadTask) as refused:
        prepare(RunRequest(with_table(tmp_path / "task", change(LEAN))))
    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("other.toml", "task.toml:2: workflow: other.toml is not a file in this folder"),
        ("task.toml", "task.toml:2: workflow: task.toml has another purpose in this folder"),
        ("../lean.toml", "task.toml:2: workflow: '../lean.toml' is unknown, expected one of"),
    ],
)
def test_a_table_is_a_file_of_the_folder(tmp_path: Path, name: str, told: str) -> None:
    task = with_table(tmp_path / "task")
    (tmp_path / "lean.toml").write_text(LEAN)
    (task / "task.toml").write_text(f'op = "speed"\nworkflow = "{name}"\n')
    with pytest.raises(BadTask) as refused:
        prepare(RunRequest(task))
    assert told in str(refused.value)


def test_the_command_line_may_name_another_workflow_than_the_task(tmp_path: Path) -> None:
    task = with_table(tmp_path / "task")
    (task / "short.toml").write_text('[BASELINE]\nto = ["DONE"]\n')
    assert prepare(RunRequest(task, workflow="tune")).task.phases is WORKFLOWS["tune"]
    assert [*prepare(RunRequest(task, workflow="short.toml")).task.phases.rows] == [
        Phase.INIT, Phase.BASELINE, Phase.DONE,
    ]  # fmt: skip
