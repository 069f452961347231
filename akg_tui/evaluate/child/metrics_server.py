"""Computes the numbers that a task declares: calls the function `metrics` of its reference.

Runs in a child of its own, in which no candidate was loaded. It gets private copies of inputs and
results, so that it can't change what the judge compares. The judge checks what it reports.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence

import msgspec

from akg_tui.evaluate.child import tensor_layout as layouts
from akg_tui.evaluate.child.faults import Fault, located
from akg_tui.evaluate.child.kernel_server import Server, first_line, map_fd
from akg_tui.evaluate.child.protocol import REPORT_BYTES, Op, Status


class MetricsServer(Server):
    """Serves `metrics`; the file's model is not constructed."""

    broken = Status.REFERENCE

    def start(self) -> int:
        """Run the file's top level."""
        self.execute()
        return 0

    def prepare(self, op: int, count: int, draw_args: tuple[int, ...], fds: Sequence[int]) -> int:
        """Serve MEASURE: write the metrics of `count` items as JSON, and return their size."""
        inputs, outputs, function = self.plan.inputs, self.plan.outputs, self.named("metrics")
        if op != Op.MEASURE or inputs is None or outputs is None:
            raise Fault(Status.REFERENCE, "this process only computes metrics")
        if not callable(function):
            what = "no function metrics is defined"
            raise Fault(Status.REFERENCE, located(self.plan.filename, 1, what))
        given, returned, wanted, kernel = (map_fd(fd, shared=False) for fd in fds)
        takes = inspect.signature(function).parameters
        found: list[dict[str, float]] = []
        for item in range(count):
            offered = {
                "inputs": layouts.load(inputs, given, item * inputs.size),
                "outputs": layouts.views(outputs, returned, item * outputs.size),
                "expected": layouts.views(outputs, wanted, item * outputs.size),
                "kernel": kernel[:].rstrip(b"\0").decode(),
            }
            try:
                told = function(**{name: offered[name] for name in takes})
                found.append({str(name): float(value) for name, value in dict(told).items()})
            except BaseException as error:
                raise self.fault(error, Status.REFERENCE, function) from error
        text = msgspec.json.encode(found)  # a number that is not finite becomes null
        if len(text) > REPORT_BYTES:
            what = "metrics() returned too many numbers"
            line = first_line(function)
            raise Fault(Status.REFERENCE, located(self.plan.filename, line, what))
        self.memory["report"][: len(text)] = text
        return len(text)
