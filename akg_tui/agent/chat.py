"""What a chat model is, to the loop: a request in, one reply out, text streamed meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from msgspec import Struct


class ToolSpec(Struct, frozen=True):
    """A tool as a model is told about it; `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: dict[str, Any]


class ToolUse(Struct, frozen=True):
    """A model's wish to call a tool. Untrusted until validated."""

    id: str
    name: str
    arguments: dict[str, Any]


class ToolResult(Struct, frozen=True):
    """The answer to a tool call: exactly a status, an output and an error text."""

    status: str
    output: str = ""
    error_information: str = ""

    @classmethod
    def success(cls, output: str) -> ToolResult:
        return cls("success", output)

    @classmethod
    def error(cls, why: str) -> ToolResult:
        return cls("error", "", why)


class UserMessage(Struct, frozen=True):
    text: str


class AssistantMessage(Struct, frozen=True):
    text: str
    tool_uses: tuple[ToolUse, ...]


class ToolMessage(Struct, frozen=True):
    """All results of one assistant message, as (tool use id, result)."""

    results: tuple[tuple[str, ToolResult], ...]


Message = UserMessage | AssistantMessage | ToolMessage


class ChatRequest(Struct, frozen=True):
    system: str
    tools: tuple[ToolSpec, ...]
    messages: tuple[Message, ...]


class ChatReply(Struct, frozen=True):
    text: str
    tool_uses: tuple[ToolUse, ...] = ()
    input_tokens: int = 0
    output_tokens: int = 0


class ModelFailed(RuntimeError):
    """The model gave no usable reply; the message says why in one line."""


class ChatModel(Protocol):
    """Anything that can take the agent's part."""

    @property
    def name(self) -> str: ...

    async def complete(self, request: ChatRequest, on_delta: Callable[[str], None]) -> ChatReply:
        """One reply to `request`. Raises `ModelFailed`."""
        ...
