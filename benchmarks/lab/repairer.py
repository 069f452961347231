"""A competent repairer for `bench edits`: the scripted writer, by the request alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from akg_tui.agent.chat import (
    AssistantMessage,
    ChatRequest,
    Message,
    ToolMessage,
    ToolResult,
    ToolSpec,
    UserMessage,
)
from benchmarks.edit_models.scripted import Scripted
from benchmarks.edit_models.tasks import EditTask
from benchmarks.lab.replies import Block, Reply, call, message
from benchmarks.lab.server import Request


class Repairer:
    """Reads, edits in the format that it is told of, and says that it is done."""

    def __init__(self, tasks: Sequence[EditTask], *, slip: float) -> None:
        self._writer = Scripted(tasks, slip=slip, seed=1)
        self.calls = 0

    async def __call__(self, request: Request) -> Reply:
        self.calls += 1
        reply = await self._writer.complete(_read(request.body), lambda text: None)
        blocks: list[Block] = [{"type": "text", "text": reply.text}] if reply.text else []
        for use in reply.tool_uses:
            blocks.append(call(use.name, use.arguments, f"toolu_{self.calls}"))
        return message(blocks, message_id=f"msg_{self.calls}", usage=request.usage)


def _read(body: Mapping[str, Any]) -> ChatRequest:
    tools = tuple(ToolSpec(t["name"], t["description"], t["input_schema"]) for t in body["tools"])
    messages = [_message(each) for each in body["messages"]]
    return ChatRequest(str(body["system"][0]["text"]), tools, tuple(messages))


def _message(plain: Mapping[str, Any]) -> Message:
    blocks = plain["content"]
    results = [
        (
            block["tool_use_id"],
            ToolResult.error(block["content"])
            if block.get("is_error")
            else ToolResult.success(block["content"]),
        )
        for block in blocks
        if block["type"] == "tool_result"
    ]
    if results:
        return ToolMessage(tuple(results))
    text = "".join(block["text"] for block in blocks if block["type"] == "text")
    return AssistantMessage(text, ()) if plain["role"] == "assistant" else UserMessage(text)
