"""A run whose kernel lies in several files: on disk, in git, in forks and after kills."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.store.checkup import Health, check_run
from akg_tui.store.errors import BadTask, HistoryError
from akg_tui.store.fork import fork_run
from akg_tui.store.history import History
from akg_tui.store.run_folder import RunFolder
from akg_tui.store.run_list import read_state
from akg_tui.store.task_folder import TaskFolder, load_task
from tests.store import scripted
from tests.store.test_run_folder import git

NAMES = ("kernel.py", "scale.cpp", "unroll.h")
FILES = {"kernel.py": scripted.KERNEL, "scale.cpp": "int f();  // é\r\n", "unroll.h": ""}
TOML = f'op = "add_one"\n[files]\neditable = {list(NAMES)}\n[policy]\nmax_rounds = 6\n'


def candidate(attempt: int) -> KernelFiles:
    """A kernel that differs in every file."""
    return KernelFiles({
        "kernel.py": scripted.KERNEL.replace("BLOCK = 32", f"BLOCK = {32 + attempt}"),
        "scale.cpp": f"int f() {{ return {attempt}; }}",
        "unroll.h": f"#define UNROLL {attempt}\n",
    })  # fmt: skip


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TaskFolder:
    monkeypatch.setattr(scripted, "candidate", candidate)
    folder = scripted.make_task(tmp_path / "task").path
    for name, text in FILES.items():
        (folder / name).write_bytes(text.encode())
    (folder / "task.toml").write_text(TOML)
    return load_task(folder)


@pytest.fixture
def run(task: TaskFolder) -> RunFolder:
    opened = scripted.create_run(task)
    scripted.go_on(opened)
    opened.close()
    return opened


def work(run: Path) -> dict[str, str]:
    return {name: (run / "work" / name).read_bytes().decode() for name in NAMES}


def test_every_attempt_has_all_files_in_git_and_the_best_ones_lie_in_work(run: RunFolder) -> None:
    state = run.state
    assert (state.settled, state.best and state.best.attempt) == (6, 4)
    assert work(run.path) == candidate(4).texts
    assert git(run.path, "fsck", "--strict", "--no-dangling") == b""
    for attempt in state.attempts:
        wanted = FILES if not attempt.number else candidate(attempt.number).texts
        for name, text in wanted.items():
            assert git(run.path, "show", f"{attempt.commit}:{name}") == text.encode()
        listed = git(run.path, "ls-tree", "--name-only", attempt.commit).decode().split()
        assert listed == sorted(NAMES)
    # Nothing but the refs keeps the texts, also after git has packed and pruned.
    git(run.path, "gc", "--quiet", "--prune=now")
    assert {check.health for check in check_run(run.path)} == {Health.OK}
    RunFolder.open(run.path, clock=scripted.Clock(2e9)).close()


def test_a_mixed_work_tree_is_told_and_made_whole(run: RunFolder) -> None:
    # As a kill leaves it between the files of one attempt: the old file beside the new one.
    (run.path / "work" / "scale.cpp").write_text("int old();")
    (told,) = [check for check in check_run(run.path) if check.name == "work tree"]
    assert told.health is Health.WARN
    (run.path / "work" / "unroll.h").unlink()
    RunFolder.open(run.path, clock=scripted.Clock(2e9)).close()
    assert work(run.path) == candidate(4).texts


def test_a_fork_has_all_files(run: RunFolder) -> None:
    made = fork_run(run.path, 2, clock=scripted.Clock(2e9))
    assert work(made.path) == candidate(1).texts
    assert git(made.path, "show", "best:scale.cpp") == b"int f() { return 1; }"
    last = read_state(run.path).attempts[-1]
    oid = git(run.path, "rev-parse", f"{last.commit}:scale.cpp").decode().strip()
    (run.path / "history.git" / "objects" / oid[:2] / oid[2:]).unlink()
    assert Health.BAD in {check.health for check in check_run(run.path)}
    made = fork_run(run.path, clock=scripted.Clock(2e9))
    assert made.origin.lost == (last.number,), "an attempt that lacks a file is lost, not cut short"
    assert work(made.path) == candidate(4).texts
    with pytest.raises(HistoryError):
        RunFolder.open(run.path, clock=scripted.Clock(2e9))


def test_a_writer_that_dies_between_the_files_leaves_no_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The id of the tree is known only when all of its blobs are stored."""
    history = History.create(tmp_path / "history.git", kernel_file=NAMES)
    written: list[str] = []
    write = History._write

    def dying(self: History, kind: Any, data: bytes) -> str:
        if len(written) == stop:
            raise HistoryError("killed")
        written.append(kind)
        return write(self, kind, data)

    monkeypatch.setattr(History, "_write", dying)
    for stop in range(4):
        written.clear()
        with pytest.raises(HistoryError):
            history.write_kernel(candidate(7))
        assert written == ["blob"] * stop
    stop = 9
    written.clear()
    assert history.read_kernel(history.write_kernel(candidate(7))) == candidate(7)
    assert written == ["blob"] * 3 + ["tree"]


def test_a_list_of_one_file_is_that_file(task: TaskFolder, tmp_path: Path) -> None:
    toml = 'op = "add_one"\n[files]\neditable = {}\n[policy]\nmax_rounds = 6\n'
    runs = []
    for number, editable in enumerate(('"kernel.py"', '["kernel.py"]')):
        folder = scripted.make_task(tmp_path / f"one{number}").path
        (folder / "task.toml").write_text(toml.format(editable))
        runs.append(scripted.create_run(load_task(folder), name="r"))
    first, second = ((each.path / "events.jsonl").read_bytes() for each in runs)
    assert first == second
    assert b'"editable":"kernel.py"' in first
    for each in runs:
        each.close()


BAD = {
    '["kernel.py", "none.h"]': "none.h is not a file in this folder",
    '["kernel.py", "../x.h"]': "'../x.h' leaves the folder",
    '["kernel.py", "/etc/passwd"]': "'/etc/passwd' leaves the folder",
    '["kernel.py", "kernel.py"]': "kernel.py is named twice",
    '["kernel.py", "reference.py"]': "is the reference too",
    '["kernel.py", "task.toml"]': "task.toml has another purpose",
    '["kernel.py", "folder"]': "folder is not a file in this folder",
    '["kernel.py", "out.h"]': "out.h is a link that leads out of the folder",
    '["scale.cpp", "kernel.py"]': "'scale.cpp' is not allowed, expected the name of a .py file",
    "[]": "[] is not allowed, expected array of length >= 1",
    "7": "7 is not allowed, expected string or array",
}


@pytest.mark.parametrize("editable", BAD)
def test_a_bad_list_is_told_by_file_line_and_field(task: TaskFolder, editable: str) -> None:
    folder = task.path
    (folder / "folder").mkdir()
    (folder / "out.h").symlink_to("/etc/passwd")
    path = folder / "task.toml"
    path.write_text(f'op = "a"\n[files]\neditable = {editable}\n')
    with pytest.raises(BadTask) as bad:
        load_task(folder)
    assert str(bad.value).startswith(f"{path}:3: files.editable: {BAD[editable]}")


def test_a_helper_that_does_not_parse_is_told_by_its_own_line(task: TaskFolder) -> None:
    (task.path / "task.toml").write_text('op = "a"\n[files]\neditable = ["kernel.py", "h.py"]\n')
    (task.path / "h.py").write_text("x = 1\nif:\n")
    with pytest.raises(BadTask, match=r"h\.py:2: not valid Python"):
        load_task(task.path)


def test_a_file_may_hold_what_looks_like_the_heading_of_another(tmp_path: Path) -> None:
    kernel = candidate(1)
    heading = next(row for place, row in kernel.rows() if not place.line)
    odd = kernel.having({"kernel.py": f"a\n{heading}\nb"})
    history = History.create(tmp_path / "history.git", kernel_file=NAMES)
    assert history.read_kernel(history.write_kernel(odd)) == odd
    one = History.create(tmp_path / "one.git", kernel_file="kernel.py")
    blob = one.write_kernel(odd.text)
    assert one.read_kernel(blob).texts == {"kernel.py": odd.text}
    done = subprocess.run(
        ["git", "-C", str(one.path), "cat-file", "-t", blob], capture_output=True, check=True
    )
    assert done.stdout == b"blob\n"
