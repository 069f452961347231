"""Tasks in the files of a code base: which files are fit, and faults drawn from them.

The same folder, count and seed give the same tasks. Files are read as they are drawn, so that a
large folder costs no more than its tasks. Nothing of the folder is run or written.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Final

from msgspec import Struct

from akg_tui.hashline import Document, NotText
from benchmarks.edit_formats.languages import (
    GrammarMissing,
    Language,
    language_of,
    parser,
    parses,
)
from benchmarks.edit_formats.mutations import KINDS, Mutation, mutations
from benchmarks.edit_models.checks import is_a_task
from benchmarks.edit_models.tasks import EditTask, task_of

FEWEST_LINES: Final = 30
MOST_LINES: Final = 800
_LONGEST_LINE: Final = 300  # longer ones are of generated or minified files
_MOST_BYTES: Final = MOST_LINES * _LONGEST_LINE
_LEFT_OUT: Final = frozenset({"node_modules", "__pycache__"})


class BadCorpus(ValueError):
    """The folder gives no tasks; the message says why."""


class Drawn(Struct, frozen=True):
    """Tasks, and what was met on the way to them.

    Attributes
    ----------
    found : dict
        Source files in the folder, by language.
    unfit : dict
        Files that were read and not used, by the reason.
    faults_left_out : int
        Faults that were tried and not used: the file would not parse, or the code be the same.
    missing : tuple of str
        What must be installed for files that were not read.
    """

    tasks: tuple[EditTask, ...]
    found: Mapping[str, int]
    unfit: Mapping[str, int]
    faults_left_out: int
    missing: tuple[str, ...]


def draw_from(folder: Path, count: int, seed: int) -> Drawn:
    """Up to `count` tasks: languages in turn, one fault a file before any file has a second.

    Of a file's kinds of fault, the one that has the fewest tasks in its language is taken.
    Raises `BadCorpus`.
    """
    return _Drawing(folder, seed).drawn(count)


class _Drawing:
    def __init__(self, folder: Path, seed: int) -> None:
        if not folder.is_dir():
            raise BadCorpus(f"--corpus {folder}: no such folder")
        self._folder = folder
        self._rng = Random(seed)
        self._files, self._missing = _with_parser(_source_files(folder))
        self._tasks: list[EditTask] = []
        self._taken: dict[str, set[Mutation]] = {}
        self._kinds: Counter[tuple[Language | None, str]] = Counter()
        self._unfit: dict[str, str] = {}

    def drawn(self, count: int) -> Drawn:
        found: dict[str, int] = {language: len(paths) for language, paths in self._files.items()}
        turns = [self._language(self._files[language]) for language in sorted(self._files)]
        while turns and len(self._tasks) < count:
            turn = turns.pop(0)
            if next(turn, None) is not None:
                turns.append(turn)
        if not self._tasks:
            why = "; ".join(self._missing) or "no file of 30 to 800 lines that parses"
            raise BadCorpus(f"--corpus {self._folder}: {why}")
        return Drawn(
            tasks=tuple(self._tasks),
            found=found,
            unfit=dict(Counter(self._unfit.values())),
            faults_left_out=sum(map(len, self._taken.values())) - len(self._tasks),
            missing=self._missing,
        )

    def _language(self, paths: list[str]) -> Iterator[str]:
        """Make a task of each file in turn, until no file gives another; yield its path."""
        self._rng.shuffle(paths)
        while paths:
            fertile: list[str] = []
            for path in paths:
                if self._draw(path):
                    fertile.append(path)
                    yield path
            paths = fertile

    def _draw(self, path: str) -> bool:
        """Make a task of a fault of the file that was not tried yet; False if there is none."""
        document = _fit(self._folder, path)
        if isinstance(document, str):
            self._unfit[path] = document
            return False
        language = language_of(path)
        taken = self._taken.setdefault(path, set())
        faults = [each for each in mutations(document) if each not in taken]
        self._rng.shuffle(faults)
        faults.sort(key=lambda fault: (self._kinds[language, fault.kind], KINDS.index(fault.kind)))
        for fault in faults:
            taken.add(fault)
            task = task_of(len(self._tasks) + 1, document, fault)
            if is_a_task(task):
                self._tasks.append(task)
                self._kinds[language, fault.kind] += 1
                return True
        if not taken:
            self._unfit[path] = "no fault"
        return False


def _source_files(folder: Path) -> dict[Language, list[str]]:
    """Files by language, relative to the folder and in the order of their names."""
    files: dict[Language, list[str]] = {}
    for path in sorted(_walk(folder)):
        language = language_of(path)
        if language is not None:
            files.setdefault(language, []).append(path)
    return files


def _walk(folder: Path) -> Iterator[str]:
    for top, folders, names in os.walk(folder):
        folders[:] = [f for f in folders if not f.startswith(".") and f not in _LEFT_OUT]
        for name in names:
            path = Path(top, name)
            if not path.is_symlink() and path.is_file():
                yield path.relative_to(folder).as_posix()


def _with_parser(
    files: dict[Language, list[str]],
) -> tuple[dict[Language, list[str]], tuple[str, ...]]:
    """The files whose grammars are installed, and what must be installed for the others."""
    known: dict[Language, list[str]] = {}
    missing: list[str] = []
    for language, paths in files.items():
        try:
            parser(language)
            known[language] = paths
        except GrammarMissing as error:
            missing.append(str(error))
    return known, tuple(missing)


def _fit(folder: Path, path: str) -> Document | str:
    """The file, or the reason why no fault is planted in it."""
    try:
        data = _bytes_of(folder / path)
        document = Document.from_bytes(data, path=path)
    except OSError:
        return "cannot be read"
    except NotText:
        return "not UTF-8"
    reasons: Sequence[tuple[bool, str]] = (
        (len(data) > _MOST_BYTES, "too long"),
        (not FEWEST_LINES <= len(document.lines) <= MOST_LINES, "not 30 to 800 lines"),
        (max(map(len, document.lines), default=0) > _LONGEST_LINE, "a line over 300 characters"),
        (document.has_bom or "\0" in document.text, "a byte order mark or NUL"),
        (len({*document.endings} - {""}) > 1, "mixed line endings"),
        (any("\r" in line for line in document.lines), "mixed line endings"),
    )
    found = next((reason for holds, reason in reasons if holds), None)
    if found is None and not parses(document):
        found = "does not parse"
    return document if found is None else found


def _bytes_of(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_MOST_BYTES + 1)
