"""The edit operations: their values, the strict parser of their JSON form, its JSON schema.

Owns only the grammar and the description of each field for a model. Reads no file: `anchors`
decides whether an anchor fits a file. Never guesses, repairs or ignores a field.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from akg_tui.hashline.tags import TAG_PATTERNS

NUMBER_PATTERN: Final = "[1-9][0-9]{0,8}"
_ANCHOR: Final = re.compile(f"({NUMBER_PATTERN})({'|'.join(TAG_PATTERNS.values())})", re.ASCII)
Side: TypeAlias = Literal["after", "before"]

_SIDES: Final[tuple[Side, ...]] = ("after", "before")
_FIELDS: Final[dict[str, frozenset[str]]] = {
    "replace": frozenset({"op", "from", "to", "lines"}),
    "delete": frozenset({"op", "from", "to"}),
    "insert": frozenset({"op", "lines", "at", *_SIDES}),
    "sub": frozenset({"op", "at", "find", "with"}),
    "move": frozenset({"op", "from", "to", *_SIDES}),
    "copy": frozenset({"op", "from", "to", *_SIDES}),
}


class BadEdit(ValueError):
    """The request is not in the grammar; no file was read.

    - `index`: position of the operation, from 0; None if the whole list is wrong.
    - `field`: the field at fault, empty if the whole operation is wrong.
    """

    def __init__(self, index: int | None, field: str, message: str) -> None:
        where = "ops" if index is None else f"ops[{index}]"
        super().__init__(f"{where}.{field}: {message}" if field else f"{where}: {message}")
        self.index = index
        self.field = field


@dataclass(frozen=True, slots=True)
class Anchor:
    """The number and the tag of a line in a view: ``42sr``; in hex notation the tag is ``:f1``."""

    number: int
    tag: str

    def __str__(self) -> str:
        return f"{self.number}{self.tag}"


@dataclass(frozen=True, slots=True)
class Replace:
    """Replacement of lines `start` to `stop`, both included, by `lines`."""

    start: Anchor
    stop: Anchor
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Delete:
    """Removal of lines `start` to `stop`, both included."""

    start: Anchor
    stop: Anchor


@dataclass(frozen=True, slots=True)
class Insert:
    """Insertion of `lines` on one side of an anchor."""

    side: Side
    anchor: Anchor
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class InsertAtEdge:
    """Insertion of `lines` before the first line or after the last line."""

    edge: Literal["head", "tail"]
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sub:
    """Replacement of `find`, which must occur exactly once in the line, by `instead`."""

    anchor: Anchor
    find: str
    instead: str


@dataclass(frozen=True, slots=True)
class Transfer:
    """Move or copy of lines `start` to `stop`, both included, to one side of an anchor."""

    kind: Literal["move", "copy"]
    start: Anchor
    stop: Anchor
    side: Side
    anchor: Anchor


Op: TypeAlias = Replace | Delete | Insert | InsertAtEdge | Sub | Transfer


def parse_ops(raw: object) -> tuple[Op, ...]:
    """Return the operations of a JSON value that `EDIT_SCHEMA` describes.

    Raises `BadEdit` at the first fault, with the operation and the field.
    """
    if not isinstance(raw, list) or not raw:
        raise BadEdit(None, "", f"a list of at least one operation, not {_quoted(raw)}")
    return tuple(_parse_op(index, item) for index, item in enumerate(raw))


def _parse_op(index: int, item: object) -> Op:
    if not isinstance(item, Mapping):
        raise BadEdit(index, "", f"an object with the field op, not {_quoted(item)}")
    name = item.get("op")
    names = ", ".join(_FIELDS)
    if not isinstance(name, str) or name not in _FIELDS:
        raise BadEdit(index, "op", f"one of {names}, not {_quoted(name)}")
    for field in item:
        if field not in _FIELDS[name]:
            raise BadEdit(index, ascii(field).strip("'")[:40], f"{name} has no such field")
    match name:
        case "insert":
            return _parse_insert(index, item)
        case "sub":
            return _parse_sub(index, item)
    start = _parse_anchor(index, "from", item)
    stop = _parse_anchor(index, "to", item) if "to" in item else start
    if stop.number < start.number:
        raise BadEdit(index, "to", f"{stop} stands above from={start}")
    if stop.number == start.number and stop.tag != start.tag:
        raise BadEdit(index, "to", f"{stop} and from={start} give one line two tags")
    match name:
        case "delete":
            return Delete(start, stop)
        case "move":
            return Transfer("move", start, stop, *_parse_side(index, item))
        case "copy":
            return Transfer("copy", start, stop, *_parse_side(index, item))
    return Replace(start, stop, _parse_lines(index, item))


def _parse_insert(index: int, item: Mapping[object, object]) -> Op:
    if sum(field in item for field in ("at", *_SIDES)) != 1:
        raise BadEdit(index, "", "an insert has exactly one of after, before and at")
    match item.get("at", item):
        case "head":
            return InsertAtEdge("head", _parse_lines(index, item))
        case "tail":
            return InsertAtEdge("tail", _parse_lines(index, item))
    if "at" in item:
        raise BadEdit(index, "at", f"head or tail, not {_quoted(item['at'])}")
    return Insert(*_parse_side(index, item), _parse_lines(index, item))


def _parse_sub(index: int, item: Mapping[object, object]) -> Sub:
    anchor = _parse_anchor(index, "at", item)
    find = _parse_line(index, "find", item.get("find"))
    if not find:
        raise BadEdit(index, "find", "at least one character")
    return Sub(anchor, find, _parse_line(index, "with", item.get("with")))


def _parse_side(index: int, item: Mapping[object, object]) -> tuple[Side, Anchor]:
    sides = [side for side in _SIDES if side in item]
    if len(sides) != 1:
        raise BadEdit(index, "", f"a {item['op']} has exactly one of after and before")
    return sides[0], _parse_anchor(index, sides[0], item)


def _parse_anchor(index: int, field: str, item: Mapping[object, object]) -> Anchor:
    if field not in item:
        raise BadEdit(index, field, "missing; give the line as the view shows it, such as 42sr")
    value = item[field]
    found = _ANCHOR.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        detail = f"a line number and its tag, such as 42sr, not {_quoted(value)}"
        raise BadEdit(index, field, detail)
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
    """Return a short, printable form of a value from a model."""
    text = ascii(value)
    return text if len(text) <= 40 else text[:37] + "..."


_ONE_LINE: Final = {"type": "string", "pattern": "^[^\\r\\n]*$"}
_FORMS: Final = (
    "Operations, applied all together or not at all; numbers refer to the file before the edit, "
    "ranges must not overlap. replace: from, to, lines. delete: from, to. insert: lines, and after "
    "or before a line, or at head or tail. sub: at a line, find, with. move, copy: from, to, and "
    "after or before a line. Without `to` the range is the line `from`."
)


_TAG: Final = NUMBER_PATTERN + TAG_PATTERNS["bigram"]
_ANCHORED: Final = {"type": "string", "pattern": f"^{_TAG}$"}
_FIELD_SCHEMAS: Final[dict[str, object]] = {
    "op": {"type": "string", "enum": list(_FIELDS)},
    "from": {**_ANCHORED, "description": "A line by number and tag, as in the view: 42sr."},
    "to": _ANCHORED,
    **dict.fromkeys(_SIDES, _ANCHORED),
    "at": {"type": "string", "pattern": f"^(head|tail|{_TAG})$"},
    "lines": {
        "type": "array",
        "minItems": 1,
        "items": _ONE_LINE,
        "description": "New lines, one string each, indent included, without tags.",
    },
    "find": {
        "type": "string",
        "pattern": "^[^\\r\\n]+$",
        "description": "Text that stands in the line exactly once.",
    },
    "with": _ONE_LINE,
}

EDIT_SCHEMA: Final[dict[str, object]] = {
    "type": "array",
    "minItems": 1,
    "description": _FORMS,
    "items": {
        "type": "object",
        "properties": _FIELD_SCHEMAS,
        "required": ["op"],
        "additionalProperties": False,
    },
}
"""The schema of a list of operations.

One flat object stands for all operations, because a model reads the schema in every request; which
fields belong to which operation is in the description, and checked by `parse_ops`.
"""
