"""A chat model behind a server of the Messages API or of chat completions.

Replies are requested as streams. One call sends one request; the caller repeats it.
The SDK is imported with the first request, off the event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from akg_tui.agent.chat import (
    AssistantMessage,
    ChatReply,
    ChatRequest,
    ModelFailed,
    ModelUnusable,
    Spent,
)
from akg_tui.agent.models.endpoint import Endpoint
from akg_tui.agent.models.messages_api import UNFINISHED, Assembly, body_of, length
from akg_tui.agent.models.probe import connect, count, probe
from akg_tui.core.events import EndpointProbed
from akg_tui.core.model_info import ANTHROPIC, Capabilities
from akg_tui.core.task import Agent

if TYPE_CHECKING:
    from akg_tui.agent.models.transport import Limits, Transport

SHORT_CACHE_S = 240.0  # turns further apart than this outlive a cache of five minutes


class Served:
    """The `ServedModel` of an endpoint. `limits` are timeouts; by default the transport's own."""

    def __init__(
        self,
        agent: Agent,
        endpoint: Endpoint,
        *,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._agent = agent
        self._endpoint = endpoint
        self._limits = limits
        self._clock = clock
        self._transport: Transport | None = None
        self._can: Capabilities | None = ANTHROPIC if endpoint.is_anthropic else None
        # The reply in progress or just cancelled, by task, because an agent's subagents make
        # their calls at the same time.
        self._under_way: dict[asyncio.Task[Any] | None, Assembly] = {}
        self._last_reply_at: float | None = None
        self._slow = False

    @property
    def name(self) -> str:
        return self._agent.model

    @property
    def unfinished(self) -> Spent | None:
        found = self._under_way.get(asyncio.current_task())
        if found is None:  # the current task has made no call
            found = next(iter(self._under_way.values()), None)
        return found.begun if found else None

    async def prepare(self, known: Capabilities | None) -> EndpointProbed | None:
        """Probe the server's abilities, unless they are `known`. Raises `ModelFailed`."""
        if self._can is None:
            self._can = known
        if self._can is not None:
            return None

        can = await probe(self._endpoint, limits=self._limits)
        if not can.tools:
            raise ModelUnusable(
                f"{self._endpoint.base_url} with {self.name} calls no tools, and the agent "
                "acts only through tools"
            )
        self._can = can
        return EndpointProbed(base_url=self._endpoint.base_url, model=self.name, capabilities=can)

    async def reach(self) -> EndpointProbed | None:
        """Ask the server with this key for this model, by its probe or, at Anthropic, by a count
        of tokens. Raises `ModelFailed`.
        """
        if not self._endpoint.is_anthropic:
            self._can = None
            return await self.prepare(None)
        await count(self._endpoint, self._limits)
        return None

    async def complete(self, request: ChatRequest, on_delta: Callable[[str], None]) -> ChatReply:
        """Return one whole reply. Raises `ModelFailed`. Cancellation closes the socket at once."""
        task = asyncio.current_task()
        self._under_way.pop(task, None)
        if self._transport is None:
            self._transport = await asyncio.to_thread(connect, self._endpoint, self._limits)
        began = self._clock()
        if self._last_reply_at is not None and began - self._last_reply_at > SHORT_CACHE_S:
            self._slow = True
        body = self._body(request, self._can or ANTHROPIC)
        assembly = Assembly(length(body))
        # Entries of finished tasks are dropped: only a running task reads `unfinished`.
        self._under_way = {t: a for t, a in self._under_way.items() if t and not t.done()}
        self._under_way[task] = assembly
        try:
            request_id = await self._transport.receive(body, assembly, on_delta)
        except ModelFailed:
            del self._under_way[task]  # the error contains the tokens spent
            raise
        del self._under_way[task]
        self._last_reply_at = self._clock()
        taken = {
            use.id
            for message in request.messages
            if isinstance(message, AssistantMessage)
            for use in message.tool_uses
        }
        blocks, uses = assembly.content(taken, self._cut(assembly.stop_reason))
        return ChatReply(
            text=assembly.text,
            tool_uses=tuple(uses),
            **asdict(assembly.spent),
            stop_reason=assembly.stop_reason,
            id=assembly.id,
            request_id=request_id,
            duration_s=round(self._last_reply_at - began, 3),
            estimated=not assembly.counted,
            blocks=blocks,
        )

    def _body(self, request: ChatRequest, can: Capabilities) -> dict[str, Any]:
        if self._endpoint.api == "chat":
            from akg_tui.agent.models import chat_completions

            return chat_completions.body_of(request, self._agent, can)
        return body_of(request, self._agent, can, slow=self._slow)

    def _cut(self, stop_reason: str) -> str:
        """Return why no tool call of a reply with this stop reason may be run, or ""."""
        if stop_reason == "max_tokens":
            return (
                f"not run: your reply was cut off at {self._agent.max_output_tokens} tokens, so "
                "its calls may not be whole. Send this one again, in smaller parts"
            )
        return f"not run: your reply ended with {stop_reason}" if stop_reason in UNFINISHED else ""

    async def close(self) -> None:
        """Close the sockets."""
        if self._transport is not None:
            await self._transport.close()
            self._transport = None
