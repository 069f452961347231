"""Tools and agents of other packages, found by their entry points.

They run in this process, as the package that a user has installed and a task names. Loads only what
is named, and nothing of a package that is not.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from akg_tui.agent.tools import BadTools
from akg_tui.agent.tools.declaration import Tool, Tools
from akg_tui.core.task import PACKAGE, Agent, BadAgent

if TYPE_CHECKING:
    from akg_tui.agent.chat import ChatModel

TOOLS, AGENTS = "akg_tui.tools", "akg_tui.agents"
_TASK = Path("task.toml")


def _found(group: str, name: str) -> EntryPoint | str:
    """Return the entry point of a group by its name, or why there is none."""
    offered = entry_points(group=group)
    found = [each for each in offered if each.name == name]
    if found:
        return found[0]
    names = ", ".join(sorted(each.name for each in offered)) or "none"
    return f"no installed package offers {name} in {group}; there are: {names}"


def with_packages(known: Tools, names: tuple[str, ...]) -> Tools:
    """Return `known` with the tools of the entry points `names`. Raises `BadTools`."""
    found = dict(known)
    for name in names:
        point = _found(TOOLS, name)
        if isinstance(point, str):
            raise BadTools(_TASK, None, "agent.packages", point)
        try:
            tool = point.load()
        except Exception as error:
            what = f"{name} ({point.value}) cannot be loaded: {type(error).__name__}: {error}"
            raise BadTools(_TASK, None, "agent.packages", what) from error
        if not isinstance(tool, Tool):
            what = f"{name} ({point.value}) is no tool, made by akg_tui.agent.tools.declaration"
            raise BadTools(_TASK, None, "agent.packages", what)
        if tool.name in found:
            what = f"{name} ({point.value}): there is a tool {tool.name} already"
            raise BadTools(_TASK, None, "agent.packages", what)
        found[tool.name] = tool
    return found


def agent_of(agent: Agent) -> Callable[[Agent], ChatModel]:
    """Return what makes the agent ``package:NAME``, called with the settings.

    Raises
    ------
    BadAgent
        If no installed package offers it, or it cannot be loaded.
    """
    name = agent.model.removeprefix(PACKAGE)
    point = _found(AGENTS, name)
    if isinstance(point, str):
        raise BadAgent("model", point)
    try:
        made: Callable[[Agent], ChatModel] = point.load()
    except Exception as error:
        what = f"{name} ({point.value}) cannot be loaded: {type(error).__name__}: {error}"
        raise BadAgent("model", what) from error
    return made
