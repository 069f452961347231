"""The declaration of a tool: its schema, gates, validation and dispatch follow from it.

Owns the type `Tool`, the decorator `tool` that makes a `Tool` from a function, and the check of a
call's arguments. Names no particular tool and runs none.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict

from akg_tui.agent.chat import ToolSpec
from akg_tui.agent.tools.call_record import Node
from akg_tui.agent.tools.file_access import FileAccess
from akg_tui.agent.tools.resolver import How
from akg_tui.agent.tools.run_access import Agents, Answer, Caller, KernelSession, RunAccess, Toolbox
from akg_tui.core.phases import Gate, Phase
from akg_tui.core.task import MODEL_NAME

Kind = Literal["basic_tool", "domain_tool", "call_agent", "call_workflow"]


class BadArguments(ValueError):
    """A tool does not accept a call's arguments; the message names the fault."""


class Arg(Struct, frozen=True):
    """The properties of an argument beside its type, as in `Annotated[int, Arg("…")]`.

    `least` and `most` bound the characters of a text; they are told to the model, and core checks
    them. `resolve` states where `read_json_file(…)` is resolved in the argument; `schema` is a JSON
    schema that replaces the schema derived from the type. A model hears of an argument that is not
    `told` only if a user's file names it.
    """

    description: str = ""
    minimum: int | None = None
    maximum: int | None = None
    least: int | None = None
    most: int | None = None
    resolve: How | None = None
    schema: dict[str, Any] | None = None
    told: bool = True


Name = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,63}\Z")]


class Step(Struct, frozen=True, forbid_unknown_fields=True):
    """One call of a workflow, as a file has it. In its arguments `$name` is replaced by the
    workflow's argument of that name, and `$1` by the trace folder of the first step."""

    tool: Name
    arguments: dict[str, Any] = {}


class DeclaredAgent(Struct, frozen=True, forbid_unknown_fields=True):
    """A user's agent, as a file has it: what is added to a subagent's rules, its tools (none: all
    of them), and its model on the server of the run's agent (none: that agent's own)."""

    prompt: Annotated[str, Meta(min_length=1, max_length=8_000)]
    tools: tuple[Name, ...] = ()
    model: Annotated[str, Meta(pattern=MODEL_NAME, max_length=128)] | None = None


class ToolContext(Struct, frozen=True, kw_only=True):
    """The first argument of a tool's function: access to the run and to the call.

    `told` has keys of what the conversation has told and a tool need not repeat. `node` is the
    call's folder on disk. `run_step` runs another tool with resolved arguments in a
    node of its own; `toolbox` returns the tools for the subagent of a name. `file_arguments` are
    the arguments that our tools have besides where the kernel lies in several files.
    """

    tool: Tool
    run: RunAccess
    files: FileAccess
    kernel: KernelSession
    told: set[str]
    caller: Caller
    agents: Agents
    node: Node
    run_step: Callable[[str, dict[str, Any], Node], Awaitable[Answer]]
    toolbox: Callable[[str], Toolbox]
    file_arguments: Mapping[str, Any] = {}


class Tool(Struct, frozen=True, kw_only=True):
    """One tool, built in or from a user's file.

    `parameters` is the JSON schema sent to a model; `run` takes arguments that fit this schema.
    `phases` are the phases in which the tool may be called; a workflow has none, because its
    steps decide. `main_agent_only` withholds a tool from subagents that a call started, because
    the tool advances the run, asks a person or starts a subagent. `agent` is the agent that the
    tool starts, `declared` its declaration if it is a user's. `gate` is the gate at which a
    person may have to approve the call. A model hears of it, unless it is `by_name` and no file of
    the user names it, but for the arguments `untold`; it answers every call all the same.
    """

    name: str
    kind: Kind
    description: str
    parameters: dict[str, Any]
    run: Callable[[ToolContext, dict[str, Any]], Awaitable[Answer]]
    resolve: dict[str, How] = {}
    phases: frozenset[Phase] = frozenset()
    main_agent_only: bool = False
    gate: Gate | None = None
    agent: str = ""
    declared: DeclaredAgent | None = None
    steps: tuple[Step, ...] = ()
    by_name: bool = False
    untold: frozenset[str] = frozenset()

    @property
    def properties(self) -> dict[str, Any]:
        found: dict[str, Any] = self.parameters["properties"]
        return found

    @property
    def required(self) -> tuple[str, ...]:
        return tuple(self.parameters["required"])

    @property
    def spec(self) -> ToolSpec:
        """The description of the tool for a request."""
        told = {name: s for name, s in self.properties.items() if name not in self.untold}
        return ToolSpec(
            self.name, self.description, _brief({**self.parameters, "properties": told})
        )

    def how(self, argument: str) -> How:
        """Return where `read_json_file(…)` is resolved in an argument."""
        return self.resolve.get(argument, "always")


Tools = dict[str, Tool]
Act = Callable[..., Answer | Awaitable[Answer]]


def tool(kind: Kind, phases: Iterable[Phase] = (), **more: Any) -> Callable[[Act], Tool]:
    """Declare a function as the tool of its name; `more` are other fields of `Tool`.

    The function's first parameter is the `ToolContext`, the others are the tool's arguments.
    The docstring is the description sent to a model. The schema omits a default of None, which
    makes the argument optional.
    """

    def declared(act: Act) -> Tool:
        name = act.__name__
        arguments = list(inspect.signature(act, eval_str=True).parameters.values())[1:]
        required = [each.name for each in arguments if each.default is each.empty]
        fields: list[Any] = [
            (e.name, e.annotation, msgspec.NODEFAULT if e.name in required else e.default)
            for e in arguments
        ]
        form = msgspec.defstruct(name, fields, forbid_unknown_fields=True, kw_only=True)

        async def run(call: ToolContext, given: dict[str, Any]) -> Answer:
            try:
                typed = msgspec.convert(given, form)
            except msgspec.ValidationError as error:
                raise BadArguments(f"{name}: {error}") from None
            answer = act(call, **asdict(typed))
            return answer if isinstance(answer, Answer) else await answer

        schemas = {each.name: _schema(each.annotation, each.default) for each in arguments}
        args = {each.name: _arg(each.annotation) for each in arguments}
        return Tool(
            name=name,
            kind=kind,
            description=" ".join((act.__doc__ or "").split()),
            parameters=object_schema(schemas, required),
            run=run,
            resolve={key: arg.resolve for key, arg in args.items() if arg.resolve},
            phases=frozenset(phases),
            untold=frozenset(key for key, arg in args.items() if not arg.told),
            **more,
        )

    return declared


def _brief(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a JSON schema without what `checked` or hashline says in its refusal."""
    brief: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "properties":
            brief[key] = {name: _brief(inner) for name, inner in value.items()}
        elif key == "items":
            brief[key] = _brief(value)
        elif key not in ("additionalProperties", "pattern") and (key, value) != ("required", []):
            brief[key] = value
    return brief


def object_schema(properties: Mapping[str, Any], required: Iterable[str]) -> dict[str, Any]:
    """Return the JSON schema of an object that has these properties and no others."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


def _arg(hint: Any) -> Arg:
    return next((m for m in getattr(hint, "__metadata__", ()) if isinstance(m, Arg)), Arg())


_TYPES: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


def _schema(hint: Any, default: Any = inspect.Parameter.empty) -> dict[str, Any]:
    """Return the JSON schema of a type. The order of its keys affects the prompt cache's prefix."""
    arg = _arg(hint)
    if arg.schema is not None:
        return arg.schema
    bare = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    schema = _schema_of_type(bare)
    bounds = {"minimum": arg.minimum, "maximum": arg.maximum}
    for key, value in {**bounds, "minLength": arg.least, "maxLength": arg.most}.items():
        if value is not None:
            schema[key] = value
    if default is not inspect.Parameter.empty and default is not None:
        schema["default"] = list(default) if isinstance(default, tuple) else default
    if arg.description:
        schema["description"] = arg.description
    return schema


def _schema_of_type(bare: Any) -> dict[str, Any]:
    if bare in _TYPES:
        return {"type": _TYPES[bare]}
    if isinstance(bare, type) and issubclass(bare, Struct):
        fields = get_type_hints(bare, include_extras=True)
        needed = [field.name for field in msgspec.structs.fields(bare) if field.required]
        return object_schema({name: _schema(hint) for name, hint in fields.items()}, needed)
    parts = [part for part in get_args(bare) if part not in (type(None), ...)]
    if get_origin(bare) is Literal:
        return {"type": "string", "enum": parts}
    if get_origin(bare) in (list, tuple):
        return {"type": "array", "items": _schema(parts[0])}
    (only,) = parts  # the `X` of `X | None`
    return _schema_of_type(only)


MAX_DEPTH = 8

_KINDS: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


def checked(known: Tool, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments completed by defaults. Raises `BadArguments`."""
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
    """Return the fault of a value as the end of a sentence that begins with its name, or None."""
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
