"""Hashline as an edit format of the comparison: a reader whose edits are made at once."""

from __future__ import annotations

from collections.abc import Mapping

from akg_tui.hashline.document import Document
from akg_tui.hashline.file_reader import FileReader, Refusal
from akg_tui.hashline.ops import EDIT_SCHEMA


class Hashline(FileReader):
    """A reader with what an `EditFormat` has besides."""

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

    def apply(self, document: Document, call: Mapping[str, object]) -> Document | Refusal:
        """Return the file as a call changes it, and record that as the newest revision."""
        proposed = self.propose(document, call)
        if isinstance(proposed, Refusal):
            return proposed
        proposed.accept()
        return proposed.document
