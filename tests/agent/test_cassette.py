"""A run played back from recorded bytes is the same run; another request is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.runs import decisions
from tests.lab.cassette import Cassette, Recorder
from tests.lab.player import Player
from tests.lab.runs import Held, create, directions, engine, play
from tests.lab.server import Lab


async def recorded(folder: Path) -> tuple[Path, list[tuple[object, ...]]]:
    tape = folder / "tape.jsonl"
    async with Lab(Recorder(Player(directions()), tape)) as lab:
        run = create(folder / "recorded", lab.url, rounds=3)
        await play(engine(run, lab.url))
    return tape, decisions(run)


async def test_a_tape_played_back_gives_the_same_decisions(tmp_path: Path) -> None:
    tape, expected = await recorded(tmp_path)
    cassette = Cassette(tape)
    async with Lab(cassette) as lab:
        run = create(tmp_path / "played", lab.url, rounds=3)
        await play(engine(run, lab.url))
    assert decisions(run) == expected
    assert cassette.wrong == []
    assert cassette.left == 0


async def test_a_request_that_differs_in_a_word_is_not_answered(tmp_path: Path) -> None:
    tape, _ = await recorded(tmp_path)
    cassette = Cassette(tape)
    async with Lab(cassette) as lab:
        run = create(tmp_path / "played", lab.url, rounds=4)  # the prompt says how many rounds
        with pytest.raises(Held, match="request 1 is not the recorded one"):
            await play(engine(run, lab.url))
    assert cassette.wrong == ["request 1 is not the recorded one"]
