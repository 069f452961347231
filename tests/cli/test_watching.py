"""replay, attach and the bare command, where there is no terminal for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from akg_tui.cli import main
from tests.engine.runs import create


@pytest.mark.parametrize("command", ["replay", "attach"])
def test_without_a_terminal_it_says_what_scripts_can_use(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = create(tmp_path / "task")
    run.close()
    assert main([command, str(run.path)]) == 2
    error = capsys.readouterr().err
    assert f"{command} needs a terminal; for scripts: akg-tui show {run.path} --json" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("command", ["replay", "attach"])
def test_what_is_no_run_is_told(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "nowhere"]) == 2
    assert capsys.readouterr().err == (
        "akg-tui: nowhere: is not a run, expected a folder with events.jsonl\n"
    )


def test_the_bare_command_needs_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    error = capsys.readouterr().err
    assert "list them with: akg-tui runs" in error
    assert error.count("\n") == 1
