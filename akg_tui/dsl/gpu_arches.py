"""Limits and rates of GPU architectures, and occupancy: how many blocks of a kernel fit at once.

Pure. The limits of NVIDIA's arches are those of the table "Technical Specifications per Compute
Capability" in the CUDA C++ Programming Guide. By the same guide the runtime reserves 1 KiB of
shared memory a block; registers are allocated to a warp in units of 256.
"""

from __future__ import annotations

from msgspec import Struct

REGISTERS = 64 * 1024
"""The 32-bit registers of an SM, on every arch here."""
REGISTER_UNIT = 256
WARP_UNIT = 4
"""Warps of an SM are divided over its 4 schedulers, each with a quarter of the registers."""
WARP = 32
SHARED_UNIT = 128
"""Shared memory is allocated in units of so many bytes."""
RESERVED_SHARED = 1024


class Arch(Struct, frozen=True):
    """Limits of one multiprocessor: threads, blocks, shared memory in bytes."""

    name: str
    threads: int
    blocks: int
    shared: int

    @property
    def shared_a_block(self) -> int:
        """The most shared memory of one block, in bytes."""
        return self.shared - RESERVED_SHARED

    @property
    def warps(self) -> int:
        return self.threads // WARP


ARCHES = {
    arch.name: arch
    for arch in (
        Arch("sm_80", 2048, 32, 164 << 10),
        Arch("sm_86", 1536, 16, 100 << 10),
        Arch("sm_87", 1536, 16, 164 << 10),
        Arch("sm_89", 1536, 24, 100 << 10),
        Arch("sm_90", 2048, 32, 228 << 10),
        Arch("sm_100", 2048, 32, 228 << 10),
        Arch("sm_103", 2048, 32, 228 << 10),
        Arch("sm_110", 1536, 24, 228 << 10),
        Arch("sm_120", 1536, 24, 100 << 10),
        Arch("sm_121", 1536, 24, 100 << 10),
    )
}


PROCESSORS = {
    "sm_80": 108, "sm_86": 82, "sm_89": 128, "sm_90": 132, "sm_100": 148, "sm_120": 170,
}  # fmt: skip
"""The multiprocessors of an A100, RTX 3090, RTX 4090, H100 SXM, B200 and RTX 5090, by their arch;
from NVIDIA's data sheets."""


def is_ascend(arch: str) -> bool:
    """Return whether an arch is one of Ascend's NPUs, whose limits their compiler tells."""
    return arch.startswith("Ascend")


class Occupancy(Struct, frozen=True):
    """Blocks that fit on a multiprocessor, their share of its warps, and the limits that bind."""

    blocks: int
    share: float
    limits: tuple[str, ...]


def occupancy(arch: Arch, *, warps: int, registers: int, shared: int) -> Occupancy:
    """Return the theoretical occupancy of a kernel with `warps` warps a block.

    `registers` are those of a thread, `shared` the bytes of a block.
    """
    fits = {"threads": arch.warps // warps, "blocks": arch.blocks}
    if registers:
        of_a_warp = -(-registers * WARP // REGISTER_UNIT) * REGISTER_UNIT
        held = REGISTERS // of_a_warp // WARP_UNIT * WARP_UNIT
        fits["registers"] = held // warps
    if shared:
        of_a_block = -(-shared // SHARED_UNIT) * SHARED_UNIT + RESERVED_SHARED
        fits["shared memory"] = arch.shared // of_a_block
    blocks = min(fits.values())
    binding = tuple(name for name, number in fits.items() if number == blocks)
    return Occupancy(blocks, min(1.0, blocks * warps / arch.warps), binding)
