"""The interface of an edit format: the rendering of a file, and the description of an edit.

Owns what the formats share: the form of an answer, and the parsing of plain arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Protocol

from akg_tui.hashline.document import Document


@dataclass(frozen=True, slots=True)
class Refusal:
    """The refusal of an edit; the message is for the writer of the edit."""

    message: str


@dataclass(frozen=True, slots=True)
class Proposed:
    """A checked edit: the next revision, and the numbers of lines added and removed.

    `accept` records the reader's newest revision, and returns the answer for the reader.
    """

    document: Document
    added: int
    removed: int
    accept: Callable[[], str]


class EditReader(Protocol):
    """A format for one reader of one file: it records what was shown, and proposes edits.

    Only the state of the file that was shown can be edited.
    """

    @property
    def schema(self) -> dict[str, object]:
        """The JSON schema of the call's arguments."""
        ...

    def copied(self) -> EditReader:
        """Return a reader with the same record, whose edits do not change this one."""
        ...

    def render(self, document: Document) -> str:
        """Return the current file in the form for its reader, and record it as shown."""
        ...

    def render_lines(self, document: Document, numbers: Sequence[int]) -> str:
        """Return some lines of the current file, and record them as shown if that suffices."""
        ...

    def assume_shown(self, document: Document) -> None:
        """Record the whole document as shown, without rendering it."""
        ...

    def follow(self, before: Document, after: Document) -> str:
        """Record a change of whole lines that its reader asked for in other words, such as a
        knob's value; return what an edit's `accept` says, or "".
        """
        ...

    def propose(self, document: Document, call: Mapping[str, object]) -> Proposed | Refusal:
        """Return the edit that a call makes of the current file `document`, or its refusal."""
        ...


def text_argument(call: Mapping[str, object], name: str) -> str | Refusal:
    """Return a string argument of a call, or a refusal if it is not a string."""
    value = call.get(name)
    return value if isinstance(value, str) else Refusal(f"{name}: a string is needed")


def object_schema(**properties: Mapping[str, object]) -> dict[str, object]:
    """Return the JSON schema of an object whose properties are all required."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def line_counts(before: Document, after: Document) -> tuple[int, int]:
    """Return the numbers of lines added and removed."""
    codes = SequenceMatcher(None, before.lines, after.lines, autojunk=False).get_opcodes()
    changed = [code for code in codes if code[0] != "equal"]
    return sum(j2 - j1 for *_, j1, j2 in changed), sum(i2 - i1 for _, i1, i2, *_ in changed)
