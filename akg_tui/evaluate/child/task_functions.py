"""Calls functions of a task: `metrics` of its reference, and its check of results.

Runs in a child of its own, in which no candidate was loaded. A function gets private copies of
inputs and results, so that it can't change what the judge compares. The judge checks what is
reported.
"""

from __future__ import annotations

import inspect
import mmap
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import msgspec

from akg_tui.evaluate.child.faults import Fault
from akg_tui.evaluate.child.kernel_server import Server, first_line, map_fd
from akg_tui.evaluate.protocol import tensor_layout as layouts
from akg_tui.evaluate.protocol.child_protocol import REPORT_BYTES, Checked, Op, Status
from akg_tui.evaluate.protocol.value_tree import nested_arguments


class FunctionServer(Server):
    """Serves one function of the file `plan.filename`; the file's model is not constructed."""

    broken = Status.REFERENCE
    serves: ClassVar[Op]

    def start(self) -> int:
        """Run the file's top level."""
        self.execute()
        function = self.named(self.plan.function)
        if not callable(function):
            what = f"no function {self.plan.function} is defined"
            raise self.broken_at(1, what)
        self.function: Callable[..., object] = function
        return 0

    def prepare(self, op: int, count: int, draw_args: tuple[int, ...], fds: Sequence[int]) -> int:
        """Serve the request of the class: write a report, and return its size."""
        if op != self.serves:
            raise Fault(Status.REFERENCE, f"this process only calls {self.plan.function}")
        text = self.report(count, [map_fd(fd, shared=False) for fd in fds])
        if len(text) > REPORT_BYTES:
            what = f"{self.plan.function}() returned too much"
            raise self.broken_at(first_line(self.function), what)
        self.memory["report"][: len(text)] = text
        return len(text)

    def report(self, count: int, blocks: Sequence[mmap.mmap]) -> bytes:
        """Return the report on `count` items in these copies of the request's memory."""
        raise NotImplementedError

    def told_of(self, offered: Mapping[str, object]) -> object:
        """Return the function's result for those of the `offered` values that it takes by name."""
        takes = inspect.signature(self.function).parameters
        return self.function(**{name: offered[name] for name in takes})

    def offered(
        self, known: Checked, given: mmap.mmap, wanted: mmap.mmap, returned: mmap.mmap, at: int
    ) -> dict[str, object]:
        """Return the values of an item, inputs as `get_inputs` has them; `returned` has it `at`."""
        flat = layouts.load(known.inputs, given, known.item * known.inputs.size)
        inputs = nested_arguments(known.nesting, flat, self.named)
        return {
            "inputs": dict(inputs.named) if inputs.named else list(inputs.positional),
            "outputs": layouts.views(known.outputs, returned, at * known.outputs.size),
            "expected": layouts.views(known.outputs, wanted, known.item * known.outputs.size),
        }


class MetricsServer(FunctionServer):
    """Serves MEASURE: the metrics of items, as JSON."""

    serves = Op.MEASURE

    def report(self, count: int, blocks: Sequence[mmap.mmap]) -> bytes:
        """Return the metrics of each item."""
        inputs, outputs = self.plan.inputs, self.plan.outputs
        if inputs is None or outputs is None:
            raise Fault(Status.REFERENCE, "a plan of metrics needs layouts")
        given, returned, wanted, kernel = blocks
        found: list[dict[str, float]] = []
        for item in range(count):
            known = Checked(inputs, outputs, item, self.plan.contract.inputs)
            offered = self.offered(known, given, wanted, returned, item)
            offered["kernel"] = kernel[:].rstrip(b"\0").decode()
            try:
                told = self.told_of(offered)
                found.append({str(n): float(value) for n, value in dict(told).items()})  # type: ignore[call-overload]
            except BaseException as error:
                raise self.fault(error, Status.REFERENCE, self.function) from error
        return msgspec.json.encode(found)  # a number that is not finite becomes null


class CheckServer(FunctionServer):
    """Serves CHECK: why the task's check refuses a kernel's results of one item, or nothing."""

    serves = Op.CHECK

    def report(self, count: int, blocks: Sequence[mmap.mmap]) -> bytes:
        """Return the reason of a refusal; empty where the check agrees."""
        content, given, wanted, returned = blocks
        known = msgspec.json.decode(content[:].rstrip(b"\0"), type=Checked)
        self.seed(self.plan.seed)  # so that a check by random samples says the same again
        offered = self.offered(known, given, wanted, returned, 0)
        try:
            told = self.told_of(offered)
            why = refusal(told)
        except AssertionError as error:
            why = str(error).strip() or "an assertion failed"
        except BaseException as error:
            raise self.fault(error, Status.REFERENCE, self.function) from error
        return why.encode("utf-8", "replace")[:REPORT_BYTES]


def refusal(told: object) -> str:
    """Return why a check refuses what it was shown, by what it returned; "" where it agrees.

    True, None and an empty text agree. False, and a text, refuse. Of a pair the first counts, and
    the second is the reason.
    """
    why = ""
    match told:
        case (agrees, reason):
            told, why = agrees, str(reason)
    if told is None or isinstance(told, str | list):
        return str(told or "")
    return "" if bool(told) else why or "it gave no reason"
