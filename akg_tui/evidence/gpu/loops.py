"""Finds the likeliest hot loop in a GPU's machine code: SASS of nvdisasm, AMD's assembly, or PTX.

Pure. Of the innermost loops the one with the most instructions is taken: nothing was measured.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct

from akg_tui.evidence.findings import Instruction, Text
from akg_tui.evidence.gpu.assembly import WAIT, Count, amd_class, ptx_class
from akg_tui.evidence.gpu.statements import Statement

MOST_ROWS = 1500
"""The most instructions of a loop that are told."""


class HotLoop(Struct, frozen=True, kw_only=True):
    """A loop of `total` instructions, of which `rows` are told, in the language `language`.

    `mix` counts them by class, `barriers` are those at which a block waits.
    """

    language: Text
    rows: Annotated[tuple[Instruction, ...], Meta(max_length=MOST_ROWS)]
    total: Count
    mix: dict[Text, Count]
    barriers: Count

    @property
    def by_line(self) -> dict[int, int]:
        """The told instructions of each line of the kernel's text, the most first."""
        counts = Counter(row.line for row in self.rows if row.line)
        return dict(sorted(counts.items(), key=lambda each: (-each[1], each[0])))


_SASS_CLASSES = {
    kind: frozenset(names.split())
    for kind, names in {
        WAIT: "BAR DEPBAR LDGDEPBAR LDGSTSBAR WARPSYNC MEMBAR SYNCS ERRBAR NANOSLEEP WARPGROUP "
        "FENCE CCTL UCGABAR ARRIVES B2R ACQBULK",
        "shared memory": "LDS STS LDSM STSM ATOMS",
        "global memory": "LDG STG LD ST ATOM ATOMG RED REDG LDGSTS UBLKCP UTMALDG UTMASTG UTMAPF",
        "local memory": "LDL STL",
        "other memory": "LDC ULDC LDCU LDTM STTM UTCCP",
        "warp exchange": "SHFL VOTE VOTEU REDUX CREDUX MATCH ELECT",
        "control": "BRA BRX EXIT RET CALL BSSY BSYNC BREAK JMP JMX NOP KILL YIELD RPCMOV",
        "compare and select": "ISETP FSETP HSETP2 DSETP UISETP FSET SEL USEL FSEL FMNMX FMNMX3 "
        "IMNMX VIMNMX VIMNMX3 UVIMNMX HMNMX2 PLOP3 UPLOP3",
        "move and convert": "MOV UMOV CS2R S2R S2UR R2UR R2P P2R F2F F2I I2F I2FP F2FP I2I FRND "
        "PRMT UPRMT MOVM",
        "float": "FADD FMUL FFMA MUFU HADD2 HMUL2 HFMA2 DADD DMUL DFMA FCHK FADD2 FMUL2 FFMA2 "
        "FSWZADD",
    }.items()
}


def _sass_class(opcode: str) -> str:
    name = opcode.partition(".")[0]
    if name.endswith("MMA"):
        return "matrix"
    return next((kind for kind, names in _SASS_CLASSES.items() if name in names), "integer")


class _Language(NamedTuple):
    kind_of: Callable[[str], str]
    branch: re.Pattern[str]
    barrier: re.Pattern[str]


_LANGUAGES = {
    "SASS": _Language(_sass_class, re.compile(r"BRA|JMP"), re.compile(r"BAR\.")),
    "PTX": _Language(ptx_class, re.compile(r"bra"), re.compile(r"bar(?:rier)?\.")),
    "AMD assembly": _Language(
        amd_class, re.compile(r"s_c?branch"), re.compile(r"s_barrier(?!_signal)")
    ),
}


def hot_loop(
    statements: Sequence[Statement], language: str, most: int = MOST_ROWS
) -> HotLoop | None:
    """Return the innermost loop with the most instructions; None without a loop.

    At most `most` of them are told.
    """
    code = _LANGUAGES[language]
    at: dict[str, int] = {}
    rows: list[Statement] = []
    for each in statements:
        if each.label:
            at[each.label] = len(rows)
        else:
            rows.append(each)
    ends: dict[int, int] = {}
    for number, row in enumerate(rows):
        if code.branch.match(row.opcode):
            words = re.findall(r"[$\w.]+", row.operands)
            target = next((at[name] for name in words if name in at), -1)
            # An instruction that jumps to itself only fills the end of the code.
            if 0 <= target < number:
                ends[target] = max(number, ends.get(target, 0))
    loops = [
        (first, last)
        for first, last in ends.items()
        if not any(first <= a and b <= last and (a, b) != (first, last) for a, b in ends.items())
    ]
    if not loops:
        return None
    first, last = max(loops, key=lambda loop: loop[1] - loop[0])
    inside = rows[first : last + 1]
    kept = (name for name, place in at.items() if first <= place <= last)
    names = {name: f".{number}" for number, name in enumerate(kept, start=1)}
    labels = {place: names[name] for name, place in at.items() if name in names}
    mix = Counter(code.kind_of(row.opcode) for row in inside)
    told = tuple(
        Instruction(_text(row, names)[:600], row.line, labels.get(first + number, ""))
        for number, row in enumerate(inside[:most])
    )
    return HotLoop(
        language=language,
        rows=told,
        total=len(inside),
        mix=dict(mix),
        barriers=sum(bool(code.barrier.match(row.opcode)) for row in inside),
    )


def _text(row: Statement, names: dict[str, str]) -> str:
    operands = re.sub(r"`\(([^)]*)\)", r"\1", row.operands)
    operands = re.sub(r"[$\w.]+", lambda found: names.get(found[0], found[0]), operands)
    return " ".join(part for part in (row.predicate, row.opcode, operands) if part)
