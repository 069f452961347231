"""What is wrong with the values of a file, by pydantic, with models made from structs of msgspec.

Imported only for a file with a fault (`akg_tui.store.user_files.reader`). Has no model of its own:
the structs describe the fields.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

import msgspec
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    PlainValidator,
    Tag,
    TypeAdapter,
    ValidationError,
    create_model,
)
from pydantic import Field as Bounds
from pydantic_core import ErrorDetails, PydanticCustomError

from akg_tui.core.sanitize import BadName
from akg_tui.store.errors import Fault

_EXPECTED = {
    "string_type": "string",
    "string_pattern_mismatch": "string matching {pattern}",
    "string_too_short": "string of length >= {min_length}",
    "string_too_long": "string of length <= {max_length}",
    "int_type": "integer",
    "int_from_float": "integer",
    "float_type": "number",
    "bool_type": "true or false",
    "list_type": "array",
    "dict_type": "table",
    "model_type": "table",
    "too_short": "array of length >= {min_length}",
    "too_long": "array of length <= {max_length}",
    "greater_than_equal": "{ge:g} or more",
    "greater_than": "a number above {gt:g}",
    "less_than_equal": "{le:g} or less",
    "less_than": "a number below {lt:g}",
}
"""What a value should have been, by pydantic's types of errors."""

_DESCRIBED: dict[str, str] = {}
"""The descriptions of patterns that have one."""


def faults_of(plain: object, kind: type) -> list[Fault]:
    """Return the faults that keep decoded values from being a struct; none if they are sound."""
    try:
        _adapter(kind).validate_python(plain)
    except ValidationError as error:
        return faults_in(error)
    return []


def faults_in(error: ValidationError) -> list[Fault]:
    """Return the faults that a model of pydantic has found, in words."""
    return [_fault(each) for each in error.errors()]


def _fault(error: ErrorDetails) -> Fault:
    context: Mapping[str, Any] = error.get("ctx", {})
    marks = {"[key]", *_KINDS}
    field = tuple(str(part) for part in error["loc"] if part not in marks)
    if error["type"] == "missing":
        return Fault(field, f'is missing, expected a line like {field[-1]} = "…"')
    if error["type"] == "value_error":
        fault = context["error"]
        if isinstance(fault, BadName):
            return Fault((*field, fault.field), fault.why)
        return Fault(field, str(fault))
    if error["type"] == _UNKNOWN:
        return Fault((*field, context["name"]), error["msg"])
    if error["type"] == "union_tag_invalid":
        kinds = context["expected_tags"].replace("'", "").replace(", ", " or ")
        return Fault(field, f"{error['input']!r} is not allowed, expected {kinds}")
    shown = repr(error["input"])
    shown = shown if len(shown) <= 60 else shown[:59] + "…"
    if error["type"] == _CHOICE:
        return Fault(field, f"{shown} is unknown, expected one of: {context['words']}")
    template = _DESCRIBED.get(context.get("pattern", "")) or _EXPECTED.get(error["type"])
    expected = template.format_map(context) if template else error["msg"]
    return Fault(field, f"{shown} is not allowed, expected {expected}")


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    return TypeAdapter(_shape(kind))


# Python's patterns, as msgspec has them: the engine of pydantic knows no \\Z.
_CONFIG = ConfigDict(
    strict=True, regex_engine="python-re", protected_namespaces=(), arbitrary_types_allowed=True
)
_UNKNOWN, _CHOICE = "unknown_field", "unknown_word"
_BOUNDS = ("ge", "gt", "le", "lt", "pattern", "min_length", "max_length")


def _shape(kind: Any) -> Any:
    """Return the type of pydantic that accepts what msgspec does for a type."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        shape, *metas = inner
        _DESCRIBED.update({m.pattern: m.description for m in metas if m.pattern and m.description})
        bounds = {
            name: bound
            for meta in metas
            for name in _BOUNDS
            if (bound := getattr(meta, name, None)) is not None
        }
        return Annotated[_shape(shape), Bounds(**bounds)]
    if origin is Literal:
        return Annotated[Any, PlainValidator(_one_of(inner))]
    if origin in (tuple, list):
        return Annotated[list[_shape(inner[0])], BeforeValidator(_as_list)]  # type: ignore[misc]
    if origin in (dict, Mapping):
        return dict[_shape(inner[0]), _shape(inner[1])]  # type: ignore[misc]
    if origin in (Union, UnionType):
        return _union(inner)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _table(kind)
    return kind


def _as_list(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def _union(members: tuple[Any, ...]) -> Any:
    others = [member for member in members if member is not NoneType]
    if set(others) == {int, float}:
        others = [float]
    if len(others) == 1:
        shape = _shape(others[0])
    else:
        tagged = [Annotated[_shape(member), Tag(_kind_of_type(member))] for member in others]
        shape = Annotated[Union[tuple(tagged)], Discriminator(_kind_of_value)]  # noqa: UP007
    return shape | None if NoneType in members else shape


_KINDS = ("array", "string", "number", "table")


def _kind_of_value(value: object) -> str | None:
    """Return the kind of a value, which says which member of a union it is meant for."""
    if isinstance(value, bool):
        return None
    types = ((list, "array"), (str, "string"), ((int, float), "number"), (dict, "table"))
    return next((name for type_, name in types if isinstance(value, type_)), None)


def _kind_of_type(kind: Any) -> str:
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) is Literal or kind is str:
        return "string"
    return "array" if get_origin(kind) is tuple else "number"


def _one_of(words: tuple[Any, ...]) -> Callable[[object], object]:
    def check(value: object) -> object:
        if value not in words:
            raise PydanticCustomError(_CHOICE, "unknown", {"words": ", ".join(map(str, words))})
        return value

    return check


def _table(kind: type[msgspec.Struct]) -> Any:
    """Return the model of a struct; a table that it accepts is made into the struct."""
    types = get_type_hints(kind, include_extras=True)
    fields = msgspec.structs.fields(kind)
    names = {field.name: field.encode_name for field in fields}
    declared = {
        field.name: (_shape(types[field.name]), Bounds(**_default(field), alias=field.encode_name))
        for field in fields
    }
    model = create_model(kind.__name__.strip("_"), __config__=_CONFIG, **cast("Any", declared))
    known = list(names.values())

    def refuse_unknown(plain: object) -> object:
        if not kind.__struct_config__.forbid_unknown_fields or not isinstance(plain, dict):
            return plain
        for name in (str(name) for name in plain if name not in known):
            near = difflib.get_close_matches(name, known, 1)
            meant = f"did you mean {near[0]}?" if near else f"expected one of: {', '.join(known)}"
            told = {"name": name, "meant": meant}
            raise PydanticCustomError(_UNKNOWN, "is not a known field, {meant}", told)
        return plain

    def made(values: BaseModel) -> object:
        stated = {name: getattr(values, name) for name in values.model_fields_set}
        for name, value in stated.items():
            stated[name] = tuple(value) if isinstance(value, list) else value
        return kind(**stated)

    return Annotated[model, BeforeValidator(refuse_unknown), AfterValidator(made)]


def _default(field: msgspec.structs.FieldInfo) -> dict[str, Any]:
    """Return a default for a field that may be left out; the struct knows which."""
    return {} if field.required else {"default": None}
