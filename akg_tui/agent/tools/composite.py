"""Tools made of others: workflows, and calls of a subagent, among them the tool `task`.

In a workflow's step the value `$name` is the workflow's argument of that name, unchanged. In a
longer text `$2` is the trace folder of the second step, so that
`read_json_file('$2/result.json')['output']` is that step's output. Steps are gated like any call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from akg_tui.agent.chat import ToolResult
from akg_tui.agent.tools.declaration import Arg, Step, ToolContext, tool
from akg_tui.agent.tools.resolver import Unresolved, resolve
from akg_tui.agent.tools.run_access import NO_SUMMARY, SUBAGENT, Answer, SubagentCall
from akg_tui.core.phases import Phase

_ARGUMENT = re.compile(r"\$([A-Za-z_]\w*)")
_EARLIER = re.compile(r"\$(\d+)")


async def run_workflow(call: ToolContext, arguments: Mapping[str, Any]) -> Answer:
    """Run the steps in order. The first failure ends the workflow and is its error."""
    outputs: dict[str, Any] = {}
    foreign = False
    places: list[str] = []
    for number, step in enumerate(call.tool.steps, 1):
        place = call.node.child(f"{number}-{step.tool}")
        try:
            given = _given(step, arguments, places, call.files.read)
        except Unresolved as error:
            return Answer.error(f"step {number}, {step.tool}: {error}", foreign=foreign)
        answer = await call.run_step(step.tool, given, place)
        places.append(place.name)
        foreign = foreign or answer.foreign
        if answer.result.status != "success":
            why = f"step {number}, {step.tool}: {answer.result.error_information}"
            return Answer(ToolResult("error", _told(outputs), why), foreign)
        outputs[f"{number}-{step.tool}"] = _opened(answer.result.output)
    return Answer.success(_told(outputs), foreign=foreign)


async def run_subagent(call: ToolContext, arguments: Mapping[str, Any]) -> Answer:
    """Run the agent that the tool names, and return its final text as data."""
    declared = call.tool.declared
    runner = call.agents.get(call.tool.agent) or call.agents[SUBAGENT]
    rules, model = (declared.prompt, declared.model or "") if declared else ("", "")
    asked = SubagentCall(call.tool.agent, arguments, call.node, call.toolbox, rules, model)
    result = await runner.run(asked)
    text = result.output.strip() or NO_SUMMARY
    return Answer(ToolResult(result.status, text, result.error_information), foreign=True)


@tool("call_agent", (Phase.WRITE, Phase.PLAN, Phase.EDIT), main_agent_only=True, agent=SUBAGENT)
async def task(
    call: ToolContext,
    prompt: Annotated[
        str,
        Arg("What to find out, all that it must know, and what to answer.", resolve="whole"),
    ],
) -> Answer:
    """Start a subagent, which knows only your prompt, for a question that takes many looks: it
    reads, searches, measures and writes notes. Only its final text comes back. Several calls in
    one reply run at the same time.
    """
    return await run_subagent(call, {"prompt": prompt})


def _given(
    step: Step, arguments: Mapping[str, Any], places: list[str], read: Callable[[str], bytes]
) -> dict[str, Any]:
    """Return a step's arguments. Values from the model are inserted without resolving them."""
    own: dict[str, Any] = {}
    passed: dict[str, Any] = {}
    for name, value in step.arguments.items():
        whole = _ARGUMENT.fullmatch(value) if isinstance(value, str) else None
        if whole is None:
            own[name] = _placed(value, places)
        elif whole[1] in arguments:
            passed[name] = arguments[whole[1]]
    return {**resolve(own, read, lambda name: "always"), **passed}


def _placed(value: Any, places: list[str]) -> Any:
    if not isinstance(value, str):
        return value

    def place(match: re.Match[str]) -> str:
        number = int(match[1])
        if not 1 <= number <= len(places):
            raise Unresolved(f"${number} is not an earlier step")
        return places[number - 1]

    return _EARLIER.sub(place, value)


def _opened(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _told(outputs: dict[str, Any]) -> str:
    return json.dumps(outputs, ensure_ascii=False) if outputs else ""
