"""Context management: a conversation that only grows, and the rule for beginning a new one.

Owns the messages. A sent message never changes: each request is a prefix of the next, so the
server's prompt cache stays valid. After a prompt beyond the budget, the next visit begins a new
conversation from the plan and the kernel. Nothing is on disk, so a restart begins one as well.
"""

from __future__ import annotations

from collections.abc import Sequence

from akg_tui.agent.chat import (
    AssistantMessage,
    ChatReply,
    ChatRequest,
    Message,
    ToolMessage,
    ToolResult,
    ToolSpec,
    UserMessage,
)
from akg_tui.agent.facts import facts_text
from akg_tui.agent.prompt import (
    SYSTEM,
    failures_told,
    hints_told,
    kernel_again,
    kernel_sent,
    kernel_text,
    opening,
    situation,
)
from akg_tui.agent.tools.executor import ToolExecutor
from akg_tui.agent.tools.run_access import Agents, Caller, RunAccess
from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.phases import Phase
from akg_tui.core.state import RunState
from akg_tui.hashline.kernel_reader import KernelReader


class Conversation:
    """The messages exchanged with one model, and the tools that each request offers."""

    def __init__(self, system: str, tools: Sequence[ToolSpec]) -> None:
        self.system = system
        self.tools = tuple(tools)
        self.messages: tuple[Message, ...] = ()
        self.prompt_tokens = 0
        self.hints_told = 0
        self.own_told = 0
        self.told: set[str] = set()  # keys of what a message has told and none tells again
        self.session = 1  # of the run, when it began
        self.shown: dict[str, int] = {}  # by SHA-256: the revision of each kernel shown whole
        self.sent: dict[str, KernelReader] = {}  # by SHA-256: of each kernel that the model sent

    @property
    def fresh(self) -> bool:
        """Whether the conversation has no reply of the model yet."""
        return not any(isinstance(message, AssistantMessage) for message in self.messages)

    @property
    def unread(self) -> int:
        """Number of characters added since the last reply; before the first reply, of all text."""
        total = 0
        for message in reversed(self.messages):
            if isinstance(message, AssistantMessage):
                return total
            total += _characters(message)
        return total + len(self.system)

    def say(self, text: str) -> None:
        self.messages += (UserMessage(text),)

    def request(self, hints: Sequence[str], own: Sequence[str] = ()) -> ChatRequest:
        """Append the hints that no request has carried yet, and return the next request.

        `own` are a person's messages to this subagent alone.
        """
        for hint in hints_told(hints[self.hints_told :], own[self.own_told :]):
            self.say(hint)
        self.hints_told, self.own_told = len(hints), len(own)
        return ChatRequest(self.system, self.tools, self.messages)

    def take(self, reply: ChatReply, results: Sequence[tuple[str, ToolResult]]) -> None:
        """Append a reply and the results of all its calls together, so that no call lacks one."""
        self.messages += (AssistantMessage(reply.text, reply.tool_uses, reply.blocks),)
        if results:
            self.messages += (ToolMessage(tuple(results)),)
        self.prompt_tokens = reply.prompt_tokens


def _characters(message: Message) -> int:
    match message:
        case UserMessage(text):
            return len(text)
        case ToolMessage(results):
            return sum(len(r.output) + len(r.error_information) for _, r in results)
        case _:
            return 0


class Context:
    """The conversation of a run's agent over its visits. `budget` is in tokens of a prompt.

    `rules` are the system text of a language model: its conversation continues over phases and
    rounds, and contains the kernel. The facts of the run follow the rules. A searcher has no
    rules: each of its visits has a new conversation, because it looks at the run and not at words.
    """

    def __init__(self, rules: str = "", *, budget: int = 0) -> None:
        self._rules = rules
        self._budget = budget
        self._conversation: Conversation | None = None
        self._invalid = ""
        self._of_subagent = False

    @property
    def of_model(self) -> bool:
        """Whether the agent is a language model, and no searcher."""
        return bool(self._rules)

    def for_subagent(self) -> Context:
        """Return a context for a subagent's visit, with messages of its own."""
        context = Context(self._rules, budget=self._budget)
        context._of_subagent = True
        return context

    def invalidate(self, why: str) -> None:
        """End the conversation for the reason `why`; the next visit begins a new one."""
        self._invalid = why

    def begin(
        self, run: RunAccess, *, caller: Caller, agents: Agents
    ) -> tuple[Conversation, ToolExecutor]:
        """Return the conversation and the tools of a new visit.

        The tools accept no tag of an earlier visit, because the kernel may have changed since.
        `agents` run the subagents of the visit; a searcher has none.
        """
        if not self._rules:
            executor = ToolExecutor(run, {}, caller)
            now = Conversation(SYSTEM, executor.specs)
            now.say(situation(run.state, executor.allowed))
            return now, executor
        executor = ToolExecutor(run, agents, caller)
        old = self._conversation
        why = self._rebuild_reason(run, old)
        if why or old is None:
            if why:
                tokens = old.prompt_tokens if old else 0
                run.send(cmd.Observe(ev.ContextRebuilt(reason=why, prompt_tokens=tokens)))
            self._invalid = ""
            now = self._conversation = Conversation(
                f"{self._rules}\n\n{facts_text(run.state)}", executor.specs
            )
            now.session = run.state.sessions
        else:
            now = old
        executor.told, executor.kernel.sent = now.told, now.sent
        failures: list[str] = []
        if run.state.phase is Phase.DIAGNOSE:
            failures = failures_told(run.state, run.kernel, now.told)
        news = situation(run.state, executor.allowed, now.told)
        said = f"{opening(run.state)}\n\n{news}" if now is not old else news
        said = "\n\n".join([said, *failures])
        if now is not old or run.state.phase in (Phase.WRITE, Phase.EDIT):
            said = f"{said}\n\n{_kernel(run.state, now, executor)}"
        now.say(said)
        return now, executor

    def _rebuild_reason(self, run: RunAccess, old: Conversation | None) -> str:
        """Return the reason for a new conversation; "" if the old one continues or none is lost."""
        if old is None:
            return "a new session" if run.state.usage and not self._of_subagent else ""
        if old.session != run.state.sessions:
            return "a person began a new session"
        if self._invalid:
            return self._invalid
        if old.prompt_tokens > self._budget:
            return f"the prompt grew beyond {self._budget} tokens"
        return ""


def _kernel(state: RunState, conversation: Conversation, executor: ToolExecutor) -> str:
    """Return the kernel's text for an edit, or a reference if a message already contains it."""
    kernel = executor.kernel.files
    sha = kernel.sha256
    if (revision := conversation.shown.get(sha)) is not None:
        executor.kernel.recall(revision)
        return kernel_again(revision, kernel)
    # A kernel that was written whole was answered without its tags.
    kept = state.best is not None and state.best.attempt > 0
    if kept and executor.kernel.resume():
        return kernel_sent(kernel)
    conversation.shown[sha] = executor.kernel.revision
    return kernel_text(executor.kernel.show())
