"""A competent model, played from the request alone: it plans, edits by tag, and diagnoses.

It reads what any model is sent and answers with the tools it was told of. A direction
says which line of the kernel it changes, and into what.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.lab.replies import Block, Reply, call, message
from benchmarks.lab.server import Request

_PHASE = re.compile(r"^Phase (\w+)\.", re.M)
_ACTIVE = re.compile(r"^Active item: (p\d+): (.*)$", re.M)
_AGAIN = re.compile(r"the one shown above with sha=(\w+)")
_REVISION = re.compile(r"^@\S+ r(\d+) sha=", re.M)
_LINE = re.compile(r"^(\d+[a-z]+)\|(.*)$", re.M)


@dataclass(frozen=True)
class Direction:
    """One thing to try: the first line that `line` matches becomes `to` (`re.sub`)."""

    text: str
    line: str
    to: str
    why: str = "the kernel spends its time there, by the figures so far"


@dataclass
class Player:
    """Answers as a model would; `thinks` puts a signed thought before every reply.

    `kernels` are what it writes in WRITE, one whole text a try.
    """

    directions: Iterator[Direction]
    kernels: Iterator[str] = field(default_factory=lambda: iter(()))
    batch: int = 3
    thinks: bool = False
    calls: int = 0
    last: list[Block] = field(default_factory=list)
    _planned: dict[str, Direction] = field(default_factory=dict)

    def __call__(self, request: Request) -> Reply:
        self.calls += 1
        blocks = self.last = self.play(request.body)
        return message(blocks, message_id=f"msg_{self.calls}", usage=request.usage)

    def know(self, planned: Iterable[Direction]) -> None:
        """Directions that somebody else planned."""
        self._planned.update({direction.text: direction for direction in planned})

    def play(self, body: Mapping[str, Any]) -> list[Block]:
        """The blocks of the reply to a request."""
        texts, since = _newest(body)
        phase = _PHASE.findall(texts)[-1]
        said: list[Block] = []
        if self.thinks:
            thought = f"In {phase} I weigh what is known, for the {self.calls}th time."
            said.append({"type": "thinking", "thinking": thought, "signature": f"sig{self.calls}"})
        said.append({"type": "text", "text": f"{phase}: next step."})
        return [*said, self._act(phase, texts, since, body)]

    def _act(self, phase: str, texts: str, since: list[Block], body: Mapping[str, Any]) -> Block:
        call_id = f"toolu_{self.calls:05d}"
        if phase == "DIAGNOSE":
            report = {
                "cause": "the last attempts all gave wrong values",
                "avoid": ["what gave wrong values"],
                "directions": ["go back to what was correct"],
            }
            return call("report_diagnosis", report, call_id)
        if phase == "PLAN":
            chosen = list(itertools.islice(self.directions, self.batch))
            if not chosen:
                return call("finish", {"reason": "no direction is left"}, call_id)
            self.know(chosen)
            items = [{"text": d.text, "rationale": d.why} for d in chosen]
            return call("submit_plan", {"items": items, "summary": "next"}, call_id)
        again = _AGAIN.search(texts)
        least = 1 if phase == "WRITE" else 4
        view = _view(since, least=least) or (
            _view(_all_blocks(body), f"sha={again[1]}", least) if again else ""
        )
        if not view:
            return call("read_kernel", {}, call_id)
        if phase == "WRITE":
            return self._write(view, call_id)
        return self._edit(view, _ACTIVE.findall(texts)[-1][1], call_id)

    def _write(self, view: str, call_id: str) -> Block:
        """Replace the whole kernel by the next one; without one, say that it cannot be done."""
        kernel = next(self.kernels, None)
        if kernel is None:
            why = {"kind": "other", "reason": "I know no further way to write this kernel"}
            return call("report_blocked", why, call_id)
        anchors = [anchor for anchor, _ in _LINE.findall(view)]
        lines = kernel.rstrip("\n").split("\n")
        op = {"op": "replace", "from": anchors[0], "to": anchors[-1], "lines": lines}
        return call("edit_kernel", {"ops": [op], "note": "the whole kernel"}, call_id)

    def _edit(self, view: str, active: str, call_id: str) -> Block:
        direction = next(d for text, d in self._planned.items() if active.startswith(text))
        for anchor, line in _LINE.findall(view):
            if re.search(direction.line, line):
                changed = re.sub(direction.line, direction.to, line)
                op = {"op": "replace", "from": anchor, "to": anchor, "lines": [changed]}
                # The tags of two revisions can be equal.
                rev = {"rev": int(seen[1])} if (seen := _REVISION.search(view)) else {}
                sent = {"ops": [op], "note": direction.text, **rev}
                return call("edit_kernel", sent, call_id)
        raise AssertionError(f"no line matches {direction.line} in\n{view}")


def _newest(body: Mapping[str, Any]) -> tuple[str, list[Block]]:
    """All text of the visit under way, and the blocks that came since it began."""
    blocks = _all_blocks(body)
    start = max(
        i
        for i, b in enumerate(blocks)
        if b["type"] == "text" and _PHASE.search(b["text"]) and "is not done" not in b["text"][:120]
    )
    texts = "\n".join(b["text"] for b in blocks[start:] if b["type"] == "text")
    return texts, blocks[start:]


def _all_blocks(body: Mapping[str, Any]) -> list[Block]:
    return [b for m in body["messages"] for b in m["content"]]


def _view(blocks: list[Block], sha: str = "", least: int = 4) -> str:
    """The newest tagged kernel among the blocks, or the newest with this in its header.

    Shorter texts than `least` lines are something else.
    """
    for block in reversed(blocks):
        text = block.get("content") if block["type"] == "tool_result" else block.get("text")
        shows = isinstance(text, str) and sha in text and len(_LINE.findall(text)) >= least
        if shows and not block.get("is_error"):
            return str(text)
    return ""
