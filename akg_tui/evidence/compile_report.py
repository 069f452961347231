"""What a compiler tells of the kernels that a task launches, for GPUs that are not here.

Plain data between the confined process and those who show it, and the page about it. Nothing is
measured. All texts come from untrusted code and its compiler: they are sanitized here.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Annotated

from msgspec import Meta, Struct

from akg_tui.core.kernel.kernel_files import LineNames
from akg_tui.core.sanitize import one_line
from akg_tui.dsl.gpu_arches import ARCHES, Arch, is_ascend, occupancy
from akg_tui.evaluate.reference_fault import Fault
from akg_tui.evidence.ascend import program_report
from akg_tui.evidence.findings import KernelFindings, MachineCode, Place, Request, Text
from akg_tui.evidence.gpu.assembly import VECTOR_BITS, Instructions, Resources

MOST_LAUNCHES = 24
"""The most different launches that are compiled; an autotuned kernel has one a configuration."""
MOST_LINES = 120
WIDTH = 66
"""The columns of a line in a pane, on a terminal of 80."""

Fields = dict[str, object]
Few = Annotated[tuple[Text, ...], Meta(max_length=64)]
Size = Annotated[int, Meta(ge=0, le=1 << 40)]


class CompileFor(Request, frozen=True, kw_only=True):
    """A request for a `CompileReport`.

    `toolchain` are the folders of Ascend's toolchain, its own first, if it is needed.
    """

    arches: tuple[str, ...]
    toolchain: tuple[str, ...] = ()


class Compiled(Struct, frozen=True, kw_only=True):
    """A launch compiled for one arch, or why it does not compile, with the line (0: unknown).

    `refused` is why the runtime refuses the launch whatever the arch. `warps` is 0 for a kernel
    that was not launched, `stages` where a language has none.
    `hivm` is the program for an arch of Ascend, which has none of the fields of a GPU.
    """

    arch: Text
    failed: Text = ""
    line: Place = 0
    warps: Annotated[int, Meta(ge=0, le=4096)] = 0
    stages: Place = 0
    shared: Size = 0
    instructions: Instructions | None = None
    resources: Resources | None = None
    remarks: Few = ()
    refused: Text = ""
    hivm: Annotated[str, Meta(max_length=1 << 20)] = ""


class Launch(Struct, frozen=True, kw_only=True):
    """A kernel with the types of its arguments and its constants, as it was launched.

    `arguments` tell name, type and what the compiler knows of the value; `grid` is the first one.
    `launches` is 0 for a configuration that an autotuner could choose and that was only compiled.
    """

    kernel: Text
    line: Place
    arguments: Few
    constants: Few
    grid: Annotated[tuple[Size, ...], Meta(max_length=3)]
    launches: Size = 1
    compiled: Annotated[tuple[Compiled, ...], Meta(max_length=64)] = ()


class CompileReport(Struct, frozen=True, kw_only=True):
    """The launches of one call of forward; `stopped` says why the call did not end, or "".

    Lines are those of the kernel's text. `files` has the names of a kernel's files with how many
    lines precede each in that text; it is empty for a kernel in one file.
    """

    compiler: Text = ""
    launches: Annotated[tuple[Launch, ...], Meta(max_length=MOST_LAUNCHES)] = ()
    left_out: Place = 0
    stopped: Text = ""
    files: dict[Text, Place] = {}


def fields(report: CompileReport, file: str) -> Fields:
    """Return the report as JSON's values, by the field's names."""
    names = LineNames(file, report.files)
    told: Fields = {
        "compiler": one_line(report.compiler, 120),
        "kernels": [_launch(launch, names) for launch in report.launches],
    }
    if report.left_out:
        told["launches_left_out"] = report.left_out
    if report.stopped:
        told["stopped"] = one_line(report.stopped, 300)
    return told


def _launch(launch: Launch, names: LineNames) -> Fields:
    return {
        "kernel": one_line(launch.kernel, 80),
        "place": names.place(launch.line),
        "grid": list(launch.grid),
        "launches": launch.launches,
        "arguments": [one_line(text, 80) for text in launch.arguments],
        "constants": [one_line(text, 80) for text in launch.constants],
        "arches": [_compiled(each, launch, names) for each in launch.compiled],
    }


def _compiled(compiled: Compiled, launch: Launch, names: LineNames) -> Fields:
    arch = ARCHES.get(compiled.arch)
    told: Fields = {"arch": one_line(compiled.arch, 20)}
    if compiled.failed:
        place = f"{names.place(compiled.line)}: " if compiled.line else ""
        why = program_report.refusal(compiled.failed, launch.constants)
        return told | {"does_not_compile": f"{place}{one_line(why, 400)}"}
    if is_ascend(compiled.arch):
        told |= program_report.fields(compiled.hivm, compiled.remarks, names)
        if compiled.remarks:
            told["remarks"] = [one_line(text, 200) for text in compiled.remarks]
        return told
    if arch is None:
        return told | {"does_not_compile": "the answer about it cannot be"}
    if why := _beyond_limits(compiled, arch):
        told["does_not_run"] = why
    if compiled.warps:
        told |= {"threads": compiled.warps * arch.warp, "num_warps": compiled.warps}
    if compiled.stages:
        told["num_stages"] = compiled.stages
    told["shared_bytes"] = compiled.shared
    if (resources := compiled.resources) is not None:
        told |= {"registers": resources.registers, "spilled_bytes": resources.spilled}
        if "does_not_run" not in told and compiled.warps:
            found = occupancy(
                arch,
                warps=compiled.warps,
                registers=resources.registers,
                shared=compiled.shared,
                waves=resources.waves,
            )
            told |= {
                "occupancy": round(found.share, 3),
                "blocks_an_sm": found.blocks,
                "occupancy_limited_by": list(found.limits),
            }
            if not found.blocks:
                told["does_not_run"] = (
                    f"no block of {told['threads']} threads fits on a multiprocessor: "
                    f"{' and '.join(found.limits)}"
                )
    if compiled.remarks:
        told["remarks"] = [one_line(text, 200) for text in compiled.remarks]
    if (code := compiled.instructions) is not None:
        told |= {
            "global_loads_by_bits": _by_width(code.loads),
            "global_stores_by_bits": _by_width(code.stores),
            "bulk_copies": code.bulk,
            "vectorized": None if code.vectorized is None else round(code.vectorized, 3),
            "matrix_instructions": {one_line(k, 80): n for k, n in code.matrix.items()},
            "barriers": code.barriers,
            "instructions": code.total,
        }
    return told


def _beyond_limits(compiled: Compiled, arch: Arch) -> str:
    """Return why no block of a launch can run on an arch by its limits alone, or ""."""
    if compiled.refused:
        return one_line(compiled.refused, 300)
    if compiled.shared > arch.shared_a_block:
        return (
            f"out of shared memory: a block needs {compiled.shared} bytes, and {arch.name} has "
            f"{arch.shared_a_block}"
        )
    threads = compiled.warps * arch.warp
    return f"a block has {threads} threads, the limit is 1024" if threads > 1024 else ""


def cannot_run(report: CompileReport, arch: str, file: str) -> Fault | None:
    """Return why the launches of a report cannot run on an arch, or None.

    Of the configurations of an autotuner one has to run; of other launches each.
    """
    names = LineNames(file, report.files)
    by_kernel: dict[tuple[str, int], list[Launch]] = {}
    for launch in report.launches:
        by_kernel.setdefault((launch.kernel, launch.line), []).append(launch)
    for (name, _), launches in by_kernel.items():
        facts = [
            (compiled.line, _compiled(compiled, launch, names))
            for launch in launches
            for compiled in launch.compiled
            if compiled.arch == arch
        ]
        reasons = [
            (line, str(why))
            for line, each in facts
            if (why := each.get("does_not_compile") or each.get("does_not_run"))
        ]
        tuned = any(not launch.launches for launch in launches)
        all_known = not report.left_out and not report.stopped
        if reasons and (not tuned or (all_known and len(reasons) == len(facts))):
            line, why = reasons[0]
            told = f"{one_line(name, 80)} cannot run on {arch}: {why}"
            return Fault.at(names.at(line) if line else None, told)
    return None


def _by_width(counts: Mapping[int, int]) -> dict[str, int]:
    return {str(width): counts[width] for width in sorted(counts, reverse=True)}


def as_lines(report: CompileReport, file: str) -> list[str]:
    """Return the report as lines, at most `MOST_LINES`."""
    told = [f"compile report by {one_line(report.compiler, 120)}; nothing ran on a device"]
    told += ["; ".join(parts) for parts in _lines(report, file)]
    if len(told) > MOST_LINES:
        told[MOST_LINES - 1 :] = [f"{len(told) - MOST_LINES + 1} more lines: --json has them"]
    return told


def _lines(report: CompileReport, file: str) -> Iterator[list[str]]:
    """Yield the lines of a report, each as its parts."""
    names = LineNames(file, report.files)
    for launch in report.launches:
        facts = _launch(launch, names)
        grid = f"grid {'x'.join(map(str, launch.grid))}" if launch.grid else "not launched"
        times = "" if launch.launches == 1 or not launch.grid else f", {launch.launches} launches"
        yield [f"{facts['place']} {facts['kernel']}: {grid}{times}"]
        words = [one_line(text, 80) for text in (*launch.arguments, *launch.constants)]
        if words:
            yield [f"  {one_line(', '.join(words), 300)}"]
        for compiled in launch.compiled:
            for first, *more in _words(_compiled(compiled, launch, names), compiled):
                yield [f"  {first}", *more]
    if report.left_out:
        yield [f"{report.left_out} more launches were not compiled"]
    if report.stopped:
        yield [f"the call stopped: {one_line(report.stopped, 300)}"]


def _words(facts: Fields, compiled: Compiled) -> Iterator[list[str]]:
    arch = facts["arch"]
    if "does_not_compile" in facts:
        yield [f"{arch}: does not compile: {facts['does_not_compile']}"]
        return
    if is_ascend(compiled.arch):
        (first, *more), *rest = program_report.words(facts)
        yield from ([f"{arch}: {first}", *more], *rest)
    else:
        yield from _words_of_gpu(facts, compiled)
    yield from ([f"  {one_line(text, 200)}"] for text in compiled.remarks)


def _words_of_gpu(facts: Fields, compiled: Compiled) -> Iterator[list[str]]:
    arch = facts["arch"]
    if "does_not_run" in facts:
        yield [f"{arch}: does not run: {facts['does_not_run']}"]
    size = [f"{compiled.shared} bytes of shared memory"]
    if compiled.warps:
        stages = f", {compiled.stages} stages" if compiled.stages else ""
        size.insert(0, f"{facts['threads']} threads ({compiled.warps} warps{stages})")
    if (resources := compiled.resources) is not None:
        used = [f"{resources.registers} registers", f"{resources.spilled} bytes spilled"]
        size = [*used, *size]
    yield [f"{arch}: {size[0]}", *size[1:]]
    if found := facts.get("occupancy_limited_by"):
        assert isinstance(found, list)
        yield [
            f"  occupancy {facts['occupancy']:.0%}: {facts['blocks_an_sm']} blocks a "
            f"multiprocessor, limited by {' and '.join(found)}"
        ]
    if (code := compiled.instructions) is not None:
        share = "" if code.vectorized is None else f" ({code.vectorized:.0%} by {VECTOR_BITS} bits)"
        matrix = ", ".join(f"{n} {one_line(k, 60)}" for k, n in code.matrix.items())
        yield [
            f"  {code.total} instructions",
            f"global loads {_widths(code.loads)}",
            f"stores {_widths(code.stores)}{share}",
            *([f"{code.bulk} bulk copies (TMA)"] if code.bulk else []),
            f"{code.barriers} barriers",
            f"matrix: {one_line(matrix, 200) or 'none'}",
        ]


def _widths(counts: Mapping[int, int]) -> str:
    return ", ".join(f"{n} of {w} bits" for w, n in _by_width(counts).items()) or "none"


NO_LAUNCH = "forward launches no Triton kernel"


def as_findings(report: CompileReport, file: str) -> KernelFindings:
    """Return the report as machine code: its lines, with each fact on a line of its own."""
    if not report.launches:
        why = one_line(report.stopped, 300) or NO_LAUNCH
        return KernelFindings(left_out={"machine code": why})
    told: list[str] = []
    for first, *more in _lines(report, file):
        indent = " " * (len(first) - len(first.lstrip()) + 2)
        for part in (first, *(f"{indent}{part}" for part in more)):
            told += textwrap.wrap(part, WIDTH, subsequent_indent=f"{indent}  ")
    compiler = one_line(report.compiler, 80)
    return KernelFindings(code=MachineCode(compiler=compiler, report=tuple(told)))
