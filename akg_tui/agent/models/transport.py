"""The connection to a model's server, whatever SDK makes it: timeouts, bounds, and failures.

`Transport` receives one reply; the module of an SDK opens the request and names its exceptions.
Translates exceptions of an SDK and of its transport into `ModelFailed`, by their type and the
server's error type, never by the words of a message. Imports no SDK.
"""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import httpx2
from msgspec import Struct

from akg_tui.agent.chat import ModelFailed, ModelUnusable, PromptRefused, ServerBusy, Spent
from akg_tui.agent.models.endpoint import Endpoint
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


class Bounded:
    """A response with a bounded body, in the form that SDKs accept as a response."""

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


class Transport(ABC):
    """The connection to one server."""

    def __init__(self, endpoint: Endpoint, limits: Limits) -> None:
        self.endpoint = endpoint
        self.limits = limits
        self.timeout = httpx2.Timeout(limits.first_s, connect=limits.connect_s, read=None)
        self.http = httpx2.AsyncClient(
            timeout=self.timeout, trust_env=not endpoint.is_loopback, follow_redirects=False
        )

    async def close(self) -> None:
        """Close the sockets."""
        await self.http.aclose()

    @abstractmethod
    def opened(self, body: Mapping[str, Any]) -> AbstractAsyncContextManager[Any]:
        """Return the context of the SDK's raw response to a request with `body`."""

    @abstractmethod
    def events(
        self, response: httpx2.Response, body: Mapping[str, Any]
    ) -> AsyncIterator[Mapping[str, Any]]:
        """Yield the reply to `body` as events of the Messages API. Raises `BrokenStream`."""

    sdk: Any
    """The SDK's module."""
    sdk_error: type[Exception]
    """The class of all exceptions of the SDK."""

    @abstractmethod
    def told(self, error: Any) -> tuple[str, str]:
        """Return the error type and the words in an `APIStatusError` of the SDK."""

    def judged(self, error: Exception, spent: Spent | None = None) -> ModelFailed:
        """Return the failure for an exception of a request; `spent` are the tokens before it."""
        sdk, endpoint = self.sdk, self.endpoint
        match error:
            case sdk.APIStatusError():
                kind, words = self.told(error)
                asked = asked_wait(error.response.headers)
                return failure_of(
                    kind, f"{error.status_code} {kind}: {words}", endpoint, asked, spent
                )
            case sdk.APITimeoutError() | httpx2.TimeoutException() | TimeoutError():
                return unanswered(error, endpoint, spent)
            case sdk.APIConnectionError():
                return broken_connection(error, error.__cause__, endpoint, spent)
            case ModelFailed():
                return error
            case ReportedError():
                return failure_of(error.kind or "api_error", error.message, endpoint, None, spent)
            case BrokenStream():
                return garbled(str(error), endpoint, spent)
            case httpx2.HTTPError() | OSError():
                return broken_connection(error, error, endpoint, spent)
            case httpx2.InvalidURL() | TypeError():
                return unusable(error, endpoint)
            case _ if isinstance(error, self.sdk_error):
                return unusable(error, endpoint)
            case _:
                return garbled(f"{type(error).__name__}: {error}", endpoint, spent)

    async def count_tokens(self, body: Mapping[str, Any]) -> int:
        """Return the number of tokens of the prompt in `body`; 0 if the server cannot count.

        Raises `ModelFailed`.
        """
        return 0

    async def receive(self, body: Mapping[str, Any], assembly: Assembly, on_delta: Any) -> str:
        """Send `body`, add the reply to `assembly`, and return the request's id.

        Raises `ModelFailed`; the content of `assembly` must not be used after that.
        """
        loop = asyncio.get_running_loop()
        limits = self.limits
        last = loop.time() + limits.total_s
        try:
            async with asyncio.timeout(limits.first_s) as watchdog:
                async with self.opened(body) as answer:
                    response = answer.http_response
                    headers = response.headers
                    named = headers.get("request-id") or headers.get("x-request-id") or ""
                    async for event in self.events(response, body):
                        told = assembly.add(event)
                        if told is not None:
                            watchdog.reschedule(min(loop.time() + limits.stall_s, last))
                        if told:
                            on_delta(told)
                        if assembly.stopped:
                            break
        except TimeoutError:
            seconds = limits.stall_s if assembly.begun else limits.first_s
            why = f"no progress from {self.endpoint.base_url} for {seconds:g} s"
            raise ServerBusy(why, spent=assembly.begun) from None
        except ModelFailed:
            raise
        except Exception as error:
            raise self.judged(error, assembly.begun) from error
        if not assembly.whole:
            raise garbled("it ended before its end was told", self.endpoint, assembly.begun)
        return str(named)[:200]


def content_type(response: httpx2.Response) -> str:
    """Return the type of a reply. Raises `BrokenStream` for a page where a reply should be."""
    kind = str(response.headers.get("content-type", "")).partition(";")[0].strip().lower()
    if kind in ("text/html", "application/xml"):
        raise BrokenStream(f"{kind} where a stream of events should be")
    return kind


async def whole_body(response: httpx2.Response) -> Mapping[str, Any]:
    """Return the JSON object that is the whole reply. Raises `BrokenStream`."""
    parts = [chunk async for chunk in Bounded(response).aiter_bytes()]
    return json_object(b"".join(parts).decode(errors="replace"))


def json_object(text: str) -> Mapping[str, Any]:
    """Return the JSON object in `text`. Raises `BrokenStream`."""
    try:
        event = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BrokenStream(f"an event that is not JSON: {type(error).__name__}") from None
    if not isinstance(event, dict):
        raise BrokenStream("an event that is not a JSON object")
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


def kind_of_status(status: int) -> str:
    """Return the error type for an HTTP status."""
    return _KINDS.get(status) or ("api_error" if status >= 500 else "invalid_request_error")


def unusable(error: Exception, endpoint: Endpoint) -> ModelUnusable:
    """Return the failure for a request that cannot be made."""
    why = endpoint.scrub(f"{type(error).__name__}: {error}")
    return ModelUnusable(f"no request can be made to {endpoint.base_url}: {why}")


def unanswered(error: Exception, endpoint: Endpoint, spent: Spent | None) -> ServerBusy:
    """Return the failure for a timeout of the SDK or of its transport."""
    unreached = isinstance(error.__cause__, httpx2.ConnectTimeout)
    why = f"the server at {endpoint.base_url} did not answer in time"
    return ServerBusy(why, unreachable=unreached, spent=spent)


def garbled(what: str, endpoint: Endpoint, spent: Spent | None = None) -> ServerBusy:
    """Return the failure for an answer that is not a whole reply; `what` describes the fault."""
    why = endpoint.scrub(what, 200)
    return ServerBusy(f"a broken reply from {endpoint.base_url}: {why}", garbled=True, spent=spent)


def broken_connection(
    error: Exception, cause: BaseException | None, endpoint: Endpoint, spent: Spent | None
) -> ModelFailed:
    """Return the failure for an exception of the connection; `cause` is the transport's own."""
    if isinstance(cause, httpx2.UnsupportedProtocol | httpx2.InvalidURL):
        return ModelUnusable(f"{endpoint.base_url} is no address of a server: use http or https")
    why = endpoint.scrub(f"{type(cause or error).__name__}: {cause or error}", 160)
    if isinstance(cause, httpx2.ConnectError):
        reason = f"cannot reach the server at {endpoint.base_url} ({why})"
        return ServerBusy(reason, unreachable=True, spent=spent)
    return ServerBusy(f"the connection to {endpoint.base_url} broke ({why})", spent=spent)


def failure_of(
    kind: str, words: str, endpoint: Endpoint, asked: float | None, spent: Spent | None
) -> ModelFailed:
    """Return the failure for an error type of the server, with the server's `words`.

    `asked` is the wait in seconds that the server asks for.
    """
    words = endpoint.scrub(words)
    if kind in _PASSING:
        return ServerBusy(words, asked_s=asked, spent=spent)
    if kind in _REFUSED and endpoint.withheld and not endpoint.key:
        return ModelUnusable(
            f"{endpoint.base_url} asks for a key, and the one in {endpoint.key_variable} goes to "
            "no server that only a folder names: give --api-key-file, or --base-url to tune"
        )
    if kind in _REFUSED:
        how = f"the key in {endpoint.key_variable} or --api-key-file"
        what = "was refused" if endpoint.key else "is missing"
        return ModelUnusable(f"{how} {what} by {endpoint.base_url} ({words})")
    if kind == "not_found_error":
        return ModelUnusable(f"{endpoint.base_url} knows no model {endpoint.model} ({words})")
    if kind in ("request_too_large", "invalid_request_error"):
        return PromptRefused(words)
    return ModelUnusable(f"{endpoint.base_url} refuses to serve ({words})")


def asked_wait(headers: httpx2.Headers) -> float | None:
    """Return the seconds to wait that ``retry-after`` asks for."""
    try:
        return max(0.0, float(headers.get("retry-after", "")))
    except ValueError:  # none is told, or a date
        return None
