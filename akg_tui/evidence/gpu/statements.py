"""The statements of a GPU's code: PTX, SASS as nvdisasm prints it, and AMD's assembly.

Pure. The text comes from a compiler that was given untrusted code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

Files = Mapping[str, int]
"""The names of the kernel's files, with how many of its rows precede each."""


class Statement(NamedTuple):
    """A label, or an instruction with the line of the kernel's text (0: unknown)."""

    label: str
    opcode: str = ""
    operands: str = ""
    predicate: str = ""
    line: int = 0


_PTX_STATEMENT = re.compile(
    r"^[ \t]*(?:(?P<label>[$\w.]+):(?!:)"
    r"|\.loc[ \t]+(?P<loc>[^\n]*)"
    r"|\.file[ \t]+(?P<file>\d+)[ \t]+\"(?P<name>[^\"\n]*)\""
    r"|(?:(?P<predicate>@!?%\w+)[ \t]+)?(?P<opcode>[a-z][\w.:]*)\s*(?P<operands>[^;]*);)",
    re.M,
)
_LOC = re.compile(r"(\d+)\s+(\d+)(?:.*?\binlined_at\s+(\d+)\s+(\d+))?")


def ptx_statements(text: str, files: Files) -> list[Statement]:
    """Return the statements of PTX."""
    # Files are numbered at the end.
    named = re.findall(r"^\s*\.file\s+(\d+)\s+\"([^\"\n]*)\"", text, re.M)
    ours = {number: name for number, name in named if _line(files, name, 1)}
    found: list[Statement] = []
    line = 0
    for each in _PTX_STATEMENT.finditer(re.sub(r"//[^\n]*", "", text)):
        if each["label"]:
            found.append(Statement(each["label"]))
        elif each["loc"]:
            if told := _LOC.match(each["loc"]):
                places = [(told[1], told[2]), (told[3], told[4])]
                line = next(
                    (
                        _line(files, ours[number], int(at))
                        for number, at in places
                        if number in ours
                    ),
                    0,
                )
        elif each["opcode"]:
            operands = " ".join(each["operands"].split())
            predicate = each["predicate"] or ""
            found.append(Statement("", each["opcode"], operands, predicate, line))
    return found


_SASS_PLACE = re.compile(r'"([^"]*)", line (\d+)')
_SASS_CODE = re.compile(r"\s*/\*[0-9a-f]{4,}\*/\s+(?:(@!?U?P\w+)\s+)?([A-Z][\w.]*)\s*([^;]*?)\s*;")


def sass_statements(listing: str, files: Files) -> list[Statement]:
    """Return the statements in what `nvdisasm -gi -c` prints."""
    found: list[Statement] = []
    line, fresh = 0, True
    for row in listing.splitlines():
        if row.lstrip().startswith("//## File"):
            # An inlined instruction has a row for each function around it.
            line = 0 if fresh else line
            fresh = False
            line = line or _first(files, _SASS_PLACE.findall(row))
        elif told := _SASS_CODE.match(row):
            fresh = True
            found.append(Statement("", told[2], told[3], told[1] or "", line))
        elif told := re.match(r"(\.L_\w+):", row):
            found.append(Statement(told[1]))
    return found


_AMD_PLACE = re.compile(r"([^\s:;\[]+):(\d+):\d+")
_AMD_CODE = re.compile(r"\t([a-z]\w+)([^\n;]*)")


def amd_statements(text: str, files: Files) -> list[Statement]:
    """Return the statements of AMD's assembly, whose comments tell the places."""
    found: list[Statement] = []
    line = 0
    for row in text.splitlines():
        if row.startswith("\t.loc"):
            line = _first(files, _AMD_PLACE.findall(row))
        elif told := re.match(r"(\.L\w+):", row):
            found.append(Statement(told[1]))
        elif told := _AMD_CODE.match(row):
            found.append(Statement("", told[1], " ".join(told[2].split()), "", line))
    return found


def _line(files: Files, name: str, line: int) -> int:
    """Return the line of the kernel's text that is `line` of the file `name`, 0 if it has none."""
    before = files.get(name.rpartition("/")[2])
    return 0 if before is None else before + line


def _first(files: Files, places: Iterable[tuple[str, str]]) -> int:
    return next((line for name, at in places if (line := _line(files, name, int(at)))), 0)
