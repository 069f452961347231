"""What an edit format is: a way to show a file, and a way to say a change to it.

Owns the interface, the reading of its plain arguments, and the rule that no file is edited that the
reader was not shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Protocol

from akg_tui.hashline.document import Document


@dataclass(frozen=True, slots=True)
class Refusal:
    """No edit was made; the message is for its writer."""

    message: str


class EditFormat(Protocol):
    """One reader's use of a format on one file."""

    @property
    def name(self) -> str: ...

    @property
    def schema(self) -> dict[str, object]:
        """JSON schema of the call's arguments."""
        ...

    def render(self, document: Document) -> str:
        """The file as the reader is shown it."""
        ...

    def apply(self, document: Document, call: Mapping[str, object]) -> Document | Refusal:
        """The next revision, `document` being the file as it stands now."""
        ...


@dataclass(frozen=True, slots=True)
class Proposed:
    """An edit that may be made: the next revision, and lines added and removed.

    `accept` makes it the reader's newest revision; the answer is for its writer.
    """

    document: Document
    added: int
    removed: int
    accept: Callable[[], str]


class EditReader(Protocol):
    """A format as a run uses it: it knows what its reader was shown, and proposes first."""

    @property
    def name(self) -> str: ...

    def render(self, document: Document) -> str:
        """The file as the reader is shown it now."""
        ...

    def trust(self, document: Document) -> None:
        """Take note that the reader was shown this very document, whole, before."""
        ...

    def propose(self, document: Document, call: Mapping[str, object]) -> Proposed | Refusal:
        """The edit of a call, `document` being the file as it stands now."""
        ...


def text_argument(call: Mapping[str, object], name: str) -> str | Refusal:
    """A string among the arguments of a call."""
    value = call.get(name)
    return value if isinstance(value, str) else Refusal(f"{name}: a string is needed")


def object_schema(**properties: dict[str, object]) -> dict[str, object]:
    """Schema of an object of which every property is needed."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


class Guarded:
    """`form` for one reader of one file. Implements `EditReader`."""

    def __init__(self, form: EditFormat) -> None:
        self._form = form
        self._shown = ""

    @property
    def name(self) -> str:
        return self._form.name

    @property
    def schema(self) -> dict[str, object]:
        return self._form.schema

    def render(self, document: Document) -> str:
        self._shown = document.sha256
        return self._form.render(document)

    def trust(self, document: Document) -> None:
        self._shown = document.sha256

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
        added, removed = _counted(document, made)

        def accept() -> str:
            self._shown = made.sha256
            return f"{made.path} is changed: {added} lines added, {removed} removed"

        return Proposed(made, added, removed, accept)


def _counted(before: Document, after: Document) -> tuple[int, int]:
    """Lines added and lines removed."""
    codes = SequenceMatcher(None, before.lines, after.lines, autojunk=False).get_opcodes()
    changed = [code for code in codes if code[0] != "equal"]
    return sum(j2 - j1 for *_, j1, j2 in changed), sum(i2 - i1 for _, i1, i2, *_ in changed)
