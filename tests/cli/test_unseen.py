"""Places that nobody can look at: told in one line, and no list of runs ends at one.

Whether something is there cannot be asked of a name that is too long, which holds for root too,
unlike a folder without permission: both are the same to the program.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from akg_tui.cli import main
from akg_tui.store.filesystem import is_file, is_folder, unseen
from akg_tui.store.run_list import list_runs
from tests.engine.runs import create

LONG = "a" * 300
COMMANDS = [
    ["tune", LONG, "--headless"],
    ["resume", LONG, "--headless"],
    ["eval", LONG],
    ["runs", LONG],
    ["show", LONG],
    ["report", LONG],
    ["replay", LONG],
    ["attach", LONG],
    ["fork", LONG, "--round", "1"],
    ["undo", LONG],
    ["adopt", LONG],
    ["ctl", "show", LONG],
    ["usage", LONG],
    ["view", LONG],
    ["doctor", LONG],
    ["serve", LONG],
    ["new", LONG, "--reference", "reference.py", "--kernel", "kernel.py"],
]


def test_a_place_that_cannot_be_looked_at_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = create(tmp_path / "task")
    run.close()
    monkeypatch.chdir(run.path)
    for name in ("reference.py", "kernel.py"):
        (run.path / name).write_text((tmp_path / "task" / name).read_text())
    for words in COMMANDS:
        assert main(words) == 2, words
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("akg-tui: "), words


def test_one_run_that_cannot_be_looked_at_ends_no_list(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = create(tmp_path / "task")
    run.close()
    barred = run.path.with_name("barred")
    barred.mkdir()
    (barred / "events.jsonl").symlink_to(LONG)
    found = {Path(each.path).name: each for each in list_runs(tmp_path)}
    assert found[run.path.name].damaged == ""
    assert "cannot be looked at: File name too long" in found["barred"].damaged
    assert main(["runs", str(tmp_path), "--json"]) == 0
    assert len([json.loads(line) for line in capsys.readouterr().out.splitlines()]) == 2


def test_a_task_whose_file_has_an_impossible_name_names_the_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = create(tmp_path / "task")
    run.close()
    toml = tmp_path / "task" / "task.toml"
    toml.write_text(f'op = "speed"\n[files]\nreference = "{LONG}.py"\n')
    assert main(["eval", str(tmp_path / "task")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "files.reference" in line


def test_what_may_not_be_looked_at_is_neither_file_nor_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def barred(path: Path, **_: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    assert (unseen(tmp_path), is_folder(tmp_path)) == ("", True)
    assert unseen(tmp_path / "nothing") == ""
    monkeypatch.setattr("os.stat", barred)
    assert unseen(tmp_path) == "Permission denied"
    assert not is_file(tmp_path)
    assert not is_folder(tmp_path)


def test_what_no_command_foresaw_of_the_disk_is_still_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(folder: Path) -> None:
        raise OSError(28, "No space left on device", "/var/\x1b[2J\n")

    monkeypatch.setattr("akg_tui.store.run_list.list_runs", full)
    assert main(["runs"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("No space left on device")
    assert "\x1b" not in line
