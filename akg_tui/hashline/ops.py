"""What an edit request says: the operations, and the strict reading of their JSON form.

Owns the grammar only. Whether an anchor fits a file is for `anchors`; nothing here
looks at one. A field is never guessed, mended or ignored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from akg_tui.hashline.tags import TAG_PATTERNS

NUMBER_PATTERN: Final = "[1-9][0-9]{0,8}"
_ANCHOR: Final = re.compile(f"({NUMBER_PATTERN})({'|'.join(TAG_PATTERNS.values())})", re.ASCII)
_PLACES: Final = ("after", "before", "at")
_SIDES: Final = ("after", "before")
_FIELDS: Final[dict[str, frozenset[str]]] = {
    "replace": frozenset({"op", "from", "to", "lines"}),
    "delete": frozenset({"op", "from", "to"}),
    "insert": frozenset({"op", "lines", *_PLACES}),
    "sub": frozenset({"op", "at", "find", "with"}),
    "move": frozenset({"op", "from", "to", *_SIDES}),
    "copy": frozenset({"op", "from", "to", *_SIDES}),
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
    """A line as a view names it: ``42sr``; in the hex notation the tag is ``:f1``."""

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


@dataclass(frozen=True, slots=True)
class Sub:
    """Within one line, `find` gives way to `instead`; it must stand there exactly once."""

    anchor: Anchor
    find: str
    instead: str


@dataclass(frozen=True, slots=True)
class Transfer:
    """Lines `start` to `stop`, both included, come in on one side of an anchor.

    A ``move`` takes them away from where they stood, a ``copy`` leaves them there.
    """

    kind: Literal["move", "copy"]
    start: Anchor
    stop: Anchor
    side: Literal["after", "before"]
    anchor: Anchor


Op: TypeAlias = Replace | Delete | Insert | InsertAtEdge | Sub | Transfer


def parse_ops(raw: object) -> tuple[Op, ...]:
    """Read the JSON value that `akg_tui.hashline.schema` describes.

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


def _parse_sub(index: int, item: Mapping[object, object]) -> Sub:
    anchor = _parse_anchor(index, "at", item)
    find = _parse_line(index, "find", item.get("find"))
    if not find:
        raise BadEdit(index, "find", "at least one character")
    return Sub(anchor, find, _parse_line(index, "with", item.get("with")))


def _parse_side(
    index: int, item: Mapping[object, object]
) -> tuple[Literal["after", "before"], Anchor]:
    if ("after" in item) == ("before" in item):
        raise BadEdit(index, "", f"a {item['op']} has exactly one of after and before")
    if "after" in item:
        return "after", _parse_anchor(index, "after", item)
    return "before", _parse_anchor(index, "before", item)


def _parse_anchor(index: int, field: str, item: Mapping[object, object]) -> Anchor:
    if field not in item:
        raise BadEdit(index, field, "missing; give the line as the view shows it, such as 42sr")
    value = item[field]
    found = _ANCHOR.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise BadEdit(
            index,
            field,
            f"a line number and its tag, such as 42sr, not {_quoted(value)}",
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
