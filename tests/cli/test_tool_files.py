"""The command line refuses a task's bad tool definitions before there is a run, and finds pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from akg_tui.cli import main
from tests.engine.runs import make_task

BAD = "tools:\n  shell:\n    type: basic_tool\n"


def test_a_bad_tools_file_is_refused_with_its_line_and_no_run_is_made(tmp_path, capsys) -> None:
    folder = make_task(tmp_path / "task")
    (folder / "tools.yaml").write_text(BAD)
    assert main(["tune", str(folder), "--headless", "--max-rounds", "1"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert f"{folder / 'tools.yaml'}:2: tools.shell.function: is missing" in told.err
    assert told.err.count("\n") == 1
    assert not (folder / "runs").exists()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('tools = "mine.yaml"', ":3: agent.tools: mine.yaml is not a file in this folder"),
        ('tools = "../mine.yaml"', ":3: agent.tools: "),
        ("allow_script = 1", ":3: agent.allow_script: 1 is not allowed, expected true or false"),
    ],
)
def test_the_agents_table_names_a_file_of_this_folder(tmp_path, capsys, line, why) -> None:
    folder = make_task(tmp_path / "task")
    (folder / "task.toml").write_text(f'op = "speed"\n[agent]\n{line}\n')
    assert main(["tune", str(folder), "--headless"]) == 2
    assert f"{folder / 'task.toml'}{why}" in capsys.readouterr().err


def test_a_run_keeps_its_own_copy_of_the_tasks_tools(tmp_path: Path) -> None:
    from akg_tui.agent.tools.registry import task_files
    from akg_tui.core.phases import Mode
    from akg_tui.core.task import Agent, Task
    from akg_tui.store.run_folder import RunFolder
    from akg_tui.store.task_folder import load_task
    from tests.engine.runs import Clock

    folder = make_task(tmp_path / "task")
    (folder / "mine.yml").write_text("tools: {}\n")
    (folder / "task.toml").write_text('op = "speed"\n[agent]\ntools = "mine.yml"\n')
    loaded = load_task(folder)
    run = RunFolder.create(
        loaded,
        task=Task(op="speed", agent=Agent(tools="mine.yml")),
        mode=Mode.AUTO,
        agent="sweep",
        version="0",
        clock=Clock(),
        name="r",
    )
    try:
        (folder / "mine.yml").unlink()
        found = task_files(run.path / "task", run.state.task)
        assert found == ((run.path / "task" / "mine.yml", "tools: {}\n"),)
    finally:
        run.close()


def test_pages_are_listed_searched_and_shown(capsys) -> None:
    assert main(["knowledge"]) == 0
    assert "k:cpp-vectorise" in capsys.readouterr().out
    assert main(["knowledge", "false", "sharing", "--dsl", "cpp", "--backend", "cpu"]) == 0
    assert capsys.readouterr().out.startswith("k:cpp-threads")
    assert main(["knowledge", "k:numerics"]) == 0
    assert capsys.readouterr().out.startswith("# k:numerics: ")
    assert main(["knowledge", "zzzz"]) == 1
    assert "no page speaks of 'zzzz'" in capsys.readouterr().out
