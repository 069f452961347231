"""JSON and YAML of problems, with the line of a fault."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from akg_tui.core.sanitize import one_line
from akg_tui.store.errors import BadTask
from akg_tui.store.task_folder import file_text

Line = Callable[[str], int | None]
"""Returns the first line of the file with a key, or None."""

VERSIONS = ("schema_version", "format_version", "version")


def read_object(path: Path) -> tuple[dict[str, Any], Line]:
    """Return the object in a JSON file. Raises `BadTask`."""
    text = file_text(path)
    try:
        plain = json.loads(text)
    except ValueError as error:
        line = getattr(error, "lineno", 1)
        raise BadTask(path, line, "", f"not valid JSON: {getattr(error, 'msg', error)}") from None
    except RecursionError:
        raise BadTask(path, 1, "", "not valid JSON: nested too deeply") from None
    return _as_object(path, plain, text)


def read_lines(path: Path) -> list[tuple[int, dict[str, Any]]]:
    """Return the objects of a file with one a line, each with its line. Raises `BadTask`."""
    found = []
    for number, line in enumerate(file_text(path).splitlines(), 1):
        if not line.strip():
            continue
        try:
            plain = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise BadTask(path, number, "", f"not valid JSON: {error}") from None
        if not isinstance(plain, dict):
            raise BadTask(path, number, "", "expected an object on every line")
        if why := _fault(plain):
            raise BadTask(path, number, "", why)
        found.append((number, plain))
    return found


MAX_VALUES = 100_000


def _is_small(plain: object) -> bool:
    """Return whether a value has at most `MAX_VALUES` values in it, each as often as it is met."""
    waiting = [plain]
    for _ in range(MAX_VALUES):
        if not waiting:
            return True
        match waiting.pop():
            case dict() as mapping:
                waiting += mapping.values()
            case list() as values:
                waiting += values
    return False


def read_yaml(path: Path) -> tuple[dict[str, Any], Line]:
    """Return the mapping in a YAML file. Raises `BadTask`."""
    import yaml

    text = file_text(path)
    try:
        plain = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else 1
        why = getattr(error, "problem", None) or type(error).__name__
        raise BadTask(path, line, "", f"not valid YAML: {why}") from None
    if not _is_small(plain):
        raise BadTask(path, 1, "", f"has more than {MAX_VALUES} values, aliases unfolded")
    return _as_object(path, plain, text)


def _as_object(path: Path, plain: Any, text: str) -> tuple[dict[str, Any], Line]:
    if not isinstance(plain, dict):
        raise BadTask(path, 1, "", "expected an object with named fields")

    def line(key: str) -> int | None:
        pattern = re.compile(rf"(^|[\s\"'{{,-]){re.escape(key)}[\"']?\s*:")
        lines = enumerate(text.splitlines(), 1)
        return next((number for number, told in lines if pattern.search(told)), None)

    fields = {str(key): value for key, value in plain.items()}
    for key, value in fields.items():
        if why := _fault(value) or _fault(key):
            raise BadTask(path, line(key) or 1, one_line(key, 60), why)
    return fields, line


def _fault(value: object) -> str:
    """Return why a value cannot be written as text, or ""."""
    try:
        json.dumps(value, ensure_ascii=False, skipkeys=True, default=str).encode()
    except UnicodeError:
        return "is not UTF-8 text"
    except RecursionError:
        return "is nested too deeply"
    except ValueError:
        return "has a number of too many digits"
    return ""


def positive(value: object) -> float | None:
    """Return a finite number above 0 as a float, None for any other value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 < value <= sys.float_info.max else None


def check_version(path: Path, plain: dict[str, Any], line: Line, newest: int) -> None:
    """Refuse a file that states a newer version of its format than this reader knows."""
    for key in VERSIONS:
        stated = str(plain.get(key, "")).lstrip("v").partition(".")[0]
        if stated.isdigit() and int(stated) > newest:
            message = f"is {plain[key]}, newer than this reader knows ({newest})"
            raise BadTask(path, line(key), key, message)


def typed(path: Path, plain: dict[str, Any], line: Line, key: str, kind: type[Any]) -> Any:
    """Return a field of a type. Raises `BadTask` with its line."""
    value = plain.get(key)
    if not isinstance(value, kind):
        words = "a text" if kind is str else "an object"
        why = "is missing" if value is None else "is of another type"
        raise BadTask(path, line(key) or 1, key, f"{why}, expected {words}")
    return value
