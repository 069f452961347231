"""Reads what nvdisasm prints of a GPU's machine code (SASS): instructions by class, and a loop.

Pure. The names of the instructions are those of the tables "Instruction Set Reference" in NVIDIA's
CUDA Binary Utilities. The text comes from a compiler that was given untrusted code.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from msgspec import Struct

from akg_tui.evaluate.evidence.gpu_assembly import WAIT

MOST_LOOP_ROWS = 40
MOST_TEXT = 120

_FUNCTION = re.compile(r"^\.text\.(?P<name>\S+):$")
_LABEL = re.compile(r"^(?P<name>\.L_\S+):$")
_ROW = re.compile(r"^\s+/\*[0-9a-f]+\*/\s+(?P<text>[^;]+?)\s*;")
_BRANCH = re.compile(r"^(?:@!?U?P\w+\s+)?BRA\S*\s.*\((?P<label>\.L_\S+?)\)")
_OPCODE = re.compile(r"^(?:@!?U?P\w+\s+)?(?P<opcode>[A-Z][\w.]*)")
_CLASSES = (
    (re.compile(r"(?:[HIDBQO](?:G?MMA)|UTC\w*MMA|WARPGROUP)\b"), "matrix"),
    (re.compile(r"LDL|STL"), "local memory"),
    (re.compile(r"LDS(?!M)\w*|STS|LDSM|STSM|ATOMS|LDT|STT"), "shared memory"),
    (re.compile(r"LDG|STG|LD\b|ST\b|RED\b|REDG|ATOMG?\b|UTMA|UBLKCP|CCTL"), "global memory"),
    (re.compile(r"U?LDC"), "constant memory"),
    (re.compile(r"BAR|SYNCS|DEPBAR|LDGDEPBAR|MEMBAR|FENCE|WARPSYNC|ERRBAR|NANOSLEEP|YIELD"), WAIT),
    (re.compile(r"SHFL|VOTE|MATCH|U?REDUX|ELECT|CREDUX"), "warp exchange"),
    (re.compile(r"BRA|BRX|BSSY|BSYNC|BREAK|EXIT|CALL|RET|JMP|KILL|BMOV"), "control"),
    (re.compile(r"[FDH](?:ADD|MUL|FMA)2?|MUFU|HFMA2|FCHK|FRND|FSWZADD"), "float"),
    (re.compile(r"U?(?:I|F|D|H)SETP2?|FMNMX|I?MNMX|VIMNMX|FSEL|U?SEL|FSET|HMNMX2|U?PLOP3"),
     "compare and select"),
    (re.compile(r"U?MOV|CS2R|U?S2U?R|[IF]2[IF]\w*|I2FP|F2FP|U?PRMT|R2UR|R2P|P2R"),
     "move and convert"),
    (re.compile(r"NOP"), "none"),
)  # fmt: skip


class Sass(Struct, frozen=True):
    """The machine code of a kernel: instructions by class, and the busiest innermost loop.

    Without a run the loop is a guess: that with the most arithmetic and memory instructions.
    """

    mix: dict[str, int] = {}
    loop: tuple[str, ...] = ()


def read_sass(text: str) -> dict[str, Sass]:
    """Return the machine code of each function in the output of ``nvdisasm -c``, by symbol."""
    found: dict[str, Sass] = {}
    name, rows, labels = "", list[str](), dict[str, int]()
    for line in [*text.splitlines(), ".text.:"]:
        if (function := _FUNCTION.match(line)) or line == ".text.:":
            if name:
                found[name] = _sass(rows, labels)
            name, rows, labels = function["name"] if function else "", [], {}
        elif label := _LABEL.match(line):
            labels[label["name"]] = len(rows)
        elif row := _ROW.match(line):
            rows.append(" ".join(row["text"].split())[:MOST_TEXT])
    return found


def _sass(rows: list[str], labels: Mapping[str, int]) -> Sass:
    kinds = [_kind(row) for row in rows]
    mix = Counter(kind for kind in kinds if kind != "none")
    loops = []
    for last, row in enumerate(rows):
        target = _BRANCH.match(row)
        first = labels.get(target["label"], last) if target else last
        # A kernel ends with a branch to itself.
        if first < last:
            loops.append((first, last))
    inner = [
        (first, last)
        for first, last in loops
        if not any(first <= a and b <= last and (a, b) != (first, last) for a, b in loops)
    ]
    busy = {"matrix", "float", "global memory", "shared memory"}

    def work(span: tuple[int, int]) -> int:
        return sum(kind in busy for kind in kinds[span[0] : span[1] + 1])

    if not inner:
        return Sass(dict(mix))
    first, last = max(inner, key=work)
    loop = rows[first : last + 1]
    if len(loop) > MOST_LOOP_ROWS:
        cut = len(loop) - MOST_LOOP_ROWS + 1
        loop = [*loop[: MOST_LOOP_ROWS - 1], f"{cut} more instructions"]
    return Sass(dict(mix), tuple(loop))


def _kind(row: str) -> str:
    found = _OPCODE.match(row)
    opcode = found["opcode"] if found else ""
    return next((kind for form, kind in _CLASSES if form.match(opcode)), "integer")
