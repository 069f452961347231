"""replay, attach and the bare command, where there is no terminal for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from akg_tui.cli import main
from tests.engine.runs import create
from tests.tui.terminal import COMMAND, PtyTerminal


@pytest.mark.parametrize("command", ["replay", "attach"])
def test_without_a_terminal_it_says_what_scripts_can_use(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = create(tmp_path / "my task")
    run.close()
    assert main([command, str(run.path)]) == 2
    error = capsys.readouterr().err
    told = f"{command} needs a screen, and there is no terminal; for scripts: akg-tui show"
    assert f"{told} '{run.path}' --json" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("command", ["replay", "attach"])
def test_what_is_no_run_is_told(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "nowhere"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("akg-tui: nowhere: is not a run, expected a folder with events.jsonl")
    assert error.count("\n") == 1


@pytest.mark.parametrize("words", [["replay", "RUN"], []])
def test_a_terminal_without_a_screen_is_told_what_it_can_use(
    words: list[str], tmp_path: Path
) -> None:
    run = create(tmp_path / "task")
    run.close()
    command = [*COMMAND, *(str(run.path) if word == "RUN" else word for word in words)]
    terminal = PtyTerminal(command, tmp_path, TERM="dumb")
    assert terminal.wait_ended() == 2
    assert b"the terminal cannot show a screen (TERM=dumb)" in terminal.written
    assert b"\x1b" not in terminal.written
    terminal.close()


def test_the_bare_command_needs_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    error = capsys.readouterr().err
    assert "list them with: akg-tui runs" in error
    assert error.count("\n") == 1
