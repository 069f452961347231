"""The access of a tool call to its run, the caller of the call, and its answer.

Owns the protocols between the tools and the engine, and one visit's session with the kernel.
The run changes only through commands that core accepts; the kernel only through hashline.
"""

from __future__ import annotations

import ast
import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from msgspec import Struct, field

from akg_tui.agent.chat import ToolResult, ToolSpec, ToolUse
from akg_tui.agent.tools.call_record import TRACE, Node
from akg_tui.core import commands as cmd
from akg_tui.core.measurement import Measurement
from akg_tui.core.sanitize import one_line
from akg_tui.core.state import RunState
from akg_tui.evaluate.evidence.page import Evidence
from akg_tui.hashline import Document, Tagger
from akg_tui.hashline.formats import (
    EditReader,
    Proposed,
    Refusal,
    SeveralFiles,
    line_counts,
    open_reader,
)
from akg_tui.kernel_files import join_files, split_files

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

    def kernel(self, blob: str) -> str: ...

    @property
    def computing(self) -> asyncio.Lock:
        """Held by a measurement or a script, because one disturbs the other."""
        ...

    def keep_text(self, text: str) -> str:
        """Store kernel text durably, and return its blob id."""
        ...

    async def measure(
        self,
        kernel: str,
        incumbent: str | None = None,
        *,
        timed: bool,
        samples: int = 0,
        warmups: int = 0,
    ) -> Measurement:
        """Let the judge measure a kernel, for information only.

        The kernel is timed against `incumbent`, or against the reference. `samples` bounds the
        timed samples (0: the judge's own choice), `warmups` is the number of untimed calls before
        them. Nothing is journaled, and no decision depends on it.
        """
        ...

    async def evidence(self, kernel: str) -> Evidence | None:
        """Return what binds a kernel, for information only; None where nothing finds that out."""
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


HostTool = Callable[[Mapping[str, Any]], Awaitable[ToolResult]]
"""A tool whose work is done by the engine that hosts the agent."""


class Host(Struct, frozen=True):
    """The engine's functions for tools. A tool that needs a missing function is not offered."""

    tools: Mapping[str, HostTool] = {}
    agents: Mapping[str, SubagentRunner] = {}


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
        return cls(ToolResult("error", output, why), foreign)


class Draft(Struct, frozen=True):
    """A version of the kernel that is not the run's: its text, and a reader that has seen it.

    `told` is what the edit format says of the edit that made it, with the new tags.
    """

    text: str
    reader: EditReader
    told: str = ""


COMPARED = 50
"""The last attempts with which a new kernel is compared."""


@lru_cache(maxsize=2 * COMPARED)
def _form(text: str, files: tuple[str, ...]) -> str | None:
    """Return the digest of a kernel's code without comments and layout; None if it cannot parse.

    Of files that are no Python all counts.
    """
    try:
        forms = [
            ast.dump(ast.parse(each)) if name.endswith(".py") else each
            for name, each in split_files(files, text).items()
        ]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return hashlib.sha256("\0".join(forms).encode("utf-8", "replace")).hexdigest()


def _shown(reader: EditReader, document: Document, file: str) -> str:
    if file and isinstance(reader, SeveralFiles):
        return reader.render_file(document, file)
    return reader.render(document)


class KernelSession:
    """The kernel during one visit, in the run's edit format, with a record of the lines shown.

    Beside it there are drafts, each under a name such as "trial 2", with records of their own.
    """

    def __init__(self, run: RunAccess) -> None:
        self._run = run
        self._reader = self._new_reader()
        self._drafts: dict[str, Draft] = {}

    def _new_reader(self) -> EditReader:
        task = self._run.state.task
        return open_reader(task.agent.edits_in, Tagger(self._run.tag_key), task.files.names)

    def _document(self, revision: int | None = None) -> Document:
        state = self._run.state
        if revision is None:
            # The number of its attempt, so that the incumbent has one revision in all rounds.
            best = state.best
            is_best = best is not None and best.blob == state.work_blob
            revision = (
                best.attempt if best is not None and is_best else state.next_attempt + state.tries
            )
        return self._text(self._run.kernel(state.work_blob), revision)

    def show(self, file: str = "") -> str:
        """Return the current kernel, or one of its files, and record its lines as shown."""
        return _shown(self._reader, self._document(), file)

    def whole(self, text: str, file: str = "") -> str:
        """Return the kernel with another text of one file, the first if none is named.

        The other files are those of the kernel as it stands. Raises `NotJoinable`.
        """
        names = self._run.state.task.files.names
        if len(names) == 1:
            return text
        return join_files({**split_files(names, self.text), (file or names[0]): text})

    @property
    def text(self) -> str:
        """The current kernel's text."""
        return self._document().text

    def show_lines(self, numbers: Sequence[int], name: str = "", text: str = "") -> str:
        """Return some lines of the kernel, or of the draft `name`, and record them as shown."""
        if not name:
            return self._reader.render_lines(self._document(), numbers)
        if name not in self._drafts:
            self._drafts[name] = Draft(text, self._new_reader())
        return self._drafts[name].reader.render_lines(self._text(text, 0), numbers)

    def recall(self, revision: int) -> None:
        """Record the current kernel as shown, because an older message has it as `revision`."""
        self._reader.assume_shown(self._document(revision))

    @property
    def sha256(self) -> str:
        return self._document().sha256

    @property
    def file_digests(self) -> dict[str, str]:
        """The SHA-256 of each file, as the views of several files show them."""
        texts = split_files(self._run.state.task.files.names, self.text)
        return {name: Document.from_text(text, path=name).sha256 for name, text in texts.items()}

    @property
    def revision(self) -> int:
        """The number of the revision that `show` shows first in a visit."""
        return self._document().revision

    def show_draft(self, name: str, text: str, number: int, file: str = "") -> str:
        """Return a draft, or one of its files, as revision `number`, and record it as shown."""
        if name not in self._drafts:
            self._drafts[name] = Draft(text, self._new_reader())
        return _shown(self._drafts[name].reader, self._text(text, number), file)

    def reader_of(self, name: str) -> EditReader:
        """Return a reader for the text of the draft `name`, which it has seen if it was shown."""
        known = self._drafts.get(name)
        return known.reader.copied() if known else self._new_reader()

    def keep_draft(self, name: str, draft: Draft) -> None:
        self._drafts[name] = draft

    def drafted(self, arguments: Mapping[str, Any], name: str, text: str) -> Draft | Answer:
        """Apply an edit to the draft `name` with this text, or to the kernel if it is "".

        Neither changes; the result is a new draft, or an error answer with the reason.
        """
        known = self._drafts.get(name)
        reader = self._reader if not name else known.reader if known else self._new_reader()
        document = self._document() if not name else self._text(text, 0)
        copied = reader.copied()  # the original has not seen the result
        proposed = copied.propose(document, arguments)
        if isinstance(proposed, Proposed):
            return Draft(proposed.document.text, copied, proposed.accept())
        if name:  # the refusal has shown lines
            self._drafts[name] = Draft(text, copied)
        else:
            self._reader = copied
        return Answer.error(proposed.message)

    def _text(self, text: str, revision: int) -> Document:
        path = self._run.state.task.files.kernel
        return Document.from_text(text, path=path, revision=revision)

    def submit(self, text: str, note: str) -> Answer:
        """Make a whole text the kernel, if core accepts it."""
        before, after = self._document(), self._text(text, 0)
        if before.sha256 == after.sha256:
            return Answer.error("this is the kernel as it stands: there is nothing to evaluate")
        added, removed = line_counts(before, after)
        blob = self._run.keep_text(text)
        edit = cmd.Edit(blob, after.sha256, added, removed, note)
        if refused := self._run.send(edit):
            return Answer.error(refused.why)
        told = f"submitted: {added} lines added, {removed} removed"
        return Answer.success(told + self._known_as(text))

    def edit(self, arguments: Mapping[str, Any], note: str) -> Answer:
        """Check an edit by the format, send it to core, and accept it if core does."""
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
        return Answer.success(proposed.accept() + self._known_as(proposed.document.text))

    def _known_as(self, text: str) -> str:
        """Return a line about an earlier attempt with the same code, or ""."""
        files = self._run.state.task.files.names
        form = _form(text, files)
        for attempt in reversed(self._run.state.attempts[-COMPARED:]):
            if form is None or not attempt.number or attempt.lost:
                continue
            if _form(self._run.kernel(attempt.blob), files) == form:
                return (
                    f"\nBut for comments and layout this is the kernel of attempt {attempt.number} "
                    f"({attempt.item}), which was {attempt.verdict}: "
                    f"{one_line(attempt.reason, 200)}"
                )
        return ""
