"""Tool definitions: YAML in, one sorted list of tools out, fixed for a run.

Our own files are `tools.yaml` and `domain_tools.yaml` beside this module; a task's files
are merged over them. Nothing here knows what a tool does. Loads yaml when first asked, and
pydantic only for a user's files.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from akg_tui.agent.chat import ToolSpec
from akg_tui.agent.tools.resolver import How
from akg_tui.core.plain import one_line
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
        from akg_tui.agent.tools.user_files import merged

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
