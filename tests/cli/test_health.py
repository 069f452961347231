"""`akg-tui doctor`, and `akg-tui fork` of a damaged run, as people and scripts call them."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from akg_tui.cli import machine_checks, main
from akg_tui.store.checkup import Health
from akg_tui.store.run_folder import RunFolder
from tests.engine.runs import create, engine


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    async def worked() -> Path:
        work = engine(create(tmp_path_factory.mktemp("made") / "task", rounds=4))
        await work.run()
        await work.close()
        return Path(work.path)

    return asyncio.run(worked())


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "task" / "runs" / made.name)


def damage(run: Path) -> None:
    journal = run / "events.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[20] = b"x" + lines[20]
    journal.write_bytes(b"".join(lines))


Told = Callable[[], tuple[list[str], str]]


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Told:
    def read() -> tuple[list[str], str]:
        captured = capsys.readouterr()
        return captured.out.splitlines(), captured.err

    return read


async def test_a_sound_run_gets_a_mark_a_line_and_exit_code_0(run: Path, told: Told) -> None:
    assert main(["doctor", str(run)]) == 0
    lines, errors = told()
    assert errors == ""
    assert all(line.startswith("✔ ") for line in lines)
    names = [line.split()[1] for line in lines]
    assert names[:3] == ["lock", "journal", "rules"]
    assert {"objects", "work", "reference"} <= set(names)


def test_a_damaged_run_is_told_with_its_place_and_a_way_out_and_as_json(
    run: Path, told: Told
) -> None:
    damage(run)
    assert main(["doctor", str(run)]) == 1
    lines, _ = told()
    (journal,) = [line for line in lines if line.startswith("✘ journal")]
    assert "event 21, byte " in journal
    assert any(f"→ go on from its last sound round with: akg-tui fork {run}" in x for x in lines)
    assert main(["doctor", str(run), "--json"]) == 1
    found = [json.loads(line) for line in told()[0]]
    assert {line["type"] for line in found[:-1]} == {"check"}
    assert set(found[0]) == {"type", "name", "health", "found", "mend"}
    assert found[-1]["type"] == "summary"
    assert found[-1]["status"] == "damaged"
    assert found[-1]["bad"] == sum(line.get("health") == "bad" for line in found)


def test_what_is_no_run_is_exit_code_2(tmp_path: Path, told: Told) -> None:
    assert main(["doctor", str(tmp_path)]) == 2
    lines, errors = told()
    assert lines == []
    assert errors.count("\n") == 1
    assert "is not a run" in errors


async def test_a_fork_of_a_damaged_run_resumes_and_is_sound(run: Path, told: Told) -> None:
    damage(run)
    assert main(["fork", str(run)]) == 0
    lines, _ = told()
    made = run.with_name(f"{run.name}-r0")
    assert lines == [
        f"forked {run} at the end of round 0: {made}",
        f"the journal of {run} is damaged behind that: its checksum is wrong",
        f"go on with: akg-tui resume {made}",
    ]
    work = engine(RunFolder.open(made))
    await work.run()
    assert (work.state.settled, work.state.ok) == (4, True)
    await work.close()
    assert main(["doctor", str(made)]) == 0
    told()
    assert main(["fork", str(run), "--json"]) == 0
    (line,) = told()[0]
    assert json.loads(line)["damage"] == "its checksum is wrong"


def test_the_machine_is_checked_without_loading_torch() -> None:
    script = (
        "import sys; from akg_tui.cli import main; code = main(['doctor', '--json'])\n"
        "print('torch' in sys.modules); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120
    )
    *lines, loaded = done.stdout.splitlines()
    assert loaded == "False"
    found = {told["name"]: told["health"] for told in map(json.loads, lines[:-1])}
    names = ["python", "compiler", "git", "terminal", "disk"]
    assert [name for name in found if name in names] == names
    assert done.returncode == (1 if "bad" in found.values() else 0)
    assert found["git"] == found["compiler"] == "ok"


def test_a_compiler_that_does_not_work_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/nonexistent/c++")
    found = machine_checks.check_compiler()
    assert found.health is Health.BAD
    assert "/nonexistent/c++" in found.found
    assert "install g++" in found.mend


@pytest.mark.parametrize(
    ("free", "health"), [(50 << 30, Health.OK), (1 << 30, Health.WARN), (1 << 20, Health.BAD)]
)
def test_a_disk_that_fills_up_is_told_before_it_is_full(
    monkeypatch: pytest.MonkeyPatch, free: int, health: Health
) -> None:
    usage = shutil.disk_usage("/")._replace(free=free)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    assert machine_checks.check_disk().health is health
