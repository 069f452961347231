"""The interface of a chat model: a request in, one reply out, text streamed meanwhile.

Owns the types of messages, tool calls, replies and failures; does no I/O.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

from akg_tui.core.events import EndpointProbed
from akg_tui.core.model_info import Capabilities


class ToolSpec(Struct, frozen=True):
    """A tool as a model is told about it; `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: dict[str, Any]


class ToolUse(Struct, frozen=True):
    """A tool call that a model asks for. Untrusted until validated.

    `fault` says why it must not be run at all: it was cut off, or its arguments are no JSON.
    """

    id: str
    name: str
    arguments: dict[str, Any]
    fault: str = ""


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
    """A reply as it goes back into the conversation.

    `blocks` are the reply's content as the server sent it, thoughts included, for a
    server that wants them back unchanged; empty for a model that sent none.
    """

    text: str
    tool_uses: tuple[ToolUse, ...]
    blocks: tuple[dict[str, Any], ...] = ()


class ToolMessage(Struct, frozen=True):
    """All results of one assistant message, as (tool use id, result)."""

    results: tuple[tuple[str, ToolResult], ...]


Message = UserMessage | AssistantMessage | ToolMessage


class ChatRequest(Struct, frozen=True):
    """`previous_id` is the id of the last reply in this conversation, for cache diagnostics."""

    system: str
    tools: tuple[ToolSpec, ...]
    messages: tuple[Message, ...]
    previous_id: str = ""


class Spent(Struct, frozen=True, kw_only=True):
    """Tokens of one call; the fields are those of `akg_tui.core.events.ModelReplied`."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cache_write_short_tokens: int = 0

    @property
    def prompt_tokens(self) -> int:
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens


class ChatReply(Spent, frozen=True):
    """A whole reply. `tool_uses` with a fault are answered, never run."""

    text: str
    tool_uses: tuple[ToolUse, ...] = ()
    stop_reason: str = ""
    id: str = ""
    request_id: str = ""
    duration_s: float = 0.0
    estimated: bool = False
    cache_miss: str = ""
    blocks: tuple[dict[str, Any], ...] = ()


class ModelFailed(RuntimeError):
    """The model gave no usable reply; the message says why in one line."""


class ServerBusy(ModelFailed):
    """No reply this time; the same request may have one later.

    Parameters
    ----------
    asked_s : float, optional
        How long the server asked to wait.
    unreachable : bool
        No server answered at the address.
    garbled : bool
        What came was no whole reply; waiting longer is not what helps.
    spent : Spent
        What the broken reply took, as far as it is known.
    """

    def __init__(
        self,
        reason: str,
        *,
        asked_s: float | None = None,
        unreachable: bool = False,
        garbled: bool = False,
        spent: Spent | None = None,
    ) -> None:
        super().__init__(reason)
        self.asked_s = asked_s
        self.unreachable = unreachable
        self.garbled = garbled
        self.spent = spent or Spent()


class PromptRefused(ModelFailed):
    """The server takes no prompt like this one: a shorter, new conversation may pass."""


class ModelUnusable(ModelFailed):
    """No request can succeed until a person changes something: key, address, model."""


class ChatModel(Protocol):
    """Anything that can act as the agent: a served model, a search, a script of a test."""

    @property
    def name(self) -> str: ...

    async def complete(self, request: ChatRequest, on_delta: Callable[[str], None]) -> ChatReply:
        """One reply to `request`. Raises `ModelFailed`."""
        ...


@runtime_checkable
class ServedModel(Protocol):
    """A model behind a server: what its server can do is asked once, and a cut call costs."""

    @property
    def unfinished(self) -> Spent | None:
        """What the call under way, or the one just cancelled, has taken so far."""
        ...

    async def prepare(self, known: Capabilities | None) -> EndpointProbed | None:
        """Get ready; what the server can do, where that was not `known`. Raises `ModelFailed`."""
        ...

    async def close(self) -> None:
        """Give the sockets back."""
        ...
