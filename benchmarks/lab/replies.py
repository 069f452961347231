"""What the lab sends: replies as steps of bytes, waits and broken connections."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Block = dict[str, Any]


@dataclass(frozen=True)
class Send:
    """Exactly these bytes, in pieces of `piece` bytes if it is not 0."""

    data: bytes
    piece: int = 0


@dataclass(frozen=True)
class Hold:
    """Nothing until the event is set, or the other side has gone."""

    until: asyncio.Event


@dataclass(frozen=True)
class Pings:
    """Pings and nothing else, for ever."""


@dataclass(frozen=True)
class Reset:
    """RST: the connection is gone in the middle of a word."""


@dataclass(frozen=True)
class HalfClose:
    """FIN, while what was promised is not sent; the other direction stays open."""


Step = Send | Hold | Pings | Reset | HalfClose


@dataclass(frozen=True)
class Reply:
    """An HTTP response. `ends` says that the chunked body is properly ended."""

    steps: Sequence[Step]
    status: int = 200
    headers: Mapping[str, str] = field(
        default_factory=lambda: {"content-type": "text/event-stream; charset=utf-8"}
    )
    ends: bool = True


def sse(event: Mapping[str, Any], *, named: bool = True, newline: str = "\n") -> bytes:
    """One server-sent event, byte for byte."""
    data = json.dumps(event, ensure_ascii=False)
    lines = [f"event: {event['type']}"] if named else []
    return (newline.join([*lines, f"data: {data}", "", ""])).encode()


PING = sse({"type": "ping"})

USAGE = {"input_tokens": 100, "output_tokens": 1}


def begin(
    message_id: str = "msg_1",
    usage: Mapping[str, Any] | None = USAGE,
) -> dict[str, Any]:
    message: dict[str, Any] = {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": "lab",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }
    if usage is not None:
        message["usage"] = dict(usage)
    return {"type": "message_start", "message": message}


def pieces(text: str, size: int = 40) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)] or [""]


def block_events(index: int, block: Block, size: int = 40) -> list[dict[str, Any]]:
    """A content block as the events that it is streamed in."""

    def delta(**fields: Any) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": index, "delta": fields}

    empty: Block
    match block["type"]:
        case "text":
            empty = {"type": "text", "text": ""}
            deltas = [delta(type="text_delta", text=t) for t in pieces(block["text"], size)]
        case "thinking":
            empty = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [
                *(delta(type="thinking_delta", thinking=t) for t in pieces(block["thinking"])),
                delta(type="signature_delta", signature=block["signature"]),
            ]
        case "tool_use":
            empty = {**block, "input": {}}
            given = block["input"]
            text = given if isinstance(given, str) else json.dumps(given)
            deltas = [
                delta(type="input_json_delta", partial_json=""),
                *(delta(type="input_json_delta", partial_json=t) for t in pieces(text, size)),
            ]
        case _:
            empty, deltas = dict(block), []
    start = {"type": "content_block_start", "index": index, "content_block": empty}
    return [start, *deltas, {"type": "content_block_stop", "index": index}]


def end(stop_reason: str | None, usage: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    last: dict[str, Any] = {
        "type": "message_delta",
        "delta": {"stop_reason": stop_reason, "stop_sequence": None},
    }
    if usage is not None:
        last["usage"] = dict(usage)
    return [last, {"type": "message_stop"}]


def events(
    blocks: Iterable[Block],
    *,
    stop_reason: str | None = None,
    message_id: str = "msg_1",
    usage: Mapping[str, Any] | None = USAGE,
) -> list[dict[str, Any]]:
    """A whole message as events. A message with a tool call stops for it."""
    blocks = list(blocks)
    if stop_reason is None:
        calls = any(block["type"] == "tool_use" for block in blocks)
        stop_reason = "tool_use" if calls else "end_turn"
    written = sum(len(json.dumps(block)) for block in blocks) // 4 + 1
    last = None if usage is None else {"output_tokens": written}
    made = [begin(message_id, usage), {"type": "ping"}]
    for index, block in enumerate(blocks):
        made += block_events(index, block)
    return made + end(stop_reason, last)


def stream(sent: Iterable[Mapping[str, Any]], **how: Any) -> bytes:
    return b"".join(sse(event, **how) for event in sent)


def message(blocks: Iterable[Block], **about: Any) -> Reply:
    """A whole, good reply."""
    return Reply([Send(stream(events(blocks, **about)))])


def say(text: str, **about: Any) -> Reply:
    return message([{"type": "text", "text": text}], **about)


def call(tool: str, arguments: Any, call_id: str = "toolu_1") -> Block:
    """A tool call; `arguments` that are a string are sent as they are."""
    return {"type": "tool_use", "id": call_id, "name": tool, "input": arguments}


def refuse(
    status: int,
    kind: str,
    text: str = "as the test wants it",
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """An HTTP error with the API's body."""
    body = json.dumps({"type": "error", "error": {"type": kind, "message": text}}).encode()
    about = {"content-type": "application/json", "request-id": "req_refused", **(headers or {})}
    return Reply([Send(body)], status, about)
