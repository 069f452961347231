"""A served model on the command line: keys, addresses, and a whole run with the real judge."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from akg_tui.core import events as ev
from akg_tui.core.summary import summarize
from akg_tui.store.journal import read
from akg_tui.store.run_list import read_state
from tests.engine.runs import copy_sample, make_task
from tests.lab.family import Family
from tests.lab.player import Direction, Player
from tests.lab.replies import call
from tests.lab.server import Lab

KEY = "sk-lab-secret"


async def akg(
    *arguments: str, cwd: Path, key: str | None = KEY, limit_s: float = 120.0
) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of one command."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ANTHROPIC_")}
    environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    if key is not None:
        environment["ANTHROPIC_API_KEY"] = key
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "akg_tui", *arguments,
        cwd=cwd, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        out, errors = await asyncio.wait_for(process.communicate(), limit_s)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode or 0, out.decode(), errors.decode()


def one_line(errors: str) -> str:
    lines = [line for line in errors.splitlines() if line.strip()]
    assert len(lines) == 1, errors
    assert lines[0].startswith("akg-tui: ")
    return lines[0]


async def test_without_a_key_there_is_one_line_and_no_run(tmp_path: Path) -> None:
    make_task(tmp_path / "task")
    code, _, errors = await akg("tune", "task", "--agent", "claude", cwd=tmp_path, key=None)
    assert code == 2
    assert "no key for claude-opus-5-5: set ANTHROPIC_API_KEY" in one_line(errors)
    assert not (tmp_path / "task" / "runs").exists()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "No such file"),
        (b"", "is empty"),
        (b"two words", "one word"),
        (b"\xff\xfe", "not text"),
    ],
)
async def test_a_key_file_that_holds_no_key_is_named(
    tmp_path: Path, content: bytes | None, told: str
) -> None:
    make_task(tmp_path / "task")
    if content is not None:
        (tmp_path / "key").write_bytes(content)
    code, _, errors = await akg(
        "tune", "task", "--agent", "claude", "--api-key-file", "key", cwd=tmp_path
    )
    assert code == 2
    line = one_line(errors)
    assert told in line
    assert "key" in line
    assert "two words" not in line


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("--base-url", "ftp://x", "--base-url 'ftp://x'"),
        ("--base-url", "http://user:pass@x", "--base-url"),
        ("--agent", "two words", "--agent 'two words'"),
    ],
)
async def test_a_bad_option_is_named(tmp_path: Path, option: str, value: str, told: str) -> None:
    make_task(tmp_path / "task")
    given = ["--agent", "m", option, value] if option != "--agent" else [option, value]
    code, _, errors = await akg("tune", "task", *given, cwd=tmp_path)
    assert code == 2
    assert told in one_line(errors)


def softmax() -> Iterator[Direction]:
    """One direction that helps, then three that are wrong one after the other."""
    yield Direction(
        "let the compiler use the vector units of this machine", '^FLAGS = "-O1"',
        'FLAGS = "-O3 -march=native -ffast-math"',
    )  # fmt: skip
    for number in (2, 3, 4):
        yield Direction(
            f"scale the sum by {number} so that the division is cheaper",
            r"static_cast<float>\(sum\)",
            f"static_cast<float>(sum * {number})",
        )


async def test_tune_with_a_served_model_completes_with_keep_diagnosis_and_report(
    tmp_path: Path,
) -> None:
    """The whole of it in one command: a plan, edits by tag, a KEEP, three failures, a diagnosis."""
    copy_sample(tmp_path / "task", "row_softmax")
    report = call("write_report", {}, "toolu_report")
    family = Family(Player(softmax(), batch=4), ["which flags are set?"], blocks=(report,))
    async with Lab(family) as lab:
        code, out, errors = await akg(
            "tune", "task", "--agent", "claude", "--base-url", lab.url, "--headless",
            "--max-rounds", "5", cwd=tmp_path,
        )  # fmt: skip
    assert code == 0, errors
    assert errors == ""
    told = out.splitlines()
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
    answers = [event for event in events if isinstance(event, ev.ToolAnswered)]
    (made,) = [event for event in answers if event.tool == "write_report"]
    assert (made.status, made.output.splitlines()[0]) == ("success", "report.md")
    edits = [e for e in events if isinstance(e, ev.ToolCalled) and e.tool == "edit_kernel"]
    assert len(edits) == 4
    assert all(set(op) >= {"op", "from"} for edit in edits for op in edit.arguments["ops"])
    assert lab.refused == lab.memory.faults == []
    for path in run.rglob("*"):
        if path.is_file():
            assert KEY.encode() not in path.read_bytes()


async def test_a_refused_key_or_a_server_out_of_reach_is_one_line_and_the_run_goes_on(
    tmp_path: Path,
) -> None:
    copy_sample(tmp_path / "task", "row_softmax")
    async with Lab(Player(iter(()))) as lab:  # without a direction: it only wants to finish
        code, out, errors = await akg(
            "tune", "task", "--agent", "claude", "--base-url", lab.url, "--headless",
            "--max-rounds", "5", cwd=tmp_path, key="sk-wrong-key",
        )  # fmt: skip
        assert code == 2
        line = one_line(errors)
        assert "was refused by http://127.0.0.1" in line
        assert "sk-wrong-key" not in out + errors
        run = line.split("akg-tui resume ")[1]

        shutil.copytree(tmp_path / "task", tmp_path / "cut off")
        (tmp_path / "key").write_text(f"{KEY}\n")
        code, out, errors = await akg(
            "resume", run, "--api-key-file", "key", "--headless", "--json", cwd=tmp_path,
            key=None,
        )  # fmt: skip
    assert code == 0, errors
    *events, summary = [json.loads(each) for each in out.splitlines()]
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

    alone = str(Path("cut off", *Path(run).parts[1:]))
    code, out, errors = await akg("resume", alone, "--headless", "--json", "--trust", cwd=tmp_path)
    assert code == 2
    line = one_line(errors)
    assert f"cannot reach the server at {lab.url}" in line
    assert "akg-tui resume" in line
    summary = json.loads(out.splitlines()[-1])
    assert (summary["type"], summary["ok"]) == ("summary", False)
