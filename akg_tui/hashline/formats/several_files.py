"""Any edit format for a kernel in several files: each file has a reader, with a record of its own.

A call names its file in `path` and may change further files in `more`; all changes apply or none.
The document is the joined text of `akg_tui.kernel_files`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from akg_tui.hashline.document import Document
from akg_tui.hashline.formats.contract import EditReader, Guarded, Proposed, Refusal
from akg_tui.kernel_files import NotJoinable, heading, join_files, places, split_files


class SeveralFiles:
    """An `EditReader` of the files in `readers`, in the order of the joined text."""

    def __init__(self, readers: Mapping[str, EditReader]) -> None:
        self._readers = dict(readers)

    def copied(self) -> SeveralFiles:
        return SeveralFiles({name: reader.copied() for name, reader in self._readers.items()})

    def render(self, document: Document) -> str:
        return "\n\n".join(self.render_file(document, name) for name in self._readers)

    def render_file(self, document: Document, name: str) -> str:
        """Return one of the files in the form for its reader, and record it as shown."""
        reader = self._readers[name]
        shown = reader.render(self._documents(document)[name])
        # The view of hashline begins with the name.
        return f"{heading(name)}\n{shown}" if isinstance(reader, Guarded) else shown

    def render_lines(self, document: Document, numbers: Sequence[int]) -> str:
        wanted: dict[str, list[int]] = {}
        at = places(tuple(self._readers), document.text)
        for number in numbers:
            if at[number - 1].line:
                wanted.setdefault(at[number - 1].file, []).append(at[number - 1].line)
        documents = self._documents(document)
        return "\n".join(
            self._readers[name].render_lines(documents[name], lines)
            for name, lines in wanted.items()
        )

    def assume_shown(self, document: Document) -> None:
        for name, each in self._documents(document).items():
            self._readers[name].assume_shown(each)

    def propose(self, document: Document, call: Mapping[str, object]) -> Proposed | Refusal:
        documents = self._documents(document)
        edits = self._edits(call)
        if isinstance(edits, Refusal):
            return edits
        made: dict[str, Proposed] = {}
        for name, edit in edits.items():
            proposed = self._readers[name].propose(documents[name], edit)
            if isinstance(proposed, Refusal):
                others = " (and so of no other file)" if len(edits) > 1 else ""
                return Refusal(f"{name}: {proposed.message}{others}")
            made[name] = proposed
        texts = {name: each.text for name, each in documents.items()}
        texts |= {name: each.document.text for name, each in made.items()}
        try:
            joined = join_files(texts)
        except NotJoinable as error:
            return Refusal(f"nothing was written: {error}")
        return Proposed(
            Document.from_text(joined, path=document.path, revision=document.revision + 1),
            sum(each.added for each in made.values()),
            sum(each.removed for each in made.values()),
            lambda: "\n".join([each.accept() for each in made.values()]),
        )

    def _documents(self, document: Document) -> dict[str, Document]:
        texts = split_files(tuple(self._readers), document.text)
        return {
            name: Document.from_text(text, path=name, revision=document.revision)
            for name, text in texts.items()
        }

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
