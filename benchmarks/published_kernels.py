"""Kernels in the manner of published ones: `python -m benchmarks published_kernels [NAME …]`.

Each file of `published_triton/` has a reference, a kernel in bfloat16 and a fault; its folder names
the library whose manner it has. The judge verifies the kernel with every configuration of its
tuner, finds the fault, and the compiler says what it makes of each launch for sm_90. Prints a JSON
object for each kernel.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import re
import tempfile
from pathlib import Path
from typing import Any

from akg_tui.core.measurement import Measurement, Outcome
from akg_tui.core.task import Correctness, Guard, Target, Task
from akg_tui.evaluate import Judge
from akg_tui.evidence import asking

PATHS = {path.stem: path for path in sorted(Path(__file__).parent.glob("published_triton/*/*.py"))}
"""The files of kernels by their names."""
FAULT = re.compile(r'^FAULT = \(?"(.*)", "(.*)"\)?$|^FAULT = \(?\'(.*)\', "(.*)"\)?$', re.M)


def faulty(text: str) -> str:
    """Return a kernel with its fault in the place of what is right."""
    found = FAULT.search(text)
    if found is None:
        raise ValueError("the kernel states no fault")
    old, new = (each for each in found.groups() if each is not None)
    start = found.end()
    if old not in text[start:]:
        raise ValueError("the kernel has no place for its fault")
    return text[:start] + text[start:].replace(old, new, 1)


async def judged(task: Task, text: str, scratch: Path) -> tuple[Measurement, Measurement]:
    """Return what the judge says of a kernel, and of the same with its fault."""
    async with Judge(task, text, scratch, prefetch=False) as judge:
        right = await judge.probe(text, timed=False)
        return right, await judge.probe(faulty(text), timed=False)


async def figures(name: str) -> dict[str, Any]:
    """Return what judge and compiler say of one kernel."""
    text = PATHS[name].read_text("utf-8")
    task = Task(
        op=name,
        target=Target(backend="cpu", dsl="triton"),
        correctness=Correctness(trials=1, fixed_shape="FIXED_SHAPE" in text),
        guard=Guard(level="warn"),
    )
    with tempfile.TemporaryDirectory() as folder:
        right, wrong = await judged(task, text, Path(folder))
    report = await asking.compile_report(task, text, text, ["sm_90"])
    return {
        "benchmark": "published_kernels",
        "kernel": name,
        "verified": right.outcome is Outcome.CORRECT,
        "message": right.message,
        "fault": wrong.message if wrong.outcome is Outcome.FAILED else "",
        "launches": len(report.launches),
        "compiled": sum(not each.compiled[0].failed for each in report.launches),
        "stopped": report.stopped,
    }


async def printed(names: list[str]) -> list[dict[str, Any]]:
    """Print the figures of each kernel, and return them; nothing is timed, so two at once."""
    free = asyncio.Semaphore(2)

    async def one(name: str) -> dict[str, Any]:
        async with free:
            row = await figures(name)
        print(json.dumps(row), flush=True)
        return row

    return await asyncio.gather(*map(one, names))


def main(words: list[str]) -> bool:
    """`[NAME …]`; return whether each is verified and compiled, and its fault is found."""
    if importlib.util.find_spec("triton") is None:
        raise SystemExit("published_kernels needs Triton: pip install 'akg-tui[triton]'")
    rows = asyncio.run(printed(words or list(PATHS)))
    return all(
        row["verified"] and row["fault"] and 0 < row["launches"] == row["compiled"]
        and not row["stopped"]
        for row in rows
    )  # fmt: skip
