"""A visit: the agent's work in one phase, by the run's own agent or in DIAGNOSE by a subagent.

A visit ends when core finds the phase's work done, or after `MAX_TURNS` replies; the model does
not decide the end. A failure of the model becomes an event, never an exception.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from akg_tui.agent.chat import ChatReply, ModelFailed, ModelUnusable, PromptRefused
from akg_tui.agent.context import Context
from akg_tui.agent.driver import Driver
from akg_tui.agent.model_calls import NoRoom, WaitEnded
from akg_tui.agent.react_loop import LoopContext, run_loop
from akg_tui.agent.subagents import Subagents, begin, end, why_stopped
from akg_tui.agent.tools.call_record import Transcript
from akg_tui.agent.tools.run_access import SUBAGENT, Caller
from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.effects import visit_over
from akg_tui.core.phases import Phase
from akg_tui.core.sanitize import one_line

MAX_TURNS = 20
DIAGNOSIS = "diagnosis"


async def visit(loop: LoopContext, context: Context) -> None:
    """Let the agent do the work of the current phase.

    Returns when the work is done or waits for a person, or after journaling `VisitFailed`,
    `ApiFailed` or `CallRefused`. Returns without an event if the visit must only begin again:
    after a pause, or with a new conversation because the server refused an old one.
    """
    await _recalled(loop)
    if context.of_model:
        await _described(loop)
    if isinstance(loop.model, Driver):
        await loop.model.visit(loop.run, context, loop.clock)
    elif loop.run.state.row.agent == "subagent":
        await _diagnosis(loop, context.for_subagent())
    else:
        await _run_visit(loop, context, Caller())


async def _described(loop: LoopContext) -> None:
    """Journal the facts of this machine, once in a session and unless they are known."""
    describe, loop.describe = loop.describe, None
    state = loop.run.state
    if describe and (found := await describe(state.task.timing.threads, state.machine)):
        loop.run.send(cmd.Observe(found))


async def _recalled(loop: LoopContext) -> None:
    """Journal what earlier runs found, once in a run and before its first plan."""
    recall, loop.recall = loop.recall, None
    state = loop.run.state
    if recall and state.memory is None and not state.items and (found := await recall(loop.run)):
        loop.run.send(cmd.Observe(found))


async def _diagnosis(loop: LoopContext, context: Context) -> None:
    """Run a diagnosis in a new conversation, as a subagent that does the whole visit."""
    state = loop.run.state
    begun = begin(loop.run, DIAGNOSIS, state.phase_reason)
    loop.streams.begin(begun.id, DIAGNOSIS, begun.told)

    def on_delta(text: str) -> None:
        loop.on_delta(text)
        loop.streams.write(begun.id, text)

    own = replace(loop, source=begun.id, on_delta=on_delta)
    caller = Caller(begun.id, begun.node.name)
    try:
        failure = await _run_visit(own, context, caller, Transcript(begun.node))
    except asyncio.CancelledError:
        end(loop.run, begun.id, "cancelled", why_stopped(loop.run, begun.id))
        raise
    finally:
        loop.streams.end(begun.id)
    end(loop.run, begun.id, "failed" if failure else "done", failure)


async def _run_visit(
    loop: LoopContext, own: Context, caller: Caller, transcript: Transcript | None = None
) -> str:
    """Run the loop until the phase is done; return the reason of a failure, or ""."""
    run, phase = loop.run, loop.run.state.phase
    agents = {SUBAGENT: Subagents(loop)}
    conversation, executor = own.begin(run, caller=caller, agents=agents)
    fresh = conversation.fresh

    def done(reply: ChatReply) -> bool:
        now = loop.clock()  # before the state is read: it can journal a sleep of the machine
        return visit_over(run.state, now)

    try:
        ended = await run_loop(
            loop,
            conversation,
            executor.execute,
            turns=MAX_TURNS,
            done=done,
            remind=lambda reply: _reminder(phase, executor.allowed, reply),
            concurrent=executor.starts_agent,
            transcript=transcript,
        )
    except WaitEnded:
        return "the wait for the model's server was ended"
    except ModelUnusable as error:
        run.send(cmd.Observe(ev.ApiFailed(reason=str(error))))
        return str(error)
    except PromptRefused as error:
        if fresh and conversation.fresh:
            why = f"the server takes no request of this run: {error}"
            run.send(cmd.Observe(ev.ApiFailed(reason=why)))
        elif fresh:
            # A refusal is repaired by a new conversation, but this one was new when the visit
            # began. A visit that is not counted as failed would be repeated and paid for forever.
            run.send(cmd.Observe(ev.VisitFailed(phase=phase, reason=str(error))))
        own.invalidate(f"the server refused the prompt: {one_line(str(error), 120)}")
        return str(error)
    except NoRoom as error:
        run.send(cmd.Observe(ev.CallRefused(reason=str(error))))
        return str(error)
    except ModelFailed as error:
        run.send(cmd.Observe(ev.VisitFailed(phase=phase, reason=str(error))))
        return str(error)
    if ended.invalid:
        own.invalidate(ended.invalid)
    if ended.failure:
        run.send(cmd.Observe(ev.VisitFailed(phase=phase, reason=ended.failure)))
    return ended.failure


def _reminder(phase: Phase, tools: Sequence[str], reply: ChatReply) -> str:
    long = reply.stop_reason == "max_tokens"
    cut = "Your reply was cut off at its greatest length. " if long else ""
    return f"{cut}Phase {phase} is not done. Call one of: {', '.join(tools)}."
