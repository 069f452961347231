"""An edit format whose call is one text of changed lines and their context, as a patch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from akg_tui.hashline.document import BOM, Document
from akg_tui.hashline.file_reader import Refusal
from akg_tui.hashline.splice import Span, Unwritable, splice
from benchmarks.edit_formats.call_arguments import object_schema, text_argument


class BadPatch(ValueError):
    """The text is not a patch of this form, or a part of the patch fits nowhere in the file."""


@dataclass(frozen=True, slots=True)
class PatchFormat:
    """A format whose call is one text of changed lines and their context.

    - `argument`: name of the call's only argument.
    - `spans`: returns the spans of a document that a patch changes; raises `BadPatch`.
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
