"""A run folder of a stranger, forged with right checksums, links and a repository of its own.

Whatever it holds, nothing outside of it changes, and what is refused is told in one line.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from akg_tui.agent.tools.call_record import Node
from akg_tui.cli import main
from akg_tui.core import events as ev
from akg_tui.engine.run_service import RunRequest, begin, prepare
from akg_tui.store.errors import BadTask, HistoryError, RunFolderError, StoreError
from akg_tui.store.filesystem import make_folder, open_below, replace_file
from akg_tui.store.fork import fork_run
from akg_tui.store.history import History
from akg_tui.store.journal_format import NO_LINE, digest
from akg_tui.store.run_at_rest import TRASH, discard_run
from akg_tui.store.run_folder import RunFolder
from akg_tui.store.run_list import read_state
from akg_tui.store.task_folder import TaskFolder
from tests.store import scripted

Payload = dict[str, Any]


def everything(folder: Path) -> dict[str, bytes | str]:
    """The content of all files and links below a folder; the lock's is nobody's."""
    found: dict[str, bytes | str] = {}
    for at, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(at, name)
            if path.is_symlink():
                found[str(path)] = str(path.readlink())
            elif path.is_file() and name != "lock":
                found[str(path)] = path.read_bytes()
    return found


def forge(run: Path, number: int, change: Callable[[Payload], object]) -> None:
    """Change the event `number`; checksums and chain are right again, as anyone can make them."""
    lines, prev = [], NO_LINE
    for at, line in enumerate((run / "events.jsonl").read_bytes().splitlines(), 1):
        plain = json.loads(line[9:])
        plain["prev"] = prev
        if at == number:
            change(plain["event"])
        payload = json.dumps(plain).encode()
        lines.append(b"%08x %b\n" % (zlib.crc32(payload), payload))
        prev = digest(lines[-1])
    (run / "events.jsonl").write_bytes(b"".join(lines))


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """What belongs to the user, beside the stranger's task folder."""
    folder = tmp_path / "outside"
    for name in ("kernel.py", "notes.txt", "lock", "events.jsonl", "task/tools.yaml"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("the user's own\n")
    return folder


COMMANDS = (
    ("resume",),
    ("undo",),
    ("fork", "--round", "1"),
    ("report",),
    ("show",),
)


@pytest.mark.parametrize("name", ["/outside/kernel.py", "../../../../outside/kernel.py"])
def test_a_journal_that_names_a_file_outside_is_refused_by_every_command(
    played: RunFolder, outside: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name = name.replace("/outside", str(outside)) if name.startswith("/") else name

    def attack(event: Payload) -> None:
        event["task"]["files"]["editable"] = name

    forge(played.path, 1, attack)
    before = everything(tmp_path)
    for command, *more in COMMANDS:
        assert main([command, str(played.path), *more]) == 2, command
        told = capsys.readouterr()
        assert told.out == ""
        assert told.err.count("\n") == 1, told.err
        assert "at event 1, byte 0: task.files.editable: '" in told.err, told.err
        assert "leaves the folder" in told.err
    assert everything(tmp_path) == before


LATER = {
    "PlanEdited.kept": {"type": "PlanEdited", "kept": "../x", "sha256": "0"},
    "SubagentStarted.trace": {
        **{"type": "SubagentStarted", "subagent": "s1", "agent": "a", "phase": "PLAN"},
        "trace": "trace/../../x",
    },
    "RunSalvaged.run_id": {"type": "RunSalvaged", "run_id": "\x1b]0;x\x07", **{"source": ""}}
    | {"damage": ""},
}


@pytest.mark.parametrize("which", LATER)
def test_a_later_event_is_named_too_and_the_sound_part_can_be_forked(
    played: RunFolder, which: str
) -> None:
    number = len(played.records) - 1

    def attack(event: Payload) -> None:
        event.clear()
        event.update(LATER[which])

    forge(played.path, number, attack)
    with pytest.raises(StoreError, match=rf"at event {number}, byte \d+: {which.split('.')[1]}: "):
        read_state(played.path)
    assert fork_run(played.path).origin.seq < number


def rewritten(run: Path, number: int, line: Callable[[Payload], bytes]) -> None:
    """Replace the payload of event `number`, the last one, with a right checksum."""
    lines = (run / "events.jsonl").read_bytes().splitlines(keepends=True)[:number]
    payload = line(json.loads(lines[-1][9:]))
    lines[-1] = b"%08x %b\n" % (zlib.crc32(payload), payload)
    (run / "events.jsonl").write_bytes(b"".join(lines))


CALLED = {"type": "ToolCalled", "call": "c", "tool": "t", "arguments": {"a": "DEEP"}}
ABSURD: dict[str, Callable[[Payload], bytes]] = {
    "at: 1e\\+300 is no time": lambda plain: json.dumps({**plain, "at": 1e300}).encode(),
    "at: -5.0 is no time": lambda plain: json.dumps({**plain, "at": -5}).encode(),
    "Expected `float`": lambda plain: json.dumps({**plain, "at": None}).encode(),
    "nested too deeply": lambda plain: (
        json.dumps({**plain, "event": CALLED})
        .encode()
        .replace(b'"DEEP"', b"[" * 100_000 + b"]" * 100_000)
    ),
    "its number is 10{30}": lambda plain: json.dumps({**plain, "seq": 10**30}).encode(),
}


@pytest.mark.parametrize("why", ABSURD)
def test_a_line_with_absurd_values_is_refused_in_one_line(
    played: RunFolder, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rewritten(played.path, 9, ABSURD[why])
    for command in ("show", "report", "resume"):
        assert main([command, str(played.path)]) == 2
        err = capsys.readouterr().err
        assert err.count("\n") == 1
        assert re.search(f"at event 9, byte .*{why}", err), err


def test_a_report_is_made_whatever_numbers_the_measurements_have(
    played: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = [n for n, r in enumerate(played.records, 1) if isinstance(r.event, ev.EvalFinished)]

    def attack(event: Payload) -> None:
        event["measurement"]["ratio"].update(ratio=1e300)

    forge(played.path, measured[0], attack)
    assert main(["report", str(played.path)]) == 0
    assert capsys.readouterr().err == ""


def test_no_escape_code_of_an_event_and_no_warning_reaches_the_terminal(
    played: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "\x1b]0;owned\x07\x9b31m\u202e"
    decided = [n for n, r in enumerate(played.records, 1) if isinstance(r.event, ev.Decided)]

    def attack(event: Payload) -> None:
        event |= {"commit": evil, "reason": evil}

    forge(played.path, decided[0], attack)
    forge(played.path, 1, lambda event: event["task"].update(op="漢字"))  # no glyph in the chart
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert main(["show", str(played.path)]) == 0
        assert main(["report", str(played.path)]) == 0
    told = capsys.readouterr()
    assert "owned" in told.out
    for forbidden in "\x1b\x07\x9b\u202e":
        assert forbidden not in told.out + told.err


LINKED = (
    *("work", "trace", "task", "scratch", "notes", "history.git", "events.jsonl", "lock"),
    *("stray.log", "history.git/objects", "history.git/refs", "history.git/config"),
    *("work/kernel.py", "task/tools.yaml", "scratch/judge.log", "scratch/cache"),
)


@pytest.mark.parametrize("place", LINKED)
def test_a_link_in_a_run_is_refused_before_anything_is_written(
    played: RunFolder, outside: Path, tmp_path: Path, place: str
) -> None:
    path = played.path / place
    path.parent.mkdir(exist_ok=True)
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.symlink_to(outside / "kernel.py" if "." in path.name else outside)
    before = everything(tmp_path)
    for act in (
        lambda: RunFolder.open(played.path),
        lambda: fork_run(played.path, 1),
    ):
        with pytest.raises(StoreError):
            act()
    assert everything(tmp_path) == before


def test_a_link_that_is_replaced_or_not_followed_changes_nothing_outside(
    played: RunFolder, outside: Path
) -> None:
    before = everything(outside)
    (played.path / "notes").mkdir(exist_ok=True)
    for place in ("report.html", "report.json", "PLAN.md", "notes/x"):
        (played.path / place).unlink(missing_ok=True)
        (played.path / place).symlink_to(outside / "kernel.py")
    RunFolder.open(played.path).close()
    assert main(["report", str(played.path), "--form", "json"]) == 0
    assert not (played.path / "report.json").is_symlink()
    assert everything(outside) == before


def test_a_trash_that_is_a_link_takes_no_run(played: RunFolder, outside: Path) -> None:
    (played.path.parent / TRASH).symlink_to(outside)
    before = everything(outside)
    with pytest.raises(RunFolderError, match="links are not followed"):
        discard_run(played.path)
    assert everything(outside) == before
    assert played.path.is_dir()


def test_runs_that_lead_out_of_a_task_take_none(task: TaskFolder, outside: Path) -> None:
    (task.path / "runs").symlink_to(outside)
    before = everything(outside)
    with pytest.raises(BadTask, match="runs: is a link that leads out of the folder"):
        scripted.create_run(task)
    assert everything(outside) == before


def test_a_pipe_in_a_run_holds_nobody_up(played: RunFolder) -> None:
    (played.path / "task" / "tools.yaml").unlink(missing_ok=True)
    os.mkfifo(played.path / "task" / "tools.yaml")
    with pytest.raises(RunFolderError, match=r"task/tools.yaml: is a link, a pipe or a device"):
        RunFolder.open(played.path)
    for name in ("lock", "report.json"):
        (played.path / name).unlink(missing_ok=True)
        os.mkfifo(played.path / name)
    assert main(["runs", str(played.path.parent)]) == 0  # who holds the lock is read
    assert main(["report", str(played.path)]) == 2  # and the report before this one


def elsewhere(git: Path, outside: Path) -> None:
    shutil.rmtree(git)
    git.write_text(f"gitdir: {outside}/.git\n")


REPOSITORIES: dict[str, Callable[[Path, Path], object]] = {
    "history.git: leads to another": elsewhere,
    "commondir: leads to another": lambda git, other: (git / "commondir").write_text(
        f"{other}/.git"
    ),
    "alternates: leads to another": lambda git, other: (
        git / "objects" / "info" / "alternates"
    ).write_text(f"{other}/.git/objects\n"),
    "config:5: is not a line": lambda git, other: (
        (git / "config").open("a").write("[include]\n\tpath = /etc/x\n")
    ),
    "config:6: is not a line": lambda git, other: (
        (git / "config").open("a").write(f"[core]\n\tworktree = {other}\n")
    ),
}


@pytest.mark.parametrize("why", REPOSITORIES)
def test_a_history_that_leads_elsewhere_or_does_things_is_refused(
    played: RunFolder, outside: Path, why: str
) -> None:
    subprocess.run(["git", "init", "-q", str(outside)], check=True, timeout=60)
    REPOSITORIES[why](played.path / "history.git", outside)
    before = everything(outside)
    with pytest.raises(HistoryError, match=why):
        RunFolder.open(played.path)
    with pytest.raises(StoreError):
        fork_run(played.path, 1)
    assert everything(outside) == before


@pytest.mark.parametrize("entry", [b"100644 ..", b"120000 kernel.py", b"100644 .git", b"40000 a"])
def test_a_tree_with_an_entry_that_is_no_file_of_the_run_is_read_and_copied_by_nobody(
    played: RunFolder, tmp_path: Path, entry: bytes
) -> None:
    history = History.open(played.path / "history.git", kernel_file="kernel.py")
    blob = history.write_kernel("text")
    tree = history._write("tree", entry + b"\0" + bytes.fromhex(blob))
    commit = history._write("commit", f"tree {tree}\n\nx".encode())
    target = History.create(tmp_path / "copy.git", kernel_file="kernel.py")
    with pytest.raises(HistoryError, match="has other files than the run"):
        target.copy_commit(history, commit)
    assert not target.holds(tree)


@pytest.mark.parametrize("oid", ["../../../outside/x", "..//etc/passwd", "", "a" * 41, "A" * 40])
def test_an_object_id_is_no_path(played: RunFolder, oid: str) -> None:
    history = History.open(played.path / "history.git", kernel_file="kernel.py")
    with pytest.raises(HistoryError, match="is no object id"):
        history.read_files(oid)


def test_what_is_opened_below_a_folder_is_in_it_though_links_change_meanwhile(
    tmp_path: Path, outside: Path
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "trace").symlink_to(outside)
    (run / "file").symlink_to(outside / "kernel.py")
    before = everything(tmp_path)
    writes = os.O_WRONLY | os.O_CREAT
    for name in ("trace/x", "file", "../outside/x", "/etc/x", "a/../../x", "trace/task/tools.yaml"):
        with pytest.raises(OSError, match=r"link|leaves the folder"):
            open_below(run, name, writes, make=True)
        with pytest.raises(OSError, match=r"link|leaves the folder"):
            make_folder(run, f"{name}/new")
    with pytest.raises(OSError, match="links are not followed"):
        replace_file(run / "trace" / "kernel.py", b"x", root=run)
    node = Node(run, "trace/000001-x")
    node.keep("request.json", b"x")
    assert "links are not followed" in node.fault
    assert everything(tmp_path) == before
    node = Node(run, "kept/000001-x")
    node.keep("request.json", b"x")
    node.keep("request.json", b"y", "ab")
    assert (run / "kept" / "000001-x" / "request.json").read_bytes() == b"xy"
    assert node.fault == ""


@pytest.mark.parametrize(
    "linked", ["akg-demo", "akg-demo/gelu_bias", "akg-demo/gelu_bias/kernel.py"]
)
def test_a_sample_is_copied_through_no_link(tmp_path: Path, linked: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kernel.py").write_text("mine")
    link = tmp_path / "here" / linked
    link.parent.mkdir(parents=True)
    link.symlink_to(outside / "kernel.py" if link.suffix else outside)
    prepared = prepare(RunRequest(tmp_path / "here", sample="gelu_bias"))
    with pytest.raises(StoreError, match="cannot write"):
        begin(prepared)
    assert [path.name for path in outside.iterdir()] == ["kernel.py"]
    assert (outside / "kernel.py").read_text() == "mine"
    link.unlink()
    begin(prepare(RunRequest(tmp_path / "here", sample="gelu_bias"))).close()
