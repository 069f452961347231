"""One reader of one file: what it was shown, and its calls, which have a revision and operations.

Only the state of the file that was shown can be edited.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from akg_tui.hashline.document import Document
from akg_tui.hashline.ops import BadEdit, parse_ops
from akg_tui.hashline.rejection import EditRejected
from akg_tui.hashline.session import EditRequest, EditSession
from akg_tui.hashline.tags import Tagger


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


class FileReader:
    """The reader, with an `EditSession` from the first look on."""

    def __init__(self, tagger: Tagger) -> None:
        self._tagger = tagger
        self._session: EditSession | None = None

    def copied(self) -> FileReader:
        """Return a reader with the same record, whose edits do not change this one."""
        other = FileReader(self._tagger)
        other._session = self._session.copied() if self._session else None
        return other

    def render(self, document: Document) -> str:
        """Return the view of the current file, and record it as shown."""
        return self._observing(document).view()

    def render_lines(self, document: Document, numbers: Sequence[int]) -> str:
        """Return some lines of the current file, and record them as shown."""
        return self._observing(document).view_lines(numbers)

    def _observing(self, document: Document) -> EditSession:
        if self._session is None:
            self._session = EditSession(document, self._tagger)
        self._session.observe(document)
        return self._session

    def assume_shown(self, document: Document) -> None:
        """Record the whole document as shown, without rendering it."""
        self._session = EditSession(document, self._tagger)
        self._session.assume_shown()

    def follow(self, before: Document, after: Document) -> str:
        """Record a change of whole lines that the reader asked for in other words, such as a
        knob's value; return what an edit's `accept` says, or "".
        """
        if self._session is None or before.sha256 == after.sha256:
            return ""
        self._session.observe(before)
        return self._session.rewrite(after)

    def propose(self, document: Document, call: Mapping[str, object]) -> Proposed | Refusal:
        """Return the edit that a call makes of the current file `document`, or its refusal."""
        session = self._session
        if session is None:
            return Refusal("nothing was written: read the file first, for its tags")
        revision = call.get("rev")
        if revision is not None and not isinstance(revision, int):
            return Refusal("rev: a whole number is needed")
        try:
            request = EditRequest(
                parse_ops(call.get("ops")),
                revision,
                allow_dup=call.get("allow_dup") is True,
                allow_broken=call.get("allow_broken") is True,
            )
            proposal = session.check(request, current=document)
        except (BadEdit, EditRejected) as error:
            return Refusal(str(error))
        result = proposal.result
        return Proposed(
            result.document, result.added, result.removed, lambda: session.accept(proposal)
        )
