"""The interface of a chat model: one reply to each request, with its text streamed meanwhile.

Owns the types of messages, tool calls, replies and failures; does no I/O.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

from akg_tui.core.events import EndpointProbed
from akg_tui.core.model_info import Capabilities
from akg_tui.core.state import RunState


class ToolSpec(Struct, frozen=True):
    """The description of a tool in a request; `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: dict[str, Any]


class ToolUse(Struct, frozen=True):
    """A tool call in a model's reply. Untrusted until validated.

    `fault` is the reason not to run the call: it was cut off or its arguments are not JSON.
    """

    id: str
    name: str
    arguments: dict[str, Any]
    fault: str = ""


class ToolResult(Struct, frozen=True):
    """The answer to a tool call: a status ("success" or "error"), an output and an error text."""

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
    """A reply of the model, as part of the next request.

    `blocks` are the content blocks of the reply, thoughts included, for a server that requires
    them in the next request; empty for a model that sends none.
    """

    text: str
    tool_uses: tuple[ToolUse, ...]
    blocks: tuple[dict[str, Any], ...] = ()


class ToolMessage(Struct, frozen=True):
    """All results of one assistant message, as pairs (tool use id, result)."""

    results: tuple[tuple[str, ToolResult], ...]


Message = UserMessage | AssistantMessage | ToolMessage


class ChatRequest(Struct, frozen=True):
    """A request; `state` is the run's, at which a search looks where a language model reads the
    messages.
    """

    system: str
    tools: tuple[ToolSpec, ...]
    messages: tuple[Message, ...]
    state: RunState | None = None


class Spent(Struct, frozen=True, kw_only=True):
    """The tokens of one call, in fields with the names of `akg_tui.core.events.ModelReplied`."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cache_write_short_tokens: int = 0

    @property
    def prompt_tokens(self) -> int:
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens


class ChatReply(Spent, frozen=True):
    """A whole reply. A tool use with a fault gets an error result and is never run."""

    text: str
    tool_uses: tuple[ToolUse, ...] = ()
    stop_reason: str = ""
    id: str = ""
    request_id: str = ""
    duration_s: float = 0.0
    estimated: bool = False
    blocks: tuple[dict[str, Any], ...] = ()


class ModelFailed(RuntimeError):
    """The model gave no usable reply; the message is the reason in one line."""


class ServerBusy(ModelFailed):
    """The request got no reply, but may succeed when it is sent again later.

    Parameters
    ----------
    asked_s : float, optional
        Seconds that the server asked to wait.
    unreachable : bool
        No server answered at the address.
    garbled : bool
        The server sent something other than a whole reply; a longer wait does not help.
    spent : Spent
        Tokens of the broken reply, as far as they are known.
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
    """The server refused the prompt; a new, shorter conversation may be accepted."""


class ModelUnusable(ModelFailed):
    """No request can succeed until a person changes the key, the address or the model."""


class ChatModel(Protocol):
    """A model that can act as the agent: a served model, a search, a script of a test."""

    @property
    def name(self) -> str: ...

    async def complete(self, request: ChatRequest, on_delta: Callable[[str], None]) -> ChatReply:
        """Return the reply to `request`, passing its text to `on_delta`. Raises `ModelFailed`."""
        ...


@runtime_checkable
class ServedModel(Protocol):
    """A model behind a server, which is probed once and charges for cancelled calls."""

    @property
    def unfinished(self) -> Spent | None:
        """Tokens of the call in progress or just cancelled; None if no reply had begun."""
        ...

    async def prepare(self, known: Capabilities | None) -> EndpointProbed | None:
        """Probe the server unless it is `known`; return the probe's event. Raises `ModelFailed`."""
        ...

    async def close(self) -> None:
        """Close the sockets."""
        ...


@runtime_checkable
class ReachedModel(Protocol):
    """A model whose server can be asked whether it is there, before any work is done for it."""

    async def reach(self) -> EndpointProbed | None:
        """Ask the server with this key for this model. Raises `ModelFailed`."""
        ...
