"""A model that answers with rubbish neither crashes nor corrupts a run, and ends it in words."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from akg_tui.core import events as ev
from benchmarks.lab.player import Player
from benchmarks.lab.replies import Reply, Send, call, events, message, stream
from benchmarks.lab.runs import check_sound, create, directions, engine, of, play
from benchmarks.lab.server import Lab, Request

RUNS = 3
REPLIES = 100  # over all runs

TOOLS = ["edit_kernel", "finish", "read_kernel", "report_diagnosis", "submit_plan"]


class Rubbish:
    """Random replies of the right form and no sense; the seed fixes all of them."""

    huge = 450_000

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.replies = 0

    def __call__(self, request: Request) -> Reply:
        self.replies += 1
        blocks = [self._block() for _ in range(self.dice.choice([0, 1, 1, 1, 2, 5]))]
        stop = self.dice.choice([None, None, None, "max_tokens", "stop_sequence", "dreaming"])
        if self.dice.random() < 0.1:
            return Reply([Send(stream(events(blocks, usage=None, stop_reason=stop)))])
        about = {"stop_reason": stop, "message_id": self._text(8)}
        return message(blocks, usage=request.usage, **about)

    def _text(self, most: int) -> str:
        letters = "abc XYZ\n\t\x00\x1b[31m\u202eé✔\U0001f600{}[]<>|`\\\"'"
        return "".join(self.dice.choices(letters, k=self.dice.randrange(most)))

    def _value(self, depth: int = 0) -> Any:
        kind = self.dice.randrange(7 if depth < 4 else 5)
        match kind:
            case 0:
                return self._text(60)
            case 1:
                return self.dice.choice([0, -1, 2**62, 1e308, True, None])
            case 2:
                return "../../etc/passwd"
            case 3:
                return "x" * self.dice.choice([10, 10_000, self.huge])
            case 4:
                return f"{self.dice.randrange(90)}{self._text(3)}"
            case 5:
                return [self._value(depth + 1) for _ in range(self.dice.randrange(4))]
            case _:
                return {self._text(6): self._value(depth + 1) for _ in range(3)}

    def _block(self) -> dict[str, Any]:
        match self.dice.randrange(6):
            case 0:
                return {"type": "text", "text": self._text(2_000)}
            case 1:
                return {"type": self.dice.choice(["noise", "server_tool_use"]), "x": self._text(9)}
            case 2:
                return call(self._text(20), self._value(), self._text(5))
            case 3:
                return call(self.dice.choice(TOOLS), self._text(80), self._text(5))
            case _:
                return call(self.dice.choice(TOOLS), self._arguments(), f"t{self.replies}")

    def _arguments(self) -> dict[str, Any]:
        names = ["ops", "rev", "items", "reason", "cause", "text", self._text(4)]
        chosen = self.dice.sample(names, self.dice.randrange(4))
        given = {name: self._value() for name in chosen}
        given.pop("reason", None)  # to finish with any word at all is a model's good right
        return given


@pytest.mark.parametrize("seed", range(RUNS))
async def test_rubbish_ends_a_run_with_a_reason_and_a_sound_journal(
    tmp_path: Path, seed: int
) -> None:
    rubbish = Rubbish(seed)
    async with Lab(rubbish) as lab:
        run = create(tmp_path / "task", lab.url, rounds=50)
        await play(engine(run, lab.url))
    assert lab.refused == lab.memory.faults == []
    assert rubbish.replies >= REPLIES / RUNS
    assert "no progress" in run.state.finished or "task_plan" in run.state.finished
    assert run.state.best is not None
    assert run.state.best.attempt == 0
    assert len(of(run, ev.ModelReplied)) == rubbish.replies
    assert len(run.state.finished) < 500
    assert run.state.finished.isprintable()
    check_sound(run)


class LuckyRubbish(Rubbish):
    """Rubbish too, but while fewer than `REPLIES` of it came every twelfth reply makes sense.

    A run that makes no progress at all ends after three visits; this one is kept alive for the
    whole length, so that rubbish meets it in every phase and beside real work.
    """

    huge = 70_000  # more than is journaled, and few enough events for 100 replies

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.player = Player(directions())
        self.asked = 0

    def __call__(self, request: Request) -> Reply:
        self.asked += 1
        if self.asked % 12 == 0 and self.replies < REPLIES:
            self.player.calls = self.asked
            return self.player(request)
        return super().__call__(request)


async def test_100_calls_of_rubbish_in_one_run_spoil_nothing_of_its_work(tmp_path: Path) -> None:
    lucky = LuckyRubbish(7)
    async with Lab(lucky) as lab:
        run = create(tmp_path / "task", lab.url, rounds=50)
        await play(engine(run, lab.url, budget=20_000))  # what grew huge is left behind
    assert lucky.replies >= REPLIES
    assert lab.refused == lab.memory.faults == []
    assert run.state.finished.startswith("the agent made no progress in 3 visits: no result")
    assert run.state.finished.isprintable()
    assert run.state.settled >= 3
    assert run.state.best is not None
    kept = run.history.read_kernel(run.state.best.blob).text
    assert 'SPEED = "C"' in kept, "what made sense was kept"
    assert len(of(run, ev.ModelReplied)) == lucky.asked
    check_sound(run)
