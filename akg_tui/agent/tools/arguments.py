"""Whether the arguments of a call are what the tool's definition says.

A small part of JSON Schema: type, enum, minimum, maximum, items, properties, required.
Pure. Converts nothing: a model that sends "300" for 300 is told so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from akg_tui.agent.tools.definitions import Definition

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
