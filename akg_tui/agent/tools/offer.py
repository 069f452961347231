"""Which tools a run has, how each edit format presents them, and which may be used now.

The list told to a model is the same in every phase, because another list would cost the prompt
cache.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from akg_tui.agent.chat import ToolSpec
from akg_tui.agent.tools.definitions import Definition, Definitions, definitions_with, for_target
from akg_tui.agent.tools.port import Host
from akg_tui.agent.tools.registry import ARGUMENTS
from akg_tui.core.phases import SUBAGENT, Phase, forbidden_tool
from akg_tui.core.task import Task
from akg_tui.hashline import Tagger
from akg_tui.hashline.formats import open_format
from akg_tui.store.task_folder import TOOL_FILES

TASK = "task"


def task_files(folder: Path, task: Task) -> list[tuple[Path, str]]:
    """The definitions that a task folder, or a run's copy of one, brings along."""
    names = (task.agent.tools,) if task.agent.tools else TOOL_FILES
    paths = [folder / name for name in names]
    return [(path, path.read_text("utf-8", "replace")) for path in paths if path.is_file()]


def offered(run: Path, task: Task, host: Host) -> Definitions:
    """The tools of a run, for which there is somebody to do the work."""
    files = tuple(task_files(run / TASK, task))
    known = for_target(_definitions(files), task.target)
    known = in_format(known, task.agent.edits_in, task.files.editable)
    return {name: tool for name, tool in known.items() if _can_work(tool, known, host)}


def told_of(known: Definitions) -> tuple[ToolSpec, ...]:
    """The tools as a model is told about them: sorted, so that the list is always the same."""
    return tuple(known[name].spec for name in sorted(known))


@functools.lru_cache(maxsize=4)
def _definitions(files: tuple[tuple[Path, str], ...]) -> Definitions:
    return definitions_with(files)


def _can_work(tool: Definition, known: Definitions, host: Host) -> bool:
    if tool.kind == "call_agent":
        return tool.agent in host.agents
    if tool.kind == "call_workflow":
        return all(_can_work(known[step.tool], known, host) for step in tool.steps)
    return tool.name in ARGUMENTS or tool.name in host.tools


def allowed(
    known: Definitions, tool: Definition, phase: Phase, *, subagent: bool = False
) -> str | None:
    """Say why `tool` may not be called in `phase`, and what may; None when it may.

    A tool that starts an agent goes by the row of `task`, whatever its name.
    """
    if tool.kind == "call_workflow":
        for step in tool.steps:
            if step.tool not in known:
                return f"{tool.name} needs {step.tool}, which this run does not have"
            if refused := allowed(known, known[step.tool], phase, subagent=subagent):
                return f"{tool.name}: {refused}"
        return None
    row = SUBAGENT if tool.kind == "call_agent" else tool.name
    return forbidden_tool(phase, row, subagent=subagent)


HASHLINE: Final = "hashline"

_HOW: Final = {
    "str_replace": (
        "Replace `old`, a text that stands in the kernel exactly once, by `new`. Blanks and "
        "line ends count."
    ),
    "str_replace lines": (
        "Replace `old`, whole lines that stand in the kernel exactly once, by `new`. Blanks count."
    ),
    "apply_patch": (
        "Apply a patch: `*** Begin Patch`, `*** Update File: {path}`, for each change `@@` and "
        "lines that begin with a blank (context), `-` or `+`, and `*** End Patch`."
    ),
    "unified diff": "Apply a unified diff of {path}, with three lines of context.",
}
_THEN: Final = (
    "An edit of another version than you were shown is refused and changes nothing. The harness "
    "evaluates the result by itself when your turn ends."
)


def in_format(known: Definitions, form: str, path: str) -> Definitions:
    """The definitions with `read_kernel` and `edit_kernel` in the words of `form`."""
    if form == HASHLINE or "edit_kernel" not in known:
        return known
    schema: dict[str, Any] = open_format(form, Tagger(b"-")).schema
    properties = {**schema["properties"], "note": {"type": "string"}}
    edit = Definition(
        name="edit_kernel",
        kind="domain_tool",
        description=f"{_HOW[form].format(path=path)} {_THEN}",
        parameters={**schema, "properties": properties},
        resolve=dict.fromkeys(properties, "never"),
    )
    changed = {"edit_kernel": edit}
    if "read_kernel" in known:
        changed["read_kernel"] = replace(
            known["read_kernel"], description="The kernel as it stands."
        )
    return {**known, **changed}
