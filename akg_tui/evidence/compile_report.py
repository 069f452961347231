"""What a compiler tells of the kernels that a task launches, for GPUs that are not here.

Plain data between the confined process and those who show it, and the page about it. Nothing is
measured. All texts come from untrusted code and its compiler: they are sanitized here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Struct

from akg_tui.core.kernel.kernel_files import LineNames
from akg_tui.core.sanitize import one_line
from akg_tui.dsl.gpu_arches import ARCHES, Arch, is_ascend, occupancy
from akg_tui.evaluate.reference_fault import Fault
from akg_tui.evidence.ascend import program_report
from akg_tui.evidence.ascend.program_report import MOST_KINDS
from akg_tui.evidence.findings import (
    CodeFunction,
    Fact,
    KernelFindings,
    MachineCode,
    Place,
    Request,
    Text,
)
from akg_tui.evidence.gpu.assembly import VECTOR_BITS, Instructions, Resources

MOST_LAUNCHES = 24
"""The most different launches that are compiled; an autotuned kernel has one a configuration."""
MOST_LINES = 120

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
    return told | _code(compiled, names)


def _code(compiled: Compiled, names: LineNames) -> Fields:
    """Return what the instructions for a GPU tell."""
    told: Fields = {}
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
    names = LineNames(file, report.files)
    told = [f"compile report by {one_line(report.compiler, 120)}; nothing ran on a device"]
    for launch in report.launches:
        facts = _launch(launch, names)
        grid = f"grid {'x'.join(map(str, launch.grid))}" if launch.grid else "not launched"
        times = "" if launch.launches == 1 or not launch.grid else f", {launch.launches} launches"
        told.append(f"{facts['place']} {facts['kernel']}: {grid}{times}")
        words = [one_line(text, 80) for text in (*launch.arguments, *launch.constants)]
        if words:
            told.append(f"  {one_line(', '.join(words), 300)}")
        for compiled in launch.compiled:
            words = _words(_compiled(compiled, launch, names), compiled, names)
            told += [f"  {line}" for line in words]
    if report.left_out:
        told.append(f"{report.left_out} more launches were not compiled")
    if report.stopped:
        told.append(f"the call stopped: {one_line(report.stopped, 300)}")
    if len(told) > MOST_LINES:
        told[MOST_LINES - 1 :] = [f"{len(told) - MOST_LINES + 1} more lines: --json has them"]
    return told


def _words(facts: Fields, compiled: Compiled, names: LineNames) -> list[str]:
    arch = facts["arch"]
    if "does_not_compile" in facts:
        return [f"{arch}: does not compile: {facts['does_not_compile']}"]
    remarks = [f"  {one_line(text, 200)}" for text in compiled.remarks]
    if is_ascend(compiled.arch):
        first, *rest = program_report.words(facts)
        return [f"{arch}: {first}", *rest, *remarks]
    told = []
    if "does_not_run" in facts:
        told.append(f"{arch}: does not run: {facts['does_not_run']}")
    size = f"{compiled.shared} bytes of shared memory"
    if compiled.warps:
        stages = f", {compiled.stages} stages" if compiled.stages else ""
        size = f"{facts['threads']} threads ({compiled.warps} warps{stages}), {size}"
    if (resources := compiled.resources) is not None:
        size = f"{resources.registers} registers, {resources.spilled} bytes spilled, {size}"
    told.append(f"{arch}: {size}")
    if found := facts.get("occupancy_limited_by"):
        assert isinstance(found, list)
        told.append(
            f"  occupancy {facts['occupancy']:.0%}: {facts['blocks_an_sm']} blocks a "
            f"multiprocessor, limited by {' and '.join(found)}"
        )
    if (code := compiled.instructions) is not None:
        share = "" if code.vectorized is None else f" ({code.vectorized:.0%} by {VECTOR_BITS} bits)"
        bulk = f"{code.bulk} bulk copies (TMA); " if code.bulk else ""
        matrix = ", ".join(f"{n} {one_line(k, 60)}" for k, n in code.matrix.items())
        told.append(
            f"  {code.total} instructions; global loads {_widths(code.loads)}; "
            f"stores {_widths(code.stores)}{share}; "
            f"{bulk}{code.barriers} barriers; matrix: {one_line(matrix, 200) or 'none'}"
        )
    return told + remarks


def _widths(counts: Mapping[int, int]) -> str:
    return ", ".join(f"{n} of {w} bits" for w, n in _by_width(counts).items()) or "none"


NO_LAUNCH = "forward launches no Triton kernel"


def as_findings(report: CompileReport) -> KernelFindings:
    """Return the report as machine code: each launch and arch is a function of facts."""
    functions: list[CodeFunction] = []
    seen: Counter[str] = Counter()
    for launch in report.launches:
        seen[launch.kernel] += 1
        again = f" ({seen[launch.kernel]})" if seen[launch.kernel] > 1 else ""
        for compiled in launch.compiled:
            name = f"{one_line(launch.kernel, 80)}{again} {one_line(compiled.arch, 20)}"
            facts = _facts(compiled, launch, LineNames("", report.files))
            functions.append(CodeFunction(name, (), facts))
    left_out = {}
    if report.stopped and functions:
        stopped = Fact("the call stopped", one_line(report.stopped, 300))
        functions.append(CodeFunction("forward", (), (stopped,)))
    elif not functions:
        left_out["machine code"] = one_line(report.stopped, 300) or NO_LAUNCH
    code = MachineCode(compiler=one_line(report.compiler, 80), functions=tuple(functions))
    return KernelFindings(code=code, left_out=left_out, ran=not report.stopped)


def _facts(compiled: Compiled, launch: Launch, names: LineNames) -> tuple[Fact, ...]:
    facts = _compiled(compiled, launch, names)
    told: dict[str, object] = {
        name.replace("_", " "): str(facts[name]).removeprefix(":")
        for name in ("does_not_compile", "does_not_run")
        if name in facts
    }
    if compiled.hivm:
        told |= _npu_facts(facts)
    elif "does_not_compile" not in facts:
        told |= {
            "registers": facts.get("registers", ""),
            "spilled bytes": facts.get("spilled_bytes", ""),
            "shared bytes": compiled.shared,
            "threads": facts["threads"],
            "stages": compiled.stages,
        }
    if (limits := facts.get("occupancy_limited_by")) is not None:
        assert isinstance(limits, list)
        told["occupancy"] = f"{facts['occupancy']:.0%}"
        told["blocks at once"] = facts["blocks_an_sm"]
        told["limited by"] = ", ".join(limits)
    if (code := compiled.instructions) is not None:
        told |= {
            "global loads": _by_bits(code.loads),
            "global stores": _by_bits(code.stores),
            "matrix instructions": sum(code.matrix.values()),
            "barriers": code.barriers,
        }
    told |= {f"remark {n}": text for n, text in enumerate(compiled.remarks, start=1)}
    return tuple(Fact(name, one_line(str(value), 400)) for name, value in told.items())


def _npu_facts(facts: Fields) -> Fields:
    """Return the numbers of a program for an Ascend NPU, by name."""
    told: Fields = {
        name.replace("_", " "): value for name, value in facts.items() if isinstance(value, int)
    }
    for name in ("memory", "vector_operations", "cube_operations"):
        found = facts.get(name, {})
        assert isinstance(found, dict)
        for part, value in list(found.items())[:MOST_KINDS]:
            told[f"{name.partition('_')[0]} {part}"] = (
                value["used"] if isinstance(value, dict) else value
            )
    return told


def _by_bits(counts: Mapping[int, int]) -> str:
    return ", ".join(f"{n} × {width} bit" for width, n in _by_width(counts).items()) or "0"
