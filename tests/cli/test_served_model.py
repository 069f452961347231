"""A served model on the command line: keys, addresses, and whole runs; only the judge is a fake."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path

import pytest

from akg_tui.cli import main
from akg_tui.core import events as ev
from akg_tui.core.summary import summarize
from akg_tui.engine import run_service
from akg_tui.store.journal import read
from akg_tui.store.run_list import read_state
from benchmarks.lab.family import Family
from benchmarks.lab.player import Direction, Player
from benchmarks.lab.runs import directions
from benchmarks.lab.server import served
from tests.cli.test_cli import here
from tests.engine.fake_judge import FakeJudge
from tests.engine.runs import make_task

KEY = "sk-lab-secret"


def one_line(errors: str) -> str:
    lines = [line for line in errors.splitlines() if line.strip()]
    assert len(lines) == 1, errors
    assert lines[0].startswith("akg-tui: ")
    return lines[0]


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return the one line that refuses a command, which makes no run."""
    assert main(["tune", "task", *words]) == 2
    assert not Path("task", "runs").exists()
    return one_line(capsys.readouterr().err)


@pytest.fixture
def task_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_task(tmp_path / "task")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)


@pytest.mark.usefixtures("task_here")
def test_without_a_key_there_is_one_line_and_no_run(capsys: pytest.CaptureFixture[str]) -> None:
    line = refused(capsys, "--agent", "claude")
    assert "no key for claude-opus-5-5: set ANTHROPIC_API_KEY" in line


@pytest.mark.usefixtures("task_here")
def test_a_key_file_that_holds_no_key_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    for content, told in (
        (None, "No such file"),
        (b"", "is empty"),
        (b"two words", "one word"),
        (b"\xff\xfe", "not text"),
    ):
        if content is not None:
            Path("key").write_bytes(content)
        line = refused(capsys, "--agent", "claude", "--api-key-file", "key")
        assert told in line
        assert "key" in line
        assert "two words" not in line


@pytest.mark.usefixtures("task_here")
def test_a_bad_option_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    for words, told in (
        (["--agent", "m", "--base-url", "ftp://x"], "--base-url: 'ftp://x' is not allowed"),
        (["--agent", "m", "--base-url", "http://user:pass@x"], "--base-url"),
        (["--agent", "two words"], "--agent: 'two words' is not allowed"),
    ):
        assert told in refused(capsys, *words)


@pytest.fixture
def fake_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    async def unknown(threads: int, known: object) -> None:
        """Stand in for the description of this machine, which takes a compiler a second."""

    monkeypatch.setattr("akg_tui.agent.machine.describe", unknown)
    monkeypatch.setattr(run_service, "_judge", lambda run, on_step: FakeJudge(on_step))
    monkeypatch.setattr(run_service, "check_target", lambda task, path: None)


@pytest.mark.usefixtures("fake_judge")
def test_tune_with_a_served_model_completes_with_keep_diagnosis_and_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole of it in one command: a plan, edits by tag, a KEEP, three failures, a diagnosis."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    make_task(tmp_path / "task")
    wrong = (
        Direction(f"a shortcut, number {number}", "^SPEED = .*", f'SPEED = "WRONG"; N = {number}')
        for number in range(3)
    )
    tried = itertools.chain(itertools.islice(directions(), 1), wrong)
    family = Family(Player(tried, batch=4), ["which flags are set?"])
    with served(family) as lab:
        words = ("--agent", "claude", "--base-url", lab.url, "--headless", "--max-rounds", "5")
        done = here("tune", "task", *words, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    told = done.stdout.splitlines()
    run = tmp_path / next(line for line in told if line.startswith("run: "))[5:]
    assert (run / "report.html").is_file()
    assert f"report: {run.relative_to(tmp_path) / 'report.html'}" in told
    summary = summarize(read_state(run))
    assert summary["verdicts"] == {"KEEP": 1, "DISCARD": 0, "FAIL": 3, "INCONCLUSIVE": 0}
    assert summary["speedup_vs_seed"] > 1.2
    assert summary["reason"] == "the agent finished: no direction is left"
    assert 0.3 < summary["cache_read_share"] < 1
    events = [record.event for record in read(run / "events.jsonl")]
    assert any(isinstance(event, ev.EndpointProbed) for event in events)
    (diagnosis,) = [event for event in events if isinstance(event, ev.DiagnosisReported)]
    assert diagnosis.source == "subagent"
    began = [event.agent for event in events if isinstance(event, ev.SubagentStarted)]
    assert began == ["subagent", "diagnosis"]
    ended = [event.status for event in events if isinstance(event, ev.SubagentEnded)]
    assert ended == ["done", "done"]
    edits = [e for e in events if isinstance(e, ev.ToolCalled) and e.tool == "edit_kernel"]
    assert len(edits) == 4
    assert all(set(op) >= {"op", "from"} for edit in edits for op in edit.arguments["ops"])
    assert lab.refused == lab.memory.faults == []
    for path in run.rglob("*"):
        if path.is_file():
            assert KEY.encode() not in path.read_bytes()


@pytest.mark.usefixtures("fake_judge")
def test_a_refused_key_or_a_server_out_of_reach_is_one_line_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-wrong-key")
    make_task(tmp_path / "task")
    with served(Player(iter(()))) as lab:  # without a direction: it only wants to finish
        words = ("--agent", "claude", "--base-url", lab.url, "--headless", "--max-rounds", "5")
        done = here("tune", "task", *words, cwd=tmp_path)
        assert done.returncode == 2
        line = one_line(done.stderr)
        assert "was refused by http://127.0.0.1" in line
        assert "sk-wrong-key" not in done.stdout + done.stderr
        run = line.split("akg-tui resume ")[1]

        shutil.copytree(tmp_path / "task", tmp_path / "cut off")
        (tmp_path / "key").write_text(f"{KEY}\n")
        monkeypatch.delenv("ANTHROPIC_API_KEY")
        words = ("--api-key-file", "key", "--headless", "--json")
        done = here("resume", run, *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    *events, summary = [json.loads(each) for each in done.stdout.splitlines()]
    assert any(event["type"] == "ModelReplied" for event in events)
    assert summary["reason"].startswith("the agent made no progress in 3 visits")
    assert summary["tokens"]["input"] > 0
    assert (tmp_path / summary["report"]).is_file()
    assert lab.refused == lab.memory.faults == []
    for path in (tmp_path / run).rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert KEY.encode() not in data
            assert b"sk-wrong-key" not in data

    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    alone = Path("cut off", *Path(run).parts[1:])
    done = here("resume", alone, "--headless", "--json", "--trust", cwd=tmp_path)
    assert done.returncode == 2
    line = one_line(done.stderr)
    assert f"cannot reach the server at {lab.url}" in line
    assert "akg-tui resume" in line
    summary = json.loads(done.stdout.splitlines()[-1])
    assert (summary["type"], summary["ok"]) == ("summary", False)
