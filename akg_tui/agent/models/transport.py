"""The only module that holds the SDK's client: a body goes out, raw events come back.

Imported when a served model is first used, because the SDK takes most of a second. It
never retries and never waits on its own: every failure is told at once.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

import anthropic
import httpx2
from anthropic import AsyncStream
from msgspec import Struct

from akg_tui.agent.chat import ModelFailed, ServerBusy, Spent
from akg_tui.agent.models.endpoint import Endpoint
from akg_tui.agent.models.faults import garbled, judged
from akg_tui.agent.models.stream import Assembly, BrokenStream

MAX_REPLY_BYTES = 64 * 1024 * 1024
MAX_EVENT_BYTES = 8 * 1024 * 1024


class Limits(Struct, frozen=True):
    """How long silence is borne, in seconds. A ping is no progress.

    `first_s` is until a reply begins (a server of one's own reads a long prompt slowly),
    `stall_s` between two parts of it, `total_s` for all of it.
    """

    connect_s: float = 15.0
    first_s: float = 600.0
    stall_s: float = 180.0
    total_s: float = 5_400.0


class _Bounded:
    """A response whose body may not go on for ever, as `AsyncStream.raw_events` takes it."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        total = line = 0
        async for chunk in self._response.aiter_bytes():
            total += len(chunk)
            end = chunk.rfind(b"\n")
            line = line + len(chunk) if end < 0 else len(chunk) - end
            if total > MAX_REPLY_BYTES or line > MAX_EVENT_BYTES:
                raise BrokenStream("the reply does not end")
            yield chunk


class Transport:
    """One server. `close` gives its sockets back."""

    def __init__(self, endpoint: Endpoint, limits: Limits) -> None:
        self._endpoint = endpoint
        self._limits = limits
        timeout = httpx2.Timeout(limits.first_s, connect=limits.connect_s, read=None)
        # The SDK sends the key as a bearer; other servers document `x-api-key`.
        key = endpoint.key or "none"
        headers = {} if endpoint.is_anthropic else {"x-api-key": key}
        self._http = httpx2.AsyncClient(
            timeout=timeout, trust_env=not endpoint.is_loopback, follow_redirects=False
        )
        self._client = anthropic.AsyncAnthropic(
            api_key=key,
            base_url=endpoint.base_url,
            max_retries=0,
            timeout=cast(Any, timeout),
            default_headers=headers,
            http_client=self._http,
        )

    async def close(self) -> None:
        await self._client.close()

    async def receive(
        self,
        body: Mapping[str, Any],
        assembly: Assembly,
        on_delta: Any,
        prompt_chars: int,
    ) -> str:
        """Send `body` and put the reply into `assembly`; the request's id is the answer.

        Raises `ModelFailed`; nothing of `assembly` may then be used.
        """
        loop = asyncio.get_running_loop()
        limits = self._limits
        last = loop.time() + limits.total_s
        try:
            async with asyncio.timeout(limits.first_s) as watchdog:
                opened = self._client.messages.with_streaming_response.create(
                    **cast(Any, body), stream=True
                )
                async with opened as answer:
                    response = answer.http_response
                    request_id = str(response.headers.get("request-id", ""))[:200]
                    async for event in _events(response):
                        told = assembly.add(event)
                        if told is not None:
                            watchdog.reschedule(min(loop.time() + limits.stall_s, last))
                        if told:
                            on_delta(told)
                        if assembly.stopped:
                            break
        except TimeoutError:
            raise self._stalled(assembly, prompt_chars) from None
        except ModelFailed:
            raise
        except Exception as error:
            raise judged(error, self._endpoint, _begun(assembly, prompt_chars)) from error
        if not assembly.whole:
            what = "it ended before its end was told"
            raise garbled(what, self._endpoint, _begun(assembly, prompt_chars))
        return request_id

    def _stalled(self, assembly: Assembly, prompt_chars: int) -> ServerBusy:
        begun = _begun(assembly, prompt_chars)
        limits = self._limits
        seconds = limits.stall_s if begun else limits.first_s
        why = f"no progress from {self._endpoint.base_url} for {seconds:g} s"
        return ServerBusy(why, spent=begun)

    async def count_tokens(self, body: Mapping[str, Any]) -> int:
        """How many tokens the prompt in `body` has. Raises `ModelFailed`."""
        try:
            counted = await self._client.messages.count_tokens(**cast(Any, body))
            return int(counted.input_tokens)
        except Exception as error:
            raise judged(error, self._endpoint) from error


def _begun(assembly: Assembly, prompt_chars: int) -> Spent | None:
    """What a broken reply took; None where the server had not begun one."""
    return assembly.spent(prompt_chars) if assembly.id or assembly.usage else None


async def _events(response: httpx2.Response) -> AsyncIterator[Mapping[str, Any]]:
    """The body's events as JSON objects, whatever form of reply it is."""
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        async for event in _whole_message(response):
            yield event
        return
    if kind in ("text/html", "application/xml"):
        raise BrokenStream(f"{kind} where a stream of events should be")
    async for sent in AsyncStream.raw_events(cast(Any, _Bounded(response))):
        if not sent.data or sent.data == "[DONE]":
            continue
        yield _object(sent.data, sent.event)


async def _whole_message(response: httpx2.Response) -> AsyncIterator[Mapping[str, Any]]:
    """A server that does not stream sends the whole message: told as the events it stands for."""
    parts = [chunk async for chunk in _Bounded(response).aiter_bytes()]
    message = _object(b"".join(parts).decode(errors="replace"), None)
    if message.get("type") == "error":
        yield message
        return
    content = message.get("content")
    if not isinstance(content, list):
        raise BrokenStream("the reply has no list of content blocks")
    yield {"type": "message_start", "message": message}
    for index, block in enumerate(content):
        yield {"type": "content_block_start", "index": index, "content_block": block}
    yield {"type": "message_delta", "delta": message}
    yield {"type": "message_stop"}


def _object(text: str, name: str | None) -> Mapping[str, Any]:
    try:
        event = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BrokenStream(f"an event that is not JSON: {type(error).__name__}") from None
    if not isinstance(event, dict):
        raise BrokenStream("an event that is not a JSON object")
    if "type" not in event and name:
        return {**event, "type": name}
    return event
