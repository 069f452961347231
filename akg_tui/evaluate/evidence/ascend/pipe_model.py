"""An estimate of a launch on an Ascend NPU by the pipes of its cores.

Pure and deterministic. Some programs of the grid go through `pipes`; what an operation takes is in
`npu_rates`. Some of that is assumed, so an estimate ranks kernels, and decides nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

from akg_tui.evaluate.evidence.ascend import npu_rates as rates
from akg_tui.evaluate.evidence.ascend.hivm import PIPES, Module, read_hivm
from akg_tui.evaluate.evidence.ascend.pipes import CORE_WORDS, Core, simulate
from akg_tui.evaluate.evidence.ascend.program import program_of

MOST_SAMPLES = 6
"""The most programs of a grid that are followed; the others take as long as the nearest."""
LONG_PROGRAM = 20_000
"""Instructions from which on only the first and the last program of a grid are followed."""
MOST_INTERVALS = 240
"""The most intervals of a row of a timeline."""
SHOWN_ITERATIONS = 3
BINDS = 0.6
"""The share of the time from which on a busy pipe is what binds."""

WORK = {
    "MTE2": "loads from global memory",
    "MTE1": "moves from L1 to L0",
    "M": "products of the cube unit",
    "FIX": "results of the cube unit",
    "V": "vector operations",
    "MTE3": "stores to global memory",
    "S": "scalar work",
}
_LOADS = frozenset({"MTE2"})
_COMPUTES = frozenset({"V", "M", "S"})


class NpuLaunch(Struct, frozen=True, kw_only=True):
    """A launch: the kernel's HIVM, its grid, and its own arguments in order.

    An argument that is no integer, such as a tensor or a float, is None; constants of the compiler
    are not arguments. `launches` is how often it is launched.
    """

    name: str
    hivm: str
    grid: tuple[int, ...]
    arguments: tuple[int | None, ...] = ()
    launches: int = 1


class Interval(Struct, frozen=True):
    """Work of a pipe, in microseconds since the start of the program."""

    start: float
    end: float
    name: str = ""


class Row(Struct, frozen=True):
    """The work of one pipe: `core` is "cube" or "vector"."""

    core: str
    pipe: str
    intervals: tuple[Interval, ...]


class Timeline(Struct, frozen=True):
    """A part of one program: all of it, or some iterations of its longest loop."""

    start: float
    end: float
    whole: bool
    rows: tuple[Row, ...]


class LaunchEstimate(Struct, frozen=True, kw_only=True):
    """The estimate of one launch.

    `us` is the time of one launch, infinite with a `problem`. `limit` is what binds: "pipe" for the
    busiest one, "order" if pipes wait for one another, "launch" if the launch takes longest,
    "problem" if it cannot run; `binds` is the same in words. `cores` of `of_cores` have a program.
    `busy` is the share of the programs'
    time in which a pipe works, by core and pipe. `overlap` is the share of the shorter one of
    loading and computing that is hidden behind the other, None without both. `assumed` counts
    decisions of the control flow without known values.
    """

    name: str
    us: float
    launches: int = 1
    programs: int = 0
    cores: int = 0
    of_cores: int = 0
    waves: int = 0
    program_us: float = 0.0
    busy: dict[str, float] = {}
    binds: str = ""
    limit: str = ""
    overlap: float | None = None
    loaded: float = 0.0
    stored: float = 0.0
    assumed: int = 0
    unknown: dict[str, int] = {}
    problem: str = ""
    timeline: Timeline | None = None


class Estimate(Struct, frozen=True, kw_only=True):
    """The estimate of all launches of a call; what binds is that of the longest."""

    total_us: float
    binds: str
    by_launch: tuple[LaunchEstimate, ...]


def estimate_launches(launches: Sequence[NpuLaunch]) -> Estimate:
    """Return the estimate of a sequence of launches.

    Raises
    ------
    HivmError
        If the text of a launch is not HIVM.

    """
    found = tuple(estimate_launch(launch) for launch in launches)
    longest = max(found, key=lambda each: each.us * each.launches, default=None)
    return Estimate(
        total_us=math.fsum(each.us * each.launches for each in found),
        binds=longest.binds if longest else "nothing is launched",
        by_launch=found,
    )


def estimate_launch(launch: NpuLaunch) -> LaunchEstimate:
    """Return the estimate of one launch."""
    module = read_hivm(launch.hivm)
    sides = tuple(max(0, side) for side in launch.grid)
    programs = math.prod(sides)
    told = LaunchEstimate(
        name=launch.name, us=rates.LAUNCH_US, launches=launch.launches, programs=programs
    )
    if not programs:
        return told
    cores = _cores(module)
    active = min(programs, cores)
    by_block = {
        block: run_program(module, launch, sides, block, active) for block in {0, programs - 1}
    }
    if max(run.followed for run in by_block.values()) < LONG_PROGRAM:
        for n in range(1, MOST_SAMPLES - 1):
            block = round(n * (programs - 1) / (MOST_SAMPLES - 1))
            if block not in by_block:
                by_block[block] = run_program(module, launch, sides, block, active)
    samples = sorted(by_block)
    runs = [by_block[block] for block in samples]
    unknown: Counter[str] = Counter()
    for function in module.functions:
        unknown.update(function.unknown)
    problem = next((run.problem for run in runs if run.problem), "")
    nearest = _shares(samples, programs)
    times = [run.cycles + rates.PROGRAM_START for run in runs]
    waves = _waves(samples, times, programs, cores)
    total = math.fsum(run.cycles * share for run, share in zip(runs, nearest, strict=True))
    names = dict.fromkeys(name for run in runs for name in run.busy)
    busy = {
        name: math.fsum(r.busy.get(name, 0.0) * s for r, s in zip(runs, nearest, strict=True))
        / max(total, 1.0)
        for name in names
    }
    both = [(r.hidden, s) for r, s in zip(runs, nearest, strict=True) if r.hidden is not None]
    shown = max(range(len(runs)), key=lambda n: (runs[n].cycles, -n))
    us = math.inf if problem else rates.LAUNCH_US + waves / rates.CYCLES_A_MICROSECOND
    limit = "problem" if problem else _limit(busy, us)
    return LaunchEstimate(
        name=launch.name,
        us=us,
        launches=launch.launches,
        programs=programs,
        cores=active,
        of_cores=cores,
        waves=-(-programs // cores),
        program_us=total / programs / rates.CYCLES_A_MICROSECOND,
        busy=busy,
        binds=_words(limit, problem, busy, programs, cores),
        limit=limit,
        overlap=math.fsum(h * s for h, s in both) / math.fsum(s for _, s in both) if both else None,
        loaded=math.fsum(r.loaded * s for r, s in zip(runs, nearest, strict=True)),
        stored=math.fsum(r.stored * s for r, s in zip(runs, nearest, strict=True)),
        assumed=max(run.assumed for run in runs),
        unknown=dict(unknown),
        problem=problem,
        timeline=runs[shown].timeline,
    )


def _cores(module: Module) -> int:
    """Return the programs that are executed at the same time."""
    if any(function.core == "AIC" for function in module.functions):
        return module.target.cube_cores or rates.CUBE_CORES
    return module.target.vector_cores or rates.VECTOR_CORES


def _shares(samples: Sequence[int], programs: int) -> list[int]:
    """Return how many programs each sample stands for: those that are nearest to it."""
    starts = [0, *((a + b) // 2 + 1 for a, b in pairwise(samples)), programs]
    return [after - before for before, after in pairwise(starts)]


def _waves(samples: Sequence[int], times: Sequence[float], programs: int, cores: int) -> float:
    """Return the time of all programs: `cores` of them at a time, in order of their numbers.

    A wave takes as long as its longest program.
    """
    total, first = 0.0, 0
    ends = [(a + b) // 2 + 1 for a, b in pairwise(samples)] + [programs]
    at = 0
    while first < programs:
        while ends[at] <= first:
            at += 1
        # The waves that lie in the share of one sample take the same time.
        whole = (ends[at] - first) // cores
        if whole:
            total += whole * times[at]
            first += whole * cores
            continue
        last = min(first + cores, programs)
        inside = [
            n for n, end in enumerate(ends) if end > first and (ends[n - 1] if n else 0) < last
        ]
        total += max(times[n] for n in inside)
        first = last
    return total


def busiest(busy: dict[str, float]) -> tuple[str, float]:
    """Return the pipe that works the most, and its share of the time."""
    return max(busy.items(), key=lambda each: each[1], default=("", 0.0))


def leaves_cores(programs: int, cores: int) -> bool:
    """Tell whether at most half of the cores have a program."""
    return programs * 2 <= cores


def _limit(busy: dict[str, float], us: float) -> str:
    if us < 2 * rates.LAUNCH_US:
        return "launch"
    return "pipe" if busiest(busy)[1] >= BINDS else "order"


def _words(limit: str, problem: str, busy: dict[str, float], programs: int, cores: int) -> str:
    """Return what binds a launch, in words."""
    if limit == "problem":
        return f"it cannot run: {problem}"
    if limit == "launch":
        return "the launch: it takes longer than the work"
    name, share = busiest(busy)
    if limit == "pipe":
        pipe = name.rpartition(" ")[2]
        told = f"{name}: {WORK.get(pipe, 'work')} ({share:.0%} busy)"
    else:
        told = f"waits between pipes: the busiest, {name}, works {share:.0%} of the time"
    if leaves_cores(programs, cores):
        told += f"; only {programs} of {cores} cores work"
    return told


class ProgramRun(Struct, frozen=True, kw_only=True):
    """One program's cycles, and what its pipes did."""

    cycles: float
    busy: dict[str, float]
    hidden: float | None
    loaded: float
    stored: float
    assumed: int
    followed: int
    problem: str
    timeline: Timeline | None


def run_program(
    module: Module, launch: NpuLaunch, grid: tuple[int, ...], block: int, cores: int
) -> ProgramRun:
    """Run one program of a launch through the pipes."""
    mixed = module.mixed
    lanes: list[Core] = []
    for function in module.functions:
        both = mixed and function.core == "AIV"
        for sub_block in range(2 if both else 1):
            program = program_of(
                function,
                module.tree.maps,
                arguments=launch.arguments,
                grid=grid,
                block=block,
                sub_block=sub_block,
            )
            # Two vector cores of a mixed kernel share the rate of their AI core.
            lanes.append(
                Core(
                    function.core,
                    program,
                    sub_block=sub_block,
                    sharing=cores * (2 if both else 1),
                )
            )
    return _joined(lanes, simulate(lanes))


def _joined(cores: Sequence[Core], problem: str) -> ProgramRun:
    cycles = max(core.cycles for core in cores)
    busy: dict[str, float] = {}
    mixed = len({core.kind for core in cores}) > 1
    for core in cores:
        same = sum(each.kind == core.kind for each in cores)
        for name, pipe in core.pipes.items():
            if pipe.busy:
                told = f"{CORE_WORDS[core.kind]} {name}" if mixed else name
                busy[told] = busy.get(told, 0.0) + pipe.busy / same
    cut = any(core.program.cut for core in cores)
    return ProgramRun(
        cycles=cycles,
        busy=busy,
        hidden=_hidden(cores),
        loaded=math.fsum(core.loaded for core in cores),
        stored=math.fsum(core.stored for core in cores),
        assumed=sum(core.program.assumed + core.program.cut for core in cores),
        followed=sum(core.program.followed for core in cores),
        problem="" if cut else problem,
        timeline=_timeline(cores),
    )


def _hidden(cores: Sequence[Core]) -> float | None:
    """Return the share of the shorter one of loading and computing during the other."""
    loads, computes = (
        _union([
            (start, end)
            for core in cores
            for name, pipe in core.pipes.items()
            if name in names
            for start, end, _ in pipe.intervals
        ])
        for names in (_LOADS, _COMPUTES)
    )  # fmt: skip
    shorter = min(_length(loads), _length(computes))
    if not shorter:
        return None
    both = _length(loads) + _length(computes) - _length(_union([*loads, *computes]))
    return min(1.0, max(0.0, both / shorter))


def _union(intervals: list[tuple[float, float]]) -> list[tuple[float, float]]:
    merged: list[tuple[float, float]] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    return merged


def _length(intervals: list[tuple[float, float]]) -> float:
    return math.fsum(end - start for start, end in intervals)


def _timeline(cores: Sequence[Core]) -> Timeline | None:
    """Return the rows of the first core of each kind, for the middle iterations of its loop."""
    shown = list({core.kind: core for core in reversed(cores)}.values())[::-1]
    start, end, whole = 0.0, max(core.cycles for core in shown), True
    longest = max(shown, key=lambda core: core.program.looped)
    if (span := _steady(longest)) is not None:
        start, end = span
        whole = False
    if end <= start:
        return None
    rows = [
        Row(
            CORE_WORDS[core.kind],
            name,
            _within(core.pipes[name].intervals, start, end),
        )
        for core in shown
        for name in PIPES
        if core.pipes[name].intervals
    ]
    return Timeline(_us(start), _us(end), whole, tuple(rows))


def _steady(core: Core) -> tuple[float, float] | None:
    """Return the time of some iterations of a program's longest loop, None if it has too few.

    They are those nearest to the middle among the ones that take the longest: iterations may be
    skipped.
    """
    starts = core.program.iterations
    if len(starts) <= SHOWN_ITERATIONS + 2:
        return None
    ends, top, at = [], 0.0, 0
    for first in starts:
        top = max([top, *core.ends[at:first]])
        at = first
        ends.append(top)
    spans = list(zip(ends, ends[SHOWN_ITERATIONS:], strict=False))
    most = max(after - before for before, after in spans)
    near = [n for n, (before, after) in enumerate(spans) if after - before >= 0.7 * most]
    return spans[min(near, key=lambda n: (abs(2 * n - len(spans)), n))]


def _us(cycles: float) -> float:
    return round(cycles / rates.CYCLES_A_MICROSECOND, 6)


def _within(
    intervals: Sequence[tuple[float, float, str]], start: float, end: float
) -> tuple[Interval, ...]:
    """Return the intervals of a span; where there are many, near ones are joined."""
    inside = [
        (max(a, start), min(b, end), name) for a, b, name in intervals if a < end and b > start
    ]
    width = (end - start) / MOST_INTERVALS
    joined: list[tuple[float, float, str]] = []
    for a, b, name in inside:
        if len(inside) > MOST_INTERVALS and joined and a - joined[-1][1] < width:
            before = joined.pop()
            joined.append((before[0], max(before[1], b), before[2]))
        else:
            joined.append((a, b, name))
    return tuple(Interval(_us(a), _us(b), name) for a, b, name in joined[:MOST_INTERVALS])
