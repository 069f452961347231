"""What an exception of the SDK or of its transport means for a run.

Told by type and by the server's own error type, never by the words of a message. The
words are only shown, without the key.
"""

from __future__ import annotations

import email.utils
import time

import anthropic
import httpx2

from akg_tui.agent.chat import ModelFailed, ModelUnusable, PromptRefused, ServerBusy, Spent
from akg_tui.agent.models.endpoint import KEY_VARIABLE, Endpoint
from akg_tui.agent.models.stream import BrokenStream, ReportedError

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
    """The failure that `error` stands for; `spent` is what the call took before it."""
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
    """The server answered with what is no whole reply."""
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
    if kind == "request_too_large":
        return PromptRefused(words)
    if kind == "invalid_request_error":
        return PromptRefused(words)
    return ModelUnusable(f"{endpoint.base_url} refuses to serve ({words})")


def asked_wait(headers: httpx2.Headers) -> float | None:
    """How many seconds a server asks to wait: ``retry-after``, in seconds or as a date."""
    told = headers.get("retry-after", "")
    try:
        return max(0.0, float(told))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(told).timestamp() - time.time())
    except (ValueError, TypeError):
        return None
