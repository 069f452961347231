"""The whole file as an edit format: no addresses, no old text, all of the new text.

It exists for comparison, as the patches do: a run has no such formats. `open_any` opens them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from akg_tui.hashline.document import BOM, Document, NotText
from akg_tui.hashline.formats import FORMATS, EditFormat, Refusal, open_format
from akg_tui.hashline.formats.contract import object_schema, text_argument
from akg_tui.hashline.tags import Tagger
from benchmarks.edit_formats.apply_patch import apply_patch_spans
from benchmarks.edit_formats.patch_format import PatchFormat
from benchmarks.edit_formats.unified_diff import unified_diff_spans

WRITE: Final = "write"
BY_LINES: Final = (*FORMATS, "apply_patch", "unified diff")
ALL_FORMATS: Final = (*BY_LINES, WRITE)


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
    """A format of `ALL_FORMATS`. Raises `ValueError` for another name."""
    match name:
        case "apply_patch":
            return PatchFormat("patch", apply_patch_spans)
        case "unified diff":
            return PatchFormat("diff", unified_diff_spans)
        case _ if name == WRITE:
            return WholeFile()
    return open_format(name, tagger)
