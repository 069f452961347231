"""What an edit request says: the operations, their JSON form, and its strict reading.

Owns the grammar only. Whether an anchor fits a file is for `anchors`; nothing here
looks at one. A field is never guessed, mended or ignored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

_ANCHOR_PATTERN: Final = "^[1-9][0-9]{0,8}[a-z]{2}$"
_ANCHOR: Final = re.compile(r"([1-9][0-9]{0,8})([a-z]{2})", re.ASCII)
_PLACES: Final = ("after", "before", "at")
_FIELDS: Final[dict[str, frozenset[str]]] = {
    "replace": frozenset({"op", "from", "to", "lines"}),
    "delete": frozenset({"op", "from", "to"}),
    "insert": frozenset({"op", "lines", *_PLACES}),
}


class BadEdit(ValueError):
    """The request is not in the grammar; no file was looked at.

    Attributes
    ----------
    index : int or None
        Position of the operation, from 0; None where the whole list is wrong.
    field : str
        The field at fault, empty where the operation as a whole is.
    """

    def __init__(self, index: int | None, field: str, message: str) -> None:
        where = "ops" if index is None else f"ops[{index}]"
        super().__init__(f"{where}.{field}: {message}" if field else f"{where}: {message}")
        self.index = index
        self.field = field


@dataclass(frozen=True, slots=True)
class Anchor:
    """A line as a view names it: ``42sr``."""

    number: int
    tag: str

    def __str__(self) -> str:
        return f"{self.number}{self.tag}"


@dataclass(frozen=True, slots=True)
class Replace:
    """Lines `start` to `stop`, both included, give way to `lines`."""

    start: Anchor
    stop: Anchor
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Delete:
    """Lines `start` to `stop`, both included, go."""

    start: Anchor
    stop: Anchor


@dataclass(frozen=True, slots=True)
class Insert:
    """`lines` come in on one side of an anchor."""

    side: Literal["after", "before"]
    anchor: Anchor
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class InsertAtEdge:
    """`lines` come in before the first line or after the last one."""

    edge: Literal["head", "tail"]
    lines: tuple[str, ...]


Op: TypeAlias = Replace | Delete | Insert | InsertAtEdge


def parse_ops(raw: object) -> tuple[Op, ...]:
    """Read the JSON value described by `EDIT_SCHEMA`.

    Raises
    ------
    BadEdit
        Naming the operation and the field, at the first thing that does not fit.
    """
    if not isinstance(raw, list) or not raw:
        raise BadEdit(None, "", f"a list of at least one operation, not {_quoted(raw)}")
    return tuple(_parse_op(index, item) for index, item in enumerate(raw))


def _parse_op(index: int, item: object) -> Op:
    if not isinstance(item, Mapping):
        raise BadEdit(index, "", f"an object with the field op, not {_quoted(item)}")
    name = item.get("op")
    if not isinstance(name, str) or name not in _FIELDS:
        raise BadEdit(index, "op", f"replace, insert or delete, not {_quoted(name)}")
    for field in item:
        if field not in _FIELDS[name]:
            raise BadEdit(index, ascii(field).strip("'")[:40], f"{name} has no such field")
    if name == "insert":
        return _parse_insert(index, item)
    start = _parse_anchor(index, "from", item)
    stop = _parse_anchor(index, "to", item) if "to" in item else start
    if stop.number < start.number:
        raise BadEdit(index, "to", f"{stop} stands above from={start}")
    if stop.number == start.number and stop.tag != start.tag:
        raise BadEdit(index, "to", f"{stop} and from={start} give one line two tags")
    if name == "delete":
        return Delete(start, stop)
    return Replace(start, stop, _parse_lines(index, item))


def _parse_insert(index: int, item: Mapping[object, object]) -> Op:
    places = [field for field in _PLACES if field in item]
    if len(places) != 1:
        raise BadEdit(index, "", "an insert has exactly one of after, before and at")
    match places[0]:
        case "after":
            return Insert("after", _parse_anchor(index, "after", item), _parse_lines(index, item))
        case "before":
            return Insert("before", _parse_anchor(index, "before", item), _parse_lines(index, item))
    match item["at"]:
        case "head":
            return InsertAtEdge("head", _parse_lines(index, item))
        case "tail":
            return InsertAtEdge("tail", _parse_lines(index, item))
        case other:
            raise BadEdit(index, "at", f"head or tail, not {_quoted(other)}")


def _parse_anchor(index: int, field: str, item: Mapping[object, object]) -> Anchor:
    if field not in item:
        raise BadEdit(index, field, "missing; give the line as the view shows it, such as 42sr")
    value = item[field]
    found = _ANCHOR.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise BadEdit(
            index,
            field,
            f"a line number and its two-letter tag, such as 42sr, not {_quoted(value)}",
        )
    return Anchor(int(found[1]), found[2])


def _parse_lines(index: int, item: Mapping[object, object]) -> tuple[str, ...]:
    value = item.get("lines")
    if not isinstance(value, list):
        raise BadEdit(index, "lines", f"a list of strings, one a line, not {_quoted(value)}")
    if not value:
        raise BadEdit(index, "lines", "at least one line; to take lines away use delete")
    return tuple(_parse_line(index, f"lines[{n}]", line) for n, line in enumerate(value))


def _parse_line(index: int, field: str, line: object) -> str:
    if not isinstance(line, str):
        raise BadEdit(index, field, f"a string, not {_quoted(line)}")
    if "\n" in line or "\r" in line:
        raise BadEdit(index, field, "one line holds no line break; give one string a line")
    if line.startswith("\ufeff"):
        raise BadEdit(index, field, "a byte order mark can't be put in by an edit")
    if any("\ud800" <= letter <= "\udfff" for letter in line):
        raise BadEdit(index, field, "a lone surrogate can't be written as UTF-8")
    return line


def _quoted(value: object) -> str:
    """Short and printable, whatever a model sent."""
    text = ascii(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _shape(op: str, required: tuple[str, ...], fields: dict[str, object]) -> dict[str, object]:
    return {
        "type": "object",
        "properties": {"op": {"const": op}, **fields},
        "required": ["op", *required],
        "additionalProperties": False,
    }


def _anchor_schema(description: str) -> dict[str, object]:
    return {"type": "string", "pattern": _ANCHOR_PATTERN, "description": description}


_LINES_SCHEMA: Final[dict[str, object]] = {
    "type": "array",
    "minItems": 1,
    "items": {"type": "string", "pattern": "^[^\\r\\n]*$"},
    "description": "New lines, one string each, indent included, without tags or line breaks.",
}
_RANGE_SCHEMA: Final[dict[str, object]] = {
    "from": _anchor_schema("First line, as the view names it: number and tag, such as 42sr."),
    "to": _anchor_schema("Last line, included. Left out: the same as from."),
}

EDIT_SCHEMA: Final[dict[str, object]] = {
    "type": "array",
    "minItems": 1,
    "description": (
        "Operations on the lines as last shown, applied all together or not at all. "
        "Ranges must not overlap; numbers refer to the file before the edit."
    ),
    "items": {
        "anyOf": [
            _shape("replace", ("from", "lines"), {**_RANGE_SCHEMA, "lines": _LINES_SCHEMA}),
            _shape("delete", ("from",), dict(_RANGE_SCHEMA)),
            *(
                _shape(
                    "insert",
                    (side, "lines"),
                    {side: _anchor_schema(f"Insert {side} this line."), "lines": _LINES_SCHEMA},
                )
                for side in ("after", "before")
            ),
            _shape(
                "insert",
                ("at", "lines"),
                {"at": {"enum": ["head", "tail"]}, "lines": _LINES_SCHEMA},
            ),
        ]
    },
}
