"""OpenAI's chat completions, without I/O: a conversation into a body, chunks into Messages events.

A reply is translated into the events of the Messages API, so that both kinds of server share one
`Assembly`, with its checks of calls and arguments. Equal requests make equal bytes, and each body
is a prefix of the next. Servers differ in what they accept and in how they number calls; what is
known of that stands here.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from msgspec import Struct

from akg_tui.agent.chat import AssistantMessage, ChatRequest, Message, ToolMessage
from akg_tui.agent.models.messages_api import EMPTY_REPLY, BrokenStream, result_text
from akg_tui.agent.models.transport import kind_of_status
from akg_tui.core.model_info import Capabilities
from akg_tui.core.task import Agent

Event = dict[str, Any]


def body_of(request: ChatRequest, agent: Agent, can: Capabilities) -> dict[str, Any]:
    """Return the body for `request`, without the fields that the server refuses."""
    tools = [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
            },
        }
        for tool in request.tools
    ]
    messages = [{"role": "system", "content": request.system}, *_messages(request.messages)]
    body = {"model": agent.model, "tools": tools, "messages": messages}
    return body | _optional(agent.max_output_tokens, can.refused)


def _optional(limit: int, refused: Collection[str]) -> dict[str, Any]:
    """Return the fields that bound a reply to `limit` tokens, stream it, and have it counted.

    `refused` are fields that the server refuses. For `max_tokens` there is `max_completion_tokens`,
    which OpenAI's newer models demand, and which many other servers ignore without a word.
    """
    name = "max_completion_tokens" if "max_tokens" in refused else "max_tokens"
    fields: dict[str, Any] = {name: limit}
    if "stream" not in refused:
        fields["stream"] = True
        if "stream_options" not in refused:
            fields["stream_options"] = {"include_usage": True}
    return fields


def _messages(messages: tuple[Message, ...]) -> list[dict[str, Any]]:
    """Return the messages; neighbours of a user become one, because templates want turns."""
    out: list[dict[str, Any]] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            out.append(_said(message))
        elif isinstance(message, ToolMessage):
            out += [
                {
                    "role": "tool",
                    "tool_call_id": call,
                    "content": ("" if result.status == "success" else "error: ")
                    + result_text(result),
                }
                for call, result in message.results
            ]
        elif out and out[-1]["role"] == "user":
            out[-1] = {"role": "user", "content": f"{out[-1]['content']}\n\n{message.text}"}
        else:
            out.append({"role": "user", "content": message.text})
    return out


def _said(message: AssistantMessage) -> dict[str, Any]:
    text = message.text if message.text.strip() else None
    if not message.tool_uses:
        return {"role": "assistant", "content": text or EMPTY_REPLY}
    calls = [
        {
            "id": use.id,
            "type": "function",
            "function": {
                "name": use.name,
                "arguments": json.dumps(use.arguments, ensure_ascii=False),
            },
        }
        for use in message.tool_uses
    ]
    return {"role": "assistant", "content": text, "tool_calls": calls}


_TOLD_KINDS = {
    "insufficient_quota": "billing_error",
    "invalid_api_key": "authentication_error",
    "rate_limit_exceeded": "rate_limit_error",
    "model_not_found": "not_found_error",
    "context_length_exceeded": "invalid_request_error",
    "exceed_context_size_error": "invalid_request_error",
    "invalid_request_error": "invalid_request_error",
    "BadRequestError": "invalid_request_error",
}
"""The error types of the Messages API, by code or type of an error of OpenAI, llama.cpp, vLLM."""


def kind_of_error(code: object, kind: object, status: int = 0) -> str:
    """Return the error type for an error object's code and type, and the status of the reply.

    A status says more than a type, which differs between servers, and less than a known code.
    """
    told = _TOLD_KINDS.get(str(code))
    number = int(str(code)) if str(code).isdecimal() else 0
    if told or status or 400 <= number < 600:
        return told or kind_of_status(status or number)
    return _TOLD_KINDS.get(str(kind), "api_error")


_STOPS = {"length": "max_tokens", "content_filter": "refusal"}
"""Reasons for a reply's end, in the words of the Messages API. Others are taken as they are."""


class _Call(Struct):
    """A call in a reply: its id as sent, and its block's number, or None before its name came."""

    id: str
    block: int | None = None
    arguments: str = ""


class Translation:
    """One reply, chunk by chunk. `limit` is the number of tokens that it may have; 0: unknown."""

    def __init__(self, limit: int = 0, *, streamed: bool = True) -> None:
        self._limit = limit
        self._streamed = streamed
        self._begun = False
        self._blocks = 0
        self._open: tuple[str, int] | None = None  # the text or thought that grows
        self._calls: dict[object, _Call] = {}
        self._last: _Call | None = None
        self._reason = ""
        self._output: int | None = None

    @property
    def ended(self) -> bool:
        """Whether the reply is whole; what may still come are its token counts."""
        return bool(self._reason)

    def add(self, chunk: Mapping[str, Any]) -> Iterator[Event]:
        """Yield the events equivalent to a chunk. Raises `BrokenStream`."""
        if fault := chunk.get("error"):
            error = fault if isinstance(fault, dict) else {"message": str(fault)}
            kind = kind_of_error(error.get("code"), error.get("type"))
            message = str(error.get("message", ""))
            yield {"type": "error", "error": {"type": kind, "message": message}}
            return
        choices = chunk.get("choices")
        if not isinstance(choices, list):
            raise BrokenStream("a chunk without choices")
        if not self._begun:
            self._begun = True
            about = {"id": chunk.get("id") or "reply", "content": [] if self._streamed else [True]}
            yield {"type": "message_start", "message": about}
        for choice in choices:
            if isinstance(choice, dict) and choice.get("index", 0) in (0, None):
                yield from self._choice(choice)
        yield from self._usage(chunk.get("usage"))

    def _choice(self, choice: Mapping[str, Any]) -> Iterator[Event]:
        delta = choice.get("delta") or choice.get("message") or {}
        if not isinstance(delta, dict):
            raise BrokenStream("a choice whose delta is no object")
        for field in ("reasoning_content", "reasoning"):
            if isinstance(thought := delta.get(field), str) and thought:
                yield from self._grow("thinking", thought)
                break
        if isinstance(text := delta.get("content"), str) and text:
            yield from self._grow("text", text)
        if isinstance(refusal := delta.get("refusal"), str) and refusal:
            yield from self._grow("text", refusal)
            self._reason = "refusal"
        calls = delta.get("tool_calls") or ()
        if not isinstance(calls, list | tuple):
            raise BrokenStream("tool_calls that are no list")
        for call in calls:
            if not isinstance(call, dict) or not isinstance(call.get("function") or {}, dict):
                raise BrokenStream("a tool call that is no object")
            yield from self._call(call)
        if isinstance(reason := choice.get("finish_reason"), str) and reason:
            self._reason = self._reason or _STOPS.get(reason, reason)

    def _grow(self, kind: str, text: str) -> Iterator[Event]:
        """Yield the delta of a text or a thought, and the start of its block if it is new."""
        if self._open is None or self._open[0] != kind:
            self._open = kind, self._blocks
            yield self._start({"type": kind, kind: ""})
        delta = {"type": f"{kind}_delta", kind: text}
        yield {"type": "content_block_delta", "index": self._open[1], "delta": delta}

    def _start(self, block: dict[str, Any]) -> Event:
        self._blocks += 1
        return {
            "type": "content_block_start",
            "index": self._blocks - 1,
            "content_block": block,
        }

    def _call(self, sent: Mapping[str, Any]) -> Iterator[Event]:
        function = sent.get("function") or {}
        wanted = sent.get("id") if isinstance(sent.get("id"), str) else ""
        call = self._of(sent.get("index"), wanted or "")
        name, given = function.get("name"), function.get("arguments")
        if isinstance(given, str):
            call.arguments += given
        elif given is not None:
            call.arguments += json.dumps(given)  # some servers send the arguments as an object
        if call.block is None:
            if not name:
                return  # its arguments wait for it
            self._open, call.block = None, self._blocks
            yield self._start({"type": "tool_use", "id": call.id, "name": name, "input": {}})
        if call.arguments:
            delta = {"type": "input_json_delta", "partial_json": call.arguments}
            call.arguments = ""
            yield {"type": "content_block_delta", "index": call.block, "delta": delta}

    def _of(self, index: object, wanted: str) -> _Call:
        """Return the call that a delta belongs to.

        A delta goes on with the call of its index, unless it has another id: some servers number
        every call 0. Without an index it begins a call if it has a new id.
        """
        known = self._calls.get(index) if index is not None else self._last
        if known is None or (wanted and known.id and wanted != known.id):
            known = self._calls[index] = _Call(wanted)
        self._last = known
        return known

    def _usage(self, usage: object) -> Iterator[Event]:
        """Yield the token counts; each chunk's are totals so far."""
        if not isinstance(usage, dict):
            return
        counts: dict[str, int] = {}
        asked, written = usage.get("prompt_tokens"), usage.get("completion_tokens")
        details = usage.get("prompt_tokens_details")
        cached = details.get("cached_tokens") if isinstance(details, dict) else None
        if type(cached) is int:
            counts["cache_read_input_tokens"] = cached
        if type(asked) is int:
            counts["input_tokens"] = max(0, asked - counts.get("cache_read_input_tokens", 0))
        if type(written) is int:
            counts["output_tokens"] = self._output = written
        if counts:
            yield {"type": "message_delta", "delta": {}, "usage": counts}

    def end(self) -> Iterator[Event]:
        """Yield the end of the reply, if it is whole; call it after the last chunk."""
        if nameless := [call for call in self._calls.values() if call.block is None]:
            raise BrokenStream(f"{len(nameless)} tool call(s) without a name")
        if not self._reason:
            return
        reason = self._reason
        # The server's window was full: the reply ended before the length that was allowed.
        if reason == "max_tokens" and self._output is not None and self._output < self._limit:
            reason = "model_context_window_exceeded"
        yield {"type": "message_delta", "delta": {"stop_reason": reason}}
        yield {"type": "message_stop"}
