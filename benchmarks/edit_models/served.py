"""A served model for the benchmark: one probe of its abilities, retries when it is busy.

No journal could record a wait, so waits are short and few. A server that does not answer ends the
benchmark; finished sessions are kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from akg_tui.agent.chat import ChatReply, ChatRequest, ServerBusy
from akg_tui.agent.model_calls import Retry
from akg_tui.agent.models.served import Served as ServedModel

TRIES = 6


class Served:
    """`model` with retries: at most `TRIES` requests for one reply. Implements `ChatModel`."""

    def __init__(
        self, model: ServedModel, *, rest: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._model = model
        self._rest = rest
        self._retry = Retry()
        self._prepared = False

    @property
    def name(self) -> str:
        return self._model.name

    async def complete(self, request: ChatRequest, on_delta: Callable[[str], None]) -> ChatReply:
        """One whole reply. Raises `ModelFailed`."""
        for attempt in range(1, TRIES + 1):
            try:
                if not self._prepared:
                    await self._model.prepare(None)
                    self._prepared = True
                return await self._model.complete(request, on_delta)
            except ServerBusy as error:
                given_up = attempt == TRIES or (error.unreachable and not self._prepared)
                if given_up:
                    raise
                await self._rest(self._retry.wait_for(attempt, error.asked_s))
        raise AssertionError("the last try raises or replies")

    async def close(self) -> None:
        await self._model.close()
