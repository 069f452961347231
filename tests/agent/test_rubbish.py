"""A model that answers with rubbish neither crashes nor corrupts a run, and ends it in words."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from akg_tui.core import events as ev
from benchmarks.lab.player import Player
from benchmarks.lab.replies import Reply, Send, call, events, message, stream
from benchmarks.lab.runs import check_sound, create, directions, engine, of, play
from benchmarks.lab.server import Lab, Request

REPLIES = 100
HUGE = 70_000  # more than is journaled, and few enough events for 100 replies

TOOLS = ["edit_kernel", "finish", "read_kernel", "report_diagnosis", "submit_plan"]


class Rubbish:
    """Random replies of the right form and no sense; the seed fixes all of them.

    While fewer than `REPLIES` of them came, every twelfth reply makes sense: a run that makes no
    progress ends after three visits, but rubbish is to meet this one in every phase.
    """

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.replies = self.asked = 0
        self.player = Player(directions())

    def __call__(self, request: Request) -> Reply:
        self.asked += 1
        if self.asked % 12 == 0 and self.replies < REPLIES:
            self.player.calls = self.asked
            return self.player(request)
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
                return "x" * self.dice.choice([10, 10_000, HUGE])
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


async def test_100_calls_of_rubbish_in_one_run_spoil_nothing_of_its_work(tmp_path: Path) -> None:
    rubbish = Rubbish(7)
    async with Lab(rubbish) as lab:
        run = create(tmp_path / "task", lab.url, rounds=50)
        await play(engine(run, lab.url, budget=20_000))  # what grew huge is left behind
    assert rubbish.replies >= REPLIES
    assert lab.refused == lab.memory.faults == []
    assert run.state.finished.startswith("the agent made no progress in 3 visits: no result")
    assert run.state.finished.isprintable()
    assert run.state.settled >= 3
    assert run.state.best is not None
    kept = run.history.read_kernel(run.state.best.blob).text
    assert 'SPEED = "C"' in kept, "what made sense was kept"
    assert len(of(run, ev.ModelReplied)) == rubbish.asked
    check_sound(run)
