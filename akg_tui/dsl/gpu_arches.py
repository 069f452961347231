"""Limits and rates of GPU architectures, and occupancy: how many blocks of a kernel fit at once.

Pure. The limits of NVIDIA's arches are those of the table "Technical Specifications per Compute
Capability" in the CUDA C++ Programming Guide. By the same guide the runtime reserves 1 KiB of
shared memory a block; registers are allocated to a warp in units of 256. The limits of AMD's are
from the instruction set guides of CDNA2, 3 and 4, and LLVM's backend.
"""

from __future__ import annotations

from msgspec import Struct

REGISTERS = 64 * 1024
"""The 32-bit registers of an SM, on every NVIDIA arch here."""
REGISTER_UNIT = 256
WARP_UNIT = 4
"""Warps of an SM are divided over its 4 schedulers, each with a quarter of the registers."""
RESERVED_SHARED = 1024


class Arch(Struct, frozen=True):
    """Limits of one multiprocessor (AMD: compute unit): threads, blocks, shared memory in bytes.

    Shared memory is allocated in units of `shared_unit`.
    """

    name: str
    threads: int
    blocks: int
    shared: int
    warp: int = 32
    shared_unit: int = 128

    @property
    def is_amd(self) -> bool:
        return self.name.startswith("gfx")

    @property
    def shared_a_block(self) -> int:
        """The most shared memory of one block, in bytes."""
        return self.shared if self.is_amd else self.shared - RESERVED_SHARED

    @property
    def warps(self) -> int:
        return self.threads // self.warp


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
        # 4 SIMDs with 8 waves each; a block of several waves has one of 16 barriers.
        Arch("gfx90a", 2048, 16, 64 << 10, warp=64, shared_unit=512),
        Arch("gfx942", 2048, 16, 64 << 10, warp=64, shared_unit=512),
        Arch("gfx950", 2048, 16, 160 << 10, warp=64, shared_unit=1280),
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


def occupancy(
    arch: Arch, *, warps: int, registers: int, shared: int, waves: int | None = None
) -> Occupancy:
    """Return the theoretical occupancy of a kernel with `warps` warps a block.

    `registers` are those of a thread, `shared` the bytes of a block. On AMD `waves` are those that
    a SIMD holds by its registers, which the compiler tells.
    """
    fits = {
        "threads": arch.warps // warps,
        "blocks": arch.blocks if warps > 1 or not arch.is_amd else arch.warps,
    }
    if waves is not None:
        fits["registers"] = 4 * waves // warps
    elif registers and not arch.is_amd:
        of_a_warp = -(-registers * arch.warp // REGISTER_UNIT) * REGISTER_UNIT
        held = REGISTERS // of_a_warp // WARP_UNIT * WARP_UNIT
        fits["registers"] = held // warps
    if shared:
        reserved = 0 if arch.is_amd else RESERVED_SHARED
        fits["shared memory"] = arch.shared // (
            -(-shared // arch.shared_unit) * arch.shared_unit + reserved
        )
    blocks = min(fits.values())
    binding = tuple(name for name, number in fits.items() if number == blocks)
    return Occupancy(blocks, min(1.0, blocks * warps / arch.warps), binding)
