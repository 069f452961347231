"""One model, one task, one edit format: a fresh conversation with two tools.

The model may read and edit the file as often as its turns allow; an answer without a call ends the
session. Only the final bytes of the file count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from akg_tui.agent.chat import (
    AssistantMessage,
    ChatModel,
    ChatRequest,
    Message,
    ToolMessage,
    ToolResult,
    ToolSpec,
    ToolUse,
    UserMessage,
)
from akg_tui.hashline import Document, Tagger
from akg_tui.hashline.formats import EditFormat, Refusal, open_format
from benchmarks.edit_models.tasks import EditTask

MAX_TURNS: Final = 12

SYSTEM: Final = """\
You repair one kernel file. Use the tool `read` to see it and the tool `edit` to change it; a
refused edit has changed nothing and says why. When the file is repaired, answer without a
tool call. The result is compared with the original file byte for byte."""

READ: Final = ToolSpec(
    "read",
    "The file as it stands.",
    {"type": "object", "properties": {}, "required": [], "additionalProperties": False},
)
_HOW: Final = {
    "hashline": "Change the file by the line tags that `read` shows; a stale tag changes nothing.",
    "str_replace": "Replace a text that stands in the file exactly once.",
    "str_replace lines": "Replace whole lines that stand in the file exactly once.",
    "apply_patch": "Apply a patch in the *** Begin Patch envelope.",
    "unified diff": "Apply a unified diff.",
}


class Session(Struct, frozen=True):
    """How one session ended.

    `fixed` is byte equality with the original; `wrong` says that an edit was applied and the
    file is not the original; `refused` counts refused calls of `edits`.
    """

    task: str
    format: str
    repeat: int
    fixed: bool
    wrong: bool
    edits: int
    refused: int
    turns: int
    input_tokens: int
    output_tokens: int


class _FileTools:
    """The file under repair and the tools on it."""

    def __init__(self, task: EditTask, form: EditFormat) -> None:
        self.document = Document.from_text(task.broken, path=task.path)
        self.form = form
        self.edits = self.refused = 0

    def use(self, call: ToolUse) -> ToolResult:
        match call.name:
            case "read":
                return ToolResult.success(self.form.render(self.document))
            case "edit":
                return self._edit(call.arguments)
        return ToolResult.error(f"there is no tool {call.name!r}; there are: edit, read")

    def _edit(self, arguments: dict[str, Any]) -> ToolResult:
        self.edits += 1
        made = self.form.apply(self.document, arguments)
        if isinstance(made, Refusal):
            self.refused += 1
            return ToolResult.error(made.message)
        self.document = made
        return ToolResult.success(self.form.render(made))


async def run_session(
    task: EditTask,
    form: str,
    repeat: int,
    model: ChatModel,
    *,
    key: bytes,
    on_delta: Callable[[str], None] = lambda _: None,
) -> Session:
    """Play one session. Raises `ModelFailed`; nothing is known of the session then."""
    tools_of_file = _FileTools(task, open_format(form, Tagger(key)))
    edit = ToolSpec("edit", _HOW[form], dict(tools_of_file.form.schema))
    messages: list[Message] = [UserMessage(task.prompt)]
    read_tokens = written_tokens = turns = 0
    while turns < MAX_TURNS:
        turns += 1
        reply = await model.complete(ChatRequest(SYSTEM, (edit, READ), tuple(messages)), on_delta)
        read_tokens += reply.prompt_tokens
        written_tokens += reply.output_tokens
        if not reply.tool_uses:
            break
        results = tuple((use.id, tools_of_file.use(use)) for use in reply.tool_uses)
        messages.append(AssistantMessage(reply.text, reply.tool_uses, reply.blocks))
        messages.append(ToolMessage(results))
    fixed = tools_of_file.document.text == task.original
    return Session(
        task=task.id,
        format=form,
        repeat=repeat,
        fixed=fixed,
        wrong=not fixed and tools_of_file.document.text != task.broken,
        edits=tools_of_file.edits,
        refused=tools_of_file.refused,
        turns=turns,
        input_tokens=read_tokens,
        output_tokens=written_tokens,
    )
