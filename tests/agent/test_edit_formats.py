"""A run in each edit format: a round goes through, and no edit of another version is taken."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, get_args

import pytest

from akg_tui.agent.tools.executor import ToolExecutor
from akg_tui.core import events as ev
from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.phases import Phase, Verdict
from akg_tui.core.task import Agent, EditFormat
from akg_tui.hashline import Document, Tagger
from akg_tui.hashline.formats import FORMATS, Proposed, Refusal, open_reader
from akg_tui.hashline.formats.str_replace import StrReplace
from benchmarks.edit_formats.writers import CALLS
from benchmarks.lab.player import Player
from benchmarks.lab.replies import Block, call
from benchmarks.lab.runs import check_sound, create, directions, engine, of, play
from benchmarks.lab.server import Lab
from tests.agent.live import held

REPLACE = CALLS["str_replace"]


class TextPlayer(Player):
    """The player without tags: it finds its line in the kernel that it was shown, or sent."""

    sent: ClassVar[dict[str, str]] = {}

    def _act(self, phase: str, texts: str, since: list[Block], body: Mapping[str, Any]) -> Block:
        call_id = f"toolu_{self.calls:05d}"
        if phase != "EDIT":
            return super()._act(phase, texts, since, body)
        shown = [b["text"] for m in body["messages"] for b in m["content"] if b["type"] == "text"]
        kernels = self.sent | dict(
            re.findall(r"stands, sha=(\w+):\n\n(.*)\Z", "\n".join(shown[:1]), re.S)
        )
        for text in shown[1:]:
            kernels.update(re.findall(r"stands, sha=(\w+):\n\n(.*)\Z", text, re.S))
        sha = re.findall(r"sha=(\w+)", texts)[-1]
        active = re.findall(r"^Active item: (p\d+): (.*)$", texts, re.M)[-1][1]
        direction = next(d for text, d in self._planned.items() if active.startswith(text))
        document = Document.from_text(kernels[sha], path="kernel.py")
        at, line = next(
            (i, line) for i, line in enumerate(document.lines) if re.search(direction.line, line)
        )
        new = re.sub(direction.line, direction.to, line)
        result = "\n".join([*document.lines[:at], new, *document.lines[at + 1 :], ""])
        self.sent[KernelFiles({"kernel.py": result}).sha256[:8]] = result
        edit = REPLACE(document, at, at + 1, [new], Tagger(b"-"))
        return call("edit_kernel", {**edit, "note": direction.text}, call_id)


def test_core_names_the_formats_that_there_are() -> None:
    assert get_args(EditFormat) == FORMATS
    assert Agent(edit_format="str_replace").edits_in == "hashline"  # the sweep agent reads tags
    assert Agent(model="m", edit_format="str_replace").edits_in == "str_replace"
    assert Agent(model="m", edit_format="apply_patch").edits_in == "hashline"  # of old


async def test_a_model_completes_rounds_by_search_and_replace(tmp_path: Path) -> None:
    async with Lab(TextPlayer(directions())) as lab:
        agent = Agent(model="lab", base_url=lab.url, edit_format="str_replace")
        run = create(tmp_path / "task", lab.url, rounds=4, agent=agent)
        work = engine(run, lab.url)
        await play(work)
    assert run.state.ok
    assert run.state.count(Verdict.KEEP) == 2
    assert run.state.best is not None
    assert 'SPEED = "C"' in work.kernel(run.state.best.blob).text
    assert lab.refused == lab.memory.faults == []
    edits = [e for e in of(run, ev.ToolAnswered) if e.tool == "edit_kernel"]
    assert [e.status for e in edits] == ["success"] * 4
    assert [e.added for e in of(run, ev.KernelEdited)] == [1] * 4
    (tool,) = [t for t in lab.requests[0].body["tools"] if t["name"] == "edit_kernel"]
    assert list(tool["input_schema"]["properties"]) == ["old", "new", "note", "item"]
    first = lab.requests[0].body
    assert "tag on every line" not in str(first["system"])
    assert not re.search(r"^\d+[a-z]{2,}\|", str(first["messages"][0]["content"][0]["text"]), re.M)
    check_sound(run)


@pytest.mark.parametrize("form", FORMATS)
async def test_an_edit_before_any_look_is_refused(tmp_path: Path, form: EditFormat) -> None:
    who = Agent(model="m", edit_format=form)
    async with held(tmp_path, hold=Phase.PLAN, agent=who) as live:
        document = Document.from_text(live.kernel(live.state.work_blob).text, path="kernel.py")
        edit = CALLS[form](document, 0, 1, ["SPEED = 9"], Tagger(b"another key"))
        before = live.state.work_blob
        result = ToolExecutor(live).kernel.edit(edit, "").result
        assert result.status == "error"
        assert "read the file first" in result.error_information
        assert live.state.work_blob == before


def test_an_edit_of_another_version_is_refused_with_the_new_one() -> None:
    """Search and replace would place it; that the file is another one is known all the same."""
    top = "a = 1\nb = 2\nc = 3\nd = 4\ne = 5\nf = 6\n"
    old = Document.from_text(top + "g = 7\n", path="k.py")
    new = Document.from_text(top + "g = 8\n", path="k.py", revision=1)
    edit = REPLACE(old, 1, 2, ["b = 7"], Tagger(b"-"))
    reader = StrReplace()
    assert isinstance(reader.apply(new, edit), Document)
    reader.render(old)
    refused = reader.propose(new, edit)
    assert isinstance(refused, Refusal)
    assert "g = 8" in refused.message
    again = reader.propose(new, edit)  # it was shown now
    assert isinstance(again, Proposed)
    assert (again.document.lines[1], again.added, again.removed) == ("b = 7", 1, 1)


def test_hashline_refuses_an_edit_of_another_version_as_well() -> None:
    old = Document.from_text("a = 1\nb = 2\n", path="k.py")
    new = Document.from_text("a = 1\nb = 3\n", path="k.py", revision=1)
    tagger = Tagger(b"k")
    reader = open_reader("hashline", tagger)
    reader.render(old)
    refused = reader.propose(new, CALLS["hashline"](old, 1, 2, ["b = 7"], tagger))
    assert isinstance(refused, Refusal)
    assert "b = 3" in refused.message


def test_a_proposal_that_is_not_accepted_changes_nothing() -> None:
    document = Document.from_text("a = 1\nb = 2\n", path="k.py")
    reader = StrReplace()
    reader.assume_shown(document)
    edit = REPLACE(document, 1, 2, ["b = 7"], Tagger(b"-"))
    assert isinstance(reader.propose(document, edit), Proposed)
    second = reader.propose(document, edit)
    assert isinstance(second, Proposed)
    second.accept()
    assert isinstance(reader.propose(document, edit), Refusal)
    reader.assume_shown(document)
    refused = reader.propose(document, {"old": "a = 1", "new": "a = 1"})
    assert isinstance(refused, Refusal)
    assert "changes nothing" in refused.message
