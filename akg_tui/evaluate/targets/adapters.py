"""The target and DSL adapters of a task, and whether this machine can evaluate its kernels.

Used before any process is started, so it must import neither torch nor a DSL.
"""

from __future__ import annotations

from akg_tui.core.task import Task
from akg_tui.dsl.adapters import DSLS, Dsl
from akg_tui.evaluate.targets import TARGETS, Target


def adapters(task: Task) -> tuple[Target, Dsl]:
    """Return the adapters that a task names."""
    return TARGETS[task.target.backend], DSLS[task.target.dsl]


def lacking(task: Task) -> str:
    """Return one line on why this machine can't evaluate the task's kernels, or ""."""
    target, dsl = adapters(task)
    return target_lacking(target, dsl) or dsl.lacking(target.name)


def target_lacking(target: Target, dsl: Dsl) -> str:
    """Return one line on what the target needs, and what works here instead, or ""."""
    why = target.lacking()
    return f"{why}; {dsl.instead()}" if why else ""
