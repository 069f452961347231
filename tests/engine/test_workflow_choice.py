"""Which workflow a new run has, and what it asks of the kernel and the agent."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path

import pytest
from msgspec.structs import replace

from akg_tui.agent.tools.registry import check_tools, own_tools
from akg_tui.core import events as ev
from akg_tui.core.phases import WORKFLOWS, WRITE, BadWorkflow, Phase, Row, Workflow, WorkflowName
from akg_tui.core.task import Target, Task
from akg_tui.dsl.adapters.adapter import Dsl
from akg_tui.engine import run_service
from akg_tui.engine.run_service import PreparedRun, RunFault, RunRequest, begin, prepare
from akg_tui.problems.seeds import UNWRITTEN
from akg_tui.store.errors import BadTask
from akg_tui.store.run_folder import RunFolder
from tests.engine.runs import KERNEL, make_task

SERVED = {"model": "m", "base_url": "http://127.0.0.1:9"}


def prepared(
    folder: Path, workflow: WorkflowName | None = None, *, served: bool = True
) -> PreparedRun:
    settings = SERVED if served else {}
    return prepare(RunRequest(folder, workflow=workflow, settings=settings))


def with_workflow(folder: Path, name: str, kernel: str = KERNEL) -> Path:
    made = make_task(folder)
    (made / "task.toml").write_text(f'op = "speed"\nworkflow = "{name}"\n')
    (made / "kernel.py").write_text(kernel)
    return made


def test_a_run_of_a_model_writes_first_if_it_must_and_one_of_sweep_only_tunes(
    tmp_path: Path,
) -> None:
    task = make_task(tmp_path / "t")
    assert prepared(task).task.workflow == "write_then_tune"
    assert prepared(task, served=False).task.workflow == "tune"


def test_what_is_stated_comes_before_what_the_task_says(tmp_path: Path) -> None:
    task = with_workflow(tmp_path / "t", "write")
    assert prepared(task).task.workflow == "write"
    assert prepared(task, "tune").task.workflow == "tune"


@pytest.mark.parametrize("name", ["write", "write_then_tune"])
def test_the_sweep_agent_cannot_follow_a_workflow_that_writes(
    tmp_path: Path, name: WorkflowName
) -> None:
    task = make_task(tmp_path / "t")
    with pytest.raises(RunFault, match=f"{name}: the sweep agent cannot write a kernel") as refused:
        prepared(task, name, served=False)
    assert refused.value.field == "workflow"


def test_only_where_the_agent_writes_may_a_kernel_lack_its_class(tmp_path: Path) -> None:
    task = with_workflow(tmp_path / "t", "write_then_tune", UNWRITTEN)
    assert prepared(task).folder.kernel.text == UNWRITTEN
    with pytest.raises(BadTask, match="ModelNew: is missing"):
        prepared(task, "tune")
    plain = make_task(tmp_path / "plain")
    (plain / "kernel.py").write_text(UNWRITTEN)
    with pytest.raises(BadTask, match="ModelNew: is missing"):
        prepared(plain)
    assert prepared(plain, "write").task.workflow == "write"


@pytest.mark.parametrize(
    ("text", "told"), [("", "the file is empty"), ("x = (", "1: not valid Python")]
)
def test_an_empty_kernel_and_a_syntax_error_are_told_in_every_workflow(
    tmp_path: Path, text: str, told: str
) -> None:
    with pytest.raises(BadTask, match=told):
        prepared(with_workflow(tmp_path / "t", "write", text))


def test_an_unknown_workflow_is_told_by_its_line(tmp_path: Path) -> None:
    with pytest.raises(BadTask) as refused:
        prepared(with_workflow(tmp_path / "t", "wrote"))
    expected = "workflow: 'wrote' is unknown, expected one of: tune, write, write_then_tune"
    assert f"task.toml:2: {expected}, or a .toml file" in str(refused.value)


def test_a_run_with_tools_of_packages_can_be_read_but_not_resumed(tmp_path: Path) -> None:
    known = prepared(make_task(tmp_path / "t"), served=False)
    task = replace(known.task, agent=replace(known.task.agent, packages=("acme",)))
    with contextlib.closing(begin(dataclasses.replace(known, task=task))) as run:
        path = run.path
    with contextlib.closing(RunFolder.open(path)) as run:
        assert run.state.task.agent.packages == ("acme",)
    with pytest.raises(RunFault, match=r"installed packages \(acme\) are not taken any more"):
        run_service.resume(path)


def test_a_run_that_settles_a_shortlist_can_be_read_but_not_resumed(tmp_path: Path) -> None:
    with contextlib.closing(begin(prepared(make_task(tmp_path / "t"), served=False))) as run:
        run.append(ev.ShortlistTaken("estimates", 9, "h", ()))
    with contextlib.closing(RunFolder.open(run.path)) as again:
        assert again.state.settles is not None
    with pytest.raises(RunFault, match="is not gone on with"):
        run_service.resume(run.path)


def test_the_journal_has_the_workflow(tmp_path: Path) -> None:
    run = begin(prepared(make_task(tmp_path / "t"), "write"))
    try:
        created = run.records[0].event
        assert isinstance(created, ev.RunCreated)
        assert created.task.workflow == "write"
        assert run.state.workflow is WRITE
    finally:
        run.close()


def test_what_cannot_be_timed_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Dsl, "untimed", lambda dsl, target: "verified only")
    task = Task(op="x", target=Target(dsl="torch"))
    run_service.check_target(replace(task, workflow="write"), tmp_path)
    for name in ("tune", "write_then_tune", None):
        with pytest.raises(RunFault, match="verified only"):
            run_service.check_target(replace(task, workflow=name), tmp_path)


@pytest.mark.parametrize(
    ("tool", "why"),
    [("edit_kernal", "does not exist"), ("submit_plan", "may not be called in it")],
)
def test_a_phase_cannot_be_done_by_a_tool_that_it_does_not_have(tool: str, why: str) -> None:
    rows = {**WRITE.rows, Phase.WRITE: Row((Phase.BASELINE, Phase.DONE), "agent", (tool,))}
    with pytest.raises(BadWorkflow, match=f"WRITE is done by the tool {tool}, which {why}"):
        check_tools(Workflow("write", rows), own_tools())
    for workflow in WORKFLOWS.values():
        check_tools(workflow, own_tools())
