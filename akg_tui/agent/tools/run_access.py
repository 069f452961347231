"""What a tool call may use of its run, on whose behalf it is made, and what it answers.

Owns the protocols between the tools and the engine, and one visit's session with the kernel.
The run changes only through commands that core accepts; the kernel only through hashline.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from msgspec import Struct, field

from akg_tui.agent.chat import ToolResult, ToolSpec, ToolUse
from akg_tui.agent.tools.call_record import TRACE, Node
from akg_tui.core import commands as cmd
from akg_tui.core.measurement import Measurement
from akg_tui.core.state import RunState
from akg_tui.hashline import Document, Tagger
from akg_tui.hashline.formats import Refusal, open_reader

NO_SUMMARY = "(no summary)"
"""The output of a call whose subagent ended without a text."""


class RunAccess(Protocol):
    """A run, as tools see it."""

    @property
    def state(self) -> RunState: ...

    @property
    def path(self) -> str:
        """The run's folder."""
        ...

    @property
    def tag_key(self) -> bytes: ...

    def send(self, command: cmd.Command) -> cmd.Rejected | None: ...

    def kernel(self, blob: str) -> str: ...

    def keep_text(self, text: str) -> str:
        """Store kernel text durably; the blob id is the answer."""
        ...

    async def measure(
        self, kernel: str, *, timed: bool, samples: int = 0, warmups: int = 0
    ) -> Measurement:
        """Examine a kernel by the judge against the reference, for information only.

        `samples` bounds the timed samples (0: the judge's own choice), `warmups` is how
        many untimed calls come first. Nothing is journaled and nothing follows from it.
        """
        ...


class Toolbox(Protocol):
    """The tools that a conversation is offered, and what executes their calls."""

    @property
    def specs(self) -> tuple[ToolSpec, ...]: ...

    async def execute(self, use: ToolUse) -> ToolResult: ...


class SubagentCall(Struct, frozen=True):
    """A call of a tool of type `call_agent`, which a subagent is to answer.

    `toolbox(subagent)` gives the tools for the subagent of that name; `node` is the call's
    place on disk, and the subagent's too.
    """

    agent: str
    arguments: Mapping[str, Any]
    node: Node
    toolbox: Callable[[str], Toolbox]


class SubagentRunner(Protocol):
    """Runs a subagent to its end in a conversation of its own; only its last text comes back."""

    async def run(self, call: SubagentCall) -> ToolResult:
        """The agent's final text, or why there is none."""
        ...


@dataclass
class Probes:
    """Measurements made by tools in one visit, by the agent and its subagents together."""

    made: int = 0


class Caller(Struct, frozen=True):
    """Whose tool calls these are: the run's own agent's, or a subagent's.

    `source` is the subagent's name in the journal, `place` the folder of its trace.
    `restricted`: a tool call started the subagent, so it has no tool that is `main_agent_only`.
    """

    source: str = ""
    place: str = TRACE
    restricted: bool = False
    probes: Probes = field(default_factory=Probes)


HostTool = Callable[[Mapping[str, Any]], Awaitable[ToolResult]]
"""A tool whose work belongs to the host of the agent, not to the agent."""


class Host(Struct, frozen=True):
    """What the engine lends to the tools. A tool that needs what is not lent is not offered."""

    tools: Mapping[str, HostTool] = {}
    agents: Mapping[str, SubagentRunner] = {}


class Answer(Struct, frozen=True):
    """A result, and whether its text came from elsewhere: a file, a process, a kernel."""

    result: ToolResult
    foreign: bool = False

    @classmethod
    def success(cls, output: str, *, foreign: bool = False) -> Answer:
        return cls(ToolResult.success(output), foreign)

    @classmethod
    def error(cls, why: str, *, output: str = "", foreign: bool = False) -> Answer:
        return cls(ToolResult("error", output, why), foreign)


class KernelSession:
    """The kernel during one visit, in the run's edit format: remembers what the agent was shown."""

    def __init__(self, run: RunAccess) -> None:
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
