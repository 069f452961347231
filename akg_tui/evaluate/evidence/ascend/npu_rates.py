"""Rates of an Ascend 910B core for the pipe model: what a pipe does in a cycle.

Pure. A constant is public, or assumed where nothing is published; with assumed ones the model ranks
kernels of one task, and does not predict their time.

Public:

- clock, lanes, sides of the cube, and bytes a cycle between memories: CANN's platform description
  of the 910B (platform_config/Ascend910B2C.ini in the sources of its runtime: cube_freq=1800,
  vec_calc_size=128 elements of 16 bits, cube 16x16x16, ddr_rate=32 for each of 24 AI cores,
  ub_to_ddr_rate=64, l2_read_rate=110, l1_to_l0_a_rate=512, l1_to_l0_b_rate=256,
  l0_c_to_ub_rate=256, ub_to_l1_rate=128, ubblock_size=32, and DtypeMKN: 16x32x16 for int8);
- that a transfer comes near the bandwidth from 16 KiB on: the Ascend C best practices,
  "Transferring a Large Data Block at a Time";
- cycles of exp, ln, sqrt and division for a vector register, against 1 of addition: the table of
  the compiler's fusion (AscendNPU-IR, VFFusion/CostModelInfo.h; written for the Ascend 950).

Assumed: starts, latencies, the scalar unit, reductions and transpositions, a quarter of the cube's
rate for float32, and the times of starting programs and launches.
"""

from __future__ import annotations

import re

from akg_tui.evaluate.evidence.ascend.hivm import BLOCK, Operation
from akg_tui.evaluate.evidence.ascend.hivm_values import element_bits

CYCLES_A_MICROSECOND = 1800.0
VECTOR_CORES, CUBE_CORES = 48, 24
"""Cores of a 910B whose module does not tell them."""

VECTOR_BLOCKS = 8
"""Blocks of 32 bytes that the vector unit processes in a cycle: 128 elements of 16 bits."""
CHIP_BYTES = 24 * 32.0
"""Bytes a cycle between global memory and all cores together."""
PORT_BYTES = {"UB": 64.0, "L1": 110.0, "L0C": 110.0}
"""The most bytes a cycle between global memory and a memory of one core."""
INNER_BYTES = 128.0
"""Bytes a cycle between L1 and UB, or to fill L1."""
L0A_BYTES, L0B_BYTES = 512.0, 256.0
CUBE_BYTES_OF_K = 32
"""A fractal of A has 16 rows of 32 bytes; one product of fractals takes a cycle."""
FLOAT32_CYCLES = 2
L0_TILE = 32 << 10
"""Half of L0A and of L0B: the other half is filled while this one is multiplied. Assumed."""

# Assumed, in cycles.
ISSUE = 2.0
SCALAR = 1.0
SCALAR_LOCAL = 8.0
SCALAR_GLOBAL = 100.0
TRANSFER_START = 64.0
TRANSFER_LATENCY = 400.0
BURST = 4.0
VECTOR_START = 8.0
VECTOR_LATENCY = 24.0
CUBE_START = 16.0
CUBE_LATENCY = 32.0
FLAG = 8.0
BLOCK_FLAG = 200.0
PROGRAM_START = 400.0
LAUNCH_US = 2.0

_WEIGHTS = (
    (re.compile(r"v(?:exp|ln|log|div|sqrt|rsqrt|rec|sin|cos|tan|erf|pow|mod)"), 4.0),
    (re.compile(r".*(?:reduce|transpose|interleave)"), 2.0),
    (re.compile(r".*(?:gather|scatter|sort|cum|histogram)"), 8.0),
)


def vector_cycles(operation: Operation) -> float:
    """Return the cycles in which the vector unit processes an operation's blocks."""
    weight = next((w for pattern, w in _WEIGHTS if pattern.match(operation.name)), 1.0)
    if weight == _WEIGHTS[0][1] and element_bits(operation.dtype) == 16:
        weight *= 2
    return VECTOR_START + weight * max(1.0, operation.blocks / VECTOR_BLOCKS)


def transfer_cycles(operation: Operation, cores: int) -> float:
    """Return the cycles of a transfer, when `cores` cores share the global memory.

    It moves whole blocks, and each run of contiguous bytes takes some cycles at least.
    """
    run = max(1, operation.run)
    bursts = -(-operation.size // run)
    size = bursts * -(-run // BLOCK) * BLOCK
    ends = {operation.source, operation.target}
    if "GM" in ends:
        port = min(PORT_BYTES.get(each, 64.0) for each in ends - {"GM"} or {"UB"})
        rate = min(port, CHIP_BYTES / max(1, cores))
    else:
        rate = INNER_BYTES
    return TRANSFER_START + max(size / rate, bursts * BURST)


def scalar_cycles(operation: Operation) -> float:
    """Return the cycles of one access of the scalar unit."""
    return SCALAR_GLOBAL if "GM" in (operation.source, operation.target) else SCALAR_LOCAL


def cube_parts(operation: Operation) -> tuple[int, float, float]:
    """Return the parts of a product that fit L0, and the cycles of one: moving and multiplying."""
    size = max(1, element_bits(operation.dtype) // 8)
    m, n = (-(-max(1, side) // 16) * 16 for side in (operation.m, operation.n))
    fractal = CUBE_BYTES_OF_K // size or 1
    k = -(-max(1, operation.k) // fractal) * fractal
    of_a, of_b = m * k * size, k * n * size
    parts = -(-max(of_a, of_b) // L0_TILE)
    moving = of_a / L0A_BYTES + of_b / L0B_BYTES
    products = (m // 16) * (n // 16) * (k // fractal) * (FLOAT32_CYCLES if size == 4 else 1)
    return parts, CUBE_START + moving / parts, CUBE_START + products / parts
