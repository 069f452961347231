"""Refuses a kernel that cannot run on the machine's GPU, before the GPU is used.

The kernel's launches are compiled for the GPU's arch in a confined process. What is not certain is
left to the GPU: a kernel that may choose by the GPU, or catches a failed launch, passes.
"""

from __future__ import annotations

import ast
import asyncio

from akg_tui.core.kernel.kernel_files import Kernel, files_of
from akg_tui.core.task import Task
from akg_tui.dsl.adapters import DSLS
from akg_tui.dsl.gpu_arches import ARCHES
from akg_tui.evaluate.reference_fault import Fault
from akg_tui.evaluate.targets.nvml import arch_here

CHOOSES = frozenset({"cuda", "driver", "suppress"})
"""Names by which a kernel asks for the GPU, or goes on after an error."""


async def refusal(task: Task, reference: str, kernel: Kernel) -> Fault | None:
    """Return why a kernel cannot run on the GPU of this machine, or None if it may run."""
    if task.target.backend != "cuda" or not DSLS[task.target.dsl].has_launches:
        return None
    # In a thread: a large file takes about a second.
    files = files_of(kernel, task.files.kernel).texts.values()
    certain = not await asyncio.to_thread(lambda: any(map(may_choose, files)))
    arch = await asyncio.to_thread(arch_here) if certain else ""
    if arch not in ARCHES:
        return None
    # Only here: an engine that evaluates nothing for a GPU needs none of it.
    from akg_tui.evidence import asking
    from akg_tui.evidence.compile_report import cannot_run

    try:
        report = await asking.compile_report(task, reference, kernel, (arch,))
    except asking.NO_ANSWER:
        return None
    return cannot_run(report, arch, task.files.kernel)


def may_choose(kernel: str) -> bool:
    """Return whether a kernel may do another thing on a GPU than in the confined process."""
    try:
        tree = ast.parse(kernel)
    except SyntaxError:  # a file of another language
        return True
    for node in ast.walk(tree):
        if isinstance(node, ast.Try | ast.TryStar):
            return True
        name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
        if name in CHOOSES:
            return True
    return False
