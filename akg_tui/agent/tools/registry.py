"""The list of our own tools, the tools that a run offers, and the tools allowed in a phase.

To add a tool, write its module in this folder and name the module in `MODULES`. The list sent to
a model is constant over the phases, because a change would invalidate the prompt cache.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from msgspec.structs import replace

from akg_tui.agent.chat import ToolSpec
from akg_tui.agent.tools.declaration import Tool, Tools
from akg_tui.agent.tools.run_access import SUBAGENT, Agents
from akg_tui.core.phases import WORKFLOWS, BadWorkflow, Gate, Phase, Workflow
from akg_tui.core.task import Target, Task
from akg_tui.store.task_folder import tool_files

TASK = "task"
"""The folder of a run that holds a copy of its task."""

MODULES = (
    "checks", "composite", "files", "kernel", "measuring", "searching", "steering", "scripts",
    "sweeps", "trials",
)  # fmt: skip


@functools.lru_cache(maxsize=1)
def own_tools() -> Tools:
    """Return the tools that ship with the program, by name, checked against the workflows."""
    found: Tools = {}
    for name in MODULES:
        module = import_module(f"{__package__}.{name}")
        for tool in vars(module).values():
            if isinstance(tool, Tool):
                found[tool.name] = tool
    for workflow in WORKFLOWS.values():
        check_tools(workflow, found)
    return found


def check_tools(workflow: Workflow, known: Tools) -> None:
    """Raise `BadWorkflow` if a phase is to be done by a tool that it does not have."""
    for phase, row in workflow.rows.items():
        for name in (*row.by, *row.tools):
            if name not in known:
                raise _bad_tool(workflow, phase, name, "does not exist")
            if known[name].kind != "call_workflow" and phase not in known[name].phases:
                raise _bad_tool(workflow, phase, name, "may not be called in it")


def _bad_tool(workflow: Workflow, phase: Phase, name: str, why: str) -> BadWorkflow:
    does = "is done by" if name in workflow.rows[phase].by else "names"
    return BadWorkflow(workflow.name, phase, f"{does} the tool {name}, which {why}", "tools")


def in_phases(known: Tools, workflow: Workflow) -> Tools:
    """Return the tools with none but the phases in which the workflow lets them be called."""
    only = {phase: row.tools for phase, row in workflow.rows.items() if row.tools}
    return {
        name: replace(
            tool, phases=frozenset(p for p in tool.phases if p not in only or name in only[p])
        )
        for name, tool in known.items()
    }


def task_files(folder: Path, task: Task) -> tuple[tuple[Path, str], ...]:
    """Return the tool files of a task folder, or of a run's copy of it, as (path, text)."""
    paths = [folder / name for name in tool_files(task)]
    return tuple((path, path.read_text("utf-8", "replace")) for path in paths if path.is_file())


@functools.lru_cache(maxsize=4)
def tools_with(files: tuple[tuple[Path, str], ...]) -> Tools:
    """Return our tools with those of a user's files, as (path, text), in order.

    Raises
    ------
    akg_tui.agent.tools.BadTools
        If a file is unusable; the message names file, line and field.
    """
    found = own_tools()
    for path, text in files:
        if path.suffix == ".py":
            from akg_tui.agent.user_functions import merged_functions

            found = merged_functions(found, path, text)
        else:
            from akg_tui.agent.tools.tool_files import merged

            found = merged(found, path, text)
    return found


def offered(folder: Path, task: Task, agents: Agents) -> Tools:
    """Return the tools of a run of `task`, whose tool files are in `folder`, without those that
    need an agent missing in `agents`.
    """
    from akg_tui.agent.tools.kernel import in_files

    files = task_files(folder, task)
    known = for_target(tools_with(files), task.target)
    known = in_phases(in_files(known, task.files.names), task.phases)
    return {name: tool for name, tool in known.items() if _can_work(tool, known, agents)}


def told_of(known: Tools, task: Task) -> Tools:
    """Return the tools that a model is told of, the same ones in the whole run.

    The others, which answer a call all the same, are those of phases that the workflow does not
    have, those that the policy excludes, and those that a user must name, in a tool file or in the
    table of a workflow.
    """
    rows = task.phases.rows
    named = {name for row in rows.values() for name in (*row.by, *row.tools)}
    barred = () if task.policy.trials else ("try_kernel", "sweep_kernel")
    return {
        name: tool
        for name, tool in known.items()
        if (not tool.by_name or name in named)
        and (tool.kind == "call_workflow" or tool.phases & rows.keys())
        and name not in barred
        and not (tool.gate is Gate.SCRIPT and task.agent.allow_script is False)
    }


def for_target(found: Tools, target: Target) -> Tools:
    """Return the tools with the run's target as the defaults of backend, arch and dsl."""
    own = {"backend": target.backend, "arch": target.arch, "dsl": target.dsl}
    fitted: Tools = {}
    for name, tool in found.items():
        properties = {
            argument: {**schema, "default": own[argument]}
            if argument in own and schema.get("default")
            else schema
            for argument, schema in tool.properties.items()
        }
        fitted[name] = replace(tool, parameters={**tool.parameters, "properties": properties})
    return fitted


def specs_of(tools: Tools) -> tuple[ToolSpec, ...]:
    """Return the tools' descriptions for a request, sorted so that equal tools give equal lists."""
    return tuple(tools[name].spec for name in sorted(tools))


def _can_work(tool: Tool, known: Tools, agents: Agents) -> bool:
    if tool.kind == "call_agent":
        return tool.agent in agents or bool(tool.declared and SUBAGENT in agents)
    return all(_can_work(known[step.tool], known, agents) for step in tool.steps)


def allowed(known: Tools, phase: Phase, *, subagent: bool = False) -> list[str]:
    """Return the sorted names of the tools `known` that may be called in `phase`.

    `subagent`: the caller is a subagent that a call started.
    """
    may = functools.partial(_may, known, phase=phase, subagent=subagent)
    return sorted(name for name, tool in known.items() if may(tool))


def _may(known: Tools, tool: Tool, phase: Phase, *, subagent: bool) -> bool:
    if tool.kind == "call_workflow":
        may = functools.partial(_may, known, phase=phase, subagent=subagent)
        return all(step.tool in known and may(known[step.tool]) for step in tool.steps)
    return phase in tool.phases and not (subagent and tool.main_agent_only)


def refused(
    known: Tools, tool: Tool, phase: Phase, offered: Sequence[str], *, subagent: bool = False
) -> str | None:
    """Return why `tool` must not be called in `phase`, with the tools `offered`; None if it may be.

    `subagent`: the caller is a subagent that a call started. A workflow is allowed where all its
    steps are. A user's tool that starts an agent has the phases of our tool `task`.
    """
    if _may(known, tool, phase, subagent=subagent):
        return None
    if tool.kind == "call_workflow":
        for step in tool.steps:
            if step.tool not in known:
                return f"{tool.name} needs {step.tool}, which this run does not have"
            if why := refused(known, known[step.tool], phase, offered, subagent=subagent):
                return f"{tool.name}: {why}"
    offer = ", ".join(offered) if offered else "no tool at all: the harness is at work"
    caller = " to a subagent" if subagent else ""
    name = "task" if tool.kind == "call_agent" else tool.name
    return f"{name} is not allowed{caller} in phase {phase}. Allowed now: {offer}."
