"""The trace of tool calls on disk, `trace/<node>/` in the run's folder, and subagents' transcripts.

A node holds `request.json`, `result.json` (exactly status, output, error_information), `output.txt`
and `captured_errors.log`, read by people and by later calls. No decision of a run depends on the
trace, so files are written without fsync and a failure to write is only reported.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from akg_tui.agent.chat import AssistantMessage, Message, ToolMessage, ToolResult
from akg_tui.store.filesystem import open_below

TRACE = "trace"
MAX_KEPT = 16 << 20


class Node:
    """One call's folder. `name` is its path inside the run, `call` the call's id in the journal."""

    def __init__(self, run: Path, name: str, call: str = "") -> None:
        self.name = name
        self.path = run / name
        self._run = run
        self.call = call
        self.fault = ""

    def child(self, step: str) -> Node:
        """Return the node of a call that this call makes, in a subfolder `step`."""
        return Node(self._run, f"{self.name}/{step}", self.call)

    def keep(self, name: str, data: bytes, mode: Literal["wb", "ab"] = "wb") -> None:
        """Write one file of the node; after an error, `fault` describes it."""
        try:
            how = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if mode == "ab" else os.O_TRUNC)
            found = open_below(self._run, f"{self.name}/{name}", how, make=True)
            with os.fdopen(found, mode) as file:
                file.write(data[:MAX_KEPT])
        except OSError as error:
            self.fault = f"{self.name}/{name}: {error.strerror}"

    def begin(self, tool: str, arguments: dict[str, Any]) -> None:
        """Write the request, before the call does any work."""
        request = {"tool": tool, "arguments": arguments}
        self.keep("request.json", msgspec.json.encode(request))

    def finish(self, result: ToolResult, captured: str) -> None:
        """Write the result and the captured log."""
        self.keep("result.json", msgspec.json.encode(result))
        if result.output:
            self.keep("output.txt", result.output.encode(errors="replace"))
        if captured:
            self.keep("captured_errors.log", captured.encode(errors="replace"))


def node_for(run: Path, seq: int, tool: str, *, call: str = "", inside: str = TRACE) -> Node:
    """Return the node, in the folder `inside`, of the call that is event `seq` of the journal."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", tool)[:40] or "unnamed"
    return Node(run, f"{inside}/{seq:06d}-{plain}", call)


class Transcript:
    """A subagent's conversation on disk: `messages.jsonl`, one message a line, in order."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._kept = 0
        self._size = 0

    def keep(self, messages: Sequence[Message]) -> None:
        """Append the new messages; after an error, the node's `fault` describes it."""
        text = "".join(f"{json.dumps(_plain(each))}\n" for each in messages[self._kept :])
        self._kept = len(messages)
        self._size += len(text)
        if text and self._size <= MAX_KEPT:
            self._node.keep("messages.jsonl", text.encode("ascii"), "ab")


def _plain(message: Message) -> dict[str, Any]:
    match message:
        case AssistantMessage(text, uses):
            calls = [{"id": u.id, "tool": u.name, "arguments": u.arguments} for u in uses]
            return {"role": "assistant", "text": text, "calls": calls}
        case ToolMessage(results):
            told = [{"id": call, **msgspec.to_builtins(result)} for call, result in results]
            return {"role": "tools", "results": told}
    return {"role": "user", "text": message.text}
