"""Flattens nested values to a list and a `Group` that tells the nesting, and nests them again.

Used in children only, at the edge of a model's call; a `Group` is plain data. Everything inside the
judge works on the flat list.
"""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import torch

from akg_tui.core.task import INPUT_NAME
from akg_tui.evaluate.protocol.child_protocol import Group

DEEPEST = 32
MOST = 4096
"""The deepest nesting, and the most values."""

NAME = re.compile(INPUT_NAME)
"""The name of a flat value, such as `state.m[0]`."""

OUTPUT = "output"
"""How the names of results begin."""

Classes = Callable[[str], object]
"""Returns the object that has a name in the file whose model is called, or None."""


class Unsupported(TypeError):
    """A value that can't be passed between processes; the message has its name and the reason."""


class Mismatch(TypeError):
    """A value that is not nested as it should be; the message names it."""


class Arguments(NamedTuple):
    """The arguments of one call."""

    positional: Sequence[object]
    named: Mapping[str, object] = {}

    def call(self, function: Callable[..., object]) -> object:
        """Call a function with them."""
        return function(*self.positional, **self.named)


class Flat(NamedTuple):
    """The values of a nested one in order, and their names; `group` is None for a single value."""

    group: Group | None
    values: list[object]
    names: list[str]


class _Parts(NamedTuple):
    kind: Group
    values: Sequence[object]


def flat_arguments(arguments: Arguments, parameters: Sequence[str] = ()) -> Flat:
    """Return the arguments of a call as a flat list.

    A container without a tensor inside is one value, unless it is empty. `parameters` are the names
    of the arguments that are passed by position; the group is None if all are single values so
    passed.
    """
    found = Flat(None, [], [])
    unnamed = range(len(parameters), len(arguments.positional))
    names = [*parameters[: len(arguments.positional)], *(f"input{at}" for at in unnamed)]
    given = [*arguments.positional, *arguments.named.values()]
    items = []
    for name, value in zip([*names, *arguments.named], given, strict=True):
        _check(value, name, ())
        items.append(_flatten(value, name, found, results=False))
    for at, name in enumerate(found.names):
        if name in names[len(parameters) :]:
            found.names[at] = ""
    if not arguments.named and not any(items):
        return found
    keys = ("",) * len(arguments.positional) + tuple(arguments.named)
    return found._replace(group=Group("arguments", tuple(items), keys))


def flat_results(result: object) -> Flat:
    """Return what a model returned as a flat list. None has no value."""
    found = Flat(None, [], [])
    _check(result, OUTPUT, ())
    return found._replace(group=_flatten(result, OUTPUT, found, results=True))


def nested(group: Group, values: Iterator[object], classes: Classes) -> object:
    """Return new containers with the values of a flat list."""
    items = [
        next(values) if each is None else nested(each, values, classes) for each in group.items
    ]
    match group.kind:
        case "none":
            return None
        case "list":
            return items
        case "tuple":
            return tuple(items)
        case "dict":
            return dict(zip(group.keys, items, strict=True))
        case "arguments":
            count = group.keys.count("")
            named = zip(map(str, group.keys[count:]), items[count:], strict=True)
            return Arguments(items[:count], dict(named))
    return _record(group, items, classes)


def nested_arguments(group: Group | None, values: Sequence[object], classes: Classes) -> Arguments:
    """Return the arguments of a call, whose containers are new."""
    made = nested(group, iter(values), classes) if group is not None else None
    return made if isinstance(made, Arguments) else Arguments(values)


def values_in(group: Group | None, value: object, name: str) -> list[object]:
    """Return the flat list of a value that is nested as `group` says.

    A list may stand for a tuple, a tuple of one for its value, and anything with the attributes or
    keys of a record for that.

    Raises
    ------
    Mismatch
        It is not nested so.
    """
    if group is None:
        return [value[0] if isinstance(value, tuple | list) and len(value) == 1 else value]
    if group.kind in ("tuple", "list") and isinstance(value, torch.Tensor):
        value = (value,)
    found: list[object] = []
    _collect(group, value, name, found)
    return found


def tensors_in(*values: object) -> Iterator[torch.Tensor]:
    """Yield the tensors in values that may be nested."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif (parts := _parts(value, "")) is not None:
            yield from tensors_in(*parts.values)


def records_in(*values: object) -> Iterator[object]:
    """Yield the named tuples and dataclasses in values that may be nested."""
    for value in values:
        if (parts := _parts(value, "")) is not None:
            if parts.kind.name:
                yield value
            yield from records_in(*parts.values)


def _collect(group: Group, value: object, name: str, found: list[object]) -> None:
    kind, count = group.kind, len(group.items)
    items: Sequence[object] | None = None
    if kind == "arguments" and isinstance(value, Arguments):
        items = [*value.positional, *value.named.values()]
    elif kind == "none" and value is None:
        items = ()
    elif kind in ("list", "tuple"):
        items = value if isinstance(value, list | tuple) else None
    elif isinstance(value, Mapping):
        keys = group.keys
        items = [value[key] for key in keys] if value.keys() == set(keys) else None
    elif kind != "dict" and isinstance(value, tuple):
        items = value
    elif kind in ("named tuple", "dataclass") and all(hasattr(value, str(k)) for k in group.keys):
        items = [getattr(value, str(key)) for key in group.keys]
    if items is None or len(items) != count:
        raise Mismatch(f"{name} is {described(value)}, expected {_wanted(group)}")
    names = [_name(group, at, name) for at in range(count)]
    for each, item, inner in zip(group.items, items, names, strict=True):
        if each is None:
            found.append(item)
        else:
            _collect(each, item, inner, found)


def described(value: object) -> str:
    """Return a description of a value's type and size, for a message."""
    if value is None:
        return "None"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, Mapping):
        return f"a {type(value).__name__} with the keys {', '.join(map(str, value))}"[:200]
    return f"a {type(value).__name__}"


def _wanted(group: Group) -> str:
    if group.kind == "none":
        return "None"
    if group.kind in ("list", "tuple"):
        return f"a {group.kind} of {len(group.items)}"
    what = "a dictionary" if group.kind == "dict" else f"a {group.kind} {group.name}"
    return f"{what} with {', '.join(map(str, group.keys))}"


def _check(value: object, name: str, path: tuple[int, ...]) -> None:
    """Raise Unsupported if a value contains itself or is nested too deep."""
    if (parts := _parts(value, name)) is None:
        return
    if id(value) in path:
        raise Unsupported(f"{name} contains itself")
    if len(path) >= DEEPEST:
        raise Unsupported(f"{name} is nested more than {DEEPEST} deep")
    for at, each in enumerate(parts.values):
        _check(each, _name(parts.kind, at, name), (*path, id(value)))


def _flatten(value: object, name: str, found: Flat, *, results: bool) -> Group | None:
    if value is None and results:
        return Group("none")
    parts = _parts(value, name)
    if parts is None or not (results or _is_nested(parts)):
        # A number of NumPy, as a row of a table has, becomes Python's.
        found.values.append(value.item() if isinstance(value, np.generic) else value)
        found.names.append(name)
        if len(found.values) > MOST:
            raise Unsupported(f"{name} is one of more than {MOST} values")
        return None
    items = [
        _flatten(each, _name(parts.kind, at, name), found, results=results)
        for at, each in enumerate(parts.values)
    ]
    return msgspec.structs.replace(parts.kind, items=tuple(items))


def _is_nested(parts: _Parts) -> bool:
    """Return whether a container among arguments holds tensors, or is empty and may get some."""
    if not parts.values:
        return parts.kind.kind in ("list", "dict")
    return any(True for _ in tensors_in(*parts.values))


def _parts(value: object, name: str) -> _Parts | None:
    """Return what a container holds, and its kind; None for another value."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        keys = tuple(map(str, value._fields))
        return _Parts(Group("named tuple", (), keys, type(value).__name__), value)
    if isinstance(value, list):
        return _Parts(Group("list"), value)
    if isinstance(value, tuple):
        return _Parts(Group("tuple"), value)
    if isinstance(value, dict):
        if not all(isinstance(key, str | int) for key in value):
            if any(isinstance(each, torch.Tensor) for each in value.values()):
                raise Unsupported(f"{name} is a dictionary with keys that are no texts or integers")
            return None
        return _Parts(Group("dict", (), tuple(value)), list(value.values()))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        keys = tuple(each.name for each in dataclasses.fields(value) if hasattr(value, each.name))
        fields = Group("dataclass", (), keys, type(value).__name__)
        return _Parts(fields, [getattr(value, key) for key in keys])
    return None


def _name(group: Group, at: int, name: str) -> str:
    """Return the name of an item of a group with a name."""
    if name == OUTPUT and group.kind in ("list", "tuple"):
        return f"{OUTPUT} {at}"
    if group.kind == "arguments":
        return str(group.keys[at]) or f"argument {at}"
    key = group.keys[at] if at < len(group.keys) else at
    if isinstance(key, str) and key.isidentifier():
        return f"{name}.{key}"
    # Beside other keys a number could be the place of one of them.
    counted = all(isinstance(each, int) and each >= 0 for each in group.keys)
    return f"{name}[{key if counted else at}]"


def _record(group: Group, items: Sequence[object], classes: Classes) -> object:
    """Return a named tuple, or an instance of a dataclass: of the file's class, if it has one."""
    keys = [str(key) for key in group.keys]
    known = classes(group.name)
    made: Any = known if isinstance(known, type) else None
    if group.kind == "named tuple":
        if list(getattr(made, "_fields", ())) != keys:
            plain: Any = collections.namedtuple(group.name, keys)  # type: ignore[misc]
            made = plain
        return tuple.__new__(made, items)
    fields = dataclasses.fields(made) if dataclasses.is_dataclass(made) else ()
    if not {*keys} <= {each.name for each in fields}:
        made = dataclasses.make_dataclass(group.name, keys)
    record: object = object.__new__(made)
    for key, item in zip(keys, items, strict=True):
        object.__setattr__(record, key, item)
    return record
