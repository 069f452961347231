"""The reader of a kernel: each of its files has a reader, with a record of its own.

A call names its file in `path` and may change further files in `more`; all changes apply or none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.hashline.document import Document
from akg_tui.hashline.file_reader import FileReader, Proposed, Refusal
from akg_tui.hashline.tags import Tagger


@dataclass(frozen=True, slots=True)
class ProposedKernel:
    """A checked edit of a kernel, as `Proposed` is one of a file."""

    kernel: KernelFiles
    added: int
    removed: int
    accept: Callable[[], str]


class KernelReader:
    """The readers of a kernel's files, in their order; `revision` is the kernel's."""

    def __init__(self, tagger: Tagger, files: Sequence[str]) -> None:
        self._tagger = tagger
        self._readers = {name: FileReader(tagger) for name in files}

    def copied(self) -> KernelReader:
        """Return a reader with the same record, whose edits do not change this one."""
        other = KernelReader(self._tagger, ())
        other._readers = {name: reader.copied() for name, reader in self._readers.items()}
        return other

    def render(self, kernel: KernelFiles, revision: int, file: str = "") -> str:
        """Return the kernel, or one of its files, for its reader, and record it as shown."""
        documents = _documents(kernel, revision)
        names = [file] if file else self._readers
        return "\n\n".join(self._readers[name].render(documents[name]) for name in names)

    def render_rows(self, kernel: KernelFiles, revision: int, rows: Sequence[int]) -> str:
        """Return some rows of the kernel, and record them as shown."""
        wanted: dict[str, list[int]] = {}
        for file, line in map(kernel.place, rows):
            if line:
                wanted.setdefault(file, []).append(line)
        documents = _documents(kernel, revision)
        return "\n".join(
            self._readers[name].render_lines(documents[name], lines)
            for name, lines in wanted.items()
        )

    def assume_shown(self, kernel: KernelFiles, revision: int) -> None:
        """Record the whole kernel as shown, without rendering it."""
        for name, document in _documents(kernel, revision).items():
            self._readers[name].assume_shown(document)

    def follow(self, before: KernelFiles, after: KernelFiles, revision: int) -> str:
        """Record a change of whole lines that the reader asked for in other words."""
        old, new = _documents(before, revision), _documents(after, revision)
        told = [reader.follow(old[name], new[name]) for name, reader in self._readers.items()]
        return "\n".join(filter(None, told))

    def propose(
        self, kernel: KernelFiles, revision: int, call: Mapping[str, object]
    ) -> ProposedKernel | Refusal:
        """Return the edit that a call makes of the current kernel, or its refusal."""
        documents = _documents(kernel, revision)
        edits = self._edits(call)
        if isinstance(edits, Refusal):
            return edits
        made: dict[str, Proposed] = {}
        for name, edit in edits.items():
            proposed = self._readers[name].propose(documents[name], edit)
            if isinstance(proposed, Refusal):
                named = f"{name}: " if len(self._readers) > 1 else ""
                others = " (and so of no other file)" if len(edits) > 1 else ""
                return Refusal(f"{named}{proposed.message}{others}")
            made[name] = proposed
        return ProposedKernel(
            kernel.having({name: each.document.text for name, each in made.items()}),
            sum(each.added for each in made.values()),
            sum(each.removed for each in made.values()),
            lambda: "\n".join([each.accept() for each in made.values()]),
        )

    def _edits(self, call: Mapping[str, object]) -> dict[str, Mapping[str, object]] | Refusal:
        """Return the arguments of each file's edit."""
        first = {name: value for name, value in call.items() if name != "more"}
        more = call.get("more") or []
        if not isinstance(more, list) or not all(isinstance(each, Mapping) for each in more):
            return Refusal("more: a list of objects is needed, each with a path and its edit")
        found: dict[str, Mapping[str, object]] = {}
        known = ", ".join(self._readers)
        for number, edit in enumerate([first, *more]):
            where = f"more[{number - 1}].path" if number else "path"
            path = edit.get("path") or ("" if number else next(iter(self._readers)))
            if not isinstance(path, str) or path not in self._readers:
                return Refusal(f"{where}: {str(path)[:60]!r} is not one of {known}")
            if path in found:
                return Refusal(f"{where}: {path} is named twice; give its changes in one edit")
            found[path] = {name: value for name, value in edit.items() if name != "path"}
        return found


def _documents(kernel: KernelFiles, revision: int = 0) -> dict[str, Document]:
    return {
        name: Document.from_text(text, path=name, revision=revision)
        for name, text in kernel.texts.items()
    }


def kernel_line_counts(before: KernelFiles, after: KernelFiles) -> tuple[int, int]:
    """Return the numbers of lines added and removed in all files."""
    pairs = zip(_documents(before).values(), _documents(after).values(), strict=True)
    added = removed = 0
    for old, new in pairs:
        for tag, i1, i2, j1, j2 in SequenceMatcher(
            None, old.lines, new.lines, autojunk=False
        ).get_opcodes():
            if tag != "equal":
                added, removed = added + j2 - j1, removed + i2 - i1
    return added, removed
