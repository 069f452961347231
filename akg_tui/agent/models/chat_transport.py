"""The only module that uses OpenAI's SDK: sends bodies of chat completions, reads raw chunks.

Imported with the first request to such a server; the SDK is the extra `akg-tui[openai]`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, cast

import httpx2
import openai

from akg_tui.agent.models.chat_completions import Translation, kind_of_error
from akg_tui.agent.models.endpoint import Endpoint
from akg_tui.agent.models.transport import (
    Bounded,
    Limits,
    Transport,
    content_type,
    json_object,
    whole_body,
)


class ChatTransport(Transport):
    """The connection to a server of chat completions. `close` closes its sockets."""

    sdk, sdk_error = openai, openai.OpenAIError

    def __init__(self, endpoint: Endpoint, limits: Limits) -> None:
        super().__init__(endpoint, limits)
        # The SDK would send the environment's organisation and project to any server.
        hidden = {"OpenAI-Organization": openai.Omit(), "OpenAI-Project": openai.Omit()}
        self._client = openai.AsyncOpenAI(
            api_key=endpoint.key or "none",
            base_url=endpoint.base_url,
            max_retries=0,
            timeout=cast(Any, self.timeout),
            default_headers=None if endpoint.is_openai else cast(Any, hidden),
            http_client=self.http,
        )

    def opened(self, body: Mapping[str, Any]) -> AbstractAsyncContextManager[Any]:
        create = self._client.chat.completions.with_streaming_response.create
        return create(**cast(Any, body))

    async def events(
        self, response: httpx2.Response, body: Mapping[str, Any]
    ) -> AsyncIterator[Mapping[str, Any]]:
        limit = body.get("max_tokens") or body.get("max_completion_tokens") or 0
        if content_type(response) == "application/json":
            whole = Translation(limit, streamed=False)
            for event in whole.add(await whole_body(response)):
                yield event
            for event in whole.end():
                yield event
            return
        reply = Translation(limit)
        try:
            async for data in _data(response):
                for event in reply.add(json_object(data)):
                    yield event
        except (httpx2.HTTPError, OSError):
            if not reply.ended:  # a reply that is whole lacks its token counts at worst
                raise
        for event in reply.end():
            yield event

    def told(self, error: Any) -> tuple[str, str]:
        body = error.body
        words = body.get("message") if isinstance(body, dict) else None
        kind = kind_of_error(error.code, error.type, error.status_code)
        return kind, str(words or error.message)


async def _data(response: httpx2.Response) -> AsyncIterator[str]:
    """Yield the data of each server-sent event, which is one line each, up to ``[DONE]``.

    Not httpx's lines: they also end at characters that JSON allows inside a text.
    """
    rest = b""
    async for chunk in Bounded(response).aiter_bytes():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            data = line.removeprefix(b"data:").strip()
            if data == b"[DONE]":
                return
            if data and line.startswith(b"data:"):
                yield data.decode(errors="replace")
