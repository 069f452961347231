"""The access of a tool call to its run, the caller of the call, and its answer.

Owns the protocols between the tools and the engine, and one visit's session with the kernel.
The run changes only through commands that core accepts; the kernel only through hashline.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, Unpack

from msgspec import Struct, field

from akg_tui.agent.chat import ToolResult, ToolSpec, ToolUse
from akg_tui.agent.tools.call_record import TRACE, Node
from akg_tui.core import commands as cmd
from akg_tui.core.kernel.code_form import code_form
from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.measurement import Measurement, ProbeTerms, RaceOutcome
from akg_tui.core.plan.revision import measured_already
from akg_tui.core.sanitize import one_line
from akg_tui.core.state import RunState
from akg_tui.evidence.page import Evidence
from akg_tui.hashline import Tagger
from akg_tui.hashline.file_reader import Refusal
from akg_tui.hashline.kernel_reader import KernelReader, ProposedKernel, kernel_line_counts

SUBAGENT = "subagent"
"""The name of the agent behind the tool `task`, and behind users' tools that name this agent."""

NO_SUMMARY = "(no summary)"
"""The output of a call if its subagent ended without a text."""


class RunAccess(Protocol):
    """The part of a run that tools may use."""

    @property
    def state(self) -> RunState: ...

    @property
    def path(self) -> str:
        """The run's folder."""
        ...

    @property
    def tag_key(self) -> bytes: ...

    def send(self, command: cmd.Command) -> cmd.Rejected | None: ...

    def kernel(self, blob: str) -> KernelFiles: ...

    @property
    def computing(self) -> AbstractAsyncContextManager[None]:
        """Held by a measurement or a script, because one disturbs the other."""
        ...

    def keep_kernel(self, kernel: KernelFiles) -> str:
        """Store a kernel durably, and return its object id."""
        ...

    async def measure(
        self,
        kernel: KernelFiles,
        incumbent: KernelFiles | None = None,
        **terms: Unpack[ProbeTerms],
    ) -> Measurement:
        """Let the judge measure a kernel against `incumbent`, or against the reference.

        Nothing is journaled, and no decision depends on it.
        """
        ...

    async def race(
        self, kernels: Sequence[KernelFiles], *, within_s: float, limit_s: float
    ) -> RaceOutcome:
        """Let the judge time verified kernels in turns with each other, for information only.

        After `limit_s` seconds (0: never) it is given up, and the message says so.
        """
        ...

    async def evidence(self, kernel: KernelFiles, reference: str = "") -> Evidence | None:
        """Return what binds a kernel of the task's or another reference, for information only.

        None where nothing finds that out.
        """
        ...


class Toolbox(Protocol):
    """The tools offered in a conversation, and the executor of their calls."""

    @property
    def specs(self) -> tuple[ToolSpec, ...]: ...

    @property
    def allowed(self) -> list[str]:
        """The sorted names of the tools that the caller may call in the present phase."""
        ...

    async def execute(self, use: ToolUse) -> ToolResult: ...


class SubagentCall(Struct, frozen=True):
    """A call of a tool of type `call_agent`, which a subagent must answer.

    `toolbox(subagent)` returns the tools for the subagent of that name; `node` is the folder on
    disk of the call and of the subagent; `rules` are those that a user's declaration adds, and
    `model` is the model that it names, or "".
    """

    agent: str
    arguments: Mapping[str, Any]
    node: Node
    toolbox: Callable[[str], Toolbox]
    rules: str = ""
    model: str = ""


class SubagentRunner(Protocol):
    """An object that runs subagents, each in a conversation of its own."""

    async def run(self, call: SubagentCall) -> ToolResult:
        """Run a subagent to its end, and return its final text or the reason of its failure."""
        ...


@dataclass
class Probes:
    """The number of measurements by tools in one visit, of the agent and its subagents together."""

    made: int = 0


class Caller(Struct, frozen=True):
    """The caller of tools: the run's own agent, or a subagent.

    `source` is the subagent's name in the journal, `place` the folder of its trace.
    `restricted`: a tool call started the subagent, so its tools exclude `main_agent_only` ones.
    """

    source: str = ""
    place: str = TRACE
    restricted: bool = False
    probes: Probes = field(default_factory=Probes)


Agents = Mapping[str, SubagentRunner]
"""Functions that run subagents, by the agent's name. Tools whose agent is missing go."""


class Answer(Struct, frozen=True):
    """A result. `foreign`: its text comes from a file, a process or a kernel.

    `note` is told to the model after the output, and is no part of the output.
    """

    result: ToolResult
    foreign: bool = False
    note: str = ""

    @classmethod
    def success(cls, output: str, *, foreign: bool = False) -> Answer:
        return cls(ToolResult.success(output), foreign)

    @classmethod
    def error(cls, why: str, *, output: str = "", foreign: bool = False) -> Answer:
        return cls(ToolResult("error", output, str(why)), foreign)


class Draft(Struct, frozen=True):
    """A version of the kernel that is not the run's, and a reader that has seen it.

    `told` is what is said of the edit that made it, with the new tags.
    """

    kernel: KernelFiles
    reader: KernelReader
    told: str = ""


COMPARED = 50
"""The last attempts with which a new kernel is compared."""


@lru_cache(maxsize=2 * COMPARED)
def _form(kernel: KernelFiles) -> str:
    return hashlib.sha256(code_form(kernel).encode("utf-8", "replace")).hexdigest()


class KernelSession:
    """The kernel during one visit, with a record of the lines shown.

    Beside it there are drafts, each under a name such as "trial 2", with records of their own.
    `sent` has a reader for each kernel that the conversation's model has sent, by SHA-256.
    """

    def __init__(self, run: RunAccess) -> None:
        self._run = run
        self._reader = self._new_reader()
        self._drafts: dict[str, Draft] = {}
        self.sent: dict[str, KernelReader] = {}

    def _new_reader(self) -> KernelReader:
        return KernelReader(Tagger(self._run.tag_key), self._run.state.task.files.names)

    @property
    def files(self) -> KernelFiles:
        """The current kernel."""
        return self._run.kernel(self._run.state.work_blob)

    @property
    def revision(self) -> int:
        """The number of the revision that `show` shows first in a visit.

        That of its attempt, so that the incumbent has one revision in all rounds.
        """
        state = self._run.state
        best = state.best
        if best is not None and best.blob == state.work_blob:
            return best.attempt
        return state.next_attempt + state.tries

    def show(self, file: str = "") -> str:
        """Return the current kernel, or one of its files, and record its lines as shown."""
        shown = self._reader.render(self.files, self.revision, file)
        self._remember()
        return shown

    def show_rows(
        self, rows: Sequence[int], name: str = "", kernel: KernelFiles | None = None
    ) -> str:
        """Return some rows of the kernel, or of the draft `name`, and record them as shown."""
        if not name or kernel is None:
            shown = self._reader.render_rows(self.files, self.revision, rows)
            self._remember()
            return shown
        return self._draft(name, kernel).reader.render_rows(kernel, 0, rows)

    def _draft(self, name: str, kernel: KernelFiles) -> Draft:
        return self._drafts.setdefault(name, Draft(kernel, self._new_reader()))

    def recall(self, revision: int) -> None:
        """Record the current kernel as shown, because an older message has it as `revision`."""
        self._reader.assume_shown(self.files, revision)

    def resume(self) -> bool:
        """Return whether the model has sent the current kernel; if so, the tags it knows hold."""
        known = self.sent.get(self.files.sha256)
        if known is not None:
            self._reader = known.copied()
        return known is not None

    def _remember(self) -> None:
        """Keep what was shown of a kernel that the model has sent."""
        if (sha := self.files.sha256) in self.sent:
            self.sent[sha] = self._reader.copied()

    def show_draft(self, name: str, kernel: KernelFiles, number: int, file: str = "") -> str:
        """Return a draft, or one of its files, as revision `number`, and record it as shown."""
        return self._draft(name, kernel).reader.render(kernel, number, file)

    def reader_of(self, name: str) -> KernelReader:
        """Return a reader for the draft `name`, which it has seen if it was shown; "" is the
        current kernel.
        """
        if not name:
            return self._reader.copied()
        known = self._drafts.get(name)
        return known.reader.copied() if known else self._new_reader()

    def keep_draft(self, name: str, draft: Draft) -> None:
        self._drafts[name] = draft

    def drafted(
        self, arguments: Mapping[str, Any], name: str, kernel: KernelFiles
    ) -> Draft | Answer:
        """Apply an edit to the draft `name`, or to the current kernel if it is "".

        Neither changes; the result is a new draft, or an error answer with the reason.
        """
        # The original has not seen the result.
        copied = self.reader_of(name)
        proposed = copied.propose(kernel, 0 if name else self.revision, arguments)
        if isinstance(proposed, ProposedKernel):
            return Draft(proposed.kernel, copied, proposed.accept())
        if name:  # the refusal has shown lines
            self._drafts[name] = Draft(kernel, copied)
        else:
            self._reader = copied
        return Answer.error(proposed.message)

    def changed(self, draft: Draft, kernel: KernelFiles) -> Draft:
        """Return the draft of a kernel that has other values of the knobs of `draft`."""
        reader = draft.reader.copied()
        told = reader.follow(draft.kernel, kernel, self.revision)
        return Draft(kernel, reader, "\n".join(filter(None, (draft.told, told))))

    def submit(self, draft: Draft, note: str, item: str = "") -> Answer:
        """Make a whole version the kernel, if core accepts it; `item` is as in `cmd.Edit`."""
        kernel = draft.kernel
        if kernel == self.files:
            return Answer.error("this is the kernel as it stands: there is nothing to evaluate")
        added, removed = kernel_line_counts(self.files, kernel)
        sent = self._send(kernel, added, removed, note, item)
        if isinstance(sent, Answer):
            return sent
        self.sent[kernel.sha256] = draft.reader
        return Answer.success(f"submitted: {added} lines added, {removed} removed{sent}")

    def edit(self, arguments: Mapping[str, Any], note: str, item: str = "") -> Answer:
        """Check an edit, send it to core, and accept it if core does."""
        proposed = self._reader.propose(self.files, self.revision, arguments)
        if isinstance(proposed, Refusal):
            return Answer.error(proposed.message)
        sent = self._send(proposed.kernel, proposed.added, proposed.removed, note, item)
        if isinstance(sent, Answer):
            return sent
        told = proposed.accept() + sent
        self.sent[proposed.kernel.sha256] = self._reader.copied()
        return Answer.success(told)

    def _send(
        self, new: KernelFiles, added: int, removed: int, note: str, item: str
    ) -> str | Answer:
        """Send the edit that makes `new` the kernel; return what an earlier one tells, or an error.

        A text with the code of the best kernel, or of an attempt that core would not measure
        again, is refused before it costs a round.
        """
        state, form = self._run.state, _form(new)
        if state.best is not None and form == _form(self._run.kernel(state.best.blob)):
            return Answer.error(
                "but for comments and blanks this is the best kernel: there is nothing to evaluate"
            )
        told = ""
        for attempt in reversed(state.attempts[-COMPARED:]):
            known = attempt.number and not attempt.lost
            if known and _form(self._run.kernel(attempt.blob)) == form:
                if again := measured_already(state, attempt.blob):
                    return Answer.error(f"but for comments and blanks {again}")
                told = told or (
                    f"\nBut for comments and blanks this is the kernel of attempt {attempt.number} "
                    f"({attempt.item}), which was {attempt.verdict}: "
                    f"{one_line(attempt.reason, 200)}"
                )
        edit = cmd.Edit(self._run.keep_kernel(new), new.sha256, added, removed, note, item)
        refused = self._run.send(edit)
        return Answer.error(refused.why) if refused else told
