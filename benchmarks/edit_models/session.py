"""One model, one task, one edit format: a fresh conversation with two or three tools.

The model may read and change the file as often as its turns allow; an answer without a call ends
the session. Only the final bytes of the file count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

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
from akg_tui.hashline.file_reader import Refusal
from benchmarks.edit_formats.languages import same_code
from benchmarks.edit_formats.whole_file import WRITE, EditFormat, WholeFile, open_any
from benchmarks.edit_models.tasks import EditTask

MAX_TURNS: Final = 12

SYSTEM: Final = """\
You repair one source file. Use the tool `read` to see it and {tools} to change it; a
refused call has changed nothing and says why. When the file is repaired, answer without a
tool call. The result is compared with the original file byte for byte."""

READ: Final = ToolSpec(
    "read",
    "The file as it stands.",
    {"type": "object", "properties": {}, "required": [], "additionalProperties": False},
)
_HOW: Final = {
    "hashline": "Change the file by the line tags that `read` shows; a stale tag changes nothing.",
    "str_replace": "Replace a text that stands in the file exactly once.",
    "apply_patch": "Apply a patch in the *** Begin Patch envelope.",
    "unified diff": "Apply a unified diff.",
}
_WHOLE: Final = ToolSpec(WRITE, "Replace the whole file by this content.", dict(WholeFile().schema))


class Session(Struct, frozen=True):
    """How one session ended.

    `fixed` is byte equality with the original; `formatted` is equality but for blanks and line
    breaks (`benchmarks.edit_formats.languages.same_code`); `wrong` says that a change was applied
    and the file is not the original; `refused` counts refused calls of the `edits`, which include
    the `writes` of the whole file.
    """

    model: str
    task: str
    format: str
    repeat: int
    fixed: bool
    formatted: bool
    wrong: bool
    edits: int
    writes: int
    refused: int
    turns: int
    input_tokens: int
    output_tokens: int


class _FileTools:
    """The file under repair and the tools on it."""

    def __init__(self, task: EditTask, form: str, tagger: Tagger, *, write_tool: bool) -> None:
        self.document = Document.from_text(task.broken, path=task.path)
        self._form = open_any(form, tagger)
        edit = () if form == WRITE else (ToolSpec("edit", _HOW[form], dict(self._form.schema)),)
        self.changing = (*edit, *((_WHOLE,) if write_tool or form == WRITE else ()))
        self.edits = self.writes = self.refused = 0

    def use(self, call: ToolUse) -> ToolResult:
        if call.name == "read":
            return ToolResult.success(self._form.render(self.document))
        names = [tool.name for tool in self.changing]
        if call.name not in names:
            there = ", ".join([*names, "read"])
            return ToolResult.error(f"there is no tool {call.name!r}; there are: {there}")
        self.edits += 1
        self.writes += call.name == WRITE
        form: EditFormat = WholeFile() if call.name == WRITE else self._form
        made = form.apply(self.document, call.arguments)
        if isinstance(made, Refusal):
            self.refused += 1
            return ToolResult.error(made.message)
        self.document = made
        return ToolResult.success(self._form.render(made))


async def run_session(
    task: EditTask,
    form: str,
    repeat: int,
    model: ChatModel,
    *,
    key: bytes,
    write_tool: bool = False,
    on_delta: Callable[[str], None] = lambda _: None,
) -> Session:
    """Play one session; `write_tool` offers `write` beside `edit`.

    Raises `ModelFailed`; nothing is known of the session then.
    """
    tools_of_file = _FileTools(task, form, Tagger(key), write_tool=write_tool)
    tools = (*tools_of_file.changing, READ)
    named = " or ".join(f"`{tool.name}`" for tool in tools_of_file.changing)
    system = SYSTEM.format(tools=f"the tool {named}")
    messages: list[Message] = [UserMessage(task.prompt)]
    read_tokens = written_tokens = turns = 0
    while turns < MAX_TURNS:
        turns += 1
        reply = await model.complete(ChatRequest(system, tools, tuple(messages)), on_delta)
        read_tokens += reply.prompt_tokens
        written_tokens += reply.output_tokens
        if not reply.tool_uses:
            break
        results = tuple((use.id, tools_of_file.use(use)) for use in reply.tool_uses)
        messages.append(AssistantMessage(reply.text, reply.tool_uses, reply.blocks))
        messages.append(ToolMessage(results))
    made = tools_of_file.document
    fixed = made.text == task.original
    return Session(
        model=model.name,
        task=task.id,
        format=form,
        repeat=repeat,
        fixed=fixed,
        formatted=fixed or same_code(made, Document.from_text(task.original, path=task.path)),
        wrong=not fixed and made.text != task.broken,
        edits=tools_of_file.edits,
        writes=tools_of_file.writes,
        refused=tools_of_file.refused,
        turns=turns,
        input_tokens=read_tokens,
        output_tokens=written_tokens,
    )
