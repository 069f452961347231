"""A user's tool files: YAML read into declarations like those of our tools, and merged over them.

Owns the shape of these files and the position (file, line, field) of a fault. A file cannot add a
function: it can reword our own tools, and add workflows and subagents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import yaml
from msgspec import Meta, Struct
from msgspec.structs import replace

from akg_tui.agent.tools import BadTools
from akg_tui.agent.tools.composite import run_subagent, run_workflow, task
from akg_tui.agent.tools.declaration import (
    DeclaredAgent,
    Kind,
    Name,
    Step,
    Tool,
    Tools,
    fault_in,
    object_schema,
)
from akg_tui.agent.tools.resolver import How
from akg_tui.agent.tools.run_access import SUBAGENT
from akg_tui.core.task import SWEEP
from akg_tui.store.errors import BadFile
from akg_tui.store.user_files.reader import UserFile, yaml_line

_RESOLVE = "resolve"


def _declaration(plain: Mapping[str, Any], known: Tools) -> Tool:
    """Return a tool from the values of a file; a tool of ours keeps its function and its gates."""
    function = plain["function"]
    name, kind = function["name"], plain["type"]
    declared = function["parameters"].get("properties", {})
    ours = known.get(name)
    properties = {
        argument: {key: value for key, value in schema.items() if key != _RESOLVE}
        for argument, schema in declared.items()
    }
    if ours is not None and ours.name == "edit_kernel" and "ops" in properties:
        properties["ops"] = ours.properties["ops"]  # the schema of the items is hashline's
    told: dict[str, Any] = {
        "description": " ".join(function["description"].split()),
        "parameters": object_schema(properties, function["parameters"].get("required", ())),
        "resolve": {a: schema[_RESOLVE] for a, schema in declared.items() if _RESOLVE in schema},
    }
    if kind in ("basic_tool", "domain_tool") and ours is not None:
        return replace(ours, kind=kind, by_name=False, untold=frozenset(), **told)
    if kind == "call_agent":
        return replace(task, name=name, run=run_subagent, agent=plain.get("agent", name), **told)
    steps = msgspec.convert(plain.get("steps") or (), tuple[Step, ...])
    return Tool(name=name, kind=kind, run=run_workflow, steps=steps, **told)


MAX_TOOLS = 100

Type = Literal["string", "integer", "number", "boolean", "array", "object"]


class Property(Struct, frozen=True, forbid_unknown_fields=True):
    """One argument in JSON Schema; `resolve` states where its expressions are resolved."""

    type: Type
    description: str = ""
    default: Any = None
    enum: list[Any] | None = None
    items: dict[str, Any] | None = None
    properties: dict[str, Any] | None = None
    required: list[str] | None = None
    additionalProperties: bool | None = None  # noqa: N815
    minimum: float | None = None
    maximum: float | None = None
    resolve: How = "always"


class Parameters(Struct, frozen=True, forbid_unknown_fields=True):
    type: Literal["object"]
    properties: dict[Name, Property] = {}
    required: list[str] = []

    def __post_init__(self) -> None:
        for name in self.required:
            if name not in self.properties:
                raise ValueError(f"required names {name!r}, which is not among the properties")


class Function(Struct, frozen=True, forbid_unknown_fields=True):
    name: Name
    description: Annotated[str, Meta(min_length=1, max_length=4_000)]
    parameters: Parameters


class ToolEntry(Struct, frozen=True, forbid_unknown_fields=True):
    type: Kind
    function: Function
    agent: Name | None = None
    steps: list[Step] | None = None

    def __post_init__(self) -> None:
        if (self.type == "call_workflow") != bool(self.steps):
            raise ValueError("a call_workflow, and nothing else, has steps")
        if self.agent is not None and self.type != "call_agent":
            raise ValueError("only a call_agent names an agent")


class ToolsFile(Struct, frozen=True, forbid_unknown_fields=True):
    """The content of one tool file. `agents` are those that a `call_agent` of it may name."""

    tools: Annotated[dict[Name, ToolEntry], Meta(max_length=MAX_TOOLS)]
    agents: Annotated[dict[Name, DeclaredAgent], Meta(max_length=MAX_TOOLS)] = {}


def merged(known: Tools, path: Path, text: str) -> Tools:
    """Return `known` with the definitions of a file merged over it. Raises `BadTools`."""
    _check_size(path, _composed(path, text))
    try:
        plain = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:
        raise BadTools(path, 1, "", " ".join(str(error).split())) from None
    file = UserFile(path, text, plain, yaml_line, BadTools)
    agents = file.read(ToolsFile).agents

    def bad(message: str, *where: str | int) -> BadFile:
        return file.bad(tuple(map(str, where)), message)

    found = dict(known)
    for name, tool in plain["tools"].items():
        found[name] = new = _declaration(tool, known)
        if new.name != name:
            message = f"is {new.name!r}, expected {name!r} as in the line above"
            raise bad(message, "tools", name, "function", "name")
        if new.kind == "call_agent" and new.agent != SUBAGENT:
            if new.agent not in agents:
                there = ", ".join([SUBAGENT, *sorted(agents)])
                field = ("agent",) if "agent" in tool else ()
                what = f"no agent {new.agent} is declared under agents; there are: {there}"
                raise bad(what, "tools", name, *field)
            found[name] = new = replace(new, declared=agents[new.agent])
        _check_tool(new, known, bad)
    _check_agents(agents, found, bad)
    for name in plain["tools"]:
        for number, step in enumerate(found[name].steps):
            place = "tools", name, "steps", number, "tool"
            if step.tool not in found:
                raise bad(f"{step.tool} is not a known tool", *place)
            if found[step.tool].kind == "call_workflow":
                raise bad(f"{step.tool} is a workflow itself", *place)
    return found


def _check_agents(
    agents: Mapping[str, DeclaredAgent], known: Tools, bad: Callable[..., BadFile]
) -> None:
    for name, agent in agents.items():
        if name == SUBAGENT:
            raise bad(f"{SUBAGENT} is the agent of the tool task", "agents", name)
        if agent.model == SWEEP:
            raise bad("a search answers no prompt; name a model", "agents", name, "model")
        for number, tool in enumerate(agent.tools):
            if tool not in known:
                raise bad(f"{tool} is not a known tool", "agents", name, "tools", number)


def _check_tool(new: Tool, known: Tools, bad: Callable[..., BadFile]) -> None:
    """Check defaults, and that a reworded tool of ours keeps its function's arguments."""
    old, here = known.get(new.name), ("tools", new.name)
    arguments = (*here, "function", "parameters", "properties")
    if old is not None and old.kind != new.kind:
        raise bad(f"is {new.kind}, but {new.name} is a {old.kind}", *here, "type")
    for argument, schema in new.properties.items():
        if "default" in schema and (fault := fault_in(schema["default"], schema)):
            raise bad(f"the default{fault}", *arguments, argument, "default")
    if new.kind not in ("basic_tool", "domain_tool"):
        return
    if old is None:
        names = ", ".join(sorted(n for n, d in known.items() if d.kind == new.kind))
        raise bad(f"there is no {new.kind} of this name; there are: {names}", *here)
    for argument, schema in new.properties.items():
        if argument not in old.properties:
            takes = ", ".join(old.properties) or "no arguments"
            raise bad(f"{new.name} takes {takes}", *arguments, argument)
        wanted = old.properties[argument].get("type")
        if schema.get("type") != wanted:
            message = f"is {schema.get('type')!r}, expected {wanted!r}"
            raise bad(message, *arguments, argument, "type")
        if old.how(argument) == "never" and new.how(argument) != "never":
            message = "may only be never: the argument is data"
            raise bad(message, *arguments, argument, "resolve")
    for argument in old.required:
        if argument not in new.properties:
            raise bad(f"lacks {argument}, which it needs", *arguments)


def _composed(path: Path, text: str) -> yaml.Node | None:
    """Return the file as YAML nodes, which have line numbers. Raises `BadTools`."""
    try:
        root = yaml.compose(text, yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = mark.line + 1 if mark else 1
        raise BadTools(path, line, "", f"not valid YAML: {error.problem}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadTools(path, 1, "", f"not valid YAML: {' '.join(str(error).split())}") from None
    return root


MAX_NODES = 20_000


def _check_size(path: Path, root: yaml.Node | None) -> None:
    """Refuse a key given twice, and more than `MAX_NODES` values, counting aliases unfolded."""
    left = MAX_NODES
    stack = [root] if root is not None else []
    while stack:
        left -= 1
        if left < 0:
            raise BadTools(path, 1, "", f"has more than {MAX_NODES} values, aliases unfolded")
        node = stack.pop()
        if isinstance(node, yaml.MappingNode):
            stack += [part for pair in node.value for part in pair]
            names = [key.value for key, _ in node.value]
            for key, _ in node.value:
                if names.count(key.value) > 1:
                    line = key.start_mark.line + 1
                    raise BadTools(path, line, str(key.value), "is given twice")
        elif isinstance(node, yaml.SequenceNode):
            stack += node.value
