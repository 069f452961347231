"""The texts of the package that a catalogue translates, read from its source.

``python -m tests.tui.catalogue`` lists the texts that a language lacks, as warnings.
"""

from __future__ import annotations

import ast
import errno
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po

import akg_tui
from akg_tui.tui.screens.new_run import samples
from akg_tui.view.controls.command_registry import COMMANDS
from akg_tui.view.language import ENGLISH, FOLDER, LANGUAGES

PACKAGE = Path(akg_tui.__file__).parent
OTHERS = [language for language in LANGUAGES if language != ENGLISH]

SAYING = {"tr", "Said", "Refusal", "RunFolderError", "KeyMissing"}
"""The functions and errors that take a text of a catalogue as their first argument."""

UNSEEN = {"evidence", "hashline"}
"""Floors whose own functions of such names speak to the agent and on the command line."""


class Found(NamedTuple):
    text: str
    context: str
    place: str
    shown: bool  # not just any constant, of which only some are ever shown


def texts() -> Iterator[Found]:
    """Yield all texts that a catalogue may have."""
    for path in sorted(PACKAGE.rglob("*.py")):
        seen, file = UNSEEN.isdisjoint(path.parts), path.relative_to(PACKAGE.parent)
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield Found(node.value, "", f"{file}:{node.lineno}", shown=False)
            elif isinstance(node, ast.Call) and seen:
                yield from _of_call(node, f"{file}:{node.lineno}")
    for command in COMMANDS:
        for text in (command.label, command.help, command.group):
            yield Found(text, "", command.id, shown=True)
    for sample in samples():
        yield Found(sample.about, "", sample.name, shown=True)
    for number in errno.errorcode:
        yield Found(os.strerror(number), "", "", shown=False)


def _of_call(node: ast.Call, where: str) -> Iterator[Found]:
    name = getattr(node.func, "id", getattr(node.func, "attr", ""))
    words = [each.value if isinstance(each, ast.Constant) else None for each in node.args]
    match name, words:
        case "tr_in", [str(context), str(word)]:
            yield Found(word, context, where, shown=True)
        case "count" | "counted", [_, str(noun), *_]:
            yield Found(f"{{n}} {noun}", "", where, shown=True)
        case _, [str(text), *_] if name in SAYING and text:
            yield Found(text, "", where, shown=True)


def read(language: str) -> Catalog:
    """Read the catalogue of a language. Raises `PoFileError` if it is no sound `.po` file."""
    (path,) = FOLDER.joinpath(language).rglob("*.po")
    with path.open("rb") as file:
        return read_po(file, locale=language, abort_invalid=True)


def lacking(language: str, found: Iterable[Found]) -> Iterator[Found]:
    """Yield the texts that are shown and that the language lacks."""
    known = read(language)
    for one in found:
        if one.shown and known.get(one.text, one.context or None) is None:
            yield one


def warn(found: Iterable[Found], language: str) -> None:
    """Print the texts that the language lacks."""
    for one in lacking(language, found):
        print(f"{one.place}: warning: {language} lacks: {one.text}")


if __name__ == "__main__":
    for language in OTHERS:
        warn(texts(), language)
