"""The whole file as an edit format: no addresses, no old text, all of the new text.

It exists for comparison, as the patches do: a run has no such formats. `open_any` opens them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from akg_tui.hashline.document import BOM, Document, NotText
from akg_tui.hashline.file_reader import Refusal
from akg_tui.hashline.tags import Tagger
from benchmarks.edit_formats.apply_patch import apply_patch_spans
from benchmarks.edit_formats.call_arguments import object_schema, text_argument
from benchmarks.edit_formats.patch_format import PatchFormat
from benchmarks.edit_formats.str_replace import StrReplace
from benchmarks.edit_formats.tagged import Hashline
from benchmarks.edit_formats.unified_diff import unified_diff_spans

WRITE: Final = "write"
BY_LINES: Final = ("hashline", "str_replace", "apply_patch", "unified diff")
ALL_FORMATS: Final = (*BY_LINES, WRITE)


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


class WholeFile:
    """An `EditFormat` whose call is the file as it shall be."""

    @property
    def schema(self) -> dict[str, object]:
        return object_schema(content={"type": "string"})

    def render(self, document: Document) -> str:
        return document.text.removeprefix(BOM)

    def apply(self, document: Document, call: Mapping[str, object]) -> Document | Refusal:
        content = text_argument(call, "content")
        if isinstance(content, Refusal):
            return content
        mark = BOM if document.has_bom and not content.startswith(BOM) else ""
        try:
            return Document.from_text(
                mark + content, path=document.path, revision=document.revision + 1
            )
        except NotText as error:
            return Refusal(f"nothing was written: {error}")


def open_any(name: str, tagger: Tagger) -> EditFormat:
    """A format of `ALL_FORMATS`."""
    match name:
        case "str_replace":
            return StrReplace()
        case "apply_patch":
            return PatchFormat("patch", apply_patch_spans)
        case "unified diff":
            return PatchFormat("diff", unified_diff_spans)
        case _ if name == WRITE:
            return WholeFile()
    return Hashline(tagger)
