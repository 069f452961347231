"""A kernel's files: their texts by name, the form in which every floor passes a kernel on.

Pure. An attempt has either all of its files or none, because one value stands for all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

_RULE = "─" * 8


class Place(NamedTuple):
    """A line of one file; `line` is its number there, 0 for a heading or the file as a whole."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


class KernelFiles(Struct, frozen=True):
    """The texts of a kernel's files, in their order; the judge loads the first.

    The lines of all files are also numbered as rows, from 1, as a screen shows them below one
    another: before each file but the first, a row with its name.
    """

    texts: dict[str, str]

    def __hash__(self) -> int:
        return hash(tuple(self.texts.items()))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the files."""
        return tuple(self.texts)

    @property
    def main(self) -> str:
        """The name of the file that the judge loads."""
        return next(iter(self.texts))

    @property
    def text(self) -> str:
        """The text of the file that the judge loads."""
        return self.texts[self.main]

    @property
    def size(self) -> int:
        """The number of characters."""
        return sum(map(len, self.texts.values()))

    @property
    def sha256(self) -> str:
        """The digest of all names and texts; of one file that of its text."""
        parts = [self.text]
        if len(self.texts) > 1:
            parts = [f"{len(each)} {each}" for pair in self.texts.items() for each in pair]
        return hashlib.sha256("".join(parts).encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def page(self) -> str:
        """All rows as one text for a person or a model; of one file its text. Never read back."""
        if len(self.texts) == 1:
            return self.text
        return "".join(f"{row}\n" for _, row in self.rows())

    @property
    def places(self) -> list[Place]:
        """Where each row stands."""
        return [place for place, _ in self.rows()]

    @property
    def places_of_several(self) -> Sequence[Place]:
        """`places`, or nothing for one file, whose lines need no other name."""
        return self.places if len(self.texts) > 1 else ()

    @property
    def before(self) -> dict[str, int]:
        """How many rows precede the first line of each file."""
        found: dict[str, int] = {}
        before = 0
        for name, text in self.texts.items():
            found[name] = before
            before += len(lines_of(text)) + 1
        return found

    def place(self, row: int) -> Place:
        """Return where a row stands."""
        found = Place(self.main, row)
        for name, before in self.before.items():
            if before <= row:
                found = Place(name, row - before)
        return found

    def rows(self) -> Iterator[tuple[Place, str]]:
        """Yield each row with its place; ``\\n`` ends a line."""
        for name, text in self.texts.items():
            if name != self.main:
                yield Place(name, 0), f"{_RULE} {name} {_RULE}"
            for number, line in enumerate(lines_of(text), 1):
                yield Place(name, number), line

    def having(self, texts: Mapping[str, str]) -> KernelFiles:
        """Return the kernel with other texts of these files."""
        return KernelFiles({name: texts.get(name, text) for name, text in self.texts.items()})


def lines_of(text: str) -> list[str]:
    """Return the lines of a text without their ends; ``\\n`` ends a line."""
    lines = text.split("\n")
    return lines if lines[-1] or len(lines) == 1 else lines[:-1]


Kernel = KernelFiles | str
"""A kernel as the judge and the tools about it take it: the text of a single file stands for it."""


def files_of(kernel: Kernel, name: str) -> KernelFiles:
    """Return the files of a kernel; `name` is that of a text's single file."""
    return kernel if isinstance(kernel, KernelFiles) else KernelFiles({name: kernel})


class LineNames(NamedTuple):
    """How rows of a kernel are named in words.

    `file` is the name of a single file; `before` is `KernelFiles.before` of several.
    """

    file: str
    before: Mapping[str, int] = {}

    def line(self, line: int) -> str:
        """Return the line, after its file where there are several."""
        return self.place(line) if self.before else str(line)

    def place(self, line: int) -> str:
        """Return the file and the line in it, or the file alone for line 0."""
        return str(self.at(line))

    def at(self, line: int) -> Place:
        """Return where a row is; row 0 is the file as a whole."""
        name, before = self.file, 0
        for each, lines in self.before.items():
            if lines < line:
                name, before = each, lines
        return Place(name, line - before)
