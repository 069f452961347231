"""`bench agents`: two agents paired over tasks and seeds, each with a configuration."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from akg_tui import cli
from benchmarks.lab.player import Direction, Player
from benchmarks.lab.replies import Reply
from benchmarks.lab.runs import KEY, directions
from benchmarks.lab.server import Request, served
from tests.suite.fake_suite import patched, tasks_in

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
    assert [pair["a"]["task"] for pair in found["pairs"]] == [
        f"task{task}{seed}" for task in range(4) for seed in ("", "-seed1")
    ]
    assert {pair["a"]["gain"] for pair in found["pairs"]} == {0.0}
    # The fake judge measures 4.00 with a lower bound of 0.99 of it.
    assert found["pairs"][0]["b"]["gain"] == pytest.approx(1.985, abs=0.001)
    tokens, hours = found["rates"]  # the lab's model has no price
    assert (tokens["per"], hours["per"]) == ("million tokens", "hour")
    gains = sum(pair["b"]["gain"] for pair in found["pairs"])
    spent = sum(pair["b"]["tokens"] for pair in found["pairs"])
    assert tokens["b"] == pytest.approx(gains / spent * 1e6)
    assert tokens["shown"]
    assert 0 < tokens["low"] <= tokens["b"] - tokens["a"] <= tokens["high"]
    assert "gain per hour" in (tmp_path / "out/comparison.md").read_text()


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
    ):
        path.write_text(text)
        words = ["bench", "agents", str(tmp_path / "tasks"), "--out", str(tmp_path / "o")]
        assert cli.main([*words, "--a", str(path), "--b", "sweep"]) == 2
        assert fault in capsys.readouterr().err
    assert not (tmp_path / "o").exists()
