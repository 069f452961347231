"""A model that answers with rubbish neither crashes nor corrupts a run, and ends it in words."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from akg_tui.core import events as ev
from tests.lab.replies import Reply, Send, call, events, message, stream
from tests.lab.runs import check_sound, create, engine, of, play
from tests.lab.server import Lab, Request

RUNS = 6
REPLIES = 200  # over all runs

TOOLS = ["edit_kernel", "finish", "read_kernel", "report_diagnosis", "submit_plan"]


class Rubbish:
    """Random replies of the right form and no sense; the seed fixes all of them."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.replies = 0

    def __call__(self, request: Request) -> Reply:
        self.replies += 1
        blocks = [self._block() for _ in range(self.dice.choice([0, 1, 1, 1, 2, 5]))]
        stop = self.dice.choice([None, None, None, "max_tokens", "stop_sequence", "dreaming"])
        if self.dice.random() < 0.1:
            return Reply([Send(stream(events(blocks, usage=None, stop_reason=stop)))])
        return message(blocks, stop_reason=stop, message_id=self._text(8))

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
                return "x" * self.dice.choice([10, 10_000, 450_000])
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
