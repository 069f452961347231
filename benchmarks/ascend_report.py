"""The compile report for Ascend, on every sample in Triton and on the steps of the hybrid mask.

`python -m benchmarks ascend_report [--arch ARCH]`: needs the toolchain `ascend`, and fails when a
sample does not compile.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from typing import Any

from akg_tui.dsl import toolchains
from akg_tui.evidence import asking, compile_report
from akg_tui.resources import sample, sample_names
from akg_tui.store.task_folder import TaskFolder, load_task
from benchmarks import hybrid_mask_steps

Facts = dict[str, Any]


def reported(folder: TaskFolder, kernel: str, arch: str) -> Facts:
    """Return the report on a kernel as fields, with the seconds that it took."""
    begin = time.perf_counter()
    found = asyncio.run(asking.compile_report(folder.task, folder.reference, kernel, [arch]))
    took = time.perf_counter() - begin
    told = json.dumps(compile_report.fields(found, folder.task.files.kernel))
    fields: Facts = json.loads(told)
    return fields | {"seconds": round(took, 1)}


def row(name: str, report: Facts) -> Facts:
    """Return the figures of the first launch that is shown in the table."""
    facts = report["kernels"][0]["arches"][0]
    if "does_not_compile" in facts:
        return {"kernel": name, "does_not_compile": facts["does_not_compile"]}
    return {
        "kernel": name,
        "launches": len(report["kernels"]),
        "seconds": report["seconds"],
        "cores": facts["cores"],
        "memory": {name: each["used"] for name, each in facts["memory"].items()},
        "loads": facts["loads"],
        "stores": facts["stores"],
        "vector_operations": sum(facts["vector_operations"].values()),
        "cube_operations": facts["cube_operations"],
        "flags": facts["flags"],
        "barriers": facts["barriers"],
        "multi_buffering": facts["multi_buffering"],
        "unknown_operations": facts.get("unknown_operations", {}),
    }


def main(words: list[str]) -> bool:
    """`[--arch ARCH]`: print one line a kernel; return whether all compile."""
    options = argparse.ArgumentParser(prog="python -m benchmarks ascend_report")
    options.add_argument("--arch", default="Ascend910B1")
    wanted = options.parse_args(words)
    if why := toolchains.missing("ascend"):
        print(json.dumps({"skipped": why}))
        return True
    folders = [load_task(sample(name)) for name in sample_names()]
    rows = [
        row(folder.task.op, reported(folder, folder.kernel.text, wanted.arch))
        for folder in folders
        if folder.task.target.dsl == "triton"
    ]
    folder = load_task(sample("hybrid_attention_mask_triton"))
    for step in hybrid_mask_steps.STEPS:
        report = reported(folder, hybrid_mask_steps.kernel(step), wanted.arch)
        rows.append(row(f"hybrid mask, step {step}", report))
    for each in rows:
        print(json.dumps(each))
    return not any("does_not_compile" in each for each in rows)
