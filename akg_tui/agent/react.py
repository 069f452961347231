"""The ReAct loop: think, call tools, read the answers, until the work is done.

`converse` is the loop for any conversation; `visit` is one stay in one agent phase.
Leaving is not the model's choice: a visit ends when core finds the phase's work done, or
when turns run out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from msgspec import Struct

from akg_tui.agent.admission import Admission, NoRoom, estimated
from akg_tui.agent.chat import (
    ChatModel,
    ChatReply,
    ModelFailed,
    ModelUnusable,
    PromptRefused,
    ToolResult,
    ToolUse,
)
from akg_tui.agent.context import Context, Conversation, VisitBrief
from akg_tui.agent.patience import Patience, WaitEnded
from akg_tui.agent.tools.port import RunPort
from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.effects import visit_over
from akg_tui.core.machine import PHASE_TOOLS, Phase
from akg_tui.core.plain import one_line

MAX_TURNS = 12


@dataclass
class Talk:
    """Who talks for which run: what every conversation of a run has in common."""

    run: RunPort
    model: ChatModel
    clock: Callable[[], float]
    on_delta: Callable[[str], None]
    patience: Patience = field(default_factory=Patience)
    admission: Admission = field(default_factory=Admission)


class Ended(Struct, frozen=True):
    """How a conversation ended. `failure` is "" when its work was done."""

    reply: ChatReply | None = None
    failure: str = ""
    spoiled: str = ""  # why the conversation cannot be gone on with


async def converse(
    talk: Talk,
    conversation: Conversation,
    execute: Callable[[ToolUse], Awaitable[ToolResult]],
    *,
    turns: int,
    done: Callable[[ChatReply], bool],
    remind: Callable[[ChatReply], str],
) -> Ended:
    """Ask, run the calls, answer them, until `done` or `turns` replies.

    `remind` is what a reply without a call is answered with. Raises `ModelFailed`,
    `NoRoom` and `WaitEnded`; the conversation is then as it was before the last request.
    """
    run = talk.run
    phase = run.state.phase
    trouble = ""
    for _ in range(turns):
        estimate = estimated(talk.model.name, conversation.unread)
        with talk.admission.call(run.state, estimate):
            reply = await talk.patience.ask(
                run,
                talk.model,
                lambda: conversation.request(run.state.hints),
                talk.on_delta,
                talk.clock,
            )
            run.send(cmd.Observe(_replied(phase, talk.model, reply, conversation.hints_told)))
        conversation.hints_told = 0
        if reply.stop_reason == "refusal":
            run.send(cmd.Observe(ev.TurnEnded()))
            why = f"the model refused to go on: {one_line(reply.text, 200) or 'no reason given'}"
            return Ended(reply, why, "the model refused to go on")
        results = tuple([(use.id, await execute(use)) for use in reply.tool_uses])
        run.send(cmd.Observe(ev.TurnEnded()))
        conversation.take(reply, results)
        if done(reply):
            return Ended(reply)
        if reply.stop_reason == "model_context_window_exceeded":
            why = "the prompt filled the model's context window"
            return Ended(reply, why, why)
        trouble = _trouble(reply, results) or trouble
        if not results:
            conversation.say(remind(reply))
    return Ended(None, f"no result in {turns} turns{trouble}")


async def visit(
    run: RunPort,
    model: ChatModel,
    *,
    clock: Callable[[], float],
    on_delta: Callable[[str], None],
    context: Context | None = None,
    patience: Patience | None = None,
    admission: Admission | None = None,
) -> None:
    """Let the agent do the work of the current phase.

    Ends with the phase's work done or waiting for a person, with `VisitFailed`, `ApiFailed`
    or `CallRefused` in the journal, or with nothing when the visit is simply to begin again:
    with a new conversation, or after a pause. Without a `context` the visit stands alone.
    """
    phase = run.state.phase
    talk = Talk(run, model, clock, on_delta, patience or Patience(), admission or Admission())
    own = context or Context(VisitBrief(), budget=0)
    if phase is Phase.DIAGNOSE:
        own = own.apart()  # a fresh look, without the habits that led here
    conversation, executor = own.begin(run)
    fresh = conversation.fresh
    try:
        ended = await converse(
            talk,
            conversation,
            executor.execute,
            turns=MAX_TURNS,
            done=lambda reply: visit_over(run.state, clock()),
            remind=lambda reply: _reminder(run, reply),
        )
    except WaitEnded:
        return
    except ModelUnusable as error:
        run.send(cmd.Observe(ev.ApiFailed(reason=str(error))))
        return
    except PromptRefused as error:
        if fresh and conversation.fresh:
            why = f"the server takes no request of this run: {error}"
            run.send(cmd.Observe(ev.ApiFailed(reason=why)))
        own.spoil(f"the server refused the prompt: {one_line(str(error), 120)}")
        return
    except NoRoom as error:
        run.send(cmd.Observe(ev.CallRefused(reason=str(error))))
        return
    except ModelFailed as error:
        run.send(cmd.Observe(ev.VisitFailed(phase=phase, reason=str(error))))
        return
    if ended.spoiled:
        own.spoil(ended.spoiled)
    if ended.failure:
        run.send(cmd.Observe(ev.VisitFailed(phase=phase, reason=ended.failure)))


def _replied(phase: Phase, model: ChatModel, reply: ChatReply, hints: int) -> ev.ModelReplied:
    return ev.ModelReplied(
        phase=phase,
        model=model.name,
        text=reply.text,
        tool_calls=len(reply.tool_uses),
        input_tokens=reply.input_tokens,
        output_tokens=reply.output_tokens,
        cache_read_tokens=reply.cache_read_tokens,
        cache_write_tokens=reply.cache_write_tokens,
        cache_write_short_tokens=reply.cache_write_short_tokens,
        stop_reason=reply.stop_reason,
        request_id=reply.request_id,
        duration_s=reply.duration_s,
        estimated=reply.estimated,
        cache_miss=reply.cache_miss,
        hints_told=hints,
    )


def _trouble(reply: ChatReply, results: tuple[tuple[str, ToolResult], ...]) -> str:
    """What was wrong with a reply that did not do the work, for the reason of the visit's end."""
    errors = [result.error_information for _, result in results if result.status != "success"]
    if errors:
        return f"; the last call was refused: {one_line(errors[-1], 160)}"
    if not results:
        return "; the last reply called no tool" if reply.text.strip() else "; the last was empty"
    return ""


def _reminder(run: RunPort, reply: ChatReply) -> str:
    tools = ", ".join(sorted(PHASE_TOOLS[run.state.phase]))
    cut = (
        "Your reply was cut off at its greatest length. "
        if reply.stop_reason == "max_tokens"
        else ""
    )
    return f"{cut}Phase {run.state.phase} is not done. Call one of: {tools}."
