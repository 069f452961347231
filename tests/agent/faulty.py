"""A competent model whose server fails, and a run against it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from akg_tui.core.task import Agent, Api
from akg_tui.store.run_folder import RunFolder
from benchmarks.lab.chat import ChatLab
from benchmarks.lab.player import Player
from benchmarks.lab.replies import Reply, call
from benchmarks.lab.runs import check_sound, create, directions, engine, play
from benchmarks.lab.server import Lab, Request

PLAN = list(itertools.islice(directions(), 3))
SUBMIT = call(
    "submit_plan",
    {"items": [{"text": each.text, "rationale": each.why} for each in PLAN]},
    "toolu_cut",
)


class Faulty:
    """A player whose server fails from its second call on, once for each reply given.

    The first reply plans, the second edits.
    """

    def __init__(self, player: Player, *replies: Reply, at: int = 2) -> None:
        self.player = player
        self.player.know(PLAN)
        self.left = list(replies)
        self.at = at
        self.calls = 0

    def __call__(self, request: Request) -> Reply:
        self.calls += 1
        if self.calls >= self.at and self.left:
            return self.left.pop(0)
        return self.player(request)


async def played(
    folder: Path, script: Callable[[Request], Reply], api: Api = "messages", **how: Any
) -> tuple[RunFolder, Lab]:
    """A run of one round against the script, to its end; its journal is sound."""
    async with (ChatLab if api == "chat" else Lab)(script) as lab:
        agent = Agent(model="lab", base_url=lab.url, api=api)
        run = create(folder, lab.url, rounds=1, agent=agent)
        try:
            await play(engine(run, lab.url, **how))
        finally:
            check_sound(run)
    return run, lab
