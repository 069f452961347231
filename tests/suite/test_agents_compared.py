"""`bench agents`: two agents paired over tasks and seeds; replies recorded and replayed."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from msgspec.structs import replace

from akg_tui import cli
from akg_tui.agent.chat import (
    AssistantMessage,
    ChatReply,
    ChatRequest,
    ModelUnusable,
    ToolMessage,
    ToolResult,
    ToolSpec,
    ToolUse,
    UserMessage,
)
from akg_tui.agent.models.recorded import Tape, TapeWriter
from akg_tui.core import events as ev
from akg_tui.core.task import Agent
from akg_tui.store.run_at_rest import RunAtRest
from akg_tui.suite.suite_record import Suite
from akg_tui.suite.suite_results import TaskResult, _task_result, together
from benchmarks.agents.equal_agents import served
from benchmarks.lab.player import Direction, Player
from benchmarks.lab.replies import Reply
from benchmarks.lab.runs import KEY, directions
from benchmarks.lab.server import Request
from tests.engine.fake_judge import COST
from tests.suite.fake_suite import patched, tasks_in

ROOT = Path(__file__).parents[2]
BOLD = "Try the fastest form."


class Student:
    """A model that tries what helps if its instructions say so, and else what does not."""

    def __init__(self) -> None:
        self._player = Player(directions())

    def __call__(self, request: Request) -> Reply:
        said = str(request.body["messages"])
        if len(request.body["messages"]) == 1 and "Rounds settled: 0" in said:  # a new run
            bold = BOLD in request.body["system"][0]["text"]
            self._player = Player(directions() if bold else timid())
        return self._player(request)


def timid() -> Iterator[Direction]:
    for number in itertools.count(2):
        yield Direction(f"a wider line of {number}", r"^WIDTH = \d+", f"WIDTH = {number}")


@pytest.fixture(autouse=True)
def _without_judge(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    async def unknown(threads: int, known: object) -> None:
        """Stand in for the description of this machine, which takes a compiler a second."""

    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setattr("akg_tui.agent.machine.describe", unknown)
    with contextlib.ExitStack() as patches:
        for patch in patched():
            patches.enter_context(patch)
        yield


Told = tuple[int, list[dict[str, Any]]]


def bench(capsys: pytest.CaptureFixture[str], folder: Path, *more: object) -> Told:
    """Run `bench agents` on the tasks in a folder; return its exit code and its lines."""
    words = ("bench", "agents", folder / "tasks", "--max-rounds", 3, "--json", *more)
    code = cli.main([*map(str, words)])
    return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def agent(path: Path, url: str, **settings: object) -> Path:
    """Write a configuration."""
    stated = {"model": "lab", "base_url": url, **settings}
    lines = [f"{name} = {json.dumps(value)}" for name, value in stated.items()]
    path.write_text("\n".join(["[agent]", *lines, ""]))
    return path


def edits_and_verdicts(folder: Path, agent: str) -> list[Any]:
    suite = Suite(folder)
    return [
        (event.round, event.verdict, event.blob)
        for entry in suite.entries
        if entry.agent == agent
        for event in (record.event for record in RunAtRest(suite.run_folder(entry)).records)
        if isinstance(event, ev.Decided)
    ]


def test_the_better_of_two_agents_is_shown_and_none_always_comes_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks_in(tmp_path / "tasks", 4)
    with served(Student()) as lab:
        a = agent(tmp_path / "timid.toml", lab.url)
        b = agent(tmp_path / "bold.toml", lab.url, instructions=BOLD)
        code, lines = bench(
            capsys, tmp_path, "--a", a, "--b", b, "--seeds", 2, "--out", tmp_path / "out"
        )
    assert code == 0
    began = [line["agent"] for line in lines[:-1] if line["state"] == "running"]
    assert " ".join(began) == (
        "timid bold bold timid bold timid timid bold timid bold bold timid bold timid timid bold"
    )
    found = lines[-1]
    assert found["type"] == "suite_comparison"
    assert [pair["task"] for pair in found["pairs"]] == [
        f"task{task}{seed}" for task in range(4) for seed in ("", "-seed1")
    ]
    assert {pair["a_gain"] for pair in found["pairs"]} == {0.0}
    # The fake judge measures 4.00 with a lower bound of 0.99 of it.
    assert found["pairs"][0]["b_gain"] == pytest.approx(1.985, abs=0.001)
    tokens, hours = found["rates"]  # the lab's model has no price
    assert (tokens["per"], hours["per"]) == ("million tokens", "hour")
    gains = sum(pair["b_gain"] for pair in found["pairs"])
    spent = sum(pair["b_tokens"] for pair in found["pairs"])
    assert tokens["b"] == pytest.approx(gains / spent * 1e6)
    assert tokens["p"] == pytest.approx(2 / 2**8), "every pair has the same sign"
    assert tokens["shown"]
    assert 0 < tokens["low"] <= tokens["difference"] <= tokens["high"]
    assert "gain per hour" in (tmp_path / "out/comparison.md").read_text()


def test_of_runs_in_parallel_the_best_counts_and_the_cost_of_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks_in(tmp_path / "tasks", 2)
    for name, parallel in (("one", ""), ("three", "parallel = 3\n")):
        (tmp_path / f"{name}.toml").write_text(f'{parallel}[agent]\nmodel = "sweep"\n')
    words = ("--a", tmp_path / "one.toml", "--b", tmp_path / "three.toml")
    code, lines = bench(capsys, tmp_path, *words, "--seeds", 2, "--out", tmp_path / "out")
    assert code == 0
    found, suite = lines[-1], Suite(tmp_path / "out")
    seeds = {name: [e.seed for e in suite.entries if e.agent == name] for name in ("one", "three")}
    # No two runs of a task have one seed, and the first of the three has that of the other agent.
    assert seeds == {"one": [0, 1] * 2, "three": [0, 2, 4, 1, 3, 5] * 2}
    assert [pair["task"] for pair in found["pairs"]] == [
        "task0", "task0-seed1", "task1", "task1-seed1"
    ]  # fmt: skip
    each = [_task_result(suite, entry) for entry in suite.entries if entry.agent == "three"]
    for number, pair in enumerate(found["pairs"]):
        of_it = each[3 * number : 3 * number + 3]
        assert pair["b_gain"] == max(result.gain for result in of_it)
        assert pair["b_s"] == pytest.approx(sum(result.worked_s for result in of_it))
    kinds = [rate["per"] for rate in found["rates"]]
    assert kinds == ["hour", "hour, runs on separate machines"]  # a search has no tokens
    in_turn, apart = found["rates"]
    assert in_turn["a"] == apart["a"]
    assert in_turn["b"] < apart["b"]
    assert found["notes"][0].startswith("B has 3 runs of each task, of which the best counts")
    again = cli.main(["suite", "compare", f"{tmp_path}/out:one", f"{tmp_path}/out:three"])
    assert again == 0
    assert "runs on separate machines" in capsys.readouterr().out


def test_parallel_runs_have_ended_when_all_have_and_a_price_that_lacks_is_told() -> None:
    best = TaskResult(task="t-seed1", agent="b", state="correct", gain=2.0, tokens=5, run="r",
                      worked_s=3.0, cost_usd=1.0, verdicts={"KEEP": 1}, rounds=2)  # fmt: skip
    failed = replace(best, state="failed", gain=0.0, tokens=7, worked_s=4.0, verdicts={"KEEP": 0})
    told = together("t", (failed, best))
    assert (told.task, told.state, told.gain, told.runs) == ("t", "correct", 2.0, 2)
    assert (told.tokens, told.worked_s, told.longest_s, told.cost_usd) == (12, 7.0, 4.0, 2.0)
    assert (told.rounds, told.verdicts) == (4, {"KEEP": 1})
    assert together("t", (best, replace(failed, cost_usd=None))).cost_usd is None
    assert together("t", (best, replace(failed, state="open"))).state == "open"
    assert together("t", (failed, failed)).state == "failed"


def test_recorded_replies_are_replayed_without_a_server_or_a_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks_in(tmp_path / "tasks", 1)
    tapes = tmp_path / "tapes"
    with served(Student()) as lab:
        a = agent(tmp_path / "timid.toml", lab.url)
        b = agent(tmp_path / "bold.toml", lab.url, instructions=BOLD)
        both = ("--a", a, "--b", b)
        code, (*_, first) = bench(
            capsys, tmp_path, *both, "--record", tapes, "--out", tmp_path / "1"
        )
        assert code == 0
    assert KEY not in (tapes / "bold/task0.jsonl").read_text()

    monkeypatch.delenv("ANTHROPIC_API_KEY")
    code, (*_, again) = bench(capsys, tmp_path, *both, "--replay", tapes, "--out", tmp_path / "2")
    assert code == 0
    assert edits_and_verdicts(tmp_path / "2", "bold") == edits_and_verdicts(tmp_path / "1", "bold")
    assert len(edits_and_verdicts(tmp_path / "2", "timid")) == 3
    same = ("a_gain", "b_gain", "a_tokens", "b_tokens")
    assert [again["pairs"][0][name] for name in same] == [first["pairs"][0][name] for name in same]

    # A against itself, on the same candidates.
    twice = ("--a", b, "--b", b, "--replay", tapes, "--out", tmp_path / "3")
    code, (*_, equal) = bench(capsys, tmp_path, *twice)
    assert code == 0
    assert (equal["a"], equal["b"]) == ("3:bold", "3:bold-b")
    assert equal["rates"][0]["difference"] == 0
    assert not any(rate["shown"] for rate in equal["rates"])

    # A measurement that ends otherwise, and a prompt that says otherwise, are told.
    with mock.patch.dict(COST, B=8.0):
        code, lines = bench(capsys, tmp_path, *both, "--replay", tapes, "--out", tmp_path / "4")
    assert code == 1
    whys = {line["agent"]: line["what"] for line in lines[:-1] if line["state"] == "given up"}
    assert set(whys) == {"bold"}
    assert "bold/task0.jsonl at messages[" in whys["bold"]
    assert "DISCARD" in whys["bold"]
    assert lines[-1]["left_out"] == 1
    assert lines[-1]["notes"][0].startswith("left out: B, task0: ")
    agent(b, lab.url, instructions=f"{BOLD} And be quick.")
    _, lines = bench(capsys, tmp_path, *both, "--replay", tapes, "--out", tmp_path / "5")
    (why,) = [line["what"] for line in lines[:-1] if line["state"] == "given up"]
    assert f"request 1 parts from {tapes}/bold/task0.jsonl at system: it says " in why
    assert "And be quick." in why


def test_a_search_is_recorded_too_and_no_run_knows_what_another_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AKG_TUI_MEMORY", str(tmp_path / "memory"))
    tasks_in(tmp_path / "tasks", 1)
    one = tmp_path / "one.toml"
    one.write_text('[agent]\nmodel = "sweep"\nseed = 5\n')
    both = ("--a", one, "--b", "sweep")
    bench(capsys, tmp_path, *both, "--record", tmp_path / "tapes", "--out", tmp_path / "1")
    with mock.patch("akg_tui.agent.models.sweep.Sweep.complete") as searched:
        code, _ = bench(
            capsys, tmp_path, *both, "--replay", tmp_path / "tapes", "--out", tmp_path / "2"
        )
    assert (code, searched.called) == (0, False)
    assert not (tmp_path / "memory").exists()
    for name in ("one", "sweep"):
        made = edits_and_verdicts(tmp_path / "1", name)
        assert made
        assert edits_and_verdicts(tmp_path / "2", name) == made


def test_a_configuration_brings_its_files_and_the_other_does_not_see_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks_in(tmp_path / "tasks", 1)
    (tmp_path / "own.py").write_text(
        'def rows_of(text: str) -> str:\n    """Count the lines of a text."""\n    return "1"\n'
    )
    with served(Student()) as lab:
        a = agent(tmp_path / "bare.toml", lab.url)
        b = agent(tmp_path / "tooled.toml", lab.url, functions="own.py")
        out = tmp_path / "out"
        assert bench(capsys, tmp_path, "--a", a, "--b", b, "--out", out)[0] == 0
        told = {"rows_of" in str(request.body["tools"]) for request in lab.requests}
    assert told == {True, False}
    assert (out / "tasks/task0-tooled/own.py").is_file()
    assert not (out / "tasks/task0/own.py").exists()


def test_a_configuration_that_cannot_be_used_is_named_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks_in(tmp_path / "tasks", 1)
    path = tmp_path / "x.toml"
    for text, fault in (
        ('[agent]\nmodel = "m"\nmodle = "n"\n', "x.toml:3: agent.modle: is not a known field"),
        ('[agent]\nmodel = "m"\n[policy]\n', "x.toml:3: policy: is not a known field"),
        ('[agent]\nmodel = "m"\nfunctions = "f.py"\n', "agent.functions: "),
        ('parallel = 17\n[agent]\nmodel = "m"\n', "x.toml:1: parallel: 17 is not allowed"),
    ):
        path.write_text(text)
        words = ["bench", "agents", str(tmp_path / "tasks"), "--out", str(tmp_path / "o")]
        assert cli.main([*words, "--a", str(path), "--b", "sweep"]) == 2
        assert fault in capsys.readouterr().err
    assert cli.main([*words, "--a", "m", "--b", "m", "--record", str(tmp_path / "t")]) == 2
    assert "both agents would have their tapes in m" in capsys.readouterr().err
    assert not (tmp_path / "o").exists()


REQUEST = ChatRequest(
    system="Bound 9.34e-06 (the floor of float32 for adding 1536 terms one by one).",
    tools=(ToolSpec("edit_kernel", "Change it.", {"type": "object"}),),
    messages=(
        UserMessage("The seed takes 12.79 ms, 8.31x eager; sha=5c6a9996.\n1ik|x = 1"),
        AssistantMessage("Now.", (ToolUse("u1", "edit_kernel", {"to": "1ik"}),)),
        ToolMessage((("u1", ToolResult.success("OK r1, +139.4 to  +2787.2 | 1234567 |")),)),
    ),
)


def test_requests_are_equal_but_for_what_was_measured(tmp_path: Path) -> None:
    tape, who = tmp_path / "t.jsonl", Agent(model="m")
    writer = TapeWriter(tape)
    for text in ("first", "second"):
        writer.take(who, REQUEST, ChatReply(text=text, output_tokens=3))
    with tape.open("ab") as file:
        file.write(b'{"request": [')  # a kill cut this line off
    opening, said, answered = REQUEST.messages
    other = ChatRequest(
        system="Bound 8e-06 (8 times the effect of one rounding of the inputs).",
        tools=REQUEST.tools,
        messages=(
            UserMessage("The seed takes 9.1 ms, 10.2x eager; sha=5c6a9996.\n1ik|x = 1"),
            AssistantMessage("Now.", (ToolUse("u2", "edit_kernel", {"to": "1ik"}),)),
            ToolMessage((("u2", ToolResult.success("OK r1, -3.5 to +87.2 | 26122c7 |")),)),
        ),
        previous_id="another",
    )
    replayed = Tape(tape)
    assert replayed.reply(who, other) == ChatReply(text="first", output_tokens=3)
    unlike = {
        "model": (replace(who, model="n"), REQUEST),
        "agent.max_output_tokens": (replace(who, max_output_tokens=300), REQUEST),
        "tools.edit_kernel.description": (
            who,
            replace(REQUEST, tools=(ToolSpec("edit_kernel", "Other.", {"type": "object"}),)),
        ),
        "messages[0].user": (
            who,
            replace(REQUEST, messages=(UserMessage("sha=5c6a9997.\n1ik|x = 1"), said, answered)),
        ),
        "messages[1].calls[0]": (
            who,
            replace(
                REQUEST,
                messages=(
                    opening,
                    AssistantMessage("Now.", (ToolUse("u1", "edit_kernel", {"to": "2ik"}),)),
                    answered,
                ),
            ),
        ),
    }
    for place, (asker, request) in unlike.items():
        with pytest.raises(ModelUnusable, match="parts from") as told:
            replayed.reply(asker, request)
        assert f" at {place}: it says " in str(told.value)
    with pytest.raises(ModelUnusable, match="the recorded one goes on"):
        replayed.reply(who, replace(REQUEST, messages=REQUEST.messages[:2]))
    with pytest.raises(ModelUnusable, match="has no such part"):
        replayed.reply(who, replace(REQUEST, messages=(*REQUEST.messages, UserMessage("more"))))
    assert replayed.reply(who, REQUEST).text == "second"
    with pytest.raises(ModelUnusable, match="every recorded reply was given"):
        replayed.reply(who, REQUEST)
    # A tape that goes on after a kill is whole.
    TapeWriter(tape).take(who, REQUEST, ChatReply(text="third"))
    assert [Tape(tape).reply(who, REQUEST).text for _ in range(1)] == ["first"]
    assert len(tape.read_bytes().splitlines()) == 3
