"""The reasons and the text of a refused edit, written so that the next edit can succeed.

Owns the wording. The text begins with the statement that nothing was written, because a weaker
model takes "line changed" for a warning; the last lines can be used as anchors verbatim.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from akg_tui.hashline.document import Document
from akg_tui.hashline.tagged_view import header_name, render_around
from akg_tui.hashline.tags import Tagger

Reason: TypeAlias = Literal[
    "ambiguous",
    "changed",
    "drift",
    "duplicate",
    "echo",
    "never shown",
    "no-op",
    "not once",
    "out of range",
    "overlap",
    "slip",
    "syntax",
    "unknown revision",
    "unwritable",
]


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault of an edit that conforms to the grammar.

    - `where`: the operation or anchor, such as ``ops[0].from 12sr``.
    - `detail`: the fault in words, for the end of the message.
    - `near`: numbers of current lines that the rejection quotes.
    """

    reason: Reason
    where: str
    detail: str
    near: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}: {self.detail}"


class EditRejected(Exception):
    """No part of the edit was applied. The text quotes file content without sanitizing it."""

    def __init__(self, document: Document, tagger: Tagger, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        self.revision = document.revision
        rows = [
            f"REJECTED, nothing was written: {header_name(document)} stands as it was.",
            *(f"- {problem}" for problem in problems),
        ]
        near = sorted({number for problem in problems for number in problem.near})
        current = render_around(document, tagger, near)
        if current:
            rows += [f"Lines as they are now in r{document.revision}:", current]
        super().__init__("\n".join(rows))
