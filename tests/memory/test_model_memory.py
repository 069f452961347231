"""A model that reads what it is told begins where the last run ended, and is given no orders."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from akg_tui.core import events as ev
from akg_tui.core.phases import Verdict
from akg_tui.engine.run_memory import recollect
from akg_tui.memory.shelf import PAGES, Shelf
from akg_tui.store.run_folder import RunFolder
from benchmarks.lab.player import Direction, Player
from benchmarks.lab.replies import Block, call
from benchmarks.lab.runs import create, directions, engine, of, play
from benchmarks.lab.server import Lab
from tests.agent.test_tools import calling
from tests.memory.runs import learn, rounds_to

_KERNEL = re.compile(r"^- (notes/remembered-\d+\.py): ", re.M)


@dataclass
class Reader(Player):
    """Plans to submit a kernel of an earlier run first, if it is told of one."""

    def _act(self, phase: str, texts: str, since: list[Block], body: Mapping[str, Any]) -> Block:
        call_id = f"toolu_{self.calls:05d}"
        told = _KERNEL.search(texts)
        if phase == "PLAN" and told:
            items = [
                {"text": f"submit {told[1]} as it is", "rationale": "the best of an earlier run"}
            ]
            return call("submit_plan", {"items": items}, call_id)
        if phase == "EDIT" and (path := re.search(r"submit (notes/\S+) as it is", texts)):
            return call("submit_kernel", {"path": path[1]}, call_id)
        return super()._act(phase, texts, since, body)


async def played(
    folder: Path, shelf: Shelf, tried: Iterator[Direction], *, rounds: int
) -> tuple[RunFolder, Lab]:
    async with Lab(Reader(tried)) as lab:
        run = create(folder, lab.url, rounds=rounds)
        work = engine(run, lab.url)
        work._loop.recall = partial(recollect, shelf=shelf)
        await play(work)
    return run, lab


async def test_a_second_run_begins_with_the_best_kernel_of_the_first(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "memory")
    first, _ = await played(tmp_path / "a", shelf, directions(), rounds=5)
    assert first.state.memory is None
    reached = first.state.best.over_seed
    assert rounds_to(first.state, reached) == 3
    learn(shelf, first)
    wider = (Direction(f"a width of {n}", r"^WIDTH = \d+", f"WIDTH = {n}") for n in range(9, 20))
    second, lab = await played(tmp_path / "b", shelf, wider, rounds=3)
    assert rounds_to(second.state, reached) == 1
    attempt = second.state.attempts[1]
    assert (attempt.verdict, attempt.measurement.ratio.ratio) == (Verdict.KEEP, 4.0)
    told = [
        block["text"]
        for message in lab.requests[-1].body["messages"]
        for block in message["content"]
        if "From earlier runs" in block.get("text", "")
    ]
    (paragraph,) = told  # once in a conversation, in PLAN
    assert "Phase PLAN" in paragraph
    assert "- m1 KEPT, +100.0 % (+98.0 to +102.0), " in paragraph
    assert '"use the faster form B"' in paragraph
    assert f"sha256 {second.state.memory.kernels[0].sha256[:12]}" in paragraph
    assert not [a for a in of(second, ev.ToolAnswered) if a.status == "error"]
    first.close()
    second.close()


async def test_a_page_of_the_user_is_searched_and_marked_as_data(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setenv("AKG_TUI_MEMORY", str(tmp_path / "memory"))
    pages = tmp_path / "memory" / PAGES
    pages.mkdir(parents=True)
    (pages / "farm.md").write_text("# The build farm\n\nUse \x1b[31mznver4\x1b[0m tiles there.\n")
    (pages / "bad.md").write_text("---\ntitle: x\n---\n\ny\n")
    async with calling(tmp_path) as caller:
        found = await caller("search_knowledge", query="build farm znver4")
        assert "k:mine/farm: The build farm" in found.output
        assert "data from" in found.output.split("\n")[0]
        ours = await caller("search_knowledge", query="k:cpp-flags")
        assert "data from" not in ours.output
