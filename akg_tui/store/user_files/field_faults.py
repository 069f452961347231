"""What is wrong with the values of a file: the innermost part that msgspec refuses, in words.

Imported only for a file with a fault (`akg_tui.store.user_files.reader`).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from akg_tui.core.sanitize import BadName
from akg_tui.store.errors import Fault, Field

_NAMES = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "true or false",
    "object": "table",
}
_BOUNDS = {">=": "{:g} or more", ">": "a number above {:g}", "<=": "{:g} or less",
           "<": "a number below {:g}"}  # fmt: skip
_EXPECTED = re.compile(r"Expected `(?P<types>[^`]*)`(?: of (?P<length>length .*)"
                       r"| (?P<sign>[<>]=?) (?P<bound>\S+)|.*)$")  # fmt: skip


def fault_of(plain: object, kind: Any, at: Field = ()) -> Fault | None:
    """Return the first fault that keeps decoded values from being of a type; None without one."""
    try:
        msgspec.convert(plain, kind, strict=True)
    except msgspec.ValidationError as error:
        bare, pattern = _bare(kind, plain)
        inner = _in_struct(plain, bare, at) if _is_struct(bare) else _in_parts(plain, bare, at)
        return next(inner, None) or _fault(plain, bare, pattern, at, error)
    return None


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _bare(kind: Any, plain: object) -> tuple[Any, str]:
    """Return the type without bounds, of several the one for the value, and what a text is like."""
    pattern = ""
    while (origin := get_origin(kind)) in (Annotated, Union, UnionType):
        first, *others = get_args(kind)
        if origin is Annotated:
            like = (meta for meta in others if getattr(meta, "pattern", None))
            pattern = next((m.description or f"string matching {m.pattern}" for m in like), "")
            kind = first
            continue
        members = [each for each in (first, *others) if each is not NoneType]
        fits = (each for each in members if isinstance(plain, _held_as(each)))
        if (found := next(fits, members[0] if len(members) == 1 else None)) is None:
            break
        kind = found
    return kind, pattern


def _held_as(kind: Any) -> tuple[type, ...]:
    """Return the types of decoded values that may be of a type."""
    kind, _ = _bare(kind, None)
    origin = get_origin(kind) or kind
    if _is_struct(kind) or origin in (dict, Mapping):
        return (dict,)
    if origin in (list, tuple):
        return (list, tuple)
    return (str,) if origin is Literal else (kind,)


def _in_struct(plain: object, kind: type[msgspec.Struct], at: Field) -> Iterator[Fault]:
    if not isinstance(plain, dict):
        return
    types, fields = get_type_hints(kind, include_extras=True), msgspec.structs.fields(kind)
    known = [field.encode_name for field in fields]
    if kind.__struct_config__.forbid_unknown_fields:
        for name in (str(name) for name in plain if name not in known):
            near = difflib.get_close_matches(name, known, 1)
            meant = f"did you mean {near[0]}?" if near else f"expected one of: {', '.join(known)}"
            yield Fault((*at, name), f"is not a known field, {meant}")
    for field in fields:
        name = field.encode_name
        if name in plain:
            if fault := fault_of(plain[name], types[field.name], (*at, name)):
                yield fault
        elif field.required:
            yield Fault((*at, name), f'is missing, expected a line like {name} = "…"')


def _in_parts(plain: object, kind: Any, at: Field) -> Iterator[Fault]:
    origin, inner = get_origin(kind), get_args(kind)
    parts: Iterator[tuple[object, object]] = iter(())
    if isinstance(plain, dict) and origin in (dict, Mapping):
        for name in plain:
            if fault := fault_of(name, inner[0], (*at, str(name))):
                yield fault
        parts, of = iter(plain.items()), inner[1]
    elif isinstance(plain, list | tuple) and origin in (list, tuple):
        parts, of = enumerate(plain), inner[0]
    for name, value in parts:
        if fault := fault_of(value, of, (*at, str(name))):
            yield fault


def _fault(
    plain: object, kind: Any, pattern: str, at: Field, error: msgspec.ValidationError
) -> Fault:
    cause = error.__cause__
    if isinstance(cause, BadName):
        return Fault((*at, cause.field), cause.why)
    if isinstance(cause, ValueError):
        return Fault(at, str(cause))
    shown = repr(plain)
    shown = shown if len(shown) <= 60 else shown[:59] + "…"
    if get_origin(kind) is Literal:
        words = ", ".join(map(str, get_args(kind)))
        return Fault(at, f"{shown} is unknown, expected one of: {words}")
    said = str(error).partition(" - at ")[0]
    found = _EXPECTED.match(said)
    if found is None:
        return Fault(at, said)
    names = [_NAMES.get(each, each) for each in found["types"].split(" | ") if each != "null"]
    expected = " or ".join(each for each in names if each != "integer" or "number" not in names)
    if found["length"]:
        expected += f" of {found['length']}"
    elif found["sign"]:
        expected = _BOUNDS[found["sign"]].format(float(found["bound"]))
    elif isinstance(plain, str) and pattern:
        expected = pattern
    return Fault(at, f"{shown} is not allowed, expected {expected}")
