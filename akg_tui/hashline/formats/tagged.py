"""Hashline as an edit format: the tagged view, and a call with a revision and operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from akg_tui.hashline.document import Document
from akg_tui.hashline.formats.contract import Proposed, Refusal
from akg_tui.hashline.ops import EDIT_SCHEMA, BadEdit, parse_ops
from akg_tui.hashline.rejection import EditRejected
from akg_tui.hashline.session import EditRequest, EditSession
from akg_tui.hashline.tags import Tagger


class Hashline:
    """The hashline format for one reader, in an `EditSession`."""

    def __init__(self, tagger: Tagger) -> None:
        self._tagger = tagger
        self._session: EditSession | None = None

    def copied(self) -> Hashline:
        other = Hashline(self._tagger)
        other._session = self._session.copied() if self._session else None
        return other

    @property
    def schema(self) -> dict[str, object]:
        return {
            "type": "object",
            "properties": {
                "rev": {"type": "integer"},
                "ops": EDIT_SCHEMA,
                "allow_dup": {"type": "boolean"},
                "allow_broken": {"type": "boolean"},
            },
            "required": ["ops"],
            "additionalProperties": False,
        }

    def render(self, document: Document) -> str:
        return self._observing(document).view()

    def render_lines(self, document: Document, numbers: Sequence[int]) -> str:
        return self._observing(document).view_lines(numbers)

    def _observing(self, document: Document) -> EditSession:
        if self._session is None:
            self._session = EditSession(document, self._tagger)
        self._session.observe(document)
        return self._session

    def assume_shown(self, document: Document) -> None:
        self._session = EditSession(document, self._tagger)
        self._session.assume_shown()

    def follow(self, before: Document, after: Document) -> str:
        if self._session is None or before.sha256 == after.sha256:
            return ""
        self._session.observe(before)
        return self._session.rewrite(after)

    def apply(self, document: Document, call: Mapping[str, object]) -> Document | Refusal:
        """Return the file as a call changes it, and record that as the newest revision."""
        proposed = self.propose(document, call)
        if isinstance(proposed, Refusal):
            return proposed
        proposed.accept()
        assert self._session is not None
        return self._session.document

    def propose(self, document: Document, call: Mapping[str, object]) -> Proposed | Refusal:
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
