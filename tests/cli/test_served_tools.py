"""The commands that ask a model's server without a run: `bench edits`, `doctor`; and `usage`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from akg_tui.agent.models.endpoint import Endpoint
from akg_tui.cli import main
from akg_tui.cli.machine_checks import check_endpoint
from akg_tui.evaluate.sandbox import protections
from benchmarks.edit_models.command import sample_documents
from benchmarks.edit_models.tasks import draw_tasks
from benchmarks.lab.chat import ChatLab, ChatPlayer
from benchmarks.lab.family import Family
from benchmarks.lab.player import Player
from benchmarks.lab.repairer import Repairer
from benchmarks.lab.replies import Reply, refuse, say
from benchmarks.lab.runs import create, directions, engine, play
from benchmarks.lab.server import Lab, Request, served
from tests.cli.test_cli import here
from tests.cli.test_served_model import KEY, one_line

FORMATS = "hashline,str_replace,apply_patch,unified diff"


def bench(url: str, *more: str) -> list[str]:
    return [
        "bench", "edits", "--model", "lab", "--base-url", url, "--tasks", "2", "--repeats", "1",
        "--seed", "5", "--results", "r.jsonl", "--json", *more,
    ]  # fmt: skip


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("key")
def test_the_edit_formats_are_measured_with_a_served_model_and_resumed(tmp_path: Path) -> None:
    repairer = Repairer(draw_tasks(2, 5, sample_documents()), slip=0.5)
    busy = [3, 9]

    async def script(request: Request) -> Reply:
        if busy and repairer.calls == busy[0]:
            if busy.pop(0) == 3:  # waited out
                return refuse(529, "overloaded_error", headers={"retry-after": "0"})
            return refuse(403, "permission_error")  # not
        return await repairer(request)

    with served(script) as lab:
        first = here(*bench(lab.url))
        assert first.returncode == 2
        assert first.stdout == ""
        assert one_line(first.stderr).startswith("akg-tui: lab: ")
        assert "the same command goes on from r.jsonl" in one_line(first.stderr)
        kept = (tmp_path / "r.jsonl").read_text().splitlines()
        assert 1 < len(kept) < 9
        done = here(*bench(lab.url))
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert {f["model"] for f in told["formats"]} == {"lab"}
    assert {f["format"] for f in told["formats"]} == set(FORMATS.split(","))
    assert len(told["sessions"]) == 8
    # A slip that a rival takes for something else is wrong for good; by tag it is refused.
    assert all(s["fixed"] for s in told["sessions"] if s["format"] == "hashline")
    assert all(session["input_tokens"] > 100 for session in told["sessions"])
    assert (tmp_path / "r.jsonl").read_text().splitlines()[: len(kept)] == kept
    assert KEY not in (tmp_path / "r.jsonl").read_text() + done.stdout + done.stderr
    assert lab.refused == lab.memory.faults == []


def checks_in(printed: str) -> dict[str, Any]:
    """The lines that the doctor prints, by the names of its checks."""
    told = map(json.loads, printed.splitlines())
    return {check["name"]: check for check in told if check["type"] == "check"}


@pytest.mark.usefixtures("key")
async def test_the_doctor_tells_what_an_endpoint_can_do() -> None:
    async with Lab(lambda request: say("unused")) as lab:
        arguments = ("doctor", "--base-url", lab.url, "--model", "lab", "--json")
        done = await asyncio.to_thread(here, *arguments)
        assert done.returncode == 0, done.stderr
        checks = checks_in(done.stdout)
        assert checks["endpoint"]["found"] == f"lab at {lab.url} answers"
        assert checks["tools"]["health"] == checks["usage"]["health"] == "ok"
        lab.on_probe = lambda request: say("I call no tools")
        found = await asyncio.to_thread(check_endpoint, Endpoint("lab", lab.url, KEY))
        (tools,) = [check for check in found if check.name == "tools"]
        assert tools.health == "bad"
        assert "the agent cannot act" in tools.found
        found = await asyncio.to_thread(check_endpoint, Endpoint("lab", lab.url, "sk-wrong"))
    (refused,) = found
    assert (refused.name, refused.health) == ("endpoint", "bad")
    assert "was refused by" in refused.found
    assert "sk-wrong" not in refused.found


@pytest.mark.usefixtures("key")
async def test_the_doctor_speaks_chat_completions() -> None:
    async with ChatLab(ChatPlayer(directions()), key="") as lab:
        arguments = ("doctor", "--api", "chat", "--base-url", lab.url, "--model", "lab", "--json")
        done = await asyncio.to_thread(here, *arguments)
        found = await asyncio.to_thread(check_endpoint, Endpoint("lab", lab.url))
    assert done.returncode == 0, done.stderr
    checks = checks_in(done.stdout)
    assert checks["endpoint"]["found"] == f"lab at {lab.url}/v1 answers"
    assert checks["tools"]["health"] == checks["cache counters"]["health"] == "ok"
    assert "thinking" not in checks
    (wrong,) = found  # such a server does not know the other API's path
    assert (wrong.health, "--api" in wrong.mend) == ("bad", True)


@pytest.mark.usefixtures("key")
def test_the_doctor_tells_an_endpoint_that_cannot_be_asked_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    for words, told in (
        (["--model", "claude"], "no key for claude-opus-5-5"),
        (["--base-url", "ftp://x"], "--base-url: 'ftp://x' is not allowed"),
        (["--model", "sweep"], "is no served model"),
        (["--model", "m", "--api-key-file", "none"], "cannot read the key file"),
    ):
        done = here("doctor", *words)
        assert done.returncode == 2
        assert told in one_line(done.stderr)


def test_the_doctor_warns_of_each_protection_that_is_lacking(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from akg_tui.cli.machine_checks import check_sandbox

    tried = dict.fromkeys(protections.PROTECTIONS, "") | {"netns": "Operation not permitted"}
    monkeypatch.setattr(protections, "offered", lambda: protections.named(tried))
    whole, lacking = check_sandbox()
    assert "netns" not in whole.found
    assert whole.found.startswith(
        f"{len(protections.PROTECTIONS) - 1} of {len(protections.PROTECTIONS)}"
    )
    assert lacking.health == "warn"
    assert "lacks netns (Operation not permitted); with it a kernel has no network" in lacking.found
    assert "--require-sandbox refuses" in lacking.mend


async def test_usage_is_told_by_round_item_and_subagent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    family = Family(Player(directions()), ["a look"])
    async with Lab(family) as lab:
        run = create(tmp_path / "task", lab.url, rounds=2)
        await play(engine(run, lab.url))
    run.close()
    assert main(["usage", str(run.path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["total"]["calls"] == len(lab.requests)
    assert set(told["by_round"]) == {"1", "2"}
    assert set(told["by_item"]) == {"p1", "p2"}
    (child,) = told["by_subagent"].values()
    assert (child["agent"], child["calls"]) == ("subagent", 1)
    assert told["total"]["cost_usd"] is None
    assert (
        sum(r["prompt_tokens"] for r in told["by_round"].values()) == told["total"]["prompt_tokens"]
    )
    assert main(["usage", str(run.path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines[1:]] == [
        "round 1", "round 2", "item p1", "item p2", "s1 subagent", "run",
    ]  # fmt: skip
    assert main(["usage", str(tmp_path)]) == 2
