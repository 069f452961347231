"""The only module that uses the SDK's client: sends a body and reads raw events.

Also translates exceptions of the SDK and of its transport into `ModelFailed`, by their type and
the server's error type, never by the words of a message. Imported with the first request.
"""

from __future__ import annotations

import asyncio
import email.utils
import json
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

import anthropic
import httpx2
from anthropic import AsyncStream
from msgspec import Struct

from akg_tui.agent.chat import ModelFailed, ModelUnusable, PromptRefused, ServerBusy, Spent
from akg_tui.agent.models.endpoint import KEY_VARIABLE, Endpoint
from akg_tui.agent.models.messages_api import Assembly, BrokenStream, ReportedError

MAX_REPLY_BYTES = 64 * 1024 * 1024
MAX_EVENT_BYTES = 8 * 1024 * 1024


class Limits(Struct, frozen=True):
    """Timeouts of one request, in seconds. A ping does not count as progress.

    `first_s` applies until a reply begins (a local server reads a long prompt slowly),
    `stall_s` between two parts of the reply, `total_s` to all of it.
    """

    connect_s: float = 15.0
    first_s: float = 600.0
    stall_s: float = 180.0
    total_s: float = 5_400.0


class _Bounded:
    """A response with a bounded body, in the form that `AsyncStream.raw_events` accepts."""

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
    """The connection to one server. `close` closes its sockets."""

    def __init__(self, endpoint: Endpoint, limits: Limits) -> None:
        self._endpoint = endpoint
        self._limits = limits
        timeout = httpx2.Timeout(limits.first_s, connect=limits.connect_s, read=None)
        # The SDK sends the key only as a bearer token; other servers document `x-api-key`.
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
    ) -> str:
        """Send `body`, add the reply to `assembly`, and return the request's id.

        Raises `ModelFailed`; the content of `assembly` must not be used after that.
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
            seconds = limits.stall_s if assembly.begun else limits.first_s
            why = f"no progress from {self._endpoint.base_url} for {seconds:g} s"
            raise ServerBusy(why, spent=assembly.begun) from None
        except ModelFailed:
            raise
        except Exception as error:
            raise judged(error, self._endpoint, assembly.begun) from error
        if not assembly.whole:
            raise garbled("it ended before its end was told", self._endpoint, assembly.begun)
        return request_id

    async def count_tokens(self, body: Mapping[str, Any]) -> int:
        """Return the number of tokens of the prompt in `body`. Raises `ModelFailed`."""
        try:
            counted = await self._client.messages.count_tokens(**cast(Any, body))
            return int(counted.input_tokens)
        except Exception as error:
            raise judged(error, self._endpoint) from error


async def _events(response: httpx2.Response) -> AsyncIterator[Mapping[str, Any]]:
    """Yield the events of a streamed or a whole reply as JSON objects. Raises `BrokenStream`."""
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
    """Yield the events equivalent to the whole message of a server that does not stream."""
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


_REFUSED = frozenset({"authentication_error", "permission_error"})
_PASSING = frozenset({"rate_limit_error", "overloaded_error", "api_error", "timeout_error"})
_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    409: "api_error",
    413: "request_too_large",
    429: "rate_limit_error",
    499: "api_error",
    529: "overloaded_error",
}


def judged(error: Exception, endpoint: Endpoint, spent: Spent | None = None) -> ModelFailed:
    """Return the `ModelFailed` for `error`; `spent` are the tokens of the call before it."""
    match error:
        case ModelFailed():
            return error
        case ReportedError():
            return _by_kind(error.kind or "api_error", error.message, endpoint, None, spent)
        case BrokenStream():
            return garbled(str(error), endpoint, spent)
        case anthropic.APIStatusError():
            kind = error.type or _KINDS.get(error.status_code, "")
            if not kind:
                kind = "api_error" if error.status_code >= 500 else "invalid_request_error"
            words = f"{error.status_code} {kind}: {error.api_message or error.message}"
            asked = asked_wait(error.response.headers)
            return _by_kind(kind, words, endpoint, asked, spent)
        case anthropic.APITimeoutError() | httpx2.TimeoutException() | TimeoutError():
            unreached = isinstance(error.__cause__, httpx2.ConnectTimeout)
            what = "did not answer in time"
            return ServerBusy(
                f"the server at {endpoint.base_url} {what}", unreachable=unreached, spent=spent
            )
        case anthropic.APIConnectionError() | httpx2.HTTPError() | OSError():
            return _transport(error, endpoint, spent)
        case httpx2.InvalidURL() | TypeError() | anthropic.AnthropicError():
            why = endpoint.scrub(f"{type(error).__name__}: {error}")
            return ModelUnusable(f"no request can be made to {endpoint.base_url}: {why}")
        case _:
            return garbled(f"{type(error).__name__}: {error}", endpoint, spent)


def garbled(what: str, endpoint: Endpoint, spent: Spent | None = None) -> ServerBusy:
    """Return the failure for an answer that is not a whole reply; `what` describes the fault."""
    why = endpoint.scrub(what, 200)
    return ServerBusy(f"a broken reply from {endpoint.base_url}: {why}", garbled=True, spent=spent)


def _transport(error: Exception, endpoint: Endpoint, spent: Spent | None) -> ModelFailed:
    cause = error.__cause__ if isinstance(error, anthropic.APIConnectionError) else error
    if isinstance(cause, httpx2.UnsupportedProtocol | httpx2.InvalidURL):
        return ModelUnusable(f"{endpoint.base_url} is no address of a server: use http or https")
    why = endpoint.scrub(f"{type(cause or error).__name__}: {cause or error}", 160)
    if isinstance(cause, httpx2.ConnectError):
        reason = f"cannot reach the server at {endpoint.base_url} ({why})"
        return ServerBusy(reason, unreachable=True, spent=spent)
    return ServerBusy(f"the connection to {endpoint.base_url} broke ({why})", spent=spent)


def _by_kind(
    kind: str, words: str, endpoint: Endpoint, asked: float | None, spent: Spent | None
) -> ModelFailed:
    words = endpoint.scrub(words)
    if kind in _PASSING:
        return ServerBusy(words, asked_s=asked, spent=spent)
    if kind in _REFUSED:
        how = f"the key in {KEY_VARIABLE} or --api-key-file"
        what = "was refused" if endpoint.key else "is missing"
        return ModelUnusable(f"{how} {what} by {endpoint.base_url} ({words})")
    if kind == "not_found_error":
        return ModelUnusable(f"{endpoint.base_url} knows no model {endpoint.model} ({words})")
    if kind in ("request_too_large", "invalid_request_error"):
        return PromptRefused(words)
    return ModelUnusable(f"{endpoint.base_url} refuses to serve ({words})")


def asked_wait(headers: httpx2.Headers) -> float | None:
    """Return the wait in seconds that ``retry-after`` asks for, in seconds or as a date."""
    told = headers.get("retry-after", "")
    try:
        return max(0.0, float(told))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(told).timestamp() - time.time())
    except (ValueError, TypeError):
        return None
