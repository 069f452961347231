"""A task's target and DSL together: whether it can run on this machine, and be timed.

Used before anything is started, so it must import neither torch nor a DSL.
"""

from __future__ import annotations

from akg_tui.core.task import Task
from akg_tui.evaluate.dsls import Dsl, dsl_named
from akg_tui.evaluate.targets import Target, target_named


def adapters(task: Task) -> tuple[Target, Dsl]:
    """Return the adapters that a task names."""
    return target_named(task.target.backend), dsl_named(task.target.dsl)


def lacking(task: Task) -> str:
    """Return in one line why this machine can't evaluate the task's kernels, or nothing."""
    target, dsl = adapters(task)
    return target.lacking() or dsl.lacking(target.name)


def untimed(task: Task) -> str:
    """Return why the task's kernels are verified only, or nothing if they are timed."""
    target, dsl = adapters(task)
    return dsl.untimed(target.name)
