"""A conversation as the body of a Messages request. Pure: the same request, the same bytes.

Order and text of what was sent once never change, so each body is a prefix of the next,
but for the cache marks: they move along with the end. Marks with the long life come first,
as the API demands: the rules and the task for an hour, the newest turns for five minutes,
or for an hour too where turns are far apart.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from akg_tui.agent.chat import (
    AssistantMessage,
    ChatRequest,
    Message,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from akg_tui.core.model_info import Capabilities
from akg_tui.core.task import Agent

MAX_RESULT = 60_000  # characters of one tool's answer
EMPTY_REPLY = "(an empty reply)"

Block = dict[str, Any]


def body_of(
    request: ChatRequest, agent: Agent, can: Capabilities, *, slow: bool = False
) -> dict[str, Any]:
    """The body for `request`, without what the server cannot take.

    `slow` says that turns are further apart than a short-lived cache lasts.
    """
    messages = merged(request.messages)
    body: dict[str, Any] = {
        "model": agent.model,
        "max_tokens": agent.max_output_tokens,
        "tools": [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
            for tool in request.tools
        ],
        "system": [{"type": "text", "text": request.system}],
        "messages": messages,
    }
    if can.cache_marks:
        _mark(body, tail="1h" if slow else "5m")
    if can.thinking and agent.thinking != "default":
        body["thinking"] = _thinking(agent)
    if can.diagnostics:
        body["diagnostics"] = {"previous_message_id": request.previous_id or None}
    return body


def _thinking(agent: Agent) -> dict[str, Any]:
    match agent.thinking:
        case "budget":
            return {"type": "enabled", "budget_tokens": agent.thinking_tokens}
        case "adaptive":
            return {"type": "adaptive"}
        case _:
            return {"type": "disabled"}


def merged(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """The messages with roles in turn; what follows one of its own role joins it."""
    out: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if isinstance(message, AssistantMessage) else "user"
        if out and out[-1]["role"] == role:
            out[-1]["content"] += _blocks(message)
        else:
            out.append({"role": role, "content": _blocks(message)})
    return out


def _blocks(message: Message) -> list[Block]:
    match message:
        case UserMessage(text=text):
            return [{"type": "text", "text": text}]
        case ToolMessage(results=results):
            return [_result(call, result) for call, result in results]
        case AssistantMessage(text=text, tool_uses=uses, blocks=blocks):
            if blocks:
                return [dict(block) for block in blocks]
            said: list[Block] = [{"type": "text", "text": text}] if text.strip() else []
            said += [
                {"type": "tool_use", "id": use.id, "name": use.name, "input": use.arguments}
                for use in uses
            ]
            return said or [{"type": "text", "text": EMPTY_REPLY}]


def _result(call: str, result: ToolResult) -> Block:
    failed = result.status != "success"
    text = result.error_information if failed else result.output
    if len(text) > MAX_RESULT:
        text = f"{text[:MAX_RESULT]}\n(cut: {len(text) - MAX_RESULT} more characters)"
    block: Block = {"type": "tool_result", "tool_use_id": call, "content": text or "done"}
    if failed:
        block["is_error"] = True
    return block


def _mark(body: dict[str, Any], tail: str) -> None:
    """Mark the ends of: tools and rules, the opening, the turn before the newest, the newest.

    Four marks are the API's most. The turn before the newest is marked too because the
    server looks for an earlier end only 20 blocks back from a mark.
    """
    long = {"type": "ephemeral", "ttl": "1h"}
    short = long if tail == "1h" else {"type": "ephemeral"}
    body["system"][-1]["cache_control"] = long
    users = [message for message in body["messages"] if message["role"] == "user"]
    for message, mark in ((users[0], long), *((message, short) for message in users[1:][-2:])):
        message["content"][-1] = {**message["content"][-1], "cache_control": mark}


def length(body: dict[str, Any]) -> int:
    """How many characters the prompt in `body` has."""
    return len(json.dumps([body["tools"], body["system"], body["messages"]], ensure_ascii=False))
