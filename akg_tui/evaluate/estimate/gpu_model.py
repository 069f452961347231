"""Estimates the time of a call on a GPU: memory, issue, matrix products and latency of each launch.

Pure. For each launch the model takes the largest of four times, and a tenth of the others, because
a GPU never overlaps them fully. A cache keeps what a launch reads again.
"""

from __future__ import annotations

from math import ceil

from msgspec import Struct

from akg_tui.core.measurement import Estimate
from akg_tui.evaluate.evidence.compile_report import SECTOR, Compiled, CompileReport, HostWork, Work
from akg_tui.evaluate.evidence.gpu_limits import ARCHES, Arch, occupancy

LAUNCH_US = 2.0
"""The gap between two launches in a stream, as Nsight Systems shows it for empty kernels."""
LATENCY_CYCLES = 500
"""A load from global memory: 466 cycles on A100, 479 on H100 (Luo et al., "Benchmarking and
Dissecting the Nvidia Hopper GPU Architecture via Microbenchmarking", 2024)."""
SHUFFLES = 5
"""Exchanges of a reduction within a warp: the logarithm of its 32 lanes."""
SHUFFLE_CYCLES = 23
BARRIER_CYCLES = 30
"""A reduction over several warps goes through shared memory, with a barrier on both sides; both
as in microbenchmarks of NVIDIA's GPUs since Volta (Jia et al., 2018)."""
DEPENDENT_CYCLES = 4
"""Until the result of an arithmetic instruction can be used (same source)."""
CACHE_BYTES_A_CYCLE = 64
"""The bytes that a multiprocessor reads from the L2 cache in a cycle (NVIDIA A100 whitepaper)."""
SCHEDULERS = 4
LANES = 32 * SCHEDULERS
"""Single-precision results of a multiprocessor in a cycle."""
OVERLAP = 0.1
WIDE = ("fp32", "fp64")


class Rates(Struct, frozen=True):
    """The rates of a GPU: its multiprocessors, clock in GHz, memory bandwidth in GB/s.

    `half` and `single` are matrix products in 16 and 32 (TF32) bits, dense, in TFLOP/s.
    """

    gpu: str
    processors: int
    ghz: float
    memory: float
    half: float
    single: float


RATES = {
    "sm_80": Rates("A100 40 GB", 108, 1.41, 1555, 312, 156),
    "sm_86": Rates("RTX 3090", 82, 1.695, 936, 71, 35.6),
    "sm_89": Rates("RTX 4090", 128, 2.52, 1008, 165, 82.6),
    "sm_90": Rates("H100 SXM", 132, 1.83, 3350, 989, 494),
    "sm_100": Rates("B200", 148, 1.965, 8000, 2250, 1125),
    "sm_120": Rates("RTX 5090", 170, 2.407, 1792, 209, 104),
    "gfx90a": Rates("MI250X, one of two dies", 110, 1.7, 1638, 191, 47.9),
    "gfx942": Rates("MI300X", 304, 2.1, 5300, 1307, 653),
    "gfx950": Rates("MI355X", 256, 2.4, 8000, 2517, 157),
}
"""From the makers' data sheets and architecture whitepapers of the GPU named."""


def estimate(report: CompileReport, arch: str) -> Estimate:
    """Return the estimate of a call for a GPU of `arch`, which `RATES` has.

    Every launch of the report must be compiled for it and able to run.
    """
    rates, limits = RATES[arch], ARCHES[arch]
    spent = {"launching": 0.0}
    total = 0.0
    for launch in report.launches:
        if not launch.launches:
            continue
        compiled = next(each for each in launch.compiled if each.arch == arch)
        times = _times(launch.work, launch.launches, compiled, rates, limits)
        binding = max(times, key=lambda name: times[name])
        rest = sum(times.values()) - times[binding]
        spent[binding] = spent.get(binding, 0.0) + times[binding]
        spent["launching"] += LAUNCH_US * launch.launches
        total += times[binding] + OVERLAP * rest + LAUNCH_US * launch.launches
    if beside := _beside(report.host, rates):
        spent["PyTorch's operators"] = beside
        total += beside
    return Estimate(arch, round(total, 4), max(spent, key=lambda name: spent[name]))


def _times(
    work: Work, launches: int, compiled: Compiled, rates: Rates, limits: Arch
) -> dict[str, float]:
    """Return the microseconds of a kernel's launches by what takes them."""
    threads = compiled.warps * limits.warp
    programs = work.programs / launches
    cycle_us = 1e-3 / rates.ghz
    resources = compiled.resources
    blocks = occupancy(
        limits,
        warps=compiled.warps,
        registers=resources.registers if resources else 0,
        shared=compiled.shared,
        waves=resources.waves if resources else None,
    ).blocks
    # A kernel of few programs leaves multiprocessors idle; the last wave of many may, too.
    rounds = ceil(programs / (rates.processors * max(1, blocks)))
    each = ceil(programs / rates.processors)
    idle = each * rates.processors / max(1.0, programs)
    spilled = 2 * resources.spilled * threads * work.programs if resources else 0
    cached = work.sectors * SECTOR + spilled
    moved = (work.different_read + work.different_written) * SECTOR
    lanes = sum(n * ceil(int(size) / threads) * threads for size, n in work.tiles.items())
    code = compiled.instructions
    width = 32.0
    if code is not None and (widths := [*code.loads.items(), *code.stores.items()]):
        width = sum(bits * n for bits, n in widths) / max(1, sum(n for _, n in widths))
    issued = lanes + cached * 8 / max(8.0, width)
    busy = min(1.0, min(blocks, each) * compiled.warps / (SCHEDULERS * DEPENDENT_CYCLES))
    # Triton fetches ahead, through shared memory, for the matrix products of a loop.
    ahead = max(1, compiled.stages - 1) if code is not None and code.matrix else 1
    exchange = SHUFFLES * SHUFFLE_CYCLES + (2 * BARRIER_CYCLES if compiled.warps > 1 else 0)
    chain = (
        work.loads * LATENCY_CYCLES / ahead
        + lanes / threads * DEPENDENT_CYCLES
        + work.reductions * exchange
    ) / max(1, work.programs)
    units = code is not None and bool(code.matrix)
    plain = 2e-3 * LANES * rates.processors * rates.ghz  # TFLOP/s of multiply-adds
    peak = sum(
        operations / (1e6 * (plain if not units else rates.single if kind in WIDE else rates.half))
        for kind, operations in work.products.items()
    )
    return {
        "memory": max(
            moved / (1e3 * rates.memory),
            idle * cached / (CACHE_BYTES_A_CYCLE * rates.processors) * cycle_us,
        ),
        "issue": idle * issued / (LANES * rates.processors * max(busy, 1 / 16)) * cycle_us,
        "matrix products": idle * peak,
        "latency": launches * rounds * chain * cycle_us,
    }


def _beside(host: HostWork, rates: Rates) -> float:
    """Return the microseconds of PyTorch's operators, at the full rate of memory or products."""
    at_work = max(host.moved / (1e3 * rates.memory), host.products / (1e6 * rates.half))
    return host.operators * LAUNCH_US + at_work
