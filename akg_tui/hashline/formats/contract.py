"""The interface of an edit format: the rendering of a file, and the description of an edit.

Owns the common parts of the formats: the parsing of plain arguments, and the rule that only the
shown state of a file can be edited.
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


class EditFormat(Protocol):
    """A format that one reader uses on one file."""

    @property
    def schema(self) -> dict[str, object]:
        """The JSON schema of the call's arguments."""
        ...

    def render(self, document: Document) -> str:
        """Return the file in the form for its reader."""
        ...

    def apply(self, document: Document, call: Mapping[str, object]) -> Document | Refusal:
        """Apply a call to the current file `document`, and return the next revision."""
        ...


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
    """The form of a format that a run uses: it records the shown file, and proposes edits."""

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


class Guarded:
    """An `EditReader` made of an `EditFormat`: it refuses edits of a file that was not shown."""

    def __init__(self, form: EditFormat) -> None:
        self._form = form
        self._shown = ""

    def copied(self) -> Guarded:
        other = Guarded(self._form)
        other._shown = self._shown
        return other

    def render(self, document: Document) -> str:
        self._shown = document.sha256
        return self._form.render(document)

    def render_lines(self, document: Document, numbers: Sequence[int]) -> str:
        # An edit needs the whole file to be shown, so nothing is recorded.
        return "\n".join(f"{number}: {document.lines[number - 1]}" for number in numbers)

    def assume_shown(self, document: Document) -> None:
        self._shown = document.sha256

    def follow(self, before: Document, after: Document) -> str:
        if self._shown == before.sha256:
            self._shown = after.sha256
        return ""

    def propose(self, document: Document, call: Mapping[str, object]) -> Proposed | Refusal:
        if not self._shown:
            return Refusal("nothing was written: read the file first")
        if self._shown != document.sha256:
            now = self.render(document)
            return Refusal(f"nothing was written: the file is another one now:\n\n{now}")
        made = self._form.apply(document, call)
        if isinstance(made, Refusal):
            return made
        if made.sha256 == document.sha256:
            return Refusal("nothing was written: the edit changes nothing")
        added, removed = line_counts(document, made)

        def accept() -> str:
            self._shown = made.sha256
            return f"{made.path} is changed: {added} lines added, {removed} removed"

        return Proposed(made, added, removed, accept)


def line_counts(before: Document, after: Document) -> tuple[int, int]:
    """Return the numbers of lines added and removed."""
    codes = SequenceMatcher(None, before.lines, after.lines, autojunk=False).get_opcodes()
    changed = [code for code in codes if code[0] != "equal"]
    return sum(j2 - j1 for *_, j1, j2 in changed), sum(i2 - i1 for _, i1, i2, *_ in changed)
