"""The trace of tool calls on disk, `trace/<node>/` in the run's folder, and subagents' transcripts.

A node holds `request.json`, `result.json` (exactly status, output, error_information), `output.txt`
and `captured_errors.log`. People and later calls read it; no decision rests on it, so it is written
without fsync and a failure to write is only reported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from akg_tui.agent.chat import AssistantMessage, Message, ToolMessage, ToolResult

TRACE = "trace"
MAX_KEPT = 16 << 20


class Node:
    """One call's place. `name` is its path inside the run, `call` the call in the journal."""

    def __init__(self, run: Path, name: str, call: str = "") -> None:
        self.name = name
        self.path = run / name
        self.call = call
        self.fault = ""

    def child(self, step: str) -> Node:
        """The place of a call made by this call."""
        run = self.path.parents[self.name.count("/")]
        return Node(run, f"{self.name}/{step}", self.call)

    def keep(self, name: str, data: bytes, mode: Literal["wb", "ab"] = "wb") -> None:
        """Write one file of the node; what went wrong is in `fault`."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with (self.path / name).open(mode) as file:
                file.write(data[:MAX_KEPT])
        except OSError as error:
            self.fault = f"{self.name}/{name}: {error.strerror}"

    def begin(self, tool: str, arguments: dict[str, Any]) -> None:
        """Keep what was asked for, before anything is done."""
        request = {"tool": tool, "arguments": arguments}
        self.keep("request.json", msgspec.json.encode(request))

    def finish(self, result: ToolResult, captured: str) -> None:
        """Keep what came of it."""
        self.keep("result.json", msgspec.json.encode(result))
        if result.output:
            self.keep("output.txt", result.output.encode(errors="replace"))
        if captured:
            self.keep("captured_errors.log", captured.encode(errors="replace"))


def node_for(run: Path, seq: int, tool: str, *, call: str = "", inside: str = TRACE) -> Node:
    """The place of the call that the journal has as event `seq`, in the folder `inside`."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", tool)[:40] or "unnamed"
    return Node(run, f"{inside}/{seq:06d}-{plain}", call)


class Transcript:
    """A subagent's conversation on disk: `messages.jsonl`, one message a line, as it was sent."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._kept = 0
        self._size = 0

    def keep(self, messages: Sequence[Message]) -> None:
        """Write the messages that came since; what went wrong is in the node's `fault`."""
        text = "".join(f"{json.dumps(_plain(each))}\n" for each in messages[self._kept :])
        self._kept = len(messages)
        self._size += len(text)
        if text and self._size <= MAX_KEPT:
            self._node.keep("messages.jsonl", text.encode("ascii"), "ab")


class TranscriptTail:
    """Reads a subagent's conversation back, on from where it was: for one reader at a time.

    Holds what its calls were given and answered. `trace` comes from a journal: a place
    outside the run's own trace is not read, and neither is a line that is no message.
    """

    def __init__(self, run: Path, trace: str) -> None:
        path = (run / trace / "messages.jsonl").resolve()
        inside = path.is_relative_to((run / TRACE).resolve())
        self._path = path if inside else None
        self._read = 0
        self.prompt = ""
        self._arguments: dict[str, dict[str, Any]] = {}
        self._answers: dict[str, tuple[str, str]] = {}

    def arguments(self, call: str) -> dict[str, Any] | None:
        """What a call was given, where it is known."""
        return self._arguments.get(call)

    def answer(self, call: str) -> tuple[str, str] | None:
        """The output of a call and its error text, where they are known."""
        return self._answers.get(call)

    def more(self) -> bool:
        """Read the lines that came since; True when there were any. At most `MAX_KEPT` in all."""
        if self._path is None:
            return False
        try:
            with self._path.open("rb") as file:
                file.seek(self._read)
                data = file.read(MAX_KEPT - self._read)
        except OSError:
            return False
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        for row in whole.splitlines():
            try:
                message = msgspec.json.decode(row, type=_KeptMessage)
            except msgspec.DecodeError:
                continue
            if message.role == "user":
                self.prompt = self.prompt or message.text
            for call in message.calls:
                self._arguments[call.id] = call.arguments
            for result in message.results:
                self._answers[result.id] = result.output, result.error_information
        return bool(whole)


class _KeptCall(msgspec.Struct, frozen=True):
    id: str
    arguments: dict[str, Any] = {}


class _KeptResult(msgspec.Struct, frozen=True):
    id: str
    output: str = ""
    error_information: str = ""


class _KeptMessage(msgspec.Struct, frozen=True):
    role: str
    text: str = ""
    calls: tuple[_KeptCall, ...] = ()
    results: tuple[_KeptResult, ...] = ()


def _plain(message: Message) -> dict[str, Any]:
    match message:
        case AssistantMessage(text, uses):
            calls = [{"id": u.id, "tool": u.name, "arguments": u.arguments} for u in uses]
            return {"role": "assistant", "text": text, "calls": calls}
        case ToolMessage(results):
            told = [{"id": call, **msgspec.to_builtins(result)} for call, result in results]
            return {"role": "tools", "results": told}
    return {"role": "user", "text": message.text}
