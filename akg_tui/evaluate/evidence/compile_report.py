"""What a compiler tells of the kernels that a task launches, for GPUs that are not here.

Plain data between the confined process and those who show it, and the page about it. Nothing is
measured. All texts come from untrusted code and its compiler: they are sanitized here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Struct

from akg_tui.core.sanitize import one_line
from akg_tui.evaluate.evidence.ascend import estimate_report, program_report
from akg_tui.evaluate.evidence.ascend.pipe_model import LaunchEstimate
from akg_tui.evaluate.evidence.findings import Place, Request, Text
from akg_tui.evaluate.evidence.gpu_assembly import VECTOR_BITS, Instructions, Resources
from akg_tui.evaluate.evidence.gpu_limits import ARCHES, Arch, is_ascend, occupancy

MOST_LAUNCHES = 24
"""The most different launches that are compiled; an autotuned kernel has one a configuration."""
MOST_LINES = 120
MOST_MIX = 8
MOST_LOOP = 12
"""The most rows of a loop for a person; JSON has more."""

Fields = dict[str, object]
Few = Annotated[tuple[Text, ...], Meta(max_length=64)]
Size = Annotated[int, Meta(ge=0, le=1 << 40)]
Operations = Annotated[int, Meta(ge=0, le=1 << 60)]


SECTOR = 32
"""The bytes that memory of a GPU moves at least for one access."""


class Work(Struct, frozen=True, kw_only=True):
    """What the programs of all launches did, counted by the interpreter.

    `loads` counts loads of tiles, `reductions` reductions and scans of them. `sectors` are those of
    `SECTOR` bytes that each access of a tile touches, `different_read` and `different_written` the
    different ones of a launch. `tiles` counts operations on tiles by their number of elements,
    `products` operations of matrix products by type.
    """

    programs: Size = 0
    loads: Size = 0
    reductions: Size = 0
    sectors: Size = 0
    different_read: Size = 0
    different_written: Size = 0
    tiles: Annotated[dict[str, Size], Meta(max_length=64)] = {}
    products: Annotated[dict[Text, Operations], Meta(max_length=16)] = {}

    def __add__(self, other: Work) -> Work:
        """Return the sum of both."""
        summed = {
            name: getattr(self, name) + getattr(other, name)
            for name in self.__struct_fields__
            if name not in ("tiles", "products")
        }
        return Work(
            **summed,
            tiles=dict((Counter(self.tiles) + Counter(other.tiles)).most_common(64)),
            products=dict(Counter(self.products) + Counter(other.products)),
        )


class HostWork(Struct, frozen=True):
    """PyTorch's operators that forward calls: their number, bytes, operations of matrix products.

    Views and allocations are not among them.
    """

    operators: Size = 0
    moved: Size = 0
    products: Operations = 0


class CompileFor(Request, frozen=True, kw_only=True):
    """A request for a `CompileReport`.

    `toolchain` are the folders of Ascend's toolchain, its own first, if it is needed.
    """

    arches: tuple[str, ...]
    toolchain: tuple[str, ...] = ()


class Compiled(Struct, frozen=True, kw_only=True):
    """A launch compiled for one arch, or why it does not compile, with the line (0: unknown).

    `file` is the file with the line, where a kernel has several; "": the kernel's own. `refused` is
    why the runtime refuses the launch whatever the arch. `warps` is 0 for a kernel
    that was not launched, `stages` where a language has none.
    `hivm` is the program for an arch of Ascend, which has none of the fields of a GPU.
    """

    arch: Text
    failed: Text = ""
    line: Place = 0
    file: Text = ""
    warps: Annotated[int, Meta(ge=0, le=4096)] = 0
    stages: Place = 0
    shared: Size = 0
    instructions: Instructions | None = None
    resources: Resources | None = None
    remarks: Few = ()
    refused: Text = ""
    sass_instructions: Annotated[dict[Text, Size], Meta(max_length=32)] = {}
    sass_loop: Few = ()
    hivm: Annotated[str, Meta(max_length=1 << 20)] = ""


class Launch(Struct, frozen=True, kw_only=True):
    """A kernel with the types of its arguments and its constants, as it was launched.

    `values` are those of its run-time arguments in order, None for each that is no integer.
    `arguments` tell name, type and what the compiler knows of the value; `grid` is the first one.
    `launches` is 0 for a configuration that an autotuner could choose and that was only compiled.
    `work` is that of all launches.
    """

    kernel: Text
    line: Place
    file: Text = ""
    arguments: Few
    constants: Few
    grid: Annotated[tuple[Size, ...], Meta(max_length=3)]
    launches: Size = 1
    work: Work = Work()
    values: Annotated[tuple[int | None, ...], Meta(max_length=256)] = ()
    compiled: Annotated[tuple[Compiled, ...], Meta(max_length=64)] = ()


class CompileReport(Struct, frozen=True, kw_only=True):
    """The launches of one call of forward; `stopped` says why the call did not end, or ""."""

    compiler: Text = ""
    launches: Annotated[tuple[Launch, ...], Meta(max_length=MOST_LAUNCHES)] = ()
    left_out: Place = 0
    stopped: Text = ""
    host: HostWork = HostWork()


def fields(report: CompileReport, file: str) -> Fields:
    """Return the report as JSON's values, by the field's names."""
    told: Fields = {
        "compiler": one_line(report.compiler, 120),
        "kernels": [_launch(launch, file) for launch in report.launches],
    }
    if totals := estimates_us(report):
        told["estimate_us"] = {arch: round(us, 3) for arch, us in totals.items()}
    if report.left_out:
        told["launches_left_out"] = report.left_out
    if report.stopped:
        told["stopped"] = one_line(report.stopped, 300)
    return told


def _launch(launch: Launch, file: str) -> Fields:
    return {
        "kernel": one_line(launch.kernel, 80),
        "place": _place(launch.file or file, launch.line),
        "grid": list(launch.grid),
        "launches": launch.launches,
        "arguments": [one_line(text, 80) for text in launch.arguments],
        "constants": [one_line(text, 80) for text in launch.constants],
        "arches": [_compiled(each, launch, file) for each in launch.compiled],
    }


def _place(file: str, line: int) -> str:
    return one_line(f"{file}:{line}" if line else file, 120)


def _compiled(compiled: Compiled, launch: Launch, file: str) -> Fields:
    arch = ARCHES.get(compiled.arch)
    told: Fields = {"arch": one_line(compiled.arch, 20)}
    if compiled.failed:
        place = f"{_place(compiled.file or file, compiled.line)}: " if compiled.line else ""
        why = program_report.refusal(compiled.failed, launch.constants)
        return told | {"does_not_compile": f"{place}{one_line(why, 400)}"}
    if is_ascend(compiled.arch):
        told |= program_report.fields(compiled.hivm, compiled.remarks, file)
        if (estimate := estimate_of(launch, compiled)) is not None:
            told |= estimate_report.fields(estimate)
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
            "instructions": {
                one_line(k, 40): n for k, n in sorted(code.mix.items(), key=lambda e: -e[1])
            },
        }
    if compiled.sass_instructions:
        told["sass_instructions"] = {
            one_line(k, 40): n
            for k, n in sorted(compiled.sass_instructions.items(), key=lambda e: -e[1])
        }
        told["sass_loop"] = [one_line(text, 120) for text in compiled.sass_loop]
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


def refusal(launch: Launch, arch: str, file: str) -> str:
    """Return why a launch cannot run on `arch`, with the line of the kernel's file, or ""."""
    found = next((each for each in launch.compiled if each.arch == arch), None)
    if found is None:
        return f"it was not compiled for {arch}"
    facts = _compiled(found, launch, file)
    return str(facts.get("does_not_compile") or facts.get("does_not_run") or "")


def does_not_run(report: CompileReport, arch: str, file: str) -> str:
    """Return why no launch of a report can run on an arch, or "" if one can or none was made."""
    reasons = [(one_line(each.kernel, 60), refusal(each, arch, file)) for each in report.launches]
    return "{}: {}".format(*reasons[0]) if reasons and all(why for _, why in reasons) else ""


def estimate_of(launch: Launch, compiled: Compiled) -> LaunchEstimate | None:
    """Return the estimate of a launch that was compiled for Ascend, None without a program."""
    if not compiled.hivm:
        return None
    return estimate_report.estimated(launch.kernel, compiled.hivm, launch.grid, launch.values)


def estimates_us(report: CompileReport) -> dict[str, float]:
    """Return the estimated time of all launches by arch, for each arch that has estimates.

    Configurations that an autotuner only tried are not among them.
    """
    made = [launch for launch in report.launches if launch.launches]
    totals = {}
    for arch in {each.arch: None for launch in made for each in launch.compiled}:
        if not is_ascend(arch):
            continue
        found = [
            (estimate_of(launch, each), launch.launches)
            for launch in made
            for each in launch.compiled
            if each.arch == arch
        ]
        if (total := estimate_report.total_us(found)) is not None:
            totals[arch] = total
    return totals


def _by_width(counts: Mapping[int, int]) -> dict[str, int]:
    return {str(width): counts[width] for width in sorted(counts, reverse=True)}


def as_lines(report: CompileReport, file: str) -> list[str]:
    """Return the report as lines for a person, at most `MOST_LINES`."""
    told = [f"compile report by {one_line(report.compiler, 120)}; nothing ran on a device"]
    for launch in report.launches:
        facts = _launch(launch, file)
        grid = f"grid {'x'.join(map(str, launch.grid))}" if launch.grid else "not launched"
        times = "" if launch.launches == 1 or not launch.grid else f", {launch.launches} launches"
        told.append(f"{facts['place']} {facts['kernel']}: {grid}{times}")
        words = [one_line(text, 80) for text in (*launch.arguments, *launch.constants)]
        if words:
            told.append(f"  {one_line(', '.join(words), 300)}")
        for compiled in launch.compiled:
            words = _words(_compiled(compiled, launch, file), compiled)
            if (estimate := estimate_of(launch, compiled)) is not None:
                words += estimate_report.words(estimate)
            told += [f"  {line}" for line in words]
    if len(report.launches) > 1:
        totals = estimates_us(report).items()
        told += [f"{arch}: estimate of all launches {us:.1f} us" for arch, us in totals]
    if report.left_out:
        told.append(f"{report.left_out} more launches were not compiled")
    if report.stopped:
        told.append(f"the call stopped: {one_line(report.stopped, 300)}")
    if len(told) > MOST_LINES:
        told[MOST_LINES - 1 :] = [f"{len(told) - MOST_LINES + 1} more lines: --json has them"]
    return told


def _words(facts: Fields, compiled: Compiled) -> list[str]:
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
        told += [
            f"  global loads {_widths(code.loads)}; stores {_widths(code.stores)}{share}; "
            f"{bulk}{code.barriers} barriers; matrix: {one_line(matrix, 200) or 'none'}",
            f"  {sum(code.mix.values())} instructions: {_mix(code.mix)}",
        ]
    if compiled.sass_instructions:
        told.append(f"  machine code: {_mix(compiled.sass_instructions)}")
    if compiled.sass_loop:
        told.append("  the busiest loop, by its instructions:")
        told += [f"    {one_line(text, 120)}" for text in compiled.sass_loop[:MOST_LOOP]]
        if more := len(compiled.sass_loop[MOST_LOOP:]):
            told.append(f"    {more} more rows: --json has them")
    return told + remarks


def _widths(counts: Mapping[int, int]) -> str:
    return ", ".join(f"{n} of {w} bits" for w, n in _by_width(counts).items()) or "none"


def _mix(mix: Mapping[str, int]) -> str:
    ordered = sorted(mix.items(), key=lambda each: -each[1])[:MOST_MIX]
    return ", ".join(f"{number} {one_line(kind, 40)}" for kind, number in ordered)
