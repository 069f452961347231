"""The ReAct loop: think, call tools, read the answers, until the phase's work is done.

A visit is one stay in one agent phase, with a context of its own. Leaving is not the
model's choice: the visit ends when core finds the work done, or when turns run out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from akg_tui.agent.admission import Admission, NoRoom, estimated
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
from akg_tui.core.effects import visit_over
from akg_tui.core.machine import PHASE_TOOLS
from akg_tui.core.told import hints_told

MAX_TURNS = 12


async def visit(
    run: RunPort,
    model: ChatModel,
    *,
    clock: Callable[[], float],
    on_delta: Callable[[str], None],
    admission: Admission | None = None,
) -> None:
    """Let the agent do the work of the current phase.

    Ends with the phase's work done or waiting for a person, or with `VisitFailed` or
    `CallRefused` in the journal.
    """
    phase = run.state.phase
    executor = ToolExecutor(run)
    admission = admission or Admission()
    told = len(run.state.hints)
    messages: list[Message] = [UserMessage(visit_prompt(run.state))]
    for _ in range(MAX_TURNS):
        request = ChatRequest(SYSTEM, executor.specs, tuple(messages))
        try:
            with admission.call(run.state, estimated(model.name, _characters(messages))):
                reply = await model.complete(request, on_delta)
                replied = ev.ModelReplied(
                    phase=phase,
                    model=model.name,
                    text=reply.text,
                    tool_calls=len(reply.tool_uses),
                    input_tokens=reply.input_tokens,
                    output_tokens=reply.output_tokens,
                    hints_told=told,
                )
                run.send(cmd.Observe(replied))
        except ModelFailed as error:
            run.send(cmd.Observe(ev.VisitFailed(phase=phase, reason=str(error))))
            return
        except NoRoom as error:
            run.send(cmd.Observe(ev.CallRefused(reason=str(error))))
            return
        results = tuple([(use.id, await executor.execute(use)) for use in reply.tool_uses])
        run.send(cmd.Observe(ev.TurnEnded()))
        if visit_over(run.state, clock()):
            return
        messages.append(AssistantMessage(reply.text, reply.tool_uses))
        messages.append(ToolMessage(results) if results else _reminder(run))
        if hints := run.state.hints:  # given while the model was at work
            messages.append(UserMessage("\n\n".join(hints_told(hints))))
        told = len(hints)
    run.send(cmd.Observe(ev.VisitFailed(phase=phase, reason=f"no result in {MAX_TURNS} turns")))


def _characters(messages: Sequence[Message]) -> int:
    """How long a request is, about."""
    total = len(SYSTEM)
    for message in messages:
        match message:
            case UserMessage(text):
                total += len(text)
            case AssistantMessage(text, uses):
                total += len(text) + sum(len(str(use.arguments)) for use in uses)
            case ToolMessage(results):
                total += sum(len(r.output) + len(r.error_information) for _, r in results)
    return total


def _reminder(run: RunPort) -> UserMessage:
    tools = ", ".join(sorted(PHASE_TOOLS[run.state.phase]))
    return UserMessage(f"Phase {run.state.phase} is not done. Call one of: {tools}.")
