"""Workflows: a named sequence of tool calls, each with arguments from the ones before.

In a step's arguments `$name` is the workflow's own argument of that name, as it is; `$2` in
a longer text is the trace folder of the second step, so that
`read_json_file('$2/result.json')['output']['speedup']` is what that step found.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from akg_tui.agent.chat import ToolResult
from akg_tui.agent.tools.call_record import Node
from akg_tui.agent.tools.definitions import Definition, Step
from akg_tui.agent.tools.port import Answer
from akg_tui.agent.tools.resolver import Unresolved, resolve

RunStep = Callable[[str, dict[str, Any], Node], Awaitable[Answer]]
"""Runs one tool with arguments that are already resolved, as any call is run."""

_ARGUMENT = re.compile(r"\$([A-Za-z_]\w*)")
_EARLIER = re.compile(r"\$(\d+)")


async def run_workflow(
    known: Definition,
    arguments: Mapping[str, Any],
    node: Node,
    run_step: RunStep,
    read: Callable[[str], bytes],
) -> Answer:
    """Run the steps in order; the first that fails ends it and is its failure."""
    outputs: dict[str, Any] = {}
    foreign = False
    places: list[str] = []
    for number, step in enumerate(known.steps, 1):
        place = node.child(f"{number}-{step.tool}")
        try:
            given = _given(step, arguments, places, read)
        except Unresolved as error:
            return Answer.error(f"step {number}, {step.tool}: {error}", foreign=foreign)
        answer = await run_step(step.tool, given, place)
        places.append(place.name)
        foreign = foreign or answer.foreign
        if answer.result.status != "success":
            why = f"step {number}, {step.tool}: {answer.result.error_information}"
            return Answer(ToolResult("error", _told(outputs), why), foreign)
        outputs[f"{number}-{step.tool}"] = _opened(answer.result.output)
    return Answer.success(_told(outputs), foreign=foreign)


def _given(
    step: Step, arguments: Mapping[str, Any], places: list[str], read: Callable[[str], bytes]
) -> dict[str, Any]:
    """A step's arguments. What came from the model is put in as it is and not read again."""
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
    except ValueError:
        return text


def _told(outputs: dict[str, Any]) -> str:
    return json.dumps(outputs, ensure_ascii=False) if outputs else ""
