"""read_kernel and edit_kernel: the kernel by line tags, the only way in which it is changed."""

from __future__ import annotations

from akg_tui.agent.tools import registry
from akg_tui.agent.tools.port import Answer, RunPort
from akg_tui.core import commands as cmd
from akg_tui.hashline import (
    BadEdit,
    Document,
    EditRejected,
    EditRequest,
    EditSession,
    Tagger,
    parse_ops,
)


class KernelTools:
    """One visit's look at the kernel: it remembers which lines the agent has been shown."""

    def __init__(self, run: RunPort) -> None:
        self._run = run
        self._tagger = Tagger(run.tag_key)
        self._session: EditSession | None = None

    def _document(self) -> Document:
        state = self._run.state
        text = self._run.kernel(state.work_blob)
        path = state.task.files.editable
        return Document.from_text(text, path=path, revision=state.next_attempt - 1)

    def show(self) -> str:
        """The kernel as it stands, tagged; what is shown may be edited by its tags."""
        document = self._document()
        if self._session is None:
            self._session = EditSession(document, self._tagger)
        self._session.observe(document)
        return self._session.view()

    def recall(self) -> Document:
        """The kernel as it stands, which the agent was shown whole before: its tags hold."""
        document = self._document()
        self._session = EditSession(document, self._tagger)
        self._session.trust()
        return document

    @property
    def sha256(self) -> str:
        return self._document().sha256

    def read(self, arguments: registry.ReadKernel) -> Answer:
        return Answer.success(self.show())

    def edit(self, arguments: registry.EditKernel) -> Answer:
        session = self._session
        if session is None:
            return Answer.error("Nothing was changed: read the kernel first, for its tags.")
        try:
            request = EditRequest(
                parse_ops(arguments.ops),
                arguments.rev,
                allow_dup=arguments.allow_dup,
                allow_broken=arguments.allow_broken,
            )
            proposal = session.check(request, current=self._document())
        except (BadEdit, EditRejected) as error:
            return Answer.error(str(error))
        result = proposal.result
        edit = cmd.Edit(
            blob=self._run.keep_text(result.document.text),
            sha256=result.document.sha256,
            added=result.added,
            removed=result.removed,
            note=arguments.note,
        )
        if refused := self._run.send(edit):
            return Answer.error(refused.why)
        return Answer.success(session.accept(proposal))
