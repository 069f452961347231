"""Capability probe of a server of either API: a few small requests, each for one ability.

Used by a run before it measures anything, and by the doctor. A server that refuses an ability
lacks it; an unreachable server is an error.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from akg_tui.agent.chat import (
    ChatRequest,
    ModelUnusable,
    PromptRefused,
    ServerBusy,
    ToolSpec,
    UserMessage,
)
from akg_tui.agent.models.endpoint import Endpoint, sdk_missing
from akg_tui.agent.models.messages_api import Assembly, body_of, merged
from akg_tui.core.model_info import Capabilities
from akg_tui.core.task import Agent, Api

if TYPE_CHECKING:
    from akg_tui.agent.models.transport import Limits, Transport

PROBE_TOKENS = 2_000
FIRST_S = 120.0  # allowed until the reply to a small request begins
_TOOL = ToolSpec(
    "report_number",
    "Report a number to the harness.",
    {
        "type": "object",
        "properties": {"number": {"type": "integer"}},
        "required": ["number"],
    },
)
_ASK = "Call the tool report_number with the number 7. Say nothing else."
_REQUEST = ChatRequest(
    "You answer a harness that checks a connection.", (_TOOL,), (UserMessage(_ASK),)
)


class Finding(Struct, frozen=True):
    """One line of the findings. `ok`: usable; `warn`: works at a cost; `fail`: not usable."""

    name: str
    status: Literal["ok", "warn", "fail"]
    detail: str


async def probe(endpoint: Endpoint, *, limits: Limits | None = None) -> Capabilities:
    """Return the abilities of the server at `endpoint`, as found by small requests.

    Raises
    ------
    ModelFailed
        `ModelUnusable` when the key, the address or the model is refused, `ServerBusy` when
        no server answers or the answer is not a reply, `PromptRefused` when the server refuses
        the plainest request.
    """
    transport = await asyncio.to_thread(connect, endpoint, limits, first_s=FIRST_S)
    asked = _asked_chat if endpoint.api == "chat" else _asked
    try:
        return await asked(transport, endpoint.model)
    finally:
        await transport.close()


async def count(endpoint: Endpoint, limits: Limits | None = None) -> None:
    """Have the server at `endpoint` count the tokens of a small prompt, which costs nothing.

    Raises `ModelFailed` as `probe` does.
    """
    transport = await asyncio.to_thread(connect, endpoint, limits, first_s=FIRST_S)
    asked = merged(_REQUEST.messages)
    try:
        await transport.count_tokens({"model": endpoint.model, "messages": asked})
    finally:
        await transport.close()


async def _asked(transport: Transport, model: str) -> Capabilities:
    agent = Agent(model=model, max_output_tokens=PROBE_TOKENS)
    marked = body_of(_REQUEST, agent, Capabilities(cache_marks=True))
    base = marked
    try:
        reply = await _ask(transport, marked)
    except PromptRefused:
        base = body_of(_REQUEST, agent, Capabilities())
        reply = await _ask(transport, base)
    thinking = await _takes(
        transport, base, {"thinking": {"type": "enabled", "budget_tokens": 1_024}}
    )
    return replace(
        _basic(reply),
        cache_marks=base is marked,
        thinking=thinking is not None and thinking.thought,
    )


def _basic(reply: Assembly) -> Capabilities:
    """Return the abilities that every reply to the plain request shows."""
    _, uses = reply.content(set(), "")
    return Capabilities(
        tools=any(use.name == _TOOL.name and not use.fault for use in uses),
        streaming=reply.streamed,
        usage=reply.counted,
        cache_counters="cache_read_input_tokens" in reply.usage,
    )


_REFUSALS = (
    (),
    ("stream_options",),
    ("max_tokens",),
    ("max_tokens", "stream_options"),
    ("stream",),
    ("max_tokens", "stream"),
)
"""The fields of chat completions that servers are known to refuse, tried in this order."""


async def _asked_chat(transport: Transport, model: str) -> Capabilities:
    from akg_tui.agent.models import chat_completions

    agent = Agent(model=model, max_output_tokens=PROBE_TOKENS)
    first: PromptRefused | None = None
    for refused in _REFUSALS:
        can = Capabilities(refused=refused)
        try:
            reply = await _ask(transport, chat_completions.body_of(_REQUEST, agent, can))
        except PromptRefused as error:
            first = first or error
            continue
        return replace(_basic(reply), refused=refused)
    assert first is not None
    raise first


async def _ask(transport: Transport, body: dict[str, Any]) -> Assembly:
    reply = Assembly()
    await transport.receive(body, reply, lambda text: None)
    return reply


async def _takes(
    transport: Transport, base: dict[str, Any], more: dict[str, Any]
) -> Assembly | None:
    """Return the reply to `base` with the fields `more`; None if the server refuses them."""
    try:
        return await _ask(transport, {**base, **more})
    except (PromptRefused, ServerBusy):
        return None


_TOLD: tuple[tuple[str, str, str], ...] = (
    (
        "tools",
        "calls the tools it is told of",
        "calls no tools: the agent cannot act; start the server with tool calling on",
    ),
    (
        "streaming",
        "replies come as events",
        "replies come in one piece: nothing is seen while the model writes",
    ),
    ("usage", "counts its tokens", "tells no token counts: budgets go by estimates from lengths"),
    ("cache marks", "takes marks on the prompt", "refuses marks on the prompt: they are left out"),
    (
        "cache counters",
        "tells what was read from its cache",
        "does not tell what was read from its cache: the cost shown is an upper bound",
    ),
    ("thinking", "takes a thinking budget", "takes no thinking budget: agent.thinking is left out"),
)
"""The doctor's words: each ability, the sentence for its presence, and that for its absence."""

_OF_CHAT = ("tools", "streaming", "usage", "cache counters")


def findings(can: Capabilities, api: Api = "messages") -> list[Finding]:
    """Return one line for each capability; only the absence of tools, the first, is a `fail`.

    Chat completions have only some of them.
    """
    return [
        Finding(name, "ok", good)
        if getattr(can, name.replace(" ", "_"))
        else Finding(name, "fail" if name == "tools" else "warn", bad)
        for name, good, bad in _TOLD
        if api == "messages" or name in _OF_CHAT
    ]


def connect(endpoint: Endpoint, limits: Limits | None, *, first_s: float = 600.0) -> Transport:
    """Return a transport to `endpoint` without sending a request. Call it off the event loop.

    Without `limits` the transport's defaults apply, with `first_s` seconds until a reply begins.

    Raises
    ------
    ModelUnusable
        If no transport can be made here. The client reads proxies and certificates from the
        environment, and raises exceptions of any type about them.
    """
    try:
        from akg_tui.agent.models.transport import Limits

        limits = limits or Limits(first_s=first_s)
        if endpoint.api == "chat":
            from akg_tui.agent.models.chat_transport import ChatTransport

            return ChatTransport(endpoint, limits)
        from akg_tui.agent.models.messages_transport import MessagesTransport

        return MessagesTransport(endpoint, limits)
    except ModuleNotFoundError as error:
        raise ModelUnusable(f"{sdk_missing(endpoint.api) or error}") from error
    except Exception as error:
        raise ModelUnusable(
            f"no connection to {endpoint.base_url} can be made, with the proxy of ALL_PROXY, "
            f"HTTPS_PROXY or HTTP_PROXY if one is set: {endpoint.scrub(str(error))}"
        ) from error
