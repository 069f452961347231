"""Search and replace: the old text must occur exactly once, in a file that was shown whole."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from akg_tui.hashline.document import BOM, Document, NotText
from akg_tui.hashline.formats.contract import (
    Proposed,
    Refusal,
    line_counts,
    object_schema,
    text_argument,
)


class StrReplace:
    """The replacement of a text that occurs exactly once; any other text is refused."""

    def __init__(self, shown: str = "") -> None:
        self._shown = shown  # SHA-256 of the file that its reader knows

    @property
    def schema(self) -> dict[str, object]:
        return object_schema(old={"type": "string", "minLength": 1}, new={"type": "string"})

    def copied(self) -> StrReplace:
        return StrReplace(self._shown)

    def render(self, document: Document) -> str:
        self._shown = document.sha256
        return document.text.removeprefix(BOM)

    def render_lines(self, document: Document, numbers: Sequence[int]) -> str:
        # An edit needs the whole file to be shown, so nothing is recorded.
        return "\n".join(f"{number}: {document.lines[number - 1]}" for number in numbers)

    def assume_shown(self, document: Document) -> None:
        self._shown = document.sha256

    def follow(self, before: Document, after: Document) -> str:
        if self._shown == before.sha256:
            self._shown = after.sha256
        return ""

    def apply(self, document: Document, call: Mapping[str, object]) -> Document | Refusal:
        """Return the file with the text replaced, whether it was shown or not."""
        old, new = text_argument(call, "old"), text_argument(call, "new")
        if isinstance(old, Refusal):
            return old
        if isinstance(new, Refusal):
            return new
        if not old:
            return Refusal("old: at least one character")
        found = [at.start() for at in re.finditer(f"(?={re.escape(old)})", document.text)]
        if len(found) != 1:
            times = "not" if not found else f"{len(found)} times"
            return Refusal(f"nothing was written: the old text stands {times} in the file")
        at = found[0]
        text = document.text[:at] + new + document.text[at + len(old) :]
        try:
            return Document.from_text(text, path=document.path, revision=document.revision + 1)
        except NotText as error:
            return Refusal(f"nothing was written: {error}")

    def propose(self, document: Document, call: Mapping[str, object]) -> Proposed | Refusal:
        if not self._shown:
            return Refusal("nothing was written: read the file first")
        if self._shown != document.sha256:
            now = self.render(document)
            return Refusal(f"nothing was written: the file is another one now:\n\n{now}")
        made = self.apply(document, call)
        if isinstance(made, Refusal):
            return made
        if made.sha256 == document.sha256:
            return Refusal("nothing was written: the edit changes nothing")
        added, removed = line_counts(document, made)

        def accept() -> str:
            self._shown = made.sha256
            return f"{made.path} is changed: {added} lines added, {removed} removed"

        return Proposed(made, added, removed, accept)
