"""A text format in the hands of a reader: no edit of a file that the reader was not shown.

The formats without tags find their place by text, and may find it in another version too;
here the version itself is checked first. Changes nothing in how a format matches.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import SequenceMatcher

from akg_tui.hashline.document import Document
from akg_tui.hashline.formats.contract import EditFormat, Proposed, Refusal


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
