"""A competent model that also starts subagents, and plays them: by the request alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from benchmarks.lab.player import Player
from benchmarks.lab.replies import Block, Reply, call, message
from benchmarks.lab.server import Request

Child = Callable[[str, int], list[Block]]
"""The blocks of a subagent's reply, by its prompt and the number of its replies before."""


def is_child(request: Request) -> bool:
    return str(request.body["system"][0]["text"]).startswith("You are a subagent")


def prompt_of(request: Request) -> str:
    return str(request.body["messages"][0]["content"][0]["text"])


def says(text: str) -> list[Block]:
    return [{"type": "text", "text": text}]


@dataclass
class Family:
    """The player's first reply starts a subagent for each of `errands`, in one reply.

    `blocks` are other calls of that reply, before them. `meet` makes every subagent wait
    with its first reply until so many of them have asked.
    """

    parent: Player
    errands: Iterable[str] = ()
    child: Child = lambda prompt, turn: says(f"answer to {prompt}")
    blocks: tuple[Block, ...] = ()
    meet: int = 0
    together: int = 0
    children: list[Request] = field(default_factory=list)
    _open: set[str] = field(default_factory=set)
    _met: asyncio.Event = field(default_factory=asyncio.Event)
    _sent: bool = False
    _asked: int = 0

    async def __call__(self, request: Request) -> Reply:
        self._asked += 1  # the server counts the replies like this, and names them by it
        if is_child(request):
            return await self._child(request, f"msg_{self._asked}")
        self.parent.calls = self._asked - 1
        if self._sent:
            return self.parent(request)
        self._sent = True
        calls = [call("task", {"prompt": p}, f"toolu_t{n}") for n, p in enumerate(self.errands)]
        return message([*self.blocks, *calls], message_id=f"msg_{self._asked}", usage=request.usage)

    async def _child(self, request: Request, message_id: str) -> Reply:
        self.children.append(request)
        prompt = prompt_of(request)
        turn = sum(m["role"] == "assistant" for m in request.body["messages"])
        if not turn:
            self._open.add(prompt)
            self.together = max(self.together, len(self._open))
            if len(self._open) >= self.meet:
                self._met.set()
            await self._met.wait()
        blocks = self.child(prompt, turn)
        if not any(block["type"] == "tool_use" for block in blocks):
            self._open.discard(prompt)
        return message(blocks, message_id=message_id, usage=request.usage)
