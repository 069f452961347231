"""The Messages protocol, without I/O: turns a conversation into a body, and events into a reply.

Equal requests make equal bytes. Sent messages never change, so each body is a prefix of the next
except for the cache marks, which move with the end. Every event of a reply is checked: no part of
the reply may be used before `message_stop` with a stop reason, and no tool call may be used whose
arguments are incomplete. Blocks of an unknown kind are kept unchanged.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from akg_tui.agent.chat import (
    AssistantMessage,
    ChatRequest,
    Message,
    Spent,
    ToolMessage,
    ToolResult,
    ToolUse,
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
    """Return the body for `request`, without the fields that the server does not accept.

    `slow`: the turns are further apart than the lifetime of a short cache.
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
        _mark(body, slow=slow)
    if can.thinking and agent.thinking != "default":
        kinds: dict[str, dict[str, Any]] = {
            "budget": {"type": "enabled", "budget_tokens": agent.thinking_tokens},
            "adaptive": {"type": "adaptive"},
        }
        body["thinking"] = kinds.get(agent.thinking, {"type": "disabled"})
    return body


def merged(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Return messages with alternating roles; neighbours of one role become one message."""
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


def result_text(result: ToolResult) -> str:
    """Return a tool's answer as a model reads it: of a failed call the error, then the output."""
    text = result.output
    if result.status != "success":
        text = "\n".join(filter(None, (result.error_information, result.output)))
    if len(text) > MAX_RESULT:
        text = f"{text[:MAX_RESULT]}\n(cut: {len(text) - MAX_RESULT} more characters)"
    return text or "done"


def _result(call: str, result: ToolResult) -> Block:
    block: Block = {"type": "tool_result", "tool_use_id": call, "content": result_text(result)}
    if result.status != "success":
        block["is_error"] = True
    return block


def _mark(body: dict[str, Any], *, slow: bool) -> None:
    """Mark the ends of: tools and rules, the opening, the turn before the newest, the newest.

    The API allows at most four marks. The turn before the newest has a mark because the
    server searches only 20 blocks back from a mark for an earlier end.
    """
    long = {"type": "ephemeral", "ttl": "1h"}
    short = long if slow else {"type": "ephemeral"}
    body["system"][-1]["cache_control"] = long
    users = [message for message in body["messages"] if message["role"] == "user"]
    for message, mark in ((users[0], long), *((message, short) for message in users[1:][-2:])):
        message["content"][-1] = {**message["content"][-1], "cache_control": mark}


def length(body: dict[str, Any]) -> int:
    """Return the number of characters of the prompt in `body`, encoded as JSON."""
    prompt = [body["tools"], body.get("system"), body["messages"]]
    return len(json.dumps(prompt, ensure_ascii=False))


# Tool calls of a reply with one of these stop reasons are not run, even if they are whole.
UNFINISHED = frozenset({"max_tokens", "model_context_window_exceeded", "refusal"})
MAX_ARGUMENTS = 400_000  # characters of JSON
MAX_DEPTH = 40
MAX_BLOCKS = 256
CHARS_PER_TOKEN = 4  # for an estimate where a server sends no count

_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")
_SURROGATE = re.compile("[\ud800-\udfff]")
_LARGEST = 2**63 - 1


class BrokenStream(ValueError):
    """The events do not form a reply; the message names the event at fault."""


class ReportedError(Exception):
    """The server sent an `error` event. `kind` is the error's type: ``overloaded_error``, …"""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


class Assembly:
    """The reply so far, built by `add` from each event.

    `prompt_chars` is the length of the prompt, for a server that sends no token counts.
    """

    def __init__(self, prompt_chars: int = 0) -> None:
        self._prompt_chars = prompt_chars
        self.id = ""
        self.stop_reason = ""
        self.stopped = False
        self.usage: dict[str, Any] = {}
        self.streamed = False
        self._blocks: list[dict[str, Any]] = []
        self._json: dict[int, list[str]] = {}
        self._received = 0

    @property
    def whole(self) -> bool:
        """Whether the reply may be used: it has ended, with a stop reason."""
        return self.stopped and bool(self.stop_reason)

    def add(self, event: Mapping[str, Any]) -> str | None:
        """Add one event. Return its new text, "" for other progress, None for no progress.

        Raises `BrokenStream` and `ReportedError`.
        """
        match event.get("type"):
            case "error":
                error = _dict(event.get("error"))
                raise ReportedError(str(error.get("type", "")), str(error.get("message", "")))
            case "message_start":
                self._start(_dict(event.get("message")))
            case "content_block_start":
                block, index = event.get("content_block"), event.get("index")
                if not isinstance(block, dict) or index != len(self._blocks) or index >= MAX_BLOCKS:
                    raise BrokenStream(
                        f"content_block_start number {index!r:.20} where none can be"
                    )
                self._blocks.append(dict(block))
            case "content_block_delta":
                return self._grow(event.get("index"), event.get("delta"))
            case "content_block_stop":
                pass  # only the end of the message is needed
            case "message_delta":
                delta = _dict(event.get("delta"))
                if isinstance(reason := delta.get("stop_reason"), str):
                    self.stop_reason = reason[:60]
                self._count(event.get("usage"))
            case "message_stop":
                self.stopped = True
            case _:
                return None  # a ping, or an event of an unknown kind
        return ""

    def _start(self, message: Mapping[str, Any]) -> None:
        if self._blocks or self.id:
            raise BrokenStream("a second message_start in one reply")
        self.id = _str(message.get("id"))[:200]
        self.streamed = not message.get("content")  # an unstreamed message contains its blocks
        self._count(message.get("usage"))

    def _grow(self, index: object, delta: object) -> str:
        """Add a delta to its block; return its new text for the screen."""
        known = isinstance(index, int) and 0 <= index < len(self._blocks)
        if not known or not isinstance(delta, dict):
            raise BrokenStream(f"content_block_delta for a block {index!r:.20} that did not start")
        assert isinstance(index, int)
        block = self._blocks[index]
        match delta.get("type"):
            case "text_delta" | "thinking_delta" as kind:
                field = kind.removesuffix("_delta")
                part = _str(delta.get(field))
                block[field] = _str(block.get(field)) + part
                self._received += len(part)
                # The block keeps the raw text, whose surrogates `content` replaces.
                return str(sound_text(part)) if field == "text" else ""
            case "signature_delta":
                block["signature"] = delta.get("signature", "")
            case "citations_delta":
                block.setdefault("citations", [])
                if isinstance(block["citations"], list):
                    block["citations"].append(delta.get("citation"))
            case "input_json_delta":
                part = _str(delta.get("partial_json"))
                self._json.setdefault(index, []).append(part)
                self._received += len(part)
        return ""

    def _count(self, usage: object) -> None:
        """Store the counts. Each is a total so far, so a later count replaces an earlier one."""
        self.usage.update({k: v for k, v in _dict(usage).items() if v is not None})

    @property
    def spent(self) -> Spent:
        """The tokens of the reply: the server's counts, or estimates from lengths without them.

        The output count of an incomplete reply is still that of the first event, so the
        received text sets a lower bound.
        """
        short = _tokens(_dict(self.usage.get("cache_creation")), "ephemeral_5m_input_tokens")
        written = _tokens(self.usage, "cache_creation_input_tokens")
        counted = _tokens(self.usage, "output_tokens")
        floor = 0 if self.whole and counted else self._received // CHARS_PER_TOKEN
        asked = _tokens(self.usage, "input_tokens")
        return Spent(
            input_tokens=asked
            if "input_tokens" in self.usage
            else self._prompt_chars // CHARS_PER_TOKEN,
            output_tokens=max(counted, floor),
            cache_read_tokens=_tokens(self.usage, "cache_read_input_tokens"),
            cache_write_tokens=written,
            cache_write_short_tokens=min(short, written),
        )

    @property
    def begun(self) -> Spent | None:
        """The tokens of an incomplete reply; None if the server had not begun one."""
        return self.spent if self.id or self.usage else None

    @property
    def counted(self) -> bool:
        """Whether the server sent the token counts of the reply."""
        return "input_tokens" in self.usage and "output_tokens" in self.usage

    def content(
        self, taken: set[str], cut: str
    ) -> tuple[tuple[dict[str, Any], ...], list[ToolUse]]:
        """Return the reply's blocks, valid for the next request, and its tool calls.

        Parameters
        ----------
        taken : set of str
            Ids of earlier calls in the conversation, extended by the new ones. A call with such
            an id, or with an id that a server would refuse, gets a new id.
        cut : str
            Why no call of this reply may be run, or "".
        """
        blocks: list[dict[str, Any]] = []
        uses: list[ToolUse] = []
        for index, raw in enumerate(self._blocks):
            block = sound_text(raw)
            if block.get("type") == "tool_use":
                use = self._tool_use(index, block, taken, cut)
                taken.add(use.id)
                uses.append(use)
                block = {**block, "id": use.id, "name": use.name, "input": use.arguments}
            elif block.get("type") == "text" and not str(block.get("text", "")).strip():
                continue  # the API refuses a request with an empty text
            elif block.get("type") == "thinking" and not block.get("signature"):
                continue  # cut off or never signed: the API refuses an unsigned thought
            blocks.append(block)
        return tuple(blocks), uses

    def _tool_use(self, index: int, block: Mapping[str, Any], taken: set[str], cut: str) -> ToolUse:
        wanted, name = _str(block.get("id")), block.get("name")
        fit = _NAME.fullmatch(wanted) and wanted not in taken
        arguments, fault = self._arguments(index, block)
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            fault, name = f"{str(name)[:60]!r} is not a tool's name", "unnamed"
        return ToolUse(wanted if fit else f"call-{len(taken) + 1}", name, arguments, cut or fault)

    def _arguments(self, index: int, block: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
        given = block.get("input")
        text = "".join(self._json.get(index, ()))
        if len(text) > MAX_ARGUMENTS:
            return {}, f"the arguments have {len(text)} characters, at most {MAX_ARGUMENTS} go"
        if text.strip():
            try:
                given = json.loads(text, parse_constant=_no_constant)
            except (ValueError, RecursionError) as error:
                why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
                return {}, f"the arguments are not valid JSON ({why[:120]}); nothing was done"
        if not isinstance(given, dict):
            return {}, "the arguments are not a JSON object; nothing was done"
        if fault := _unfit(given):
            return {}, f"the arguments {fault}; nothing was done"
        arguments: dict[str, Any] = sound_text(given)
        return arguments, ""

    @property
    def thought(self) -> bool:
        """Whether the reply contains a thought."""
        return any(b.get("type") in ("thinking", "redacted_thinking") for b in self._blocks)

    @property
    def text(self) -> str:
        """The reply's plain text, valid as UTF-8."""
        texts = [_str(each.get("text")) for each in self._blocks if each.get("type") == "text"]
        return _SURROGATE.sub("�", "".join(texts))


def sound_text(value: Any) -> Any:
    """Return `value` with every lone surrogate replaced, so that it can be written as UTF-8."""
    if isinstance(value, str):
        return _SURROGATE.sub("�", value)
    if isinstance(value, dict):
        return {sound_text(key): sound_text(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [sound_text(inner) for inner in value]
    return value


def _unfit(value: Any, depth: int = 0) -> str:
    """Return why a value cannot be journaled, or ""."""
    if depth > MAX_DEPTH:
        return "are nested too deeply"
    large = isinstance(value, int) and abs(value) > _LARGEST
    if large or (isinstance(value, float) and not math.isfinite(value)):
        return "hold a number that is too large"
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next(filter(None, (_unfit(each, depth + 1) for each in inner)), "")


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def _dict(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _str(value: object) -> str:
    return value if isinstance(value, str) else ""


def _tokens(usage: Mapping[str, Any], field: str) -> int:
    count = usage.get(field)
    return count if type(count) is int and 0 <= count <= _LARGEST else 0
