"""A writer that knows the answer and sometimes slips: it tests the benchmark, not a model.

It reads the file as any model must, takes the tags from what it was shown, and writes the
right edit in the format at hand. At the given rate it first makes the slip that is typical of the
format, and corrects it after the refusal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

from akg_tui.agent.chat import ChatReply, ChatRequest, ToolMessage, ToolUse, UserMessage
from akg_tui.hashline import Document, Tagger
from benchmarks.edit_formats.staleness import repair
from benchmarks.edit_formats.tokens import ESTIMATE
from benchmarks.edit_formats.whole_file import WRITE
from benchmarks.edit_formats.writers import CALLS
from benchmarks.edit_models.tasks import EditTask

_SHOWN: Final = re.compile(r"^(\d+)([a-z]+|:[0-9a-f]{2})\|", re.MULTILINE)


class _ServedTags(Tagger):
    """The tags of a view; it can't compute one."""

    __slots__ = ("_served",)

    def __init__(self, view: str) -> None:
        super().__init__(b"not a key of anything")
        self._served: dict[int, str] = {int(number): tag for number, tag in _SHOWN.findall(view)}

    def tag(self, line_number: int, text: str) -> str:
        return self._served[line_number]


class Scripted:
    """Plays `tasks` in the format whose schema it is shown.

    Parameters
    ----------
    slip
        The share of sessions, 0 to 1, that begin with a slip.
    """

    name = "scripted"

    def __init__(self, tasks: Sequence[EditTask], *, slip: float, seed: int) -> None:
        self._tasks = {(task.prompt, task.broken): task for task in tasks}
        self._slip = slip
        self._rng = Random(seed)
        self._calls = 0

    async def complete(self, request: ChatRequest, on_delta: Callable[[str], None]) -> ChatReply:
        """Read, edit (perhaps wrongly first), and say that it is done."""
        said = sum(ESTIMATE.count(str(message)) for message in request.messages)
        last = request.messages[-1]
        if not isinstance(last, ToolMessage):
            return self._reply("read", {}, said)
        result = last.results[0][1]
        edited = len(request.messages) > 3
        if edited and result.status == "success":
            return ChatReply("done", input_tokens=said, output_tokens=1)
        first = request.messages[2]
        assert isinstance(first, ToolMessage)
        view = first.results[0][1].output
        call = self._edit(request, view)
        if not edited and self._rng.random() < self._slip:
            call = _slipped(call)
        return self._reply("write" if "content" in call else "edit", call, said)

    def _edit(self, request: ChatRequest, view: str) -> dict[str, Any]:
        form = _format_of(request)
        task = self._task(request, view, form)
        document = Document.from_text(task.broken, path=task.path)
        wanted = repair(task.kind, document, Document.from_text(task.original, path=task.path))
        assert wanted is not None, "a task differs from its answer"
        tags = _ServedTags(view)
        return CALLS[form](document, wanted.start, wanted.stop, wanted.new, tags)

    def _task(self, request: ChatRequest, view: str, form: str) -> EditTask:
        opening = request.messages[0]
        assert isinstance(opening, UserMessage)
        for (prompt, broken), task in self._tasks.items():
            shown = _SHOWN.sub("", view) if form == "hashline" else view
            # A view by lines does not show how they end.
            plain, told = broken.replace("\r\n", "\n"), shown.replace("\r\n", "\n")
            if prompt == opening.text and plain.strip("\n") in told:
                return task
        raise LookupError("the scripted writer was shown a file that is not among its tasks")

    def _reply(self, tool: str, arguments: dict[str, Any], said: int) -> ChatReply:
        self._calls += 1
        use = ToolUse(f"call-{self._calls}", tool, arguments)
        written = ESTIMATE.count(str(arguments))
        return ChatReply("", (use,), input_tokens=said, output_tokens=written)


def _format_of(request: ChatRequest) -> str:
    edit = next((tool for tool in request.tools if tool.name == "edit"), None)
    if edit is None:
        return WRITE
    properties = edit.parameters["properties"]
    by_argument = {
        "ops": "hashline",
        "patch": "apply_patch",
        "diff": "unified diff",
        "old": "str_replace",
    }
    return next(form for name, form in by_argument.items() if name in properties)


def _slipped(call: dict[str, Any]) -> dict[str, Any]:
    """The call with the slip that is typical of the format: a wrong line, or a wrong blank.

    Of a whole file it is a blank at the end of the first line, which no tool refuses.
    """
    if "content" in call:
        return {"content": call["content"].replace("\n", " \n", 1)}
    if "ops" in call:
        op = dict(call["ops"][0])
        for name in ("from", "at", "after"):
            if name in op and op[name][0].isdigit():
                number = re.match(r"\d+", op[name])
                assert number is not None
                op[name] = f"{int(number[0]) + 1}{op[name][number.end() :]}"
        return {**call, "ops": [op]}
    name = next(each for each in ("old", "patch", "diff") if each in call)
    words = str(call[name])
    return {**call, name: words.replace("    ", "     ", 1) if "    " in words else words + "  "}
