"""Context management: a conversation that only grows, and when a new one must begin.

Owns the messages. A message that was sent never changes: a request is a prefix of the next, so the
server's prompt cache holds. When a prompt has grown beyond its budget, the next visit begins a new
conversation from the plan and the kernel. Nothing here is on disk, so a restart does the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
from akg_tui.agent.prompt import (
    SYSTEM,
    hints_told,
    kernel_again,
    kernel_text,
    opening,
    situation,
    visit_prompt,
)
from akg_tui.agent.tools.executor import ToolExecutor
from akg_tui.agent.tools.run_access import Caller, Host, RunAccess, SubagentRunner
from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.phases import Phase
from akg_tui.core.task import Task


class Conversation:
    """Messages with one model, and the tools that go with them."""

    def __init__(self, system: str, tools: Sequence[ToolSpec]) -> None:
        self.system = system
        self.tools = tuple(tools)
        self.messages: tuple[Message, ...] = ()
        self._previous_id = ""
        self.prompt_tokens = 0
        self.hints_told = 0
        self.own_told = 0
        self.shown: set[str] = set()  # the kernels, by SHA-256, that stand in it whole

    @property
    def fresh(self) -> bool:
        """Whether the model has not replied in it yet."""
        return not any(isinstance(message, AssistantMessage) for message in self.messages)

    @property
    def unread(self) -> int:
        """Characters that the model has not been sent before; at first, all of them."""
        total = 0
        for message in reversed(self.messages):
            if isinstance(message, AssistantMessage):
                return total
            total += _characters(message)
        return total + len(self.system)

    def say(self, text: str) -> None:
        self.messages += (UserMessage(text),)

    def request(self, hints: Sequence[str], own: Sequence[str] = ()) -> ChatRequest:
        """The next request; hints that it does not carry yet come last.

        `own` are a person's messages to this subagent alone.
        """
        for hint in hints_told(hints[self.hints_told :], own[self.own_told :]):
            self.say(hint)
        self.hints_told, self.own_told = len(hints), len(own)
        return ChatRequest(self.system, self.tools, self.messages, self._previous_id)

    def take(self, reply: ChatReply, results: Sequence[tuple[str, ToolResult]]) -> None:
        """A reply with the answers to all of its calls: both or neither."""
        self.messages += (AssistantMessage(reply.text, reply.tool_uses, reply.blocks),)
        if results:
            self.messages += (ToolMessage(tuple(results)),)
        self._previous_id = reply.id
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

    `rules` are the system text of a language model: its conversation goes on over phases and
    rounds, and it is shown the kernel. A searcher has none: each visit stands alone, and its
    prompt says everything.
    """

    def __init__(self, rules: str = "", *, budget: int = 0, host: Host | None = None) -> None:
        self._rules = rules
        self._host = host or Host()
        self._budget = budget
        self._conversation: Conversation | None = None
        self._invalid = ""
        self._of_subagent = False

    def for_subagent(self) -> Context:
        """A context for a subagent's visit; its messages stay out of this one."""
        context = Context(self._rules, budget=self._budget, host=self._host)
        context._of_subagent = True
        return context

    def invalidate(self, why: str) -> None:
        """End the conversation for the reason `why`; the next visit begins a new one."""
        self._invalid = why

    def begin(
        self, run: RunAccess, *, caller: Caller, agents: Mapping[str, SubagentRunner]
    ) -> tuple[Conversation, ToolExecutor]:
        """The conversation for a visit that begins now, and the visit's own tools.

        The tools know no tag of an earlier visit: the kernel may be another one since.
        `agents` play the subagents of the visit; a searcher has none.
        """
        if not self._rules:
            executor = ToolExecutor(run, self._host, caller)
            now = Conversation(SYSTEM, executor.specs)
            now.say(visit_prompt(run.state))
            now.hints_told = len(run.state.hints)  # its prompt carries them
            return now, executor
        executor = ToolExecutor(run, Host(self._host.tools, agents), caller)
        old = self._conversation
        why = self._rebuild_reason(run, old)
        said = situation(run.state)
        if why or old is None:
            if why:
                tokens = old.prompt_tokens if old else 0
                run.send(cmd.Observe(ev.ContextRebuilt(reason=why, prompt_tokens=tokens)))
            self._invalid = ""
            now = self._conversation = Conversation(self._rules, executor.specs)
            said = f"{opening(run.state)}\n\n{said}"
        else:
            now = old
        if now is not old or run.state.phase is Phase.EDIT:
            said = f"{said}\n\n{_kernel(run.state.task, now, executor)}"
        now.say(said)
        return now, executor

    def _rebuild_reason(self, run: RunAccess, old: Conversation | None) -> str:
        """Why a new conversation must begin; "" when the old one goes on or there is none."""
        if old is None:
            return "a new session" if run.state.usage and not self._of_subagent else ""
        if self._invalid:
            return self._invalid
        if old.prompt_tokens > self._budget:
            return f"the prompt grew beyond {self._budget} tokens"
        return ""


def _kernel(task: Task, conversation: Conversation, executor: ToolExecutor) -> str:
    """The kernel for an edit. One that stands in the conversation already is only named."""
    sha = executor.kernel.sha256
    if sha in conversation.shown:
        document = executor.kernel.recall()
        return kernel_again(task, document.revision, document.sha256)
    conversation.shown.add(sha)
    return kernel_text(task, executor.kernel.show(), sha)
