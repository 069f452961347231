"""Runs without a terminal: detached, attached to, and steered by `ctl`."""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import shlex
import signal
import socket
import subprocess
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from akg_tui.cli import main, run_control, tune
from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.phases import Gate, Mode
from akg_tui.core.task import Task
from akg_tui.engine import detached, run_service
from akg_tui.engine.attach import Attached, NotAttached
from akg_tui.engine.detached import known_runs, register, registered, unit, withdraw
from akg_tui.evaluate.targets.lease import Lease, claim
from akg_tui.store.journal import read
from akg_tui.store.lock import holder
from akg_tui.store.run_folder import RunFolder
from akg_tui.store.run_list import RunSummary, read_state
from akg_tui.view.run_rows import idle_told
from benchmarks.lab.family import Family
from benchmarks.lab.player import Direction, Player
from benchmarks.lab.replies import call
from benchmarks.lab.server import Lab
from tests.cli.fake_judged import COMMAND, NO_REPORT
from tests.cli.test_cli import here
from tests.cli.test_served_model import KEY
from tests.engine.runs import create, engine, make_task
from tests.tui.terminal import PtyTerminal

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
PATIENCE_S = 120.0  # for what hangs: the machine may be busy


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
        monkeypatch.setitem(ENVIRONMENT, name, str(tmp_path / name))
    monkeypatch.setattr(detached, "COMMAND", COMMAND)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv(NO_REPORT, "1")


def until(true: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Path]:
    """A detached run that waits for a step; what is left of its engine is ended."""
    made = create(tmp_path / "task", mode=Mode.STEP)
    made.close()
    detached.start(made.path)
    yield made.path
    if (pid := holder(made.path)) is not None:
        os.kill(pid, signal.SIGKILL)


def to_auto(run: Path) -> None:
    """Let a run that waits for a step go on to its end."""
    link = Attached.to(run)
    assert link.send(cmd.SetMode(Mode.AUTO)) is None
    link.close()


def tuned(run: Path) -> None:
    """Work on a run at rest to its end, in this process."""

    async def work() -> None:
        working = engine(RunFolder.open(run))
        await working.run()
        await working.close()

    asyncio.run(work())


def told(capsys: pytest.CaptureFixture[str], *words: object) -> Any:
    """The JSON object that a command prints."""
    capsys.readouterr()
    assert main([*map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_detached_run_outlives_its_whole_process_tree_and_ends_with_its_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a workbench: `d` detaches; then everything that the terminal started is killed."""
    monkeypatch.delenv(NO_REPORT)
    make_task(tmp_path / "task")
    words = ["tune", "task", "--agent", "sweep", "--mode", "step"]
    terminal = PtyTerminal([*COMMAND, *words], tmp_path, **ENVIRONMENT)
    terminal.wait("WAIT_STEP")
    (path,) = (tmp_path / "task" / "runs").iterdir()
    terminal.write("q")
    terminal.wait("leave the run?")
    terminal.insist("d", "leave the run?", "works on it without this terminal")
    assert terminal.wait_ended() == 0
    terminal.close()
    pid = holder(path)
    assert pid is not None
    assert os.getsid(pid) == pid
    viewer = PtyTerminal([*COMMAND, "attach"], tmp_path, **ENVIRONMENT)
    viewer.wait("WAIT_STEP")
    os.killpg(viewer.pid, signal.SIGHUP)
    os.killpg(viewer.pid, signal.SIGKILL)
    viewer.close()
    os.kill(pid, signal.SIGHUP)
    assert main(["ctl", "resume", str(path)]) == 3, "it is not paused"
    to_auto(path)
    until(lambda: holder(path) is None)
    assert read_state(path).finished
    assert (path / "report.html").is_file()
    log = (path / "engine.log").read_text()
    assert "KEEP" in log
    assert f"report: {path}/report.html" in log


def test_sigterm_leaves_a_resumable_run_and_resume_goes_on(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pid = holder(run)
    assert pid is not None
    os.kill(pid, signal.SIGTERM)
    until(lambda: holder(run) is None)
    assert [each.host for each in registered()] == [""], "any machine may go on with it"
    assert main(["ctl", "step", str(run)]) == 4
    again = told(capsys, "resume", run, "--detach")
    assert again["socket"] == f"{run}/attach.sock"
    assert holder(run) == again["pid"] != pid
    shown = told(capsys, "ctl", "show", run)
    assert (shown["status"], shown["waits"]) == ("running", "step")
    assert shown["idle_s"] >= 0


def test_the_verbs_are_the_commands_of_a_person_and_are_refused_with_code_3(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (
        ["pause"], ["hint", "SPEED=C"], ["limit", "rounds=7"], ["step"], ["resume"],
    ):  # fmt: skip
        given = told(capsys, "ctl", words[0], run, *words[1:])
        assert given["verb"] == words[0]
    state = read_state(run)
    assert state.task.policy.max_rounds == 7
    for code, words in (
        (3, ["resume"]), (3, ["answer", "x"]), (3, ["approve"]), (3, ["undo"]), (3, ["detach"]),
        (2, ["limit", "rounds=x"]), (2, ["hint", "go faster"]),
    ):  # fmt: skip
        assert main(["ctl", words[0], str(run), *words[1:]]) == code, words
        assert capsys.readouterr().err.count("\n") == 1
    assert told(capsys, "ctl", "stop", run, "enough")["cursor"] >= state.seq
    to_auto(run)
    until(lambda: holder(run) is None)
    assert read_state(run).finished == "enough"


def test_one_steers_until_it_hands_over_or_is_gone_and_all_may_watch(run: Path) -> None:
    one, other = Attached.to(run), Attached.to(run)
    assert one.send(cmd.Pause()) is None
    refused = other.send(cmd.Unpause())
    assert refused is not None
    assert f"process {os.getpid()} steers this run" in refused.why
    assert other.live() is not None
    assert main(["ctl", "resume", str(run)]) == 3
    assert one.ask("give") is None
    assert other.send(cmd.Unpause()) is None
    assert one.ask("take") is None
    assert other.send(cmd.Pause()) is not None
    assert main(["ctl", "pause", str(run), "--take"]) == 0
    one.close()
    until(lambda: other.send(cmd.Unpause()) is None)
    other.close()


def test_what_may_be_several_runs_is_an_error_with_the_candidates(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    second = create(tmp_path / "other")
    second.close()
    register(second.path)
    before = second.path.joinpath("events.jsonl").read_bytes()
    assert told(capsys, "ctl", "show", tmp_path)["path"] == str(run), "the one at work"
    assert told(capsys, "ctl", "show", run.name)["path"] == str(run), "and no other of its name"
    os.kill(holder(run) or 0, signal.SIGTERM)
    until(lambda: holder(run) is None)
    assert main(["ctl", "stop", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert str(run) in error
    assert str(second.path) in error
    assert second.path.joinpath("events.jsonl").read_bytes() == before
    monkeypatch.chdir(tmp_path)
    assert main(["attach"]) == 2
    assert "no run is at work" in capsys.readouterr().err


def test_the_registry_names_runs_of_anywhere_and_of_which_machine(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    away = tmp_path / "away"
    away.mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "task")
    linked = tmp_path / "link" / run.relative_to(tmp_path / "task")
    with Lease(claim(Task(op="x"), f"run {run.name}", linked), time.sleep).held():
        listed = told(capsys, "ctl", "list", away)
    assert (listed["path"], listed["times_on"]) == (str(run), "cpu")
    assert told(capsys, "ctl", "list", away)["times_on"] == ""
    assert known_runs(away) == [run.resolve()]
    (tmp_path / "XDG_STATE_HOME" / "akg_tui" / "detached" / "bad").write_bytes(b"\xff{")
    assert [each.run for each in registered()] == [str(run.resolve())]
    rest = create(tmp_path / "rest")
    rest.close()
    monkeypatch.setattr(socket, "gethostname", lambda: "other-machine")
    register(rest.path)
    monkeypatch.undo()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "XDG_STATE_HOME"))
    assert main(["ctl", "pause", str(rest.path)]) == 4
    error = capsys.readouterr().err
    assert "it was detached on other-machine: steer it there" in error
    assert f"akg-tui resume {rest.path} --detach" in error
    withdraw(rest.path)
    assert main(["ctl", "pause", str(rest.path)]) == 0


def test_events_are_read_on_from_a_cursor_and_none_is_lost_while_viewers_come_and_go(
    run: Path,
) -> None:
    follow = subprocess.Popen(
        [*COMMAND, "ctl", "events", str(run), "--follow", "--json"],
        env=ENVIRONMENT, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    for number in range(20):
        link = Attached.to(run)
        assert link.send(cmd.SetGate(Gate.PLAN, on=number % 2 == 0)) is None
        link.close()
    done = here("ctl", "events", run, "--cursor", "5", "--json")
    assert json.loads(done.stdout.splitlines()[0])["seq"] == 6
    to_auto(run)
    out, _ = follow.communicate(timeout=PATIENCE_S)
    assert follow.returncode == 0
    events = [json.loads(line) for line in out.splitlines()]
    assert [each["seq"] for each in events] == list(range(1, len(events) + 1))
    assert sum(each["type"] == "GateChanged" for each in events) == 20
    assert len(events) == len(read(run / "events.jsonl"))


def test_following_goes_on_while_the_run_changes_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = create(tmp_path / "task", rounds=1)
    looks: list[float] = []

    def look(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 1:
            made.close()
        if len(looks) == 3:
            tuned(made.path)

    monkeypatch.setattr(time, "sleep", look)
    assert main(["ctl", "events", str(made.path), "--follow"]) == 0
    assert len(looks) == 3
    made = create(tmp_path / "dies")
    looks.clear()
    monkeypatch.setattr(run_control, "GRACE_S", 0.0)
    assert main(["ctl", "events", str(made.path), "--follow"]) == 4


def test_a_dead_engine_is_told_in_one_line(run: Path) -> None:
    pid = holder(run)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    until(lambda: holder(run) is None)
    done = here("ctl", "events", run, "--follow")
    assert done.returncode == 4
    assert f"nobody is at work on it; let it go on with: akg-tui ctl resume {run}" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_may_not_steer(run: Path) -> None:
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        os.setresuid(65534, 65534, 65534)
        try:
            Attached.to(run)
        except NotAttached as error:
            os._exit(0 if "another user's run" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_run_that_waits_is_told_with_its_idle_time_and_a_clock_set_back_harms_nothing() -> None:
    waits = RunSummary(path="r", pid=1, last_at=1000.0, phase="DECIDE", waits="KEEP p7")
    assert idle_told(waits, 1000.0 + 14 * 60) == "idle 14 min: waits for a person (KEEP p7)"
    assert idle_told(waits, 1.0) == "waits for a person (KEEP p7)"
    works = RunSummary(path="r", pid=1, last_at=1000.0, phase="EDIT")
    assert (idle_told(works, 1030.0), idle_told(works, 1000.0 + 7200)) == ("", "idle 2 h in EDIT")
    assert idle_told(RunSummary(path="r", last_at=0.0, phase="EDIT"), 1e6) == "", "it is at rest"


def test_an_engine_that_cannot_start_is_told_by_its_last_line(run: Path) -> None:
    done = here("resume", run, "--detach")
    assert done.returncode == 2
    assert "is at work on this run" in done.stderr
    with pytest.raises(detached.NotStarted, match="is at work on this run"):
        detached.start(run)


def test_a_run_that_a_command_holds_for_a_moment_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = create(tmp_path / "task")
    monkeypatch.setattr(run_service, "check_target", lambda task, path: None)
    monkeypatch.setattr(time, "sleep", lambda seconds: made.close())
    monkeypatch.setattr(tune, "_tell_started", lambda path, arguments: None)
    assert main(["resume", str(made.path), "--detach"]) == 0


def test_a_run_that_is_over_is_not_told_as_at_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = create(tmp_path / "task", rounds=1)
    made.close()
    tuned(made.path)
    assert main(["resume", str(made.path), "--detach", "--json"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert f"{made.path}: the run is over: " in told.err
    monkeypatch.setattr(detached, "COMMAND", ("true",))
    assert detached.start(made.path).pid == 0


def test_a_log_that_cannot_be_written_does_not_end_the_run(tmp_path: Path) -> None:
    made = create(tmp_path / "task")
    made.close()
    with Path("/dev/full").open("w") as full:
        command = [*COMMAND, "resume", str(made.path), "--detach", "--foreground"]
        subprocess.run(command, env=os.environ, stdout=full, stderr=full, check=False)
    assert read_state(made.path).finished


def test_a_home_that_takes_no_files_is_told_and_the_run_is_worked_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = create(tmp_path / "task")
    made.close()
    (tmp_path / "home").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    started = detached.start(made.path)
    assert list(registered()) == []
    until(lambda: holder(made.path) != started.pid)
    assert str(tmp_path / "home") in told_by_engine(made.path)
    assert read_state(made.path).finished


def told_by_engine(run: Path) -> str:
    """The one line in the log that is no event of the run; "" if there is none yet."""
    log = (run / "engine.log").read_text().splitlines()
    (told, *more) = [line for line in log if line.startswith("akg-tui: ")] or [""]
    assert not more
    return told


def test_a_detached_run_whose_disk_is_full_says_so_in_its_log_and_goes_on_with_room(
    tmp_path: Path,
) -> None:
    made = create(tmp_path / "task")
    made.close()
    journal = made.path / "events.jsonl"
    room = journal.stat().st_size + 6_000
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))  # of each file of the engine
    try:
        started = detached.start(made.path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    until(lambda: told_by_engine(made.path))
    assert holder(made.path) != started.pid
    assert str(journal) in told_by_engine(made.path)
    kept = read(journal)
    assert not read_state(made.path).finished
    again = detached.start(made.path)
    until(lambda: holder(made.path) != again.pid)
    assert read(journal)[: len(kept)] == kept
    assert read_state(made.path).finished


def test_a_run_of_a_newer_version_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = create(tmp_path / "task")
    made.close()
    journal = made.path / "events.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    newer = lines[-1][9:].replace(b'"schema":1', b'"schema":2')
    journal.write_bytes(b"".join(lines[:-1]) + b"%08x " % zlib.crc32(newer[:-1]) + newer)
    before = journal.read_bytes()
    for verb in ("show", "pause", "events"):
        assert main(["ctl", verb, str(made.path)]) == 2
        error = capsys.readouterr().err
        assert "newer akg-tui" in error
        assert error.count("\n") == 1
    with pytest.raises(detached.NotStarted, match="newer akg-tui"):
        detached.start(made.path)
    assert journal.read_bytes() == before


def test_a_unit_names_the_engine_and_quotes_what_systemd_would_read(tmp_path: Path) -> None:
    made = create(tmp_path / 'a "b" 100%')
    made.close()
    text = unit(made.path, ("--api-key-file", "/k"))
    command = re.search("^ExecStart=(.*)$", text, re.M)
    assert command is not None
    words = shlex.split(command[1].replace("%%", "%"))
    assert words[-2:] == ["--api-key-file", "/k"]
    assert str(made.path) in words
    assert "100%%" in text


def documented_script() -> str:
    page = (ROOT / "docs" / "detached.md").read_text("utf-8")
    script = re.search("```sh\n(run=.*?)```", page, re.S)
    assert script is not None
    return script[1]


async def test_the_documented_script_drives_a_run_from_start_to_report(tmp_path: Path) -> None:
    make_task(tmp_path / "task")
    program = tmp_path / "bin" / "akg-tui"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
    program.chmod(0o755)
    ask = call("ask_user", {"message": "Are all rows contiguous?"}, "toolu_ask")
    directions = iter(
        [Direction(f"speed {to}", "^SPEED = ", f'SPEED = "{to}"  #') for to in ("C", "B")]
    )
    async with Lab(Family(Player(directions, batch=2), blocks=(ask,))) as lab:
        script = documented_script().replace("--agent", f"--base-url {lab.url} --agent", 1)
        process = await asyncio.create_subprocess_exec(
            "sh", "-c", script, "sh", "task", cwd=tmp_path,
            env={
                **ENVIRONMENT, "ANTHROPIC_API_KEY": KEY,
                "PATH": f"{program.parent}:{os.environ['PATH']}",
            },
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        out, errors = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert process.returncode == 0, errors.decode()
    (path,) = (tmp_path / "task" / "runs").iterdir()
    assert str(path / "report.html") in out.decode()
    events = [record.event for record in read(path / "events.jsonl")]
    (answer,) = [event for event in events if isinstance(event, ev.QuestionAnswered)]
    assert (answer.answer, answer.source) == ("all rows are contiguous", "user")
    gates = [event.answer for event in events if isinstance(event, ev.GateAnswered)]
    assert gates == ["reject", "approve"]
