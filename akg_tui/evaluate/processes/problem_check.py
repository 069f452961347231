"""A task's own check of results, for results that are not unique: the judge's side of it.

Owns the process in which the check runs. It gets copies of inputs, of the reference's results, and
of the results that the judge has read from a kernel; no kernel runs there. What it says of a
kernel's results counts in place of the comparison element by element.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence

import torch

from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.measurement import FailureKind
from akg_tui.core.sanitize import strip_to_line
from akg_tui.evaluate.correctness import Comparison
from akg_tui.evaluate.processes.child_pool import ChildPool, Reporter, blamed_on
from akg_tui.evaluate.processes.draws import secret_bits
from akg_tui.evaluate.processes.shared_memory import SharedMemory
from akg_tui.evaluate.processes.worker import ChildFailed
from akg_tui.evaluate.protocol import tensor_layout as layouts
from akg_tui.evaluate.protocol.child_protocol import Checked, Description, Op, Plan

SHOWN = 400
"""The most characters of a reason."""


class ProblemCheck:
    """The check that a task names, in a process that begins with the first comparison."""

    def __init__(self, pool: ChildPool, reference: str, limit_s: float) -> None:
        task = pool.task
        self.name = task.correctness.check
        self.file, _, function = self.name.partition(":")
        files = {self.file: task.check_source}
        # A check may import the reference.
        files = {self.file: reference} if self.file == task.files.reference else files
        files |= {task.files.reference: reference}
        self._pool, self._limit_s = pool, limit_s
        self._plan = Plan(
            kind="check",
            files=KernelFiles(files),
            function=function,
            seed=secret_bits(63),
        )
        self._running = contextlib.ExitStack()
        self._reporter: Reporter | None = None

    def compare(
        self,
        known: Description,
        inputs: SharedMemory,
        expected: SharedMemory,
        item: int,
        results: Sequence[torch.Tensor],
    ) -> Comparison:
        """Return what the check says of `results` for an item of a draw.

        A check that raises or whose process ends, although it accepted the reference's own results,
        refuses them.

        Raises
        ------
        EvaluationError
            The check can't be loaded.
        """
        reporter = self._reporter or self._start()
        worker = reporter.worker
        with contextlib.closing(SharedMemory(known.outputs.size)) as returned:
            layouts.store(known.outputs, results, returned.map, 0)
            content = Checked(known.inputs, known.outputs, item, known.contract.inputs)
            try:
                worker.send_content(Op.CHECK, content, inputs, expected, returned)
                size = worker.answer(self._limit_s, "checking results", stop=False)
            except ChildFailed as failed:
                self.close()
                return self._refused(f"{self.name} fails on it: {failed.message}", failed.detail)
        if not size:
            return Comparison(0.0, 0.0, judged_by=self.name)
        told = reporter.text(size).decode("utf-8", "replace")
        return self._refused(f"{self.name} refuses it: {strip_to_line(told)[:SHOWN]}")

    def close(self) -> None:
        """End the process; the next comparison begins another."""
        self._reporter = None
        self._running.close()

    def _refused(self, message: str, detail: str = "") -> Comparison:
        return Comparison(math.inf, 0.0, message, detail, judged_by=self.name)

    def _start(self) -> Reporter:
        with contextlib.ExitStack() as stack, blamed_on(FailureKind.REFERENCE, self.file):
            self._reporter = stack.enter_context(self._pool.reporting(self._plan))
            self._running = stack.pop_all()
            return self._reporter
