"""The interface of an edit format: a way to show a file, and a way to say a change to it.

Owns what the formats share: reading of plain arguments, application of a patch, and the rule that
a file can be edited only in the state in which its reader was shown it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Protocol

from akg_tui.hashline.document import BOM, Document
from akg_tui.hashline.splice import Span, Unwritable, splice


@dataclass(frozen=True, slots=True)
class Refusal:
    """No edit was made; the message is for its writer."""

    message: str


class EditFormat(Protocol):
    """A format that one reader uses on one file."""

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
    """A format as a run uses it: it records what its reader was shown, and proposes an edit."""

    def render(self, document: Document) -> str:
        """The file as the reader is shown it now."""
        ...

    def assume_shown(self, document: Document) -> None:
        """Record that the reader was shown this document, whole, by other means."""
        ...

    def propose(self, document: Document, call: Mapping[str, object]) -> Proposed | Refusal:
        """The edit of a call, `document` being the file as it stands now."""
        ...


def text_argument(call: Mapping[str, object], name: str) -> str | Refusal:
    """A string argument of a call, or why it is none."""
    value = call.get(name)
    return value if isinstance(value, str) else Refusal(f"{name}: a string is needed")


def object_schema(**properties: Mapping[str, object]) -> dict[str, object]:
    """JSON schema of an object whose properties are all required."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


class BadPatch(ValueError):
    """The text is no patch in this form, or a part of it fits nowhere in the file."""


@dataclass(frozen=True, slots=True)
class PatchFormat:
    """A format whose call is one text of changed lines and their context.

    Attributes
    ----------
    argument : str
        Name of the call's only argument.
    spans : callable
        Places a patch in a document; raises `BadPatch`.
    """

    argument: str
    spans: Callable[[Document, str], list[Span]]

    @property
    def schema(self) -> dict[str, object]:
        return object_schema(**{self.argument: {"type": "string"}})

    def render(self, document: Document) -> str:
        return document.text.removeprefix(BOM)

    def apply(self, document: Document, call: Mapping[str, object]) -> Document | Refusal:
        patch = text_argument(call, self.argument)
        if isinstance(patch, Refusal):
            return patch
        try:
            return splice(document, self.spans(document, patch)).document
        except (BadPatch, Unwritable) as error:
            return Refusal(f"nothing was written: {error}")


class Guarded:
    """An `EditFormat` as an `EditReader`: it refuses a file that its reader was not shown."""

    def __init__(self, form: EditFormat) -> None:
        self._form = form
        self._shown = ""

    def render(self, document: Document) -> str:
        self._shown = document.sha256
        return self._form.render(document)

    def assume_shown(self, document: Document) -> None:
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
        added, removed = _line_counts(document, made)

        def accept() -> str:
            self._shown = made.sha256
            return f"{made.path} is changed: {added} lines added, {removed} removed"

        return Proposed(made, added, removed, accept)


def _line_counts(before: Document, after: Document) -> tuple[int, int]:
    """Lines added and lines removed."""
    codes = SequenceMatcher(None, before.lines, after.lines, autojunk=False).get_opcodes()
    changed = [code for code in codes if code[0] != "equal"]
    return sum(j2 - j1 for *_, j1, j2 in changed), sum(i2 - i1 for _, i1, i2, *_ in changed)
