"""The lab's other contract: a server of chat completions, whose model is the same player.

A request is checked by the rules of that API, then turned into the shape of a Messages request, so
that players and the memory of prefixes serve both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from benchmarks.lab.player import Player
from benchmarks.lab.replies import Block, Reply, Send, call, pieces
from benchmarks.lab.server import Lab, Request

COMPLETIONS = "/v1/chat/completions"
DONE = b"data: [DONE]\n\n"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}

Chunk = dict[str, Any]


def shape_fault(body: Mapping[str, Any]) -> str:
    """Why the API would refuse `body`; "" when it would not."""
    known = {"model", "messages", "tools", "max_tokens", "max_completion_tokens", "stream"}
    if unknown := set(body) - known - {"stream_options"}:
        return f"Unrecognized request argument supplied: {', '.join(sorted(unknown))}"
    if "stream_options" in body and not body.get("stream"):
        return "stream_options is only allowed when stream is enabled"
    for tool in body["tools"]:
        function = tool["function"]
        if tool["type"] != "function" or set(function) != {"name", "description", "parameters"}:
            return "tools: a function has a name, a description and parameters"
    waiting: list[str] = []  # calls without an answer
    for message in body["messages"]:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting or not isinstance(message["content"], str):
                return "messages with role 'tool' must answer a call of 'tool_calls' by a text"
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            return f"tool_call_ids did not have response messages: {', '.join(waiting)}"
        if fault := _message_fault(message):
            return fault
        waiting = [each["id"] for each in message.get("tool_calls", [])]
    return ""


def _message_fault(message: Mapping[str, Any]) -> str:
    calls = message.get("tool_calls", [])
    if not calls and not (message["content"] or "").strip():
        return f"{message['role']}: content or tool_calls must be there"
    if calls and message["role"] != "assistant":
        return f"{message['role']}: makes no calls"
    for each in calls:
        if not _NAME.fullmatch(each["function"]["name"]) or not each["id"]:
            return "tool_calls: a name of letters, and an id"
        if not isinstance(json.loads(each["function"]["arguments"]), dict):
            return "tool_calls: arguments are the text of an object"
    ids = [each["id"] for each in calls]
    return "tool_calls: ids must be unique" if len(set(ids)) != len(ids) else ""


def as_messages(body: Mapping[str, Any]) -> dict[str, Any]:
    """The same request in the shape of the Messages API."""
    messages: list[dict[str, Any]] = []
    for message in body["messages"][1:]:
        role = "assistant" if message["role"] == "assistant" else "user"
        text = message["content"]
        if message["role"] == "tool":
            block = {
                "type": "tool_result",
                "tool_use_id": message["tool_call_id"],
                "content": text,
                "is_error": text.startswith("error: "),
            }
            blocks: list[Block] = [block]
        else:
            blocks = [{"type": "text", "text": text}] if text else []
            blocks += [
                call(
                    each["function"]["name"], json.loads(each["function"]["arguments"]), each["id"]
                )
                for each in message.get("tool_calls", ())
            ]
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] += blocks
        else:
            messages.append({"role": role, "content": blocks})
    return {
        "model": body["model"],
        "tools": body["tools"],
        "system": [{"type": "text", "text": body["messages"][0]["content"]}],
        "messages": messages,
    }


def chunk(delta: Chunk, finish: str | None = None, **more: Any) -> Chunk:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "lab",
        "choices": [choice], **more,
    }  # fmt: skip


def call_chunks(index: int, block: Block, size: int = 40) -> list[Chunk]:
    """A tool call as the chunks that it is streamed in."""
    given = block["input"]
    text = given if isinstance(given, str) else json.dumps(given)
    first = {
        "index": index, "id": block["id"], "type": "function",
        "function": {"name": block["name"], "arguments": ""},
    }  # fmt: skip
    parts = [{"index": index, "function": {"arguments": part}} for part in pieces(text, size)]
    return [chunk({"tool_calls": [each]}) for each in (first, *parts)]


def chunks(
    blocks: Iterable[Block],
    *,
    finish: str | None = None,
    usage: Mapping[str, Any] | None = USAGE,
) -> list[Chunk]:
    """A whole reply as chunks; the counts come last, in a chunk without choices."""
    blocks = list(blocks)
    made = [chunk({"role": "assistant", "content": ""})]
    calls = 0
    for block in blocks:
        if block["type"] == "text":
            made += [chunk({"content": part}) for part in pieces(block["text"])]
        elif block["type"] == "thinking":
            made += [chunk({"reasoning_content": part}) for part in pieces(block["thinking"])]
        else:
            made += call_chunks(calls, block)
            calls += 1
    made.append(chunk({}, finish or ("tool_calls" if calls else "stop")))
    if usage is not None:
        made.append({**chunk({}), "choices": [], "usage": dict(usage)})
    return made


def stream(sent: Iterable[Chunk], *, newline: str = "\n", done: bool = True) -> bytes:
    data = b"".join(
        f"data: {json.dumps(each, ensure_ascii=False)}{newline * 2}".encode() for each in sent
    )
    return data + (DONE if done else b"")


def reply(blocks: Iterable[Block], **about: Any) -> Reply:
    """A whole, good reply."""
    return Reply([Send(stream(chunks(blocks, **about)))])


def whole(blocks: Iterable[Block], usage: Mapping[str, Any] | None = USAGE) -> Reply:
    """A good reply of a server that does not stream."""
    blocks = list(blocks)
    texts = "".join(each["text"] for each in blocks if each["type"] == "text")
    calls = [
        {
            "id": each["id"],
            "type": "function",
            "function": {"name": each["name"], "arguments": json.dumps(each["input"])},
        }
        for each in blocks
        if each["type"] == "tool_use"
    ]
    said = {"role": "assistant", "content": texts or None, "tool_calls": calls}
    choice = {"index": 0, "message": said, "finish_reason": "tool_calls" if calls else "stop"}
    body = {"id": "chatcmpl-1", "object": "chat.completion", "choices": [choice]}
    return plain(200, body | ({"usage": dict(usage)} if usage is not None else {}))


def plain(status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Reply:
    about = {"content-type": "application/json", **(headers or {})}
    return Reply([Send(json.dumps(body).encode())], status, about)


def refuse(
    status: int,
    kind: str,
    text: str = "as the test wants it",
    *,
    code: Any = None,
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """An HTTP error with the API's body."""
    error = {"message": text, "type": kind, "param": None, "code": code}
    return plain(status, {"error": error}, headers)


class ChatPlayer(Player):
    """The competent model, which answers in chunks; it tells what it read from its cache."""

    def __call__(self, request: Request) -> Reply:
        self.calls += 1
        self.last = self.play(request.body)
        return reply(self.last, usage=request.usage)


def able(request: Request) -> Reply:
    """The answer to a probe, from a server that can do all."""
    cached = {"prompt_tokens_details": {"cached_tokens": 0}}
    return reply([call("report_number", {"number": 7})], usage={**USAGE, **cached})


class ChatLab(Lab):
    """A server of chat completions; a request's `body` is in the shape of the Messages API."""

    def __init__(self, script: Any, **about: Any) -> None:
        super().__init__(script, **about)
        self.on_probe: Callable[[Request], Reply] = able
        self.bodies: list[dict[str, Any]] = []
        self._before: dict[str, Any] = {"tools": [], "messages": []}

    async def _reply(self, path: str, headers: Mapping[str, str], raw: bytes) -> Reply:
        if path != COMPLETIONS:
            return refuse(404, "invalid_request_error", f"no such path {path}")
        if self._key and headers.get("authorization") != f"Bearer {self._key}":
            return refuse(401, "invalid_request_error", "no such key", code="invalid_api_key")
        body = json.loads(raw)
        if "openai-organization" in headers:
            self.refused.append("an organization that is none of ours")
        if body["tools"][0]["function"]["name"] == "report_number":
            self.probes.append(body)
            return self.on_probe(Request(path, headers, raw, body))
        if fault := shape_fault(body):
            self.refused.append(fault)
            return refuse(400, "invalid_request_error", fault)
        # As templates do: the tools come first in a prompt, wherever they stand in the request.
        prompt, before = (json.dumps([of["tools"], of["messages"]]) for of in (body, self._before))
        self._before = body
        same = next((i for i, (a, b) in enumerate(zip(prompt, before, strict=False)) if a != b), 0)
        usage = {
            "prompt_tokens": len(prompt) // 4,
            "completion_tokens": 20,
            "prompt_tokens_details": {"cached_tokens": same // 4},
        }
        shaped = as_messages(body)
        self.memory.look(shaped)
        request = Request(path, headers, raw, shaped, usage)
        self.requests.append(request)
        self.bodies.append(body)
        answer = self._script(request)
        return await answer if isinstance(answer, Awaitable) else answer
