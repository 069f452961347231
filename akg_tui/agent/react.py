"""The ReAct loop: think, call tools, read the answers, until the phase's work is done.

A visit is one stay in one agent phase, with a context of its own. Leaving is not the
model's choice: the visit ends when core finds the work done, or when turns run out.
"""

from __future__ import annotations

from collections.abc import Callable

from akg_tui.agent.chat import (
    AssistantMessage,
    ChatModel,
    ChatRequest,
    Message,
    ModelFailed,
    ToolMessage,
    UserMessage,
)
from akg_tui.agent.prompt import SYSTEM, visit_prompt
from akg_tui.agent.tools.executor import ToolExecutor
from akg_tui.agent.tools.port import RunPort
from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.effects import due
from akg_tui.core.machine import PHASE_TOOLS

MAX_TURNS = 12


async def visit(
    run: RunPort,
    model: ChatModel,
    *,
    clock: Callable[[], float],
    on_delta: Callable[[str], None],
) -> None:
    """Let the agent do the work of the current phase.

    Ends with the phase's work done, or with `VisitFailed` in the journal.
    """
    phase = run.state.phase
    executor = ToolExecutor(run)
    messages: list[Message] = [UserMessage(visit_prompt(run.state))]
    for _ in range(MAX_TURNS):
        try:
            request = ChatRequest(SYSTEM, executor.specs, tuple(messages))
            reply = await model.complete(request, on_delta)
        except ModelFailed as error:
            run.send(cmd.Observe(ev.VisitFailed(phase=phase, reason=str(error))))
            return
        replied = ev.ModelReplied(
            phase=phase,
            model=model.name,
            text=reply.text,
            tool_calls=len(reply.tool_uses),
            input_tokens=reply.input_tokens,
            output_tokens=reply.output_tokens,
        )
        run.send(cmd.Observe(replied))
        results = tuple([(use.id, await executor.execute(use)) for use in reply.tool_uses])
        run.send(cmd.Observe(ev.TurnEnded()))
        if due(run.state, clock()) is not None:
            return
        messages.append(AssistantMessage(reply.text, reply.tool_uses))
        messages.append(ToolMessage(results) if results else _reminder(run))
    run.send(cmd.Observe(ev.VisitFailed(phase=phase, reason=f"no result in {MAX_TURNS} turns")))


def _reminder(run: RunPort) -> UserMessage:
    tools = ", ".join(sorted(PHASE_TOOLS[run.state.phase]))
    return UserMessage(f"Phase {run.state.phase} is not done. Call one of: {tools}.")
