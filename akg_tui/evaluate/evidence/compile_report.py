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
from akg_tui.evaluate.evidence.findings import (
    MOST_ROWS,
    CodeFunction,
    Fact,
    KernelFindings,
    Loop,
    MachineCode,
    Place,
    Request,
    Text,
)
from akg_tui.evaluate.evidence.gpu.bank_conflicts import SharedAccesses
from akg_tui.evaluate.evidence.gpu.loops import HotLoop
from akg_tui.evaluate.evidence.gpu_assembly import VECTOR_BITS, Instructions, Resources
from akg_tui.evaluate.evidence.gpu_limits import ARCHES, Arch, is_ascend, occupancy
from akg_tui.kernel_files import LineNames

MOST_LAUNCHES = 24
"""The most different launches that are compiled; an autotuned kernel has one a configuration."""
MOST_CODE = 12_000
"""The most instructions of hot loops in a report."""
MOST_LINES = 120
MOST_MIX = 8
MOST_LOOP = 12
"""The most rows of a loop for a person; JSON has more."""
MOST_CONFLICTS = 4
MOST_HOT = 6

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

    `refused` is why the runtime refuses the launch whatever the arch. `warps` is 0 for a kernel
    that was not launched, `stages` where a language has none.
    `accesses` are those to shared memory, None for an arch of AMD's; `hot` is None without a loop.
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
    sass_instructions: Annotated[dict[Text, Size], Meta(max_length=32)] = {}
    sass_loop: Few = ()
    accesses: SharedAccesses | None = None
    hot: HotLoop | None = None
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
    arguments: Few
    constants: Few
    grid: Annotated[tuple[Size, ...], Meta(max_length=3)]
    launches: Size = 1
    work: Work = Work()
    values: Annotated[tuple[int | None, ...], Meta(max_length=256)] = ()
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
    host: HostWork = HostWork()
    files: dict[Text, Place] = {}


def fields(report: CompileReport, file: str) -> Fields:
    """Return the report as JSON's values, by the field's names."""
    names = LineNames(file, report.files)
    told: Fields = {
        "compiler": one_line(report.compiler, 120),
        "kernels": [_launch(launch, names) for launch in report.launches],
    }
    if totals := estimates_us(report):
        told["estimate_us"] = {arch: round(us, 3) for arch, us in totals.items()}
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
            "instructions": _ordered(code.mix),
        }
    if (accesses := compiled.accesses) is not None:
        told["shared_accesses"] = {"known": accesses.known, "unknown": accesses.unknown}
        told["bank_conflicts"] = [
            {
                "place": names.place(each.line),
                "access": one_line(each.access, 40),
                "ways": each.ways,
                "instructions": each.times,
            }
            for each in accesses.conflicts
        ]
    if (hot := compiled.hot) is not None:
        told["hot_loop"] = {
            "language": one_line(hot.language, 40),
            "instructions": hot.total,
            "barriers": hot.barriers,
            "by_class": _ordered(hot.mix),
            "by_line": {names.line(line): number for line, number in hot.by_line.items()},
            "code": [
                f"{names.line(row.line) if row.line else '':>5} {one_line(row.label, 16):<4} "
                f"{one_line(row.text, 200)}"
                for row in hot.rows
            ],
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


def refusal(launch: Launch, arch: str, names: LineNames) -> str:
    """Return why a launch cannot run on `arch`, with the line of the kernel's file, or ""."""
    found = next((each for each in launch.compiled if each.arch == arch), None)
    if found is None:
        return f"it was not compiled for {arch}"
    facts = _compiled(found, launch, names)
    return str(facts.get("does_not_compile") or facts.get("does_not_run") or "")


def _ordered(mix: Mapping[str, int]) -> dict[str, int]:
    return {one_line(k, 40): n for k, n in sorted(mix.items(), key=lambda e: -e[1])}


def cannot_run(report: CompileReport, arch: str, file: str) -> str:
    """Return why the launches of a report cannot run on an arch, or "".

    Of the configurations of an autotuner one has to run; of other launches each.
    """
    names = LineNames(file, report.files)
    by_kernel: dict[tuple[str, int], list[Launch]] = {}
    for launch in report.launches:
        by_kernel.setdefault((launch.kernel, launch.line), []).append(launch)
    for (name, _), launches in by_kernel.items():
        facts = [
            _compiled(compiled, launch, names)
            for launch in launches
            for compiled in launch.compiled
            if compiled.arch == arch
        ]
        reasons = [
            str(why)
            for each in facts
            if (why := each.get("does_not_compile") or each.get("does_not_run"))
        ]
        tuned = any(not launch.launches for launch in launches)
        all_known = not report.left_out and not report.stopped
        if reasons and (not tuned or (all_known and len(reasons) == len(facts))):
            return f"{one_line(name, 80)} cannot run on {arch}: {reasons[0]}"
    return ""


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


def as_lines(report: CompileReport, file: str, *, pictures: bool = True) -> list[str]:
    """Return the report as lines for a person, at most `MOST_LINES`.

    Without `pictures` it is for a model, to which a timeline is many tokens that tell little.
    """
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
            if (estimate := estimate_of(launch, compiled)) is not None:
                words += estimate_report.words(estimate, pictures=pictures)
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
    if (hot := compiled.hot) is not None:
        most = [*hot.by_line.items()][:MOST_HOT]
        lines = ", ".join(f"{n} of {_line(names, line)}" for line, n in most)
        told += [
            f"  hot loop: {hot.total} instructions of {one_line(hot.language, 40)}, "
            f"{hot.barriers} barriers: {_mix(hot.mix)}",
            *([f"    {lines}"] if lines else []),
        ]
    if compiled.accesses is not None:
        told += _conflict_words(compiled.accesses, names)
    return told + remarks


def _line(names: LineNames, line: int) -> str:
    return names.place(line) if names.before else f"line {line or '?'}"


def _conflict_words(accesses: SharedAccesses, names: LineNames) -> list[str]:
    told = [
        f"{_line(names, each.line)}: {each.times} × {one_line(each.access, 40)} "
        f"in {each.ways} turns"
        for each in accesses.conflicts[:MOST_CONFLICTS]
    ]
    if len(accesses.conflicts) > MOST_CONFLICTS:
        told.append(f"{len(accesses.conflicts) - MOST_CONFLICTS} more")
    return [f"  bank conflicts in shared memory: {'; '.join(told)}"] if told else []


def _widths(counts: Mapping[int, int]) -> str:
    return ", ".join(f"{n} of {w} bits" for w, n in _by_width(counts).items()) or "none"


def _mix(mix: Mapping[str, int]) -> str:
    ordered = sorted(mix.items(), key=lambda each: -each[1])[:MOST_MIX]
    return ", ".join(f"{number} {one_line(kind, 40)}" for kind, number in ordered)


NO_LAUNCH = "forward launches no Triton kernel"
NO_COUNTERS = "counts of an interpreter or of a GPU's host say nothing of the kernel"


def as_findings(report: CompileReport) -> KernelFindings:
    """Return the report as machine code: each launch and arch is a function with its hot loop."""
    functions: list[CodeFunction] = []
    loops: list[Loop] = []
    left, cut = MOST_ROWS, 0
    seen: Counter[str] = Counter()
    for launch in report.launches:
        seen[launch.kernel] += 1
        again = f" ({seen[launch.kernel]})" if seen[launch.kernel] > 1 else ""
        for compiled in launch.compiled:
            hot = compiled.hot
            rows = hot.rows[:left] if hot is not None else ()
            left -= len(rows)
            cut += hot.total - len(rows) if hot is not None else 0
            if rows:
                lines = tuple(sorted({row.line for row in rows if row.line}))
                loops.append(Loop(len(functions), 0, len(rows) - 1, 0, 0, lines))
            name = f"{one_line(launch.kernel, 80)}{again} {one_line(compiled.arch, 20)}"
            facts = _facts(compiled, launch, LineNames("", report.files))
            functions.append(CodeFunction(name, rows, facts))
    left_out = {"counters": NO_COUNTERS}
    if report.stopped and functions:
        stopped = Fact("the call stopped", one_line(report.stopped, 300))
        functions.append(CodeFunction("forward", (), (stopped,)))
    elif not functions:
        left_out["machine code"] = one_line(report.stopped, 300) or NO_LAUNCH
    code = MachineCode(
        compiler=one_line(report.compiler, 80),
        functions=tuple(functions),
        # More are never shown, and a report has no more rows.
        loops=tuple(loops[:100]),
        cut=cut,
    )
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
    if compiled.accesses is not None:
        told["bank conflicts"] = _ways(compiled.accesses)
    if (hot := compiled.hot) is not None:
        told["hot loop"] = hot.total
        told["barriers in it"] = hot.barriers
        # In one order, so that two reports can be compared.
        told |= dict(sorted(hot.mix.items()))
    told |= {f"remark {n}": text for n, text in enumerate(compiled.remarks, start=1)}
    return tuple(Fact(name, one_line(str(value), 400)) for name, value in told.items())


def _npu_facts(facts: Fields) -> Fields:
    """Return the numbers of a program for an Ascend NPU, by name."""
    told: Fields = {}
    for name, value in facts.items():
        parts = value.items() if isinstance(value, dict) else [("", value)]
        for part, number in parts:
            if isinstance(number, int | float):
                told[f"{name} {part}".replace("_", " ").strip()] = number
    return told


def _by_bits(counts: Mapping[int, int]) -> str:
    return ", ".join(f"{n} × {width} bit" for width, n in _by_width(counts).items()) or "0"


def _ways(accesses: SharedAccesses) -> str:
    """Return the accesses by the turns that their lanes take, the worst first."""
    ways: Counter[int] = Counter()
    for each in accesses.conflicts:
        ways[each.ways] += each.times
    return ", ".join(f"{n} × {turns}-way" for turns, n in sorted(ways.items(), reverse=True)) or "0"
