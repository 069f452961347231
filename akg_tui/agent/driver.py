"""The agent of a run that is driven from outside: its calls come from a client, one at a time.

It takes the place of a model in a visit, with the same prompt, executor, phases, gates and journal.
A call outside a visit is answered with the phase and the allowed tools. It knows no protocol: the
server of a protocol calls `call` and `situation`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from akg_tui.agent.chat import (
    ChatReply,
    ChatRequest,
    ModelUnusable,
    ToolResult,
    ToolUse,
    UserMessage,
)
from akg_tui.agent.context import Context, Conversation
from akg_tui.agent.models.messages_api import result_text
from akg_tui.agent.prompt import kernel_text, opening, situation
from akg_tui.agent.tools.executor import CallCutOff, ToolExecutor
from akg_tui.agent.tools.run_access import Caller, RunAccess
from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.effects import visit_over
from akg_tui.core.task import MCP

TICK_S = 0.2
WAIT_S = 45.0  # below the minute after which many clients give a call up
CUT_OFF = "cut off: a person changed the run while this call was at work; nothing more was done"


class Told(Struct, frozen=True):
    """The answer to a client's call: texts in their order, and whether the call failed."""

    texts: tuple[str, ...]
    failed: bool = False


class _Asked(Struct):
    """A call that waits for its turn, and where its answer goes."""

    tool: str
    arguments: dict[str, Any]
    answer: asyncio.Future[tuple[ToolResult, bool]]


class _Visit(Struct):
    """A visit that has begun: what its calls need."""

    run: RunAccess
    conversation: Conversation
    executor: ToolExecutor


class Driver:
    """Takes the place of a model in the visits of a run, and makes the calls of a client.

    `wait_s` bounds how long an answer waits for the next visit. `outside`, set by the owner,
    describes the run while no visit is open: the harness at work, a wait for a person, or the end.
    """

    name = MCP

    def __init__(self, *, wait_s: float = WAIT_S) -> None:
        self.outside: Callable[[], str] = str
        self._wait_s = wait_s
        self._calls: asyncio.Queue[_Asked] = asyncio.Queue()
        self._visit: _Visit | None = None
        self._conversation: Conversation | None = None
        self._untold: list[str] = []
        self._opened = asyncio.Event()

    async def complete(self, request: ChatRequest, on_delta: Callable[[str], None]) -> ChatReply:
        """Refuse: nobody here writes replies, so no subagent can work."""
        raise ModelUnusable("this run is driven from outside: no model answers here")

    async def visit(self, run: RunAccess, context: Context, clock: Callable[[], float]) -> None:
        """Make the client's calls until the work of the phase is done or waits for a person."""
        conversation, executor = context.begin(run, caller=Caller(), agents={})
        if conversation is not self._conversation:
            self._untold.append(conversation.system)
            self._conversation = conversation
        self._visit = _Visit(run, conversation, executor)
        self._collect(conversation)
        self._opened.set()
        try:
            while not _over(run, clock):
                try:
                    async with asyncio.timeout(TICK_S):
                        asked = await self._calls.get()
                except TimeoutError:
                    continue
                await self._make(self._visit, asked, clock)
        finally:
            self._close()

    async def _make(self, visit: _Visit, asked: _Asked, clock: Callable[[], float]) -> None:
        run, conversation = visit.run, visit.conversation
        conversation.request(run.state.hints)
        self._collect(conversation)
        replied = ev.ModelReplied(
            phase=run.state.phase,
            model=self.name,
            tool_calls=1,
            hints_told=conversation.hints_told,
        )
        run.send(cmd.Observe(replied))
        conversation.hints_told = 0
        use = ToolUse(f"mcp-{run.state.seq}", asked.tool, asked.arguments)
        try:
            result = await visit.executor.execute(use)
        except asyncio.CancelledError as cut:
            output = cut.output if isinstance(cut, CallCutOff) else ""
            _give(asked, ToolResult("error", output, CUT_OFF), over=True)
            raise
        run.send(cmd.Observe(ev.TurnEnded()))
        over = _over(run, clock)
        if over:
            self._close()  # before the answer, which waits for the next visit
        if not _give(asked, result, over=over):
            text = result_text(result)
            self._untold.append(f"The answer to {asked.tool}, which nobody waited for:\n{text}")

    def _collect(self, conversation: Conversation) -> None:
        """Move the messages of the harness to those that the client has still to be told."""
        said = [each.text for each in conversation.messages if isinstance(each, UserMessage)]
        self._untold += said
        conversation.messages = ()

    def _close(self) -> None:
        self._visit = None
        self._opened.clear()
        while not self._calls.empty():
            asked = self._calls.get_nowait()
            _give(asked, ToolResult.error(self._refusal(asked.tool)), over=True)

    def _refusal(self, tool: str) -> str:
        return f"{tool} is not allowed now: no tool at all is. {self.outside()}"

    async def call(self, tool: str, arguments: dict[str, Any]) -> Told:
        """Make one call, and return its result with all news that the client was not told.

        A call that ends the visit is answered when the next visit begins, or after `wait_s`.
        """
        if self._visit is None:
            return Told((self._refusal(tool),), failed=True)
        asked = _Asked(tool, arguments, asyncio.get_running_loop().create_future())
        self._calls.put_nowait(asked)
        result, over = await asked.answer
        news = await self._news() if over else self._take()
        return Told((result_text(result), *news), result.status != "success")

    async def situation(self, *, whole: bool = False) -> Told:
        """Return what the harness has to tell; wait up to `wait_s` while it is at work.

        `whole`: everything again, for a client that has lost its context.
        """
        news = await self._news()
        visit = self._visit
        if visit is None:
            return Told(tuple(news))
        state, allowed = visit.run.state, visit.executor.allowed
        if whole:
            parts = [
                visit.conversation.system,
                opening(state),
                situation(state, allowed),
                kernel_text(visit.executor.kernel.show()),
            ]
            return Told(tuple(parts))
        return Told(tuple(news) or (situation(state, allowed),))

    async def _news(self) -> list[str]:
        """Wait for a visit, and return what the client was not told, or why there is no visit."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._wait_s):
                await self._opened.wait()
        return self._take()

    def _take(self) -> list[str]:
        told, self._untold = self._untold, []
        return told if self._visit is not None else [*told, self.outside()]

    def over(self) -> None:
        """Answer all who wait: the run is over, and no visit will begin."""
        self._wait_s = 0.0
        self._opened.set()


def _over(run: RunAccess, clock: Callable[[], float]) -> bool:
    """Return whether a visit ends: the work is done, or a person holds the run."""
    now = clock()  # before the state is read: it can journal a sleep of the machine
    state = run.state
    return visit_over(state, now) or (state.paused and not state.granted)


def _give(asked: _Asked, result: ToolResult, *, over: bool) -> bool:
    """Answer a call; return False if nobody waits for the answer."""
    if asked.answer.done():
        return False
    asked.answer.set_result((result, over))
    return True
