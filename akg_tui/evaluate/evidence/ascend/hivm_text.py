"""The text of a module in HIVM, the last form of a kernel before its object, as a tree.

Pure. The text comes from a compiler that read untrusted code: its size, its lines and its depth are
limited, and what is not understood is kept as an instruction like any other.
"""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

MOST_TEXT = 16 << 20
MOST_LINES = 200_000
MOST_DEPTH = 64
MOST_INLINED = 8
MOST_SIZES = 12
MOST_OPERANDS = 64
LARGEST = 1 << 62

_NAME = r"%[\w$.-]+"
_OPERAND = re.compile(rf"{_NAME}(?:#\d+)?")
_RESULTS = re.compile(rf"\s*({_NAME}(?::\d+)?(?:\s*,\s*{_NAME}(?::\d+)?)*)\s*=\s*(?=\S)")
_OPERATION = re.compile(r"\"?([\w.]+)\"?")
_MEMREF = re.compile(r"memref<([^<>]*(?:<[^<>]*>[^<>]*)*)>")
_STRIDES = re.compile(r"strided<\[([^\]]*)\]")
_SPACE = re.compile(r"address_space<(\w+)>")
_FUNCTION = re.compile(r"func\.func (?:private |public )?@([\w$.-]+)\((.*)")
_ARGUMENT = re.compile(rf"({_NAME}): (memref<[^<>]*(?:<[^<>]*>[^<>]*)*>|[\w!.]+)")
_MAP = re.compile(r"(#\w+) = affine_map<\(([^()]*)\)(?:\[([^\]]*)\])? -> \((.*)\)>")
_LOCATION = re.compile(r" loc\((#loc\d{0,9})\)$")
_ALIAS = re.compile(r"(#loc\d{0,9}) = loc\((.*)\)$")
_PLACE = re.compile(r'"[^"]*":(\d{1,7}):\d+$')
_CALL_SITE = re.compile(r"callsite\(.* at (#loc\d{0,9})\)$")
_ENTRY = re.compile(r'"(\w+)", (-?\d{1,18}) : i\d+')


class HivmError(ValueError):
    """A text that is no module in HIVM, or one beyond the limits."""


class MemrefType(Struct, frozen=True):
    """The type of a place in memory; None is a size or stride that the type does not tell."""

    sizes: tuple[int | None, ...]
    strides: tuple[int | None, ...]
    element: str
    space: str


class Instruction(Struct, frozen=True):
    """One operation of the text: what it defines, what it reads, and its regions.

    `text` is what follows the name of the operation, `attributes` what follows the last region,
    `location` the name of its place in the kernel's file.
    """

    line: int
    operation: str
    results: tuple[str, ...]
    operands: tuple[str, ...]
    text: str
    regions: tuple[tuple[Instruction, ...], ...] = ()
    attributes: str = ""
    location: str = ""


class Body(Struct, frozen=True):
    """A function with a body: its arguments (name and type), its attributes, its instructions."""

    name: str
    line: int
    arguments: tuple[tuple[str, str], ...]
    attributes: str
    instructions: tuple[Instruction, ...]


class AffineMap(Struct, frozen=True):
    """A map of the text's head: names of its dimensions and symbols, and its expressions."""

    names: tuple[str, ...]
    results: tuple[str, ...]


class Tree(Struct, frozen=True):
    """A module: its target's description, its maps and its functions.

    `places` are lines of the kernel's file by location; of a call that was inlined, the caller's.
    """

    target: dict[str, int]
    attributes: str
    maps: dict[str, AffineMap]
    functions: tuple[Body, ...]
    places: dict[str, int]


class _Open(Struct):
    """An instruction whose regions are being read."""

    instruction: Instruction
    regions: list[list[Instruction]]


@lru_cache(maxsize=4096)
def memref_type(text: str) -> MemrefType | None:
    """Return the last memref type in a text."""
    all_types = _MEMREF.findall(text)
    if not all_types:
        return None
    shape, _, rest = all_types[-1].partition(",")
    *sizes, element = shape.strip().split("x")
    if len(sizes) > MOST_SIZES:
        return None
    shaped = tuple(_size(each) for each in sizes)
    space = _SPACE.search(rest)
    if told := _STRIDES.search(rest):
        strides = tuple(_size(each) for each in told[1].split(",")[:MOST_SIZES])
    else:
        strides = contiguous(shaped)
    if len(strides) != len(shaped):
        strides = (None,) * len(shaped)
    return MemrefType(shaped, strides, element.strip()[:24], space[1] if space else "")


def contiguous(sizes: tuple[int | None, ...]) -> tuple[int | None, ...]:
    """Return the strides of a dense shape."""
    strides: list[int | None] = []
    step: int | None = 1
    for size in reversed(sizes):
        strides.append(step)
        step = None if step is None or size is None else min(step * size, LARGEST)
    return tuple(reversed(strides))


def _size(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isdecimal() and len(text) < 19 else None


def read_tree(text: str) -> Tree:
    """Return the tree of a module.

    Raises
    ------
    HivmError
        If the text is beyond the limits, has no function with a body, or is not closed.

    """
    if len(text) > MOST_TEXT:
        raise HivmError(f"the text has {len(text)} characters, the limit is {MOST_TEXT}")
    lines = text.splitlines()
    if len(lines) > MOST_LINES:
        raise HivmError(f"the text has {len(lines)} lines, the limit is {MOST_LINES}")
    reader = _Reader()
    for number, line in enumerate(lines, 1):
        reader.read(number, line.strip())
    if reader.head is not None:
        raise HivmError(f"function {reader.head.name[:60]} is not closed")
    if not reader.functions:
        raise HivmError("the text has no function with a body")
    return Tree(
        reader.target,
        reader.attributes,
        reader.maps,
        tuple(reader.functions),
        _places(reader.locations),
    )


def _places(locations: dict[str, str]) -> dict[str, int]:
    places = {}
    for name, text in locations.items():
        told = text
        for _ in range(MOST_INLINED):
            if (called := _CALL_SITE.match(told)) is None:
                break
            told = locations.get(called[1], "")
        if found := _PLACE.match(told):
            places[name] = int(found[1])
    return places


class _Reader:
    """Reads line after line; `head` is the function that is open."""

    def __init__(self) -> None:
        self.target: dict[str, int] = {}
        self.attributes = ""
        self.maps: dict[str, AffineMap] = {}
        self.locations: dict[str, str] = {}
        self.functions: list[Body] = []
        self.head: Body | None = None
        self._open: list[_Open] = []

    def read(self, number: int, line: str) -> None:
        """Read a line without the spaces around it."""
        location = ""
        if found := _LOCATION.search(line):
            location, line = found[1], line[: found.start()].rstrip()
        if self.head is None:
            self._outside(number, line)
        elif line.startswith("}"):
            self._close(self.head, line[1:].strip(), location)
        elif line and not line.startswith("//"):
            instruction = _instruction(number, line, location)
            if not line.endswith("{"):
                self._open[-1].regions[-1].append(instruction)
            elif len(self._open) < MOST_DEPTH:
                self._open.append(_Open(instruction, [[]]))
            else:
                raise HivmError(f"line {number} is nested more than {MOST_DEPTH} deep")

    def _outside(self, number: int, line: str) -> None:
        if found := _ALIAS.match(line):
            self.locations[found[1]] = found[2]
        elif found := _MAP.match(line):
            names = f"{found[2]},{found[3] or ''}".split(",")
            self.maps[found[1]] = AffineMap(
                tuple(each.strip() for each in names if each.strip())[:MOST_OPERANDS],
                tuple(_split(found[4]))[:MOST_OPERANDS],
            )
        elif line.startswith("module"):
            self.attributes = line
            self.target |= {name: int(value) for name, value in _ENTRY.findall(line)}
        elif line.endswith("{") and (found := _FUNCTION.match(line)):
            self.head = Body(found[1], number, _arguments(found[2]), found[2], ())
            self._open = [_Open(Instruction(number, "func.func", (), (), ""), [[]])]

    def _close(self, head: Body, rest: str, location: str) -> None:
        closed = self._open[-1]
        if rest.endswith("{") and rest.split(maxsplit=1)[0] in ("else", "do"):
            closed.regions.append([])
            return
        self._open.pop()
        if self._open:
            regions = tuple(tuple(region) for region in closed.regions)
            whole = replace(closed.instruction, regions=regions, attributes=rest, location=location)
            self._open[-1].regions[-1].append(whole)
        else:
            self.functions.append(replace(head, instructions=tuple(closed.regions[0])))
            self.head = None


def _arguments(text: str) -> tuple[tuple[str, str], ...]:
    return tuple(_ARGUMENT.findall(text))


def _instruction(number: int, line: str, location: str) -> Instruction:
    if line.startswith("^"):
        return Instruction(number, "block", (), tuple(_OPERAND.findall(line)), line)
    results: tuple[str, ...] = ()
    if found := _RESULTS.match(line):
        results = tuple(_named(found[1]))[:MOST_OPERANDS]
        line = line[found.end() :]
    name = _OPERATION.match(line)
    operation = name[1] if name else ""
    text = line[name.end() :].strip() if name else line
    operands = tuple(_OPERAND.findall(text))[:MOST_OPERANDS]
    return Instruction(number, operation, results, operands, text, location=location)


def _named(text: str) -> list[str]:
    """Return the names of results: `%a:2` defines `%a#0` and `%a#1`."""
    names = []
    for each in text.split(","):
        name, _, many = each.strip().partition(":")
        if many:
            names += [f"{name}#{n}" for n in range(min(int(many[:4]), MOST_OPERANDS))]
        else:
            names.append(name)
    return names


def _split(text: str) -> list[str]:
    """Split at the commas that are in no bracket."""
    parts, depth, start = [], 0, 0
    for at, sign in enumerate(text):
        if sign in "([":
            depth += 1
        elif sign in ")]":
            depth -= 1
        elif sign == "," and not depth:
            parts.append(text[start:at].strip())
            start = at + 1
    return [*parts, text[start:].strip()]
