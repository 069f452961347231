"""AgentKernelArena: a folder with `config.yaml`, and in some a module of PyTorch as the reference.

The task types that begin with `torch` or `hip` have one; those of the others are judged by scripts
of the set, which compare a kernel with itself, so they have no reference here.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from akg_tui.core.sanitize import one_line
from akg_tui.problems import kernelbench
from akg_tui.problems.json_files import Line, read_yaml
from akg_tui.problems.problem import Problem
from akg_tui.store.errors import BadTask
from akg_tui.store.filesystem import is_file_below
from akg_tui.store.task_folder import op_named

TASK = "config.yaml"
MODULES = "pytorch_code_module"
MODEL = "model.py"


def is_task(folder: Path) -> bool:
    """Return whether a folder has a `config.yaml` of this set."""
    try:
        plain, _ = read_yaml(folder / TASK) if is_file_below(folder, folder / TASK) else ({}, None)
    except BadTask:
        return False
    return "task_type" in plain and "correctness_command" in plain


def read(path: Path) -> Problem:
    """Return the problem in a folder or of its `config.yaml`. Raises `BadTask`."""
    folder = path if path.is_dir() else path.parent
    if not is_file_below(folder, folder / TASK):
        raise BadTask(folder, None, "", f"has no {TASK} of its own")
    plain, line = read_yaml(folder / TASK)
    module = _module(folder, plain, line)
    if module is None:
        kind = one_line(str(plain.get("task_type")), 60)
        message = f"is {kind}: it has no module of PyTorch to compare with, only scripts of the set"
        raise BadTask(folder / TASK, line("task_type"), "task_type", message)
    problem = kernelbench.read_any_model(module, "AgentKernelArena")
    return dataclasses.replace(problem, op=op_named(folder.resolve().name))


def _module(folder: Path, plain: dict[str, Any], line: Line) -> Path | None:
    """Return the reference: a module in its own folder, a `model.py`, or a source in Python."""
    sources = plain.get("source_file_path") or []
    if not isinstance(sources, list) or not all(isinstance(each, str) for each in sources):
        message = "expected a list of files"
        raise BadTask(folder / TASK, line("source_file_path"), "source_file_path", message)
    ours = [path for each in sources if (path := folder / each).parent.name == MODULES]
    found = [*ours, *sorted((folder / MODULES).glob("*.py")), folder / MODEL]
    return next((each for each in found if is_file_below(folder, each)), None)
