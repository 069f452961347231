"""The ReAct loop: ask the model, run its tool calls, answer them, until the work is done.

Serves the conversations of the run's own agent and of subagents. Keeps the subagents at work in
memory, so that each can be stopped; core decides whether a stop is allowed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import asdict, replace

from akg_tui.agent.chat import (
    AssistantMessage,
    ChatModel,
    ChatReply,
    ChatRequest,
    ToolResult,
    ToolUse,
)
from akg_tui.agent.context import Conversation
from akg_tui.agent.model_calls import CallBudget, Retry, estimated
from akg_tui.agent.prompt import idle_told
from akg_tui.agent.tools.call_record import Transcript
from akg_tui.agent.tools.run_access import RunAccess
from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.phases import Phase
from akg_tui.core.sanitize import one_line
from akg_tui.core.user_commands import at_work

T = TypeVar("T")
EDITS = ("edit_kernel", "submit_kernel")
"""The tools that make the kernel which the harness evaluates when the turn ends."""

TRIALS = ("try_kernel", "sweep_kernel")
"""The tools that do so if their argument `submit` says it."""
Execute = Callable[[ToolUse], Coroutine[Any, Any, ToolResult]]


class Stopped(Exception):
    """One subagent was stopped, while its visit continues."""


class Stops:
    """The subagents at work, by name, each of which can be stopped."""

    def __init__(self) -> None:
        self._at_work: dict[str, asyncio.Task[Any]] = {}

    def stop(self, subagent: str) -> None:
        """Cancel the work of `subagent` at once; do nothing if it is not at work."""
        if work := self._at_work.get(subagent):
            work.cancel()

    async def run(self, subagent: str, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` under the name `subagent`. Raises `Stopped` if `stop` cancels it.

        Cancelling the caller cancels the work too, but raises `CancelledError`.
        """
        task = asyncio.create_task(work)
        self._at_work[subagent] = task
        try:
            await asyncio.wait({task})
        finally:
            del self._at_work[subagent]
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
        if task.cancelled():
            raise Stopped(subagent)
        return task.result()


class Streams(Protocol):
    """The receiver of subagents' streamed text (`akg_tui.engine.live.SubagentStreams`)."""

    def begin(self, subagent: str, agent: str, told: str) -> None: ...

    def write(self, subagent: str, delta: str) -> None: ...

    def end(self, subagent: str) -> None: ...


Describe = Callable[[int, ev.MachineDescribed | None], Awaitable[ev.MachineDescribed | None]]
"""Describes this machine for so many threads (`akg_tui.agent.machine.describe`)."""


Recall = Callable[[RunAccess], Awaitable[ev.MemoryRecalled | None]]
"""Reads what earlier runs found (`akg_tui.engine.run_memory.recollect`)."""


@dataclass
class LoopContext:
    """The means of the loop beside a conversation, shared by all conversations of a run.

    `source` is the name of the subagent, "" for the run's own agent. `inner`: the loop runs inside
    a turn of the run's own agent, so it journals no end of a turn and sends no hints of the run.
    `describe` is called before the first visit of a language model, and `recall` before the first
    visit of any agent; then they are None. `open_model` returns another model of the same server,
    for a subagent that a user declared with it. `on_wait` is called when a reply is waited for.
    """

    run: RunAccess
    model: ChatModel
    clock: Callable[[], float]
    on_delta: Callable[[str], None]
    streams: Streams
    retry: Retry = field(default_factory=Retry)
    call_budget: CallBudget = field(default_factory=CallBudget)
    stops: Stops = field(default_factory=Stops)
    describe: Describe | None = None
    open_model: Callable[[str], ChatModel] | None = None
    recall: Recall | None = None
    on_wait: Callable[[], None] = lambda: None
    source: str = ""
    inner: bool = False


class Ended(Struct, frozen=True):
    """The end of the loop. `failure` is the reason why the work is not done, or "".

    `last_text` is the last text of the model that was not empty.
    """

    reply: ChatReply | None = None
    failure: str = ""
    invalid: str = ""  # why the conversation cannot continue
    last_text: str = ""


async def run_loop(
    loop: LoopContext,
    conversation: Conversation,
    execute: Execute,
    *,
    turns: int,
    done: Callable[[ChatReply], bool],
    remind: Callable[[ChatReply], str],
    concurrent: Callable[[ToolUse], bool] = lambda use: False,
    transcript: Transcript | None = None,
) -> Ended:
    """Ask, run the calls, answer them, until `done` or `turns` replies.

    `remind` returns the answer to a reply without a call, "" for none; neighbouring calls that
    are `concurrent` run at the same time. Raises `ModelFailed`, `NoRoom` and `WaitEnded`, after
    which the conversation lacks the reply, but contains the hints of the failed request.
    """
    trouble = last_text = ""
    # The run's own agent needs no transcript, because its replies and calls are in the journal.
    keep = transcript.keep if transcript is not None else lambda messages: None
    keep(conversation.messages)  # before the request, so that a failed request is recorded too
    for _ in range(turns):
        reply = await _asked(loop, conversation)
        # Kept before its calls run, so that the transcript has the reply if a call is cancelled.
        said = AssistantMessage(reply.text, reply.tool_uses, reply.blocks)
        keep((*conversation.messages, said))
        if reply.stop_reason == "refusal":
            _end_turn(loop)
            why = f"the model refused to go on: {one_line(reply.text, 200) or 'no reason given'}"
            return Ended(reply, why, "the model refused to go on")
        results = await _answers(_with_one_edit(reply.tool_uses), execute, concurrent)
        _end_turn(loop)
        conversation.take(reply, results)
        keep(conversation.messages)
        last_text = reply.text.strip() or last_text
        if done(reply):
            return Ended(reply)
        if reply.stop_reason == "model_context_window_exceeded":
            why = "the prompt filled the model's context window"
            return Ended(reply, why, why)
        trouble = _trouble(reply, results) or trouble
        if not results and (reminder := remind(reply)):
            conversation.say(reminder)
    return Ended(None, f"no result in {turns} turns{trouble}", last_text=last_text)


def waiting(run: RunAccess, source: str) -> tuple[str, ...]:
    """Return a person's messages to the subagent `source` that no answered request contained."""
    one = at_work(run.state, source)
    return one.hints if one is not None else ()


async def _asked(loop: LoopContext, conversation: Conversation) -> ChatReply:
    run = loop.run
    phase = run.state.phase

    def made() -> ChatRequest:
        shared = () if loop.inner else run.state.hints
        if not loop.source and (news := idle_told(run.state, conversation.told)):
            conversation.say(news)
        request = conversation.request(shared, waiting(run, loop.source))
        return replace(request, state=run.state)

    estimate = estimated(loop.model.name, conversation.unread)
    with loop.call_budget.call(run.state, estimate) as still_fits:
        loop.on_wait()
        reply = await loop.retry.ask(
            run,
            loop.model,
            made,
            loop.on_delta,
            loop.clock,
            source=loop.source,
            again=lambda: still_fits(run.state),
        )
        run.send(cmd.Observe(_replied(phase, loop, reply, conversation)))
    conversation.hints_told = conversation.own_told = 0
    return reply


def _end_turn(loop: LoopContext) -> None:
    if not loop.inner:
        loop.run.send(cmd.Observe(ev.TurnEnded()))


def _with_one_edit(uses: Sequence[ToolUse]) -> tuple[ToolUse, ...]:
    """Return the calls; if several edit the kernel, none of these may run.

    The turn ends with an accepted edit, so the kernel would be evaluated with the first of them
    even if a later one is refused.
    """
    edits = sum(_edits(use) and not use.fault for use in uses)
    if edits < 2:
        return tuple(uses)
    why = (
        f"{edits} kernels in one reply: put all ops into one edit_kernel, or submit one kernel; "
        "nothing was done"
    )
    return tuple(replace(use, fault=use.fault or why) if _edits(use) else use for use in uses)


def _edits(use: ToolUse) -> bool:
    return use.name in EDITS or (use.name in TRIALS and use.arguments.get("submit") is True)


async def _answers(
    uses: Sequence[ToolUse],
    execute: Execute,
    concurrent: Callable[[ToolUse], bool],
) -> tuple[tuple[str, ToolResult], ...]:
    """Run the calls, and return their results in the order of the calls."""
    results: list[tuple[str, ToolResult]] = []
    for at_once, neighbours in groupby(uses, concurrent):
        group = list(neighbours)
        if at_once and len(group) > 1:
            answers = await _at_once(group, execute)
        else:
            answers = [await execute(use) for use in group]
        results += [(use.id, answer) for use, answer in zip(group, answers, strict=True)]
    return tuple(results)


async def _at_once(uses: Sequence[ToolUse], execute: Execute) -> list[ToolResult]:
    """Run each call in a task; an exception of a call cancels the other calls and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(execute(use)) for use in uses]
    except BaseExceptionGroup as broken:
        raise broken.exceptions[0] from None
    return [task.result() for task in tasks]


def _replied(
    phase: Phase, loop: LoopContext, reply: ChatReply, asked: Conversation
) -> ev.ModelReplied:
    fields = ev.ModelReplied.__struct_fields__
    shared = {name: value for name, value in asdict(reply).items() if name in fields}
    return ev.ModelReplied(
        **shared,
        phase=phase,
        model=loop.model.name,
        tool_calls=len(reply.tool_uses),
        hints_told=asked.hints_told,
        own_hints_told=asked.own_told,
        source=loop.source,
    )


def _trouble(reply: ChatReply, results: tuple[tuple[str, ToolResult], ...]) -> str:
    """Return the fault of a reply that did not do the work, for the reason of the visit's end."""
    errors = [result.error_information for _, result in results if result.status != "success"]
    if errors:
        return f"; the last call was refused: {one_line(errors[-1], 160)}"
    if not results:
        return "; the last reply called no tool" if reply.text.strip() else "; the last was empty"
    return ""
