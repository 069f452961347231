"""Search and replace as an edit format: the old text must occur exactly once."""

from __future__ import annotations

import re
from collections.abc import Mapping

from akg_tui.hashline.document import BOM, Document, NotText
from akg_tui.hashline.file_reader import Refusal
from benchmarks.edit_formats.call_arguments import object_schema, text_argument


class StrReplace:
    """The replacement of a text that occurs exactly once; any other text is refused."""

    @property
    def schema(self) -> dict[str, object]:
        return object_schema(old={"type": "string", "minLength": 1}, new={"type": "string"})

    def render(self, document: Document) -> str:
        return document.text.removeprefix(BOM)

    def apply(self, document: Document, call: Mapping[str, object]) -> Document | Refusal:
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
