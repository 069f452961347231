"""Subagents: each does one task in a conversation of its own and returns only its final text.

Owns their bounds, their events in the journal and their transcripts. A subagent works in the phase
in which it was started, under the run's budgets and gates, and cannot start another.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from akg_tui.agent.chat import ChatModel, ModelFailed, ToolResult
from akg_tui.agent.context import Conversation
from akg_tui.agent.model_calls import NoRoom, WaitEnded
from akg_tui.agent.prompt import subagent_text
from akg_tui.agent.react_loop import Ended, LoopContext, Stopped, run_loop, waiting
from akg_tui.agent.tools.call_record import Node, Transcript, node_for
from akg_tui.agent.tools.run_access import NO_SUMMARY, RunAccess, SubagentCall
from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.recovery import calls_cut_off, subagent_ended
from akg_tui.core.sanitize import one_line
from akg_tui.core.user_commands import at_work, stopped_words
from akg_tui.store.errors import StoreError

CUT_OFF = "\n(the answer was cut off here, at its greatest length)"
INCOMPLETE = "(incomplete: the subagent used up its model calls; this is the last that it said)\n"
_CUT = ("max_tokens", "model_context_window_exceeded")

MAX_CALLS = 30
AT_ONCE = 4
A_VISIT = 12
MAX_TOLD = 200
Status = Literal["done", "limit", "failed", "cancelled", "interrupted"]


class Begun(Struct, frozen=True):
    """A started subagent: its name, its folder on disk, and its prompt on one line."""

    id: str
    node: Node
    told: str


def begin(run: RunAccess, agent: str, prompt: str, node: Node | None = None) -> Begun:
    """Journal the start of `agent`; `node` is the folder of the call that starts it, if any."""
    state = run.state
    name = f"s{state.subagents_started + 1}"
    place = node or node_for(Path(run.path), state.seq + 1, agent)
    told = one_line(prompt, MAX_TOLD)
    started = ev.SubagentStarted(
        subagent=name,
        agent=agent,
        phase=state.phase,
        call=node.call if node else "",
        prompt=told,
        prompt_sha256=hashlib.sha256(prompt.encode("utf-8", "replace")).hexdigest(),
        trace=place.name,
    )
    run.send(cmd.Observe(started))
    return Begun(name, place, told)


def end(run: RunAccess, subagent: str, status: Status, reason: str = "") -> None:
    """Journal the end of `subagent`, with the tokens of its calls."""
    one = next(each for each in run.state.subagents if each.id == subagent)
    run.send(cmd.Observe(subagent_ended(one, status, one_line(reason, 400))))


def why_stopped(run: RunAccess, subagent: str) -> str:
    """Return the sentence about a person's stop of `subagent`; "" if no person stopped it."""
    one = at_work(run.state, subagent)
    return stopped_words(one) if one is not None and one.stopped else ""


class Subagents:
    """The subagents of one visit: at most `AT_ONCE` at a time and `A_VISIT` in all."""

    def __init__(self, loop: LoopContext) -> None:
        self._loop = loop
        self._room = asyncio.Semaphore(AT_ONCE)
        self._begun = 0

    async def run(self, call: SubagentCall) -> ToolResult:
        """Run a subagent to its end. Return its final text, or an error result if it fails."""
        prompt = _prompt(call.arguments)
        if not prompt:
            return ToolResult.error("the prompt is empty: a subagent knows only what it says")
        if self._begun >= A_VISIT:
            return ToolResult.error(f"{A_VISIT} subagents were started in this visit")
        self._begun += 1
        async with self._room:
            return await self._play(call, prompt)

    def _model(self, name: str) -> ChatModel:
        """Return the model of this name, or the run's own for ""."""
        open_model = self._loop.open_model
        own = not name or name == self._loop.model.name
        return self._loop.model if own or open_model is None else open_model(name)

    async def _play(self, call: SubagentCall, prompt: str) -> ToolResult:
        run, streams = self._loop.run, self._loop.streams
        begun = begin(run, call.agent, prompt, call.node)
        toolbox = call.toolbox(begun.id)
        conversation = Conversation(
            subagent_text(run.state, toolbox.allowed, call.rules), toolbox.specs
        )
        conversation.say(prompt)
        streams.begin(begun.id, call.agent, begun.told)
        loop = replace(
            self._loop,
            source=begun.id,
            inner=True,
            model=self._model(call.model),
            on_delta=lambda text: streams.write(begun.id, text),
        )
        try:
            ended = await self._loop.stops.run(
                begun.id,
                run_loop(
                    loop,
                    conversation,
                    toolbox.execute,
                    turns=MAX_CALLS,
                    # A person's message that came after the request needs one more reply.
                    done=lambda reply: not (reply.tool_uses or waiting(run, begun.id)),
                    remind=lambda reply: "",
                    transcript=Transcript(begun.node),
                ),
            )
        except (ModelFailed, NoRoom, WaitEnded) as error:
            ended = Ended(None, str(error) or "the wait for the model's server was ended")
            end(run, begun.id, "failed", ended.failure)
        except Stopped:
            why = why_stopped(run, begun.id)
            for answer in calls_cut_off(run.state, why, begun.id):
                run.send(cmd.Observe(answer))
            end(run, begun.id, "cancelled", why)
            return ToolResult("error", NO_SUMMARY, f"this subagent was {why}")
        except asyncio.CancelledError:
            end(run, begun.id, "cancelled")
            raise
        except StoreError:
            raise  # nothing more can be journaled
        except Exception as broken:
            end(run, begun.id, "failed", f"it broke: {type(broken).__name__}: {broken}")
            raise
        else:
            end(run, begun.id, _status(ended), ended.failure)
        finally:
            streams.end(begun.id)
        return _told(ended)


def _status(ended: Ended) -> Status:
    if not ended.failure:
        return "done"
    return "limit" if ended.reply is None else "failed"


def _told(ended: Ended) -> ToolResult:
    """Return the result of the call that started the subagent: its final text or its failure."""
    if ended.failure:
        if ended.last_text:
            return ToolResult("error", f"{INCOMPLETE}{ended.last_text}", ended.failure)
        return ToolResult("error", NO_SUMMARY, f"the subagent came to no answer: {ended.failure}")
    text = ended.reply.text.strip() if ended.reply else ""
    cut = ended.reply is not None and ended.reply.stop_reason in _CUT
    return ToolResult.success(f"{text or NO_SUMMARY}{CUT_OFF if cut else ''}")


def _prompt(arguments: Mapping[str, Any]) -> str:
    """Return the prompt, followed by the other arguments that the tool's definition allows."""
    more = [
        f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in arguments.items()
        if name != "prompt"
    ]
    return "\n\n".join([str(arguments.get("prompt", "")), *more]).strip()
