"""Every sample in Triton, verified and compiled: `python -m benchmarks triton_samples [NAME …]`.

Verifies each sample's kernel in Triton's interpreter on all kinds of input, and compiles it for
GPUs that are not here. `hybrid_attention_mask_triton` is compiled too with its three things to
improve, one by one. Prints a JSON object for each kernel, then the tables of `docs/benchmarks.md`.
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
from akg_tui.evaluate.evidence import asking, compile_report
from akg_tui.evaluate.evidence.gpu_limits import is_ascend
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
    async with Judge(made.task, made.reference, scratch, prefetch=False) as judge:
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
        "kernels": [_without_lists(each) for each in _objects(told["kernels"])],
    }


def _objects(value: object) -> list[dict[str, Any]]:
    assert isinstance(value, list)
    return value


def _without_lists(launch: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of a launch without code, single transfers and timelines."""
    for arch in launch["arches"]:
        arch.get("hot_loop", {}).pop("code", None)
        for long in ("transfers", "estimate_timeline"):
            arch.pop(long, None)
    return launch


GPU = (
    "Registers", "Spilled", "Shared memory", "Threads", "Occupancy, limited by",
    "Accesses of 128 bits", "Matrix instructions", "Barriers", "Hot loop", "Bank conflicts",
)  # fmt: skip
NPU = (
    "Cores", "Loads", "Stores", "Vector operations", "Cube operations", "Flags", "Barriers",
    "UB", "Estimate",
)  # fmt: skip


def tables(rows: list[dict[str, Any]]) -> list[str]:
    """Return the figures as two tables in Markdown: GPUs, and Ascend NPUs if there are any."""
    gpus = [f"| Kernel | Arch | {' | '.join(GPU)} |", "|---" * (2 + len(GPU)) + "|"]
    npus = ["", f"| Kernel | Arch | {' | '.join(NPU)} |", "|---" * (2 + len(NPU)) + "|"]
    for row in rows:
        name = f"`{row['sample']}`" + (f": {row['step']}" if row["step"] else "")
        for launch in row["kernels"]:
            for arch in launch["arches"]:
                is_npu = is_ascend(arch["arch"])
                cells, into = (_npu_cells, npus) if is_npu else (_cells, gpus)
                into.append(f"| {name} | {arch['arch']} | {' | '.join(cells(arch))} |")
    return gpus + (npus if len(npus) > 3 else [])


def _npu_cells(arch: dict[str, Any]) -> list[str]:
    if why := arch.get("does_not_compile"):
        return [str(why), *[""] * (len(NPU) - 1)]
    estimate = arch.get("estimate_us")
    return [
        str(arch["cores"]),
        *(f"{arch[name]['transfers']}, {arch[name]['bytes']:,} B" for name in ("loads", "stores")),
        str(sum(each["operations"] for each in arch["vector_operations"].values())),
        str(sum(arch["cube_operations"].values())),
        str(arch["flags"]),
        str(arch["barriers"]),
        # A program without tiles has no buffer.
        f"{arch['memory'].get('UB', {'used': 0})['used']:,} B",
        f"{estimate:.2f} us" if estimate is not None else "",
    ]


def _cells(arch: dict[str, Any]) -> list[str]:
    if why := arch.get("does_not_compile") or arch.get("does_not_run"):
        return [str(why), *[""] * (len(GPU) - 1)]
    loads, stores = arch["global_loads_by_bits"], arch["global_stores_by_bits"]
    accesses = sum(loads.values()) + sum(stores.values())
    share = "" if arch["vectorized"] is None else f"{arch['vectorized']:.0%} of {accesses}"
    bulk = f", {arch['bulk_copies']} bulk" if arch["bulk_copies"] else ""
    matrix = ", ".join(
        f"{n} × `{_short(opcode)}`" for opcode, n in arch["matrix_instructions"].items()
    )
    conflicts: dict[int, int] = {}
    for each in arch.get("bank_conflicts", ()):
        conflicts[each["ways"]] = conflicts.get(each["ways"], 0) + each["instructions"]
    hot = arch.get("hot_loop")
    return [
        str(arch["registers"]),
        str(arch["spilled_bytes"]),
        f"{arch['shared_bytes']:,} B",
        str(arch["threads"]),
        f"{arch['occupancy']:.0%}, {' and '.join(arch['occupancy_limited_by'])}",
        share + bulk,
        matrix or "none",
        str(arch["barriers"]),
        f"{hot['instructions']} {hot['language']}" if hot else "none",
        ", ".join(f"{n} × {ways}" for ways, n in sorted(conflicts.items(), reverse=True))
        or ("none" if "bank_conflicts" in arch else ""),
    ]


def _short(opcode: str) -> str:
    """Return an opcode of PTX without its modifiers before the shape."""
    name, _, rest = opcode.partition(".")
    shape = re.search(r"m\d+n\d+k\d+.*", rest)
    return f"{name}.{shape[0]}" if shape else opcode


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
        for step, kernel in variants(name, load_task(sample_kernels() / name).kernel):
            rows.append(figures(name, step, kernel, arches))
            print(json.dumps(rows[-1]), flush=True)
    print("\n".join(tables(rows)))
    return all(
        row["verified"]
        and not row["stopped"]
        and row["kernels"]
        and not any("does_not_compile" in arch for k in row["kernels"] for arch in k["arches"])
        for row in rows
    )
