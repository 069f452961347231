"""What an edit format is: a way to show a file, and a way to say a change to it.

Owns the interface and the reading of its plain arguments; knows no format.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
