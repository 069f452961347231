"""read_kernel and edit_kernel: the kernel in the run's edit format, the only way to change it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from akg_tui.agent.tools.port import Answer, RunPort
from akg_tui.core import commands as cmd
from akg_tui.hashline import Document, Tagger
from akg_tui.hashline.formats import Refusal, open_reader


class KernelTools:
    """One visit's look at the kernel: it remembers what the agent has been shown."""

    def __init__(self, run: RunPort) -> None:
        self._run = run
        self._reader = open_reader(run.state.task.agent.edits_in, Tagger(run.tag_key))

    def _document(self) -> Document:
        state = self._run.state
        text = self._run.kernel(state.work_blob)
        path = state.task.files.editable
        return Document.from_text(text, path=path, revision=state.next_attempt - 1)

    def show(self) -> str:
        """The kernel as it stands; what is shown may be edited."""
        return self._reader.render(self._document())

    def recall(self) -> Document:
        """The kernel as it stands, which the agent was shown whole before: it may be edited."""
        document = self._document()
        self._reader.assume_shown(document)
        return document

    @property
    def sha256(self) -> str:
        return self._document().sha256

    def read(self) -> Answer:
        return Answer.success(self.show())

    def edit(self, arguments: Mapping[str, Any], note: str) -> Answer:
        """Propose to the format, then to core, and only then is it the agent's newest."""
        proposed = self._reader.propose(self._document(), arguments)
        if isinstance(proposed, Refusal):
            return Answer.error(proposed.message)
        edit = cmd.Edit(
            blob=self._run.keep_text(proposed.document.text),
            sha256=proposed.document.sha256,
            added=proposed.added,
            removed=proposed.removed,
            note=note,
        )
        if refused := self._run.send(edit):
            return Answer.error(refused.why)
        return Answer.success(proposed.accept())
