"""Tool definitions: YAML in, one sorted list of tools out, and whether a call's arguments fit.

Our own files are `tools.yaml` and `domain_tools.yaml` beside this module; a task's files are merged
in and checked, each fault with its file, line and field. Reads text only; runs nothing.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from msgspec import Struct
from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from akg_tui.agent.chat import ToolSpec
from akg_tui.agent.tools.resolver import How
from akg_tui.core.sanitize import one_line
from akg_tui.core.task import Target
from akg_tui.hashline import EDIT_SCHEMA

OWN_FILES = ("tools.yaml", "domain_tools.yaml")

Kind = Literal["basic_tool", "domain_tool", "call_agent", "call_workflow"]

_RESOLVE = "resolve"
_SCHEMAS: dict[tuple[str, str], dict[str, object]] = {("edit_kernel", "ops"): EDIT_SCHEMA}
"""Arguments whose schema belongs to another floor."""


class BadTools(ValueError):
    """A definition that cannot be used, told as `FILE:LINE: field: what is wrong`."""

    def __init__(self, path: Path, line: int | None, field: str, message: str) -> None:
        place = str(path) if line is None else f"{path}:{line}"
        super().__init__(one_line(": ".join(p for p in (place, field, message) if p), 1000))


class Step(Struct, frozen=True):
    """One call of a workflow. In its arguments `$name` stands for the workflow's argument of
    that name, and `$1` for the trace folder of the first step."""

    tool: str
    arguments: dict[str, Any] = {}


class Definition(Struct, frozen=True):
    """One tool. `parameters` is the JSON schema that a model is told."""

    name: str
    kind: Kind
    description: str
    parameters: dict[str, Any]
    resolve: dict[str, How] = {}
    agent: str = ""
    steps: tuple[Step, ...] = ()

    @property
    def properties(self) -> dict[str, Any]:
        found: dict[str, Any] = self.parameters["properties"]
        return found

    @property
    def required(self) -> tuple[str, ...]:
        return tuple(self.parameters["required"])

    @property
    def spec(self) -> ToolSpec:
        """The tool as a model is told about it."""
        return ToolSpec(self.name, self.description, self.parameters)

    def how(self, argument: str) -> How:
        """Where read_json_file(…) counts in an argument."""
        return self.resolve.get(argument, "always")


Definitions = dict[str, Definition]


def own_definitions() -> Definitions:
    """The tools that ship with the program."""
    return dict(_own())


@functools.lru_cache(maxsize=1)
def _own() -> Definitions:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found: Definitions = {}
    for name in OWN_FILES:
        text = (Path(__file__).parent / name).read_text("utf-8")
        found |= {key: definition(plain) for key, plain in yaml.load(text, loader)["tools"].items()}
    return found


def definitions_with(files: Sequence[tuple[Path, str]]) -> Definitions:
    """Our tools with a user's files, as (path, text), merged over them in order.

    Raises
    ------
    BadTools
        If a file cannot be used; the message names file, line and field.
    """
    found = own_definitions()
    if files:
        for path, text in files:
            found = merged(found, path, text)
    return found


def definition(plain: Mapping[str, Any]) -> Definition:
    """A definition from the plain values of a file that is known to be good."""
    function = plain["function"]
    name = function["name"]
    declared = function["parameters"].get("properties", {})
    properties = {
        argument: _SCHEMAS.get((name, argument))
        or {key: value for key, value in schema.items() if key != _RESOLVE}
        for argument, schema in declared.items()
    }
    return Definition(
        name=name,
        kind=plain["type"],
        description=" ".join(function["description"].split()),
        parameters={
            "type": "object",
            "properties": properties,
            "required": list(function["parameters"].get("required", ())),
            "additionalProperties": False,
        },
        resolve={a: schema[_RESOLVE] for a, schema in declared.items() if _RESOLVE in schema},
        agent=plain.get("agent", name) if plain["type"] == "call_agent" else "",
        steps=tuple(Step(s["tool"], s.get("arguments", {})) for s in plain.get("steps", ())),
    )


def for_target(found: Definitions, target: Target) -> Definitions:
    """The definitions with the defaults of this run's target in place of a bare call's."""
    own = {"backend": target.backend, "arch": target.arch, "dsl": target.dsl}
    return {name: _with_defaults(known, own) for name, known in found.items()}


def _with_defaults(known: Definition, own: dict[str, str]) -> Definition:
    properties = {
        argument: {**schema, "default": own[argument]}
        if argument in own and schema.get("default")
        else schema
        for argument, schema in known.properties.items()
    }
    return replace(known, parameters={**known.parameters, "properties": properties})


MAX_TOOLS = 100

_NAME = r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$"
Name = Annotated[str, Field(pattern=_NAME)]
Type = Literal["string", "integer", "number", "boolean", "array", "object"]


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Property(_Shape):
    """One argument, in the words of JSON Schema, and where expressions count in it."""

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


class Parameters(_Shape):
    type: Literal["object"]
    properties: dict[Name, Property] = {}
    required: list[str] = []

    @model_validator(mode="after")
    def _required_exist(self) -> Parameters:
        for name in self.required:
            if name not in self.properties:
                raise ValueError(f"required names {name!r}, which is not among the properties")
        return self


class Function(_Shape):
    name: Name
    description: Annotated[str, Field(min_length=1, max_length=4_000)]
    parameters: Parameters


class Call(_Shape):
    """One step of a workflow."""

    tool: Name
    arguments: dict[str, Any] = {}


class Tool(_Shape):
    type: Literal["basic_tool", "domain_tool", "call_agent", "call_workflow"]
    function: Function
    agent: Name | None = None
    steps: list[Call] | None = None

    @model_validator(mode="after")
    def _kind_fits(self) -> Tool:
        if (self.type == "call_workflow") != bool(self.steps):
            raise ValueError("a call_workflow, and nothing else, has steps")
        if self.agent is not None and self.type != "call_agent":
            raise ValueError("only a call_agent names an agent")
        return self


class ToolsFile(_Shape):
    """A whole file."""

    tools: Annotated[dict[Name, Tool], Field(max_length=MAX_TOOLS)]


def merged(known: Definitions, path: Path, text: str) -> Definitions:
    """`known` with the definitions of a file over it. Raises `BadTools`."""
    root = _composed(path, text)
    try:
        plain = yaml.safe_load(text)
        ToolsFile.model_validate(plain)
    except ValidationError as error:
        first = error.errors()[0]
        where = tuple(part for part in first["loc"] if part != "[key]")
        message = re.sub(r"^Value error, ", "", first["msg"])
        raise BadTools(path, _line(root, where), ".".join(map(str, where)), message) from None
    except (yaml.YAMLError, ValueError) as error:
        raise BadTools(path, 1, "", " ".join(str(error).split())) from None
    found = dict(known)
    place = _Place(path, root)
    for name, tool in plain["tools"].items():
        found[name] = new = definition(tool)
        place.tool = name
        if new.name != name:
            message = f"is {new.name!r}, expected {name!r} as in the line above"
            raise place.bad(message, "function", "name")
        _check_tool(new, known, place)
    for name in plain["tools"]:
        place.tool = name
        for number, step in enumerate(found[name].steps):
            if step.tool not in found:
                raise place.bad(f"{step.tool} is not a known tool", "steps", number, "tool")
            if found[step.tool].kind == "call_workflow":
                raise place.bad(f"{step.tool} is a workflow itself", "steps", number, "tool")
    return found


class _Place:
    """Where in a file one stands, to say what is wrong there."""

    def __init__(self, path: Path, root: yaml.Node | None) -> None:
        self._path = path
        self._root = root
        self.tool = ""

    def bad(self, message: str, *field: str | int) -> BadTools:
        where = ("tools", self.tool, *field)
        return BadTools(self._path, _line(self._root, where), ".".join(map(str, where)), message)


_PROPERTIES = ("function", "parameters", "properties")


def _check_tool(new: Definition, known: Definitions, place: _Place) -> None:
    """A tool that is a function of ours takes what the function takes, and no more."""
    old = known.get(new.name)
    if old is not None and old.kind != new.kind:
        raise place.bad(f"is {new.kind}, but {new.name} is a {old.kind}", "type")
    for argument, schema in new.properties.items():
        if "default" in schema and (fault := fault_in(schema["default"], schema)):
            raise place.bad(f"the default{fault}", *_PROPERTIES, argument, "default")
    if new.kind not in ("basic_tool", "domain_tool"):
        return
    if old is None:
        names = ", ".join(sorted(n for n, d in known.items() if d.kind == new.kind))
        raise place.bad(f"there is no {new.kind} of this name; there are: {names}")
    for argument, schema in new.properties.items():
        if argument not in old.properties:
            takes = ", ".join(old.properties) or "no arguments"
            raise place.bad(f"{new.name} takes {takes}", *_PROPERTIES, argument)
        wanted = old.properties[argument].get("type")
        if schema.get("type") != wanted:
            message = f"is {schema.get('type')!r}, expected {wanted!r}"
            raise place.bad(message, *_PROPERTIES, argument, "type")
        if old.how(argument) == "never" and new.how(argument) != "never":
            message = "may only be never: the argument is data"
            raise place.bad(message, *_PROPERTIES, argument, "resolve")
    for argument in old.required:
        if argument not in new.properties:
            raise place.bad(f"lacks {argument}, which it needs", *_PROPERTIES)


def _composed(path: Path, text: str) -> yaml.Node | None:
    """The file as nodes, which know their lines; aliases are counted, not unfolded."""
    try:
        root = yaml.compose(text, yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = mark.line + 1 if mark else 1
        raise BadTools(path, line, "", f"not valid YAML: {error.problem}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadTools(path, 1, "", f"not valid YAML: {' '.join(str(error).split())}") from None
    _check_size(path, root)
    return root


MAX_NODES = 20_000


def _check_size(path: Path, root: yaml.Node | None) -> None:
    """Refuse a file whose aliases would unfold to more than anybody has written."""
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


def _line(root: yaml.Node | None, where: tuple[str | int, ...]) -> int:
    """The line, from 1, of a field, or of the nearest part around it that there is."""
    line = 1
    node = root
    for part in where:
        if isinstance(node, yaml.MappingNode):
            pair = next((pair for pair in node.value if pair[0].value == str(part)), None)
            if pair is None:
                return line
            line = pair[0].start_mark.line + 1
            node = pair[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            if part >= len(node.value):
                return line
            node = node.value[part]
            line = node.start_mark.line + 1
        else:
            return line
    return line


MAX_DEPTH = 8

_KINDS: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


class BadArguments(ValueError):
    """Arguments that a tool does not take, and what it takes."""


def checked(known: Definition, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with the defaults of those left out. Raises `BadArguments`."""
    for name in given:
        if name not in known.properties:
            takes = ", ".join(known.properties) or "no arguments"
            raise BadArguments(f"{known.name} has no argument {name[:60]!r}; it takes: {takes}")
    for name in known.required:
        if name not in given:
            raise BadArguments(f"{known.name} needs the argument {name!r}")
    for name, value in given.items():
        if fault := fault_in(value, known.properties[name]):
            raise BadArguments(f"{known.name}: {name}{fault}")
    defaults = {
        name: schema["default"]
        for name, schema in known.properties.items()
        if name not in given and "default" in schema
    }
    return {**defaults, **given}


def fault_in(value: Any, schema: Mapping[str, Any], depth: int = 0) -> str | None:
    """What is wrong with a value, as the end of a sentence that begins with its name."""
    if depth > MAX_DEPTH:
        return " is nested too deeply"
    kind = schema.get("type")
    if kind in _KINDS and not _is(value, kind):
        return f" is {_kind_of(value)}, expected {kind}"
    if schema.get("enum") is not None and value not in schema["enum"]:
        return f" is {str(value)[:60]!r}, expected one of {', '.join(map(str, schema['enum']))}"
    least, most = schema.get("minimum"), schema.get("maximum")
    if isinstance(value, int | float):
        if least is not None and value < least:
            return f" is {value}, expected at least {least}"
        if most is not None and value > most:
            return f" is {value}, expected at most {most}"
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        for index, item in enumerate(value):
            if fault := fault_in(item, schema["items"], depth + 1):
                return f"[{index}]{fault}"
    if isinstance(value, dict) and isinstance(schema.get("properties"), dict):
        return _fault_in_object(value, schema, depth)
    return None


def _fault_in_object(value: dict[str, Any], schema: Mapping[str, Any], depth: int) -> str | None:
    for name in schema.get("required") or ():
        if name not in value:
            return f" lacks {name!r}"
    for name, inner in value.items():
        known = schema["properties"].get(name)
        if known is None:
            if schema.get("additionalProperties") is False:
                return f" has no field {str(name)[:60]!r}"
        elif fault := fault_in(inner, known, depth + 1):
            return f".{name}{fault}"
    return None


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if isinstance(value, float) and not math.isfinite(value):
        return False
    return isinstance(value, _KINDS[kind])


def _kind_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, float) and not math.isfinite(value):
        return "not a finite number"
    return next((kind for kind in ("boolean", "integer", *_KINDS) if _is(value, kind)), "unknown")
