"""Runs the agent's tool calls: gate by phase, validate, act, answer, journal both.

A call can change a run only through a command that core accepts, and kernel text only
through hashline. Whatever a model sends, the answer is a result; nothing is raised.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from akg_tui.agent.chat import ToolResult, ToolUse
from akg_tui.agent.tools import registry
from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.decide import Rejected
from akg_tui.core.machine import forbidden_tool
from akg_tui.core.state import RunState
from akg_tui.hashline import (
    BadEdit,
    Document,
    EditRejected,
    EditRequest,
    EditSession,
    Tagger,
    parse_ops,
)

MAX_JOURNALED_OUTPUT = 2_000


class RunPort(Protocol):
    """What tools may know of a run and ask of it."""

    @property
    def state(self) -> RunState: ...

    @property
    def tag_key(self) -> bytes: ...

    def send(self, command: cmd.Command) -> Rejected | None: ...

    def kernel(self, blob: str) -> str: ...

    def keep_text(self, text: str) -> str:
        """Store kernel text durably; the blob id is the answer."""
        ...


class ToolExecutor:
    """One visit's tools: it remembers which kernel lines the agent has been shown."""

    def __init__(self, run: RunPort) -> None:
        self._run = run
        self._tagger = Tagger(run.tag_key)
        self._session: EditSession | None = None
        self._tools: dict[str, Callable[[Any], ToolResult]] = {
            "read_kernel": self._read_kernel,
            "edit_kernel": self._edit_kernel,
            "submit_plan": self._submit_plan,
            "finish": self._finish,
            "report_diagnosis": self._report_diagnosis,
        }

    def execute(self, use: ToolUse) -> ToolResult:
        """Run one call and journal the call and its answer."""
        called = ev.ToolCalled(call=use.id, tool=use.name, arguments=use.arguments)
        self._run.send(cmd.Observe(called))
        result = self._run_tool(use)
        answered = ev.ToolAnswered(
            call=use.id,
            tool=use.name,
            status="success" if result.status == "success" else "error",
            output=result.output[:MAX_JOURNALED_OUTPUT],
            error_information=result.error_information[:MAX_JOURNALED_OUTPUT],
        )
        self._run.send(cmd.Observe(answered))
        return result

    def _run_tool(self, use: ToolUse) -> ToolResult:
        if use.fault:
            return ToolResult.error(use.fault)
        if use.name not in self._tools:
            return ToolResult.error(f"there is no tool {use.name!r}")
        if refused := forbidden_tool(self._run.state.phase, use.name):
            return ToolResult.error(refused)
        try:
            arguments = msgspec.convert(use.arguments, registry.ARGUMENTS[use.name])
        except msgspec.ValidationError as error:
            return ToolResult.error(f"{use.name}: {error}")
        return self._tools[use.name](arguments)

    def _document(self) -> Document:
        state = self._run.state
        text = self._run.kernel(state.work_blob)
        path = state.task.files.editable
        return Document.from_text(text, path=path, revision=state.next_attempt - 1)

    def show_kernel(self) -> str:
        """The kernel as it stands, tagged; what is shown may be edited by its tags."""
        document = self._document()
        if self._session is None:
            self._session = EditSession(document, self._tagger)
        self._session.observe(document)
        return self._session.view()

    def recall_kernel(self) -> Document:
        """The kernel as it stands, which the agent was shown whole before: its tags hold."""
        document = self._document()
        self._session = EditSession(document, self._tagger)
        self._session.trust()
        return document

    @property
    def kernel_sha(self) -> str:
        return self._document().sha256

    def _read_kernel(self, arguments: registry.ReadKernel) -> ToolResult:
        return ToolResult.success(self.show_kernel())

    def _edit_kernel(self, arguments: registry.EditKernel) -> ToolResult:
        session = self._session
        if session is None:
            return ToolResult.error("Nothing was changed: read the kernel first, for its tags.")
        try:
            request = EditRequest(
                parse_ops(arguments.ops),
                arguments.rev,
                allow_dup=arguments.allow_dup,
                allow_broken=arguments.allow_broken,
            )
            proposal = session.check(request, current=self._document())
        except (BadEdit, EditRejected) as error:
            return ToolResult.error(str(error))
        result = proposal.result
        edit = cmd.Edit(
            blob=self._run.keep_text(result.document.text),
            sha256=result.document.sha256,
            added=result.added,
            removed=result.removed,
            note=arguments.note,
        )
        if refused := self._run.send(edit):
            return ToolResult.error(refused.why)
        return ToolResult.success(session.accept(proposal))

    def _submit_plan(self, arguments: registry.SubmitPlan) -> ToolResult:
        items = tuple(ev.PlannedItem("", item.text, item.rationale) for item in arguments.items)
        if refused := self._run.send(cmd.SubmitPlan(items, arguments.summary)):
            return ToolResult.error(refused.why)
        names = ", ".join(item.id for item in self._run.state.pending)
        return ToolResult.success(f"accepted: {names}")

    def _finish(self, arguments: registry.Finish) -> ToolResult:
        if refused := self._run.send(cmd.RequestFinish(arguments.reason)):
            return ToolResult.error(refused.why)
        return ToolResult.success("the run ends here")

    def _report_diagnosis(self, arguments: registry.ReportDiagnosis) -> ToolResult:
        report = cmd.ReportDiagnosis(
            arguments.cause, tuple(arguments.avoid), tuple(arguments.directions)
        )
        if refused := self._run.send(report):
            return ToolResult.error(refused.why)
        return ToolResult.success("recorded")
