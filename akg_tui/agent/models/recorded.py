"""Replies of models, recorded with their requests, and given again to equal requests.

A tape is a file of one JSON object a reply: the request as paths with digests, the texts that no
earlier line has, and the reply. It never holds a key. Two requests are equal if
they tell the model the same, except for numbers and ids of commits, in which two measurements of
one kernel differ. The replay stops at the first request that differs from the tape.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from akg_tui.agent.chat import (
    AssistantMessage,
    ChatModel,
    ChatReply,
    ChatRequest,
    ModelUnusable,
    ReachedModel,
    ServedModel,
    Spent,
    ToolMessage,
    UserMessage,
)
from akg_tui.core.events import EndpointProbed
from akg_tui.core.model_info import Capabilities
from akg_tui.core.sanitize import one_line
from akg_tui.core.task import Agent
from akg_tui.store.errors import RunFolderError, reading, writing

_VARIES = re.compile(
    r"[ \t]*(?:"
    r"\((?:the floor of|\d+ times the effect of)[^)]*\)"  # which of two bounds was the larger
    r"|\b(?:[0-9a-f]{16,}|[0-9a-f]{7})\b"  # a commit, or the check of PLAN.md, which names one
    r"|(?<![\w.])[-+]?\d+(?:[.,]\d+)*(?:e[-+]?\d+)?(?=x?(?!\w))"  # a number
    r")"
)
"""Parts of a text that differ between two measurements, with the spaces that align them.

Tags of lines and `sha=` of a kernel are none of these: they stand for its exact text.
"""

_EXCERPT = 60
_SETTINGS = ("max_output_tokens", "thinking", "thinking_tokens")
"""The settings of an agent that are sent with each request and change its reply."""

_Part = tuple[str, str]
"""The path of a part of a request, and the digest of its text."""


class _Line(Struct, frozen=True):
    request: tuple[_Part, ...]
    texts: dict[str, str]
    reply: ChatReply


class TapeWriter:
    """Appends what the models of one run are asked and answer to a tape."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: set[str] = set()
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists():
                self._known = {digest for line in _read(path) for digest in line.texts}
                whole = path.read_bytes().rfind(b"\n") + 1
                os.truncate(path, whole)  # behind it is what a kill cut off

    def take(self, agent: Agent, request: ChatRequest, reply: ChatReply) -> None:
        """Write down a request with its reply. Raises `StoreError`."""
        texts = _texts(agent, request)
        parts = _parts(texts)
        new = {d: texts[path] for path, d in parts if d not in self._known}
        self._known |= new.keys()
        with writing(self._path), self._path.open("ab") as file:
            file.write(msgspec.json.encode(_Line(parts, new, reply)) + b"\n")


class Tape:
    """The recorded replies of one run, each of which is given once."""

    def __init__(self, path: Path) -> None:
        """Read a tape. Raises `RunFolderError`."""
        self._path = path
        self._asked = 0
        self._texts: dict[str, str] = {}
        self._left: list[_Line] = []
        for line in _read(path):
            self._texts |= line.texts
            self._left.append(line)

    def reply(self, agent: Agent, request: ChatRequest) -> ChatReply:
        """Return the first reply left to a request equal to this one.

        Raises `ModelUnusable`, with the place where the request parts from the tape.
        """
        self._asked += 1
        texts = _texts(agent, request)
        parts = _parts(texts)
        for number, line in enumerate(self._left):
            if line.request == parts:
                del self._left[number]
                return line.reply
        raise ModelUnusable(self._parting(parts, texts))

    def _parting(self, parts: tuple[_Part, ...], texts: dict[str, str]) -> str:
        """Return where a request parts from the recorded one that it shares most with."""
        which = f"request {self._asked} parts from {self._path}"
        if not self._left:
            return f"{which}: every recorded reply was given"
        nearest = max(self._left, key=lambda line: _shared(line.request, parts))
        at = _shared(nearest.request, parts)
        if at == len(parts):
            return f"{which} after {parts[-1][0]}: the recorded one goes on"
        path = parts[at][0]
        if at == len(nearest.request) or nearest.request[at][0] != path:
            return f"{which} at {path}: the recorded one has no such part"
        old, new = _differing(self._texts[nearest.request[at][1]], texts[path])
        return f"{which} at {path}: it says {new!r}, recorded is {old!r}"


class RecordedModel:
    """A `ServedModel` that answers as `model` does, and writes every reply to a tape."""

    def __init__(self, agent: Agent, model: ChatModel, tape: TapeWriter) -> None:
        self._agent = agent
        self._model = model
        self._tape = tape
        self._served = model if isinstance(model, ServedModel) else None

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def unfinished(self) -> Spent | None:
        return self._served.unfinished if self._served else None

    async def prepare(self, known: Capabilities | None) -> EndpointProbed | None:
        """Probe the model's server. Raises `ModelFailed`."""
        return await self._served.prepare(known) if self._served else None

    async def reach(self) -> EndpointProbed | None:
        """Ask the model's server whether it is there. Raises `ModelFailed`."""
        return await self._model.reach() if isinstance(self._model, ReachedModel) else None

    async def complete(self, request: ChatRequest, on_delta: Callable[[str], None]) -> ChatReply:
        """Return the model's reply to `request`, once it is on the tape. Raises `ModelFailed`."""
        reply = await self._model.complete(request, on_delta)
        self._tape.take(self._agent, request, reply)
        return reply

    async def close(self) -> None:
        """Close the sockets."""
        if self._served:
            await self._served.close()


class ReplayedModel:
    """A `ChatModel` that answers from a tape, at once and without a server."""

    def __init__(self, agent: Agent, tape: Tape) -> None:
        self._agent = agent
        self._tape = tape

    @property
    def name(self) -> str:
        return self._agent.model

    async def complete(self, request: ChatRequest, on_delta: Callable[[str], None]) -> ChatReply:
        """Return the recorded reply to `request`. Raises `ModelUnusable` where there is none."""
        await asyncio.sleep(0)
        reply = self._tape.reply(self._agent, request)
        on_delta(reply.text)
        return reply


def _texts(agent: Agent, request: ChatRequest) -> dict[str, str]:
    """Return the parts of a request by their paths, in the order of the prompt.

    Of what the harness says only that is left which every measurement has in common. Ids of
    replies and calls, and blocks that a server wants back, repeat what was replied.
    """
    told = {"system", "user", "output", "error_information"}
    return {
        path: _VARIES.sub(" #", text) if path.rpartition(".")[2] in told else text
        for path, text in _said(agent, request)
    }


def _said(agent: Agent, request: ChatRequest) -> Iterator[tuple[str, str]]:
    yield "model", agent.model
    for name in _SETTINGS:
        yield f"agent.{name}", str(getattr(agent, name))
    for tool in request.tools:
        yield f"tools.{tool.name}.description", tool.description
        yield f"tools.{tool.name}.parameters", _plain(tool.parameters)
    yield "system", request.system
    for number, message in enumerate(request.messages):
        at = f"messages[{number}]"
        match message:
            case UserMessage(text=text):
                yield f"{at}.user", text
            case AssistantMessage(text=text, tool_uses=uses):
                yield f"{at}.assistant", text
                for index, use in enumerate(uses):
                    yield f"{at}.calls[{index}]", f"{use.name} {_plain(use.arguments)} {use.fault}"
            case ToolMessage(results=results):
                for index, (_, result) in enumerate(results):
                    for name in ("status", "output", "error_information"):
                        yield f"{at}.results[{index}].{name}", getattr(result, name)


def _plain(value: dict[str, object]) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def _parts(texts: dict[str, str]) -> tuple[_Part, ...]:
    return tuple(
        (path, hashlib.sha256(text.encode()).hexdigest()[:24]) for path, text in texts.items()
    )


def _shared(one: Sequence[object], other: Sequence[object]) -> int:
    """Return how many items two sequences have in common from the beginning."""
    pairs = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _differing(old: str, new: str) -> tuple[str, str]:
    """Return what two texts say where they begin to differ, and a little before."""
    begin = max(0, _shared(old, new) - _EXCERPT // 3)
    return one_line(old[begin:], _EXCERPT), one_line(new[begin:], _EXCERPT)


def _read(path: Path) -> list[_Line]:
    """Read the lines of a tape; a last line that a kill cut off is left out."""
    with reading(path):
        data = path.read_bytes()
    try:
        return [msgspec.json.decode(line, type=_Line) for line in data.split(b"\n")[:-1]]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RunFolderError(f"{path}: is no tape of recorded replies: {error}") from None
