"""The compile report of two kernels in CUDA C++: `python -m benchmarks cuda_reports [ARCH …]`.

Needs nvcc and no GPU. Prints a JSON line for each kernel: what the report tells, and CPU seconds.
"""

from __future__ import annotations

import asyncio
import json
import resource
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from akg_tui.core.task import Target, Task
from akg_tui.evidence import asking, compile_report

ARCHES = ("sm_80", "sm_90", "sm_100")
INPUTS = {
    "softmax": ("torch.softmax(x[0], -1)", "torch.randn(64, 1024)"),
    "matmul": ("x[0].float() @ x[1].float()", "*torch.randn(2, 256, 256).half()"),
}
REFERENCE = """
import torch


class Model(torch.nn.Module):
    def forward(self, *x):
        return {result}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return []
"""


def report(name: str, arches: Sequence[str]) -> dict[str, object]:
    """Return the report of a kernel beside this file."""
    result, inputs = INPUTS[name]
    reference = REFERENCE.format(result=result, inputs=inputs)
    kernel = (Path(__file__).parent / f"{name}.py").read_text("utf-8")
    task = Task(op=name, target=Target(backend="cuda", dsl="cuda_cpp"))
    before = _cpu_s()
    found = asyncio.run(asking.compile_report(task, reference, kernel, arches))
    told = compile_report.fields(found, "kernel.py")
    return {"kernel_file": name, "cpu_s": round(_cpu_s() - before, 2)} | told


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(words: list[str]) -> bool:
    """Print the reports; return whether every launch can run on every arch."""
    arches = words or ARCHES
    good = True
    for name in INPUTS:
        found = report(name, arches)
        print(json.dumps(found), flush=True)
        kernels = cast("list[dict[str, list[dict[str, object]]]]", found["kernels"])
        refused = {"does_not_run", "does_not_compile"}
        good &= "stopped" not in found and bool(kernels)
        good &= not any(refused & each.keys() for kernel in kernels for each in kernel["arches"])
    return good
