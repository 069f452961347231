"""Every sample in Triton, verified and compiled: `python -m benchmarks triton_samples [NAME …]`.

Verifies each sample's kernel in Triton's interpreter on all kinds of input, and compiles it for
GPUs that are not here. `hybrid_attention_mask_triton` is compiled too with its three things to
improve, one by one. Prints a JSON object for each kernel, as docs/benchmarks/triton_samples.json
keeps it.
With the toolchain `ascend` an arch may be one of Ascend's, such as Ascend910B1.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from akg_tui.core.measurement import Measurement, Outcome
from akg_tui.evaluate import Judge
from akg_tui.evidence import asking, compile_report
from akg_tui.evidence.compile_gate import refusal
from akg_tui.resources import sample_kernels, sample_names
from akg_tui.store.task_folder import TaskFolder, load_task

ARCHES = ("sm_80", "sm_90", "sm_100", "gfx942")
STEPS: dict[str, dict[str, dict[str, str]]] = {
    "hybrid_attention_mask_triton": {
        "merged accesses, a branch dropped": {"ACCESS": "merged", "SKIP_GAP": "False"},
        "and `ones` with `triu`": {"MASK_FROM": "triangle"},
        "and no check for hidden rows": {"HIDDEN": "finite"},
    },
    "rms_norm_triton": {"a kept row": {"BLOCK": "512", "KEEP": "True"}},
    "layer_norm_triton": {"a kept row": {"BLOCK": "512", "MOMENTS": "kept"}},
    "matmul_triton": {
        "larger tiles": {
            "BLOCK_M": "128", "BLOCK_N": "128", "BLOCK_K": "64", "WARPS": "8", "STAGES": "3",
            "GROUP": "8",
        }
    },
    "flash_attention_triton": {
        "larger tiles": {
            "BLOCK_QUERIES": "128", "BLOCK_KEYS": "64", "MASKED": "edges", "WARPS": "8",
        }
    },
}  # fmt: skip
"""Changes of knobs of a sample, each added to those before it."""


def variants(name: str, kernel: str) -> Iterator[tuple[str, str]]:
    """Yield a sample's kernel and its changes, with their names; "" is the sample's own."""
    yield "", kernel
    for step, knobs in STEPS.get(name, {}).items():
        for knob, value in knobs.items():
            kernel = changed(kernel, knob, value)
        yield step, kernel


def changed(kernel: str, knob: str, value: str) -> str:
    """Return the kernel with another value of a knob."""

    def said(found: re.Match[str]) -> str:
        return f'{knob} = "{value}"' if found[1] else f"{knob} = {value}"

    kernel, count = re.subn(rf'^{knob} = (")?[^#]*?(?=  # tune:)', said, kernel, flags=re.M)
    if count != 1:
        raise ValueError(f"no knob {knob}")
    return kernel


async def verified(made: TaskFolder, kernel: str, scratch: Path) -> Measurement:
    """Verify a kernel in the interpreter."""
    async with Judge(made.task, made.reference, scratch, prefetch=False, gate=refusal) as judge:
        return await judge.evaluate(kernel)


def figures(name: str, step: str, kernel: str, arches: tuple[str, ...]) -> dict[str, Any]:
    """Return what verification and the compilers say of a kernel."""
    made = load_task(sample_kernels() / name)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(verified(made, kernel, Path(folder)))
    took = time.monotonic() - began
    report = asyncio.run(asking.compile_report(made.task, made.reference, kernel, arches))
    told = compile_report.fields(report, made.task.files.kernel)
    tried = [each for each in found.errors if each.error is not None]
    return {
        "benchmark": "triton_samples",
        "sample": name,
        "step": step,
        "verified": found.outcome is Outcome.CORRECT,
        "message": found.message,
        "kinds_of_input": len(tried),
        "not_tried": [each.name for each in found.errors if each.error is None],
        "seconds": round(took, 1),
        "compiler": told["compiler"],
        "stopped": told.get("stopped", ""),
        "kernels": _objects(told["kernels"]),
    }


def _objects(value: object) -> list[dict[str, Any]]:
    assert isinstance(value, list)
    return value


def main(words: list[str]) -> bool:
    """`[--arch ARCH,…] [NAME …]`; return whether all is verified and compiled."""
    options = argparse.ArgumentParser(prog="python -m benchmarks triton_samples")
    options.add_argument("--arch", default=",".join(ARCHES), help="such as sm_90,gfx942")
    options.add_argument("names", nargs="*", metavar="NAME")
    given = options.parse_args(words)
    arches = tuple(given.arch.split(","))
    names = given.names or [name for name in sample_names() if name.endswith("_triton")]
    rows = []
    for name in names:
        for step, kernel in variants(name, load_task(sample_kernels() / name).kernel.text):
            rows.append(figures(name, step, kernel, arches))
            print(json.dumps(rows[-1]), flush=True)
    return all(
        row["verified"]
        and not row["stopped"]
        and row["kernels"]
        and not any("does_not_compile" in arch for k in row["kernels"] for arch in k["arches"])
        for row in rows
    )
