"""The only module that uses Anthropic's SDK: sends bodies of the Messages API, reads raw events.

Imported with the first request.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, cast

import anthropic
import httpx2
from anthropic import AsyncStream

from akg_tui.agent.models.endpoint import Endpoint
from akg_tui.agent.models.messages_api import BrokenStream
from akg_tui.agent.models.transport import (
    Bounded,
    Limits,
    Transport,
    content_type,
    json_object,
    kind_of_status,
)


class MessagesTransport(Transport):
    """The connection to a server of the Messages API. `close` closes its sockets."""

    sdk, sdk_error = anthropic, anthropic.AnthropicError

    def __init__(self, endpoint: Endpoint, limits: Limits) -> None:
        super().__init__(endpoint, limits)
        # The SDK sends the key only as a bearer token; other servers document `x-api-key`.
        key = endpoint.key or "none"
        headers = {} if endpoint.is_anthropic else {"x-api-key": key}
        self._client = anthropic.AsyncAnthropic(
            api_key=key,
            base_url=endpoint.base_url,
            max_retries=0,
            timeout=cast(Any, self.timeout),
            default_headers=headers,
            http_client=self.http,
        )

    def opened(self, body: Mapping[str, Any]) -> AbstractAsyncContextManager[Any]:
        return self._client.messages.with_streaming_response.create(**cast(Any, body), stream=True)

    async def events(
        self, response: httpx2.Response, body: Mapping[str, Any]
    ) -> AsyncIterator[Mapping[str, Any]]:
        if content_type(response) == "application/json":
            raise BrokenStream("a whole message where a stream of events should be")
        async for sent in AsyncStream.raw_events(cast(Any, Bounded(response))):
            if not sent.data or sent.data == "[DONE]":
                continue
            event = json_object(sent.data)
            yield {**event, "type": sent.event} if "type" not in event and sent.event else event

    async def count_tokens(self, body: Mapping[str, Any]) -> int:
        try:
            counted = await self._client.messages.count_tokens(**cast(Any, body))
            return int(counted.input_tokens)
        except Exception as error:
            raise self.judged(error) from error

    def told(self, error: Any) -> tuple[str, str]:
        return error.type or kind_of_status(error.status_code), error.api_message or error.message
