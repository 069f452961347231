"""The text of a kernel that lies in several files, as one text: the form that all floors pass on.

Pure. The first file comes first, as it is; a heading line with its name precedes each other file.
The text of a single file is that file, unchanged. Because one text stands for all files, an attempt
has either all of its files or none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

_RULE = "─" * 8
_BEGINS, _ENDS = f"{_RULE} ", f" {_RULE}"


class NotJoinable(ValueError):
    """The files cannot be told apart again: one of them contains the heading of another."""


class Place(NamedTuple):
    """A line of one file; `line` is its number there, 0 for the heading."""

    file: str
    line: int


def heading(name: str) -> str:
    """Return the line that precedes the text of a file."""
    return f"{_BEGINS}{name}{_ENDS}"


def join_files(texts: Mapping[str, str]) -> str:
    """Return the one text of these files, in their order. Raises `NotJoinable`."""
    first, *others = texts.values()
    text = "".join([first, *map(_with_heading, list(texts)[1:], others)])
    if others and split_files(tuple(texts), text) != dict(texts):
        raise NotJoinable("a file contains the heading line of another file")
    return text


def _with_heading(name: str, text: str) -> str:
    return f"\n{heading(name)}\n{text}"


def is_heading(line: str) -> bool:
    """Return whether a line looks like the heading of a file."""
    return line.startswith(_BEGINS) and line.endswith(_ENDS)


def split_files(names: Sequence[str], text: str) -> dict[str, str]:
    """Return the text of each file. Raises `NotJoinable` where the heading of one is missing."""
    found: dict[str, str] = {}
    at = names[0]
    for name in names[1:]:
        found[at], mark, text = text.partition(_with_heading(name, ""))
        if not mark:
            raise NotJoinable(f"the text has no file {name}")
        at = name
    found[at] = text
    return found


def lines_before(names: Sequence[str], text: str) -> dict[str, int]:
    """Return how many lines of the one text precede the first line of each file."""
    found: dict[str, int] = {}
    before = 0
    for name, each in split_files(names, text).items():
        found[name] = before
        before += each.count("\n") + 2
    return found


class LineNames(NamedTuple):
    """How lines of the one text are named in words.

    `file` is the name of a single file; `before` is `lines_before` of several.
    """

    file: str
    before: Mapping[str, int] = {}

    def line(self, line: int) -> str:
        """Return the line, after its file where there are several."""
        return self.place(line) if self.before else str(line)

    def place(self, line: int) -> str:
        """Return the file and the line in it, or the file alone for line 0."""
        if not line:
            return self.file
        name, before = self.file, 0
        for each, lines in self.before.items():
            if lines < line:
                name, before = each, lines
        return f"{name}:{line - before}"


def places_of_several(names: Sequence[str], text: str) -> Sequence[Place]:
    """Return `places`, or nothing for a single file, whose lines need no other name."""
    return places(names, text) if len(names) > 1 else ()


def places(names: Sequence[str], text: str) -> list[Place]:
    """Return where each line of the one text stands; ``\\n`` ends a line.

    The empty line that a final newline leaves before a heading has no number either.
    """
    found: list[Place] = []
    last = ""
    for name, each in split_files(names, text).items():
        if found:
            if not last or last.endswith("\n"):
                found[-1] = Place(found[-1].file, 0)
            found.append(Place(name, 0))
        found += [Place(name, line) for line in range(1, each.count("\n") + 2)]
        last = each
    return found
