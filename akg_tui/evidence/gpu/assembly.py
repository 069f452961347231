"""Reads what compilers for GPUs write: PTX, the log of `ptxas -v`, and AMD's assembly.

Pure. Counts are static: an instruction in a loop counts once.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Annotated

from msgspec import Meta, Struct

Count = Annotated[int, Meta(ge=0, le=1 << 40)]

VECTOR_BITS = 128
"""From this width on, an access of a thread uses the widest path of memory (16 bytes)."""
MOST_REMARKS = 4


class Instructions(Struct, frozen=True):
    """The number of a kernel's instructions, its accesses to global memory by width in bits.

    `bulk` are copies of whole tiles by the tensor memory accelerator, whose size PTX does not tell.
    `matrix` are the matrix instructions by opcode, `barriers` those at which a block waits.
    """

    total: Count
    loads: dict[int, int]
    stores: dict[int, int]
    matrix: dict[str, int]
    barriers: int
    bulk: int = 0

    @property
    def vectorized(self) -> float | None:
        """The share of accesses to global memory of at least `VECTOR_BITS`; None without any."""
        both = Counter(self.loads) + Counter(self.stores)
        wide = sum(number for width, number in both.items() if width >= VECTOR_BITS)
        return wide / both.total() if both else None


class Resources(Struct, frozen=True):
    """Registers and memory that a kernel uses; `spilled` are bytes a thread.

    `waves` are those that the registers leave room for on an AMD SIMD.
    """

    registers: Count
    spilled: Count
    waves: Count | None = None


_PTX_WIDTH = re.compile(r"(?:\.v(\d))?\.[busf]+(\d+)$")
_CP_ASYNC_BYTES = re.compile(r"\],\s*\[[^\]]*\],\s*(0x[0-9a-f]+|\d+)")
_PTX_MATRIX = re.compile(r"w?mma\.(?:sync|mma)|wgmma\.mma_async|tcgen05\.mma")
"""Those that multiply: the others of these families load, store, order or wait."""
_BULK = re.compile(r"cp\.(?:reduce\.)?async\.bulk\.(?!commit|wait|prefetch)")
_PTX_CODE = re.compile(
    r"^[ \t]*(?![$\w.]+:(?!:))(?:@!?%\w+[ \t]+)?(?P<opcode>[a-z][\w.:]*)\s*[^;]*;",
    re.M,
)


def read_ptx(text: str) -> Instructions:
    """Return the instructions of a kernel in PTX."""
    matrix: Counter[str] = Counter()
    loads: Counter[int] = Counter()
    stores: Counter[int] = Counter()
    total = barriers = bulk = 0
    for each in _PTX_CODE.finditer(re.sub(r"//[^\n]*", "", text)):
        total += 1
        opcode = each["opcode"]
        parts = opcode.split(".")
        if parts[0] in ("bar", "barrier"):
            barriers += 1
        elif _PTX_MATRIX.match(opcode):
            matrix[opcode] += 1
        elif parts[0] in ("ld", "ldu", "st") and "global" in parts:
            if found := _PTX_WIDTH.search(opcode):
                width = int(found[1] or 1) * int(found[2])
                (stores if parts[0] == "st" else loads)[width] += 1
        elif _BULK.match(opcode):
            bulk += 1
        elif opcode.startswith("cp.async.c") and (copied := _CP_ASYNC_BYTES.search(each[0])):
            loads[8 * int(copied[1], 0)] += 1
    return Instructions(total, dict(loads), dict(stores), dict(matrix), barriers, bulk)


def ptxas_remarks(log: str) -> tuple[str, ...]:
    """Return what ptxas warns of, such as wgmma instructions that wait for each other."""
    found = re.findall(r"(?:warning\s*:|Potential Performance Loss:)\s*(.+)", log)
    return tuple(dict.fromkeys(found))[:MOST_REMARKS]


def read_ptxas(log: str) -> Resources | None:
    """Return the resources of the last kernel in a log of `ptxas -v`; None if it tells none."""
    used = re.findall(r"Used (\d+) registers", log)
    spilled = re.findall(r"(\d+) bytes spill stores", log)
    if not used:
        return None
    return Resources(int(used[-1]), int(spilled[-1]) if spilled else 0)


class Entry(Struct, frozen=True):
    """A kernel of a module: its instructions, resources, static shared memory in bytes.

    `most_threads` are those of a block that it states, 0 without. Functions that it calls, where
    they were not inlined, do not count.
    """

    instructions: Instructions
    resources: Resources | None
    shared: int = 0
    most_threads: int = 0


_ENTRY = re.compile(
    r"^\s*(?:\.visible |\.weak )*\.(?P<kind>entry|func)\b[^\n]*?(?P<name>[\w$]+)?\s*\(?$", re.M
)
_MOST_THREADS = re.compile(r"\.maxntid\s+(\d+)(?:,\s*(\d+))?(?:,\s*(\d+))?")
_OF_ENTRY = re.compile(r"Compiling entry function '(?P<name>[^']+)' for")


def read_entries(ptx: str, log: str) -> dict[str, Entry]:
    """Return the kernels of a module by symbol, from its PTX and the log of `ptxas -v`."""
    logs: dict[str, str] = {}
    parts = _OF_ENTRY.split(log)
    for name, part in zip(parts[1::2], parts[2::2], strict=True):
        logs[name] = part
    found = {}
    starts = [*_ENTRY.finditer(ptx)]
    for place, start in enumerate(starts):
        if start["kind"] != "entry":
            continue
        end = starts[place + 1].start() if place + 1 < len(starts) else len(ptx)
        text, told = ptx[start.start() : end], logs.get(start["name"], "")
        # Parameters, attributes, then the body.
        head, _, body = text.partition("{")
        bounds = _MOST_THREADS.search(head)
        shared = re.search(r"(\d+) bytes smem", told)
        most = 1
        for size in bounds.groups() if bounds else ():
            most *= int(size or 1)
        found[start["name"]] = Entry(
            read_ptx(body),
            read_ptxas(told.partition("Compile time")[0]),
            int(shared[1]) if shared else 0,
            most if bounds else 0,
        )
    return found


_AMD_MATRIX = re.compile(r"v_(?:mfma|smfmac|wmma|swmmac)_")
_AMD_ACCESS = re.compile(r"(?:global|buffer|flat)_(load|store)_(?:lds_)?(\w+)")
_AMD_CODE = re.compile(r"^\t([a-z]\w+)", re.M)


def read_amdgcn(text: str) -> tuple[Instructions, Resources | None]:
    """Return instructions and resources of a kernel in AMD's assembly."""
    matrix: Counter[str] = Counter()
    loads: Counter[int] = Counter()
    stores: Counter[int] = Counter()
    opcodes = _AMD_CODE.findall(text)
    barriers = 0
    for opcode in opcodes:
        if _AMD_MATRIX.match(opcode):
            matrix[opcode] += 1
        elif opcode.startswith("s_barrier"):
            barriers += 1
        elif found := _AMD_ACCESS.match(opcode):
            (stores if found[1] == "store" else loads)[_amd_width(found[2])] += 1
    found_code = Instructions(len(opcodes), dict(loads), dict(stores), dict(matrix), barriers)
    told = {
        name: int(value) for name, value in re.findall(r"^\s*\.(\w+_count):\s*(\d+)", text, re.M)
    }
    if "vgpr_count" not in told:
        return found_code, None
    waves = re.search(r"^; Occupancy: (\d+)", text, re.M)
    spilled = 4 * told.get("vgpr_spill_count", 0)
    return found_code, Resources(told["vgpr_count"], spilled, int(waves[1]) if waves else None)


def _amd_width(suffix: str) -> int:
    """Return the bits that an access of a thread moves, by the end of its opcode."""
    if found := re.match(r"dwordx?(\d*)|b(\d+)", suffix):
        return int(found[2]) if found[2] else 32 * int(found[1] or 1)
    return 8 if "byte" in suffix or re.search(r"[ui]8$", suffix) else 16
