"""task.toml as a `Task`, a policy file as an `AutomationPolicy`; an error names the line.

The bounds of the fields are defined in `akg_tui.core.task`.
"""

from __future__ import annotations

import difflib
import math
import re
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from akg_tui.core.sanitize import BadName
from akg_tui.core.stopping.automation import (
    AutomationPolicy,
    BadPolicy,
    doubts,
    never_met,
    read_automation,
)
from akg_tui.core.task import Task
from akg_tui.store.errors import BadTask, RunFolderError
from akg_tui.toml_text import field_lines, load_toml, toml_fault

_WORDS = {
    "object": "table",
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "true or false",
}
_LARGEST = 2**63 - 1
_Faults = Callable[[tuple[str, ...], str], BadTask]


def parse_task(path: Path, text: str) -> Task:
    """Return the task in `text`; `path` is for messages."""
    plain, bad = _read(path, text)
    return _task(plain, bad)


def parse_agent(path: Path, text: str) -> dict[str, Any]:
    """Return the settings of an agent that `text` states in `[agent]`, its only table.

    Raises `BadTask` as `parse_task` does; `path` is for messages.
    """
    return _agent(*_read(path, text))


def _agent(plain: dict[str, Any], bad: _Faults) -> dict[str, Any]:
    if others := [name for name in plain if name != "agent"]:
        raise bad((others[0],), "is not allowed here, expected the table [agent] alone")
    _task({"op": "any", **plain}, bad)
    stated: dict[str, Any] = plain.get("agent", {})
    return stated


MOST_PARALLEL = 16


def parse_configuration(path: Path, text: str) -> tuple[dict[str, Any], int]:
    """Return what `parse_agent` does, and the number of its runs of a task, `parallel`, or 1.

    Raises `BadTask` as `parse_task` does.
    """
    plain, bad = _read(path, text)
    parallel = plain.pop("parallel", 1)
    if type(parallel) is not int or not 1 <= parallel <= MOST_PARALLEL:
        message = f"{parallel!r} is not allowed, expected integer from 1 to {MOST_PARALLEL}"
        raise bad(("parallel",), message)
    return _agent(plain, bad), parallel


def _read(path: Path, text: str) -> tuple[dict[str, Any], _Faults]:
    """Return the content of TOML `text`, and what makes an error with the line of a field."""
    try:
        plain = load_toml(text)
    except tomllib.TOMLDecodeError as error:
        raise not_toml(path, text, error) from None
    bad = partial(_bad, path, field_lines(text))
    _check_numbers(plain, (), bad)
    return plain, bad


def not_toml(path: Path, text: str, error: tomllib.TOMLDecodeError) -> BadTask:
    """Return the fault of a file that is no TOML, with its line."""
    line, message = toml_fault(text, error)
    return BadTask(path, line, "", f"not valid TOML: {message}")


def _task(plain: dict[str, Any], bad: _Faults) -> Task:
    try:
        task = msgspec.convert(plain, Task, strict=True)
    except msgspec.ValidationError as error:
        raise _explained(error, plain, bad) from None
    _check_files(task, bad)
    _check_automation(plain, bad)
    for at, why in never_met(task.policy.automation, task.metrics):
        raise bad(("policy", "automation", "goals", str(at), "metric"), why)
    return task


def _bad(
    path: Path, lines: dict[tuple[str, ...], int], field: tuple[str, ...], message: str
) -> BadTask:
    """Return the error with the line of the field, or of the table that contains it."""
    known = field
    while known and known not in lines:
        known = known[:-1]
    return BadTask(path, lines.get(known, 1), ".".join(field), message)


def _check_numbers(value: Any, field: tuple[str, ...], bad: _Faults) -> None:
    """Refuse numbers that TOML allows and the journal's JSON cannot hold."""
    if isinstance(value, dict):
        for key, inner in value.items():
            _check_numbers(inner, (*field, key), bad)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _check_numbers(inner, (*field, str(index)), bad)
    elif isinstance(value, float) and not math.isfinite(value):
        raise bad(field, f"{value} is not allowed, expected a finite number")
    elif isinstance(value, int) and abs(value) > _LARGEST:
        raise bad(field, f"too large, expected at most {_LARGEST}")


def _explained(error: msgspec.ValidationError, plain: dict[str, Any], bad: _Faults) -> BadTask:
    """Return msgspec's message in the words of TOML, with the value, the line and the choices."""
    what, _, place = str(error).partition(" - at `$")
    field = tuple(re.findall(r"[^.`\[\]]+", place))
    if isinstance(error.__cause__, BadName):
        return bad((*field, error.__cause__.field), error.__cause__.why)
    if missing := re.fullmatch(r"Object missing required field `(.+)`", what):
        lacking = (*field, missing[1])
        return bad(lacking, f'is missing, expected a line like {missing[1]} = "…"')
    if unknown := re.fullmatch(r"Object contains unknown field `(.+)`", what):
        known = list(_fields(_type_at(field)))
        near = difflib.get_close_matches(unknown[1], known, 1)
        meant = f"did you mean {near[0]}?" if near else f"expected one of: {', '.join(known)}"
        return bad((*field, unknown[1]), f"is not a known field, {meant}")
    if not what.startswith(("Expected ", "Invalid ")):
        return bad(field, what)
    value: Any = plain
    for step in field:
        value = value[int(step)] if isinstance(value, list) else value[step]
    shown = repr(value) if len(repr(value)) <= 60 else repr(value)[:59] + "…"
    if what.startswith("Invalid enum value"):
        choices = ", ".join(get_args(_type_at(field)))
        return bad(field, f"{shown} is unknown, expected one of: {choices}")
    expected = re.sub(r", got .*$", "", what.removeprefix("Expected "))
    expected = expected.replace("`int | float`", "numbers by name")
    expected = expected.replace("`str | array`", "a file name or a list of them")
    expected = re.sub(r"`(\w+)( \| null)?`", lambda m: _WORDS.get(m[1], m[1]), expected)
    return bad(field, f"{shown} is not allowed, expected {expected}")


def _type_at(field: tuple[str, ...]) -> Any:
    """Return the type of a field of `Task`, without its bounds; for an array, its items' type."""
    kind: Any = Task
    for name in field:
        if name.isdigit():  # an array's index: `kind` is already the item's type
            continue
        kind = _fields(kind)[name]
        while get_origin(kind) not in (Literal, None):  # `X | None`, `tuple[X, ...]`
            kind = get_args(kind)[0]
    return kind


def _fields(kind: Any) -> dict[str, Any]:
    """Return the fields of a struct by their names in the file."""
    types = get_type_hints(kind)
    return {field.encode_name: types[field.name] for field in msgspec.structs.fields(kind)}


def _check_automation(plain: dict[str, Any], bad: _Faults) -> None:
    """Refuse ambiguous values of a file that the policy's own format accepts."""
    policy = plain.get("policy", {})
    automation = policy.get("automation", {})
    at = ("policy", "automation")
    for name, why in doubts(automation):
        raise bad((*at, name), why)
    rounds, again = policy.get("max_rounds"), automation.get("maxRounds")
    if rounds is not None and again is not None and rounds != again:
        message = f"says {again}, but policy.max_rounds says {rounds}; keep one of them"
        raise bad((*at, "maxRounds"), message)


def _check_files(task: Task, bad: _Faults) -> None:
    reference, names = task.files.reference, task.files.names
    for name, value in (("reference", reference), ("editable", task.files.kernel)):
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\.py", value):
            message = f"{value!r} is not allowed, expected the name of a .py file in this folder"
            raise bad(("files", name), message)
    for number, name in enumerate(names):
        message = ""
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", name):
            message = f"{name!r} is not allowed, expected the name of a file in this folder"
        elif name in names[:number]:
            message = f"{name} is named twice"
        elif name == reference:
            message = "is the reference too, expected another file"
        if message:
            raise bad(("files", "editable"), message)


SIZE_LIMIT = 1 << 20


def load_policy(path: Path) -> tuple[AutomationPolicy | None, list[str]]:
    """Return the policy in `path`, and doubts about values that are probably mistakes.

    Raises
    ------
    RunFolderError
        If the file cannot be read or is no policy; the message names file and field.
    """
    try:
        with path.open("rb") as file:
            data = file.read(SIZE_LIMIT + 1)
    except OSError as error:
        raise RunFolderError(f"{path}: cannot be read: {error.strerror}") from error
    if len(data) > SIZE_LIMIT:
        raise RunFolderError(f"{path}: is too large for a policy, expected at most {SIZE_LIMIT} B")
    try:
        plain = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RunFolderError(f"{path}: not valid JSON: {error}") from error
    try:
        policy = read_automation(plain)
    except BadPolicy as error:
        raise RunFolderError(f"{path}: {error}") from error
    if policy is None or not isinstance(plain, dict):
        return policy, []
    inner = plain.get("automation_policy", plain)
    return policy, [f"{path}: {name}: {why}" for name, why in doubts(inner)]
