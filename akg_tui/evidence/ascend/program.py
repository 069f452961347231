"""A kernel in HIVM, the last form before its object: the instructions that the compiler chose.

Pure. The text comes from a compiler that read untrusted code: its size, its lines and its depth are
limited, and what is not understood is counted by name. In HIVM each operation of a pipe is a call
of the compiler's library; the memories of its arguments tell whether it moves data or computes.
"""

from __future__ import annotations

import math
import re
from collections import Counter

from msgspec import Struct

MOST_TEXT = 16 << 20
MOST_LINES = 200_000
MOST_DEPTH = 64
MOST_FUNCTIONS = 4
MOST_INLINED = 8

MEMORIES = {"ub": "UB", "cbuf": "L1", "ca": "L0A", "cb": "L0B", "cc": "L0C"}
_CORES = {"AIV": "vector", "AIC": "cube"}
_COUNTED = {
    "set_flag": "flags", "pipe_barrier": "barriers", "sync_block_set": "core_flags",
    "wait_flag": "", "sync_block_wait": "",
}  # fmt: skip
"""The instructions of synchronisation; each wait belongs to a flag that is counted."""

_FUNCTION = re.compile(r"func\.func (?:private |public )?@[\w$.-]+\(.*\{$")
_CORE = re.compile(r"core_type<(AIV|AIC)>")
_INSTRUCTION = re.compile(r"(?:(%[\w$.-]+)\S*(?:, *%\S+)* = )?\"?([\w.]+)\"?(.*)")
_ENTRY = re.compile(r'"(\w+)", (-?\d{1,18}) : i\d+')
_CONSTANT = re.compile(r" *(\d{1,18}) : i64")
_CALLED = re.compile(r" *@([\w$.-]+)\(")
_OPERAND = re.compile(r"%[\w$.-]+")
_MEMREF = re.compile(r"memref<((?:[\d?]+x)*)(\w+)[^<>]*(?:<[^<>]*>[^<>]*)*>")
_SPACE = re.compile(r"address_space<(\w+)>")
_WIDTH = re.compile(r"\d{1,3}$")
_LOCATION = re.compile(r" loc\((#loc\d{0,9})\)$")
_ALIAS = re.compile(r"(#loc\d{0,9}) = loc\((.*)\)$")
_PLACE = re.compile(r'"[^"]*":(\d{1,7}):\d+$')
_CALL_SITE = re.compile(r"callsite\(.* at (#loc\d{0,9})\)$")
_FORMS = re.compile(
    r"_(?:[vs]{2}|\d+d|to|r|ar|ra|with|align|tb|ta|float|half|bfloat16|u?int\d+|bool)(?:_|$)"
)
"""What follows the name of a library function: the forms and types of its arguments."""
# Not work of a pipe: values, places, structure and settings of a register.
_SILENT = re.compile(
    r"arith\.|affine\.|math\.|index\.|scf\.|cf\.|func\.(?!call)|return$|annotation\.|llvm\."
    r"|memref\.(?!load|store|copy)"
    r"|hivm\.hir\.(?:pointer_cast|get_\w+|set_mask\w*|set_ffts\w*|set_ctrl\w*)$"
)


class HivmError(ValueError):
    """A text that is no kernel in HIVM, or one beyond the limits."""


class Counted(Struct, frozen=True, order=True):
    """An instruction of the text. `kind` is one of load, store, move, vector, cube, scalar, flags,
    barriers, core_flags and unknown; `place` is its line of the kernel's file, 0 if not told.
    """

    kind: str
    name: str = ""
    place: int = 0
    in_loop: bool = False


class Program(Struct, frozen=True):
    """What a compiled kernel consists of. `used` and `limits` are bytes of a core's memories.

    `counts` has each instruction as often as the text; what is only executed at the edge of a
    tensor is left out. `alternating` is the number of buffers that alternate in a loop.
    """

    cores: tuple[str, ...]
    used: dict[str, int]
    limits: dict[str, int]
    counts: Counter[Counted]
    alternating: int = 0

    def of(self, *kinds: str) -> Counter[Counted]:
        """Return the instructions of these kinds."""
        return Counter({each: n for each, n in self.counts.items() if each.kind in kinds})


def read_program(text: str) -> Program:
    """Return the instructions of a module's text. Raises `HivmError`."""
    if len(text) > MOST_TEXT:
        raise HivmError(f"the text has {len(text)} characters, the limit is {MOST_TEXT}")
    lines = text.splitlines()
    if len(lines) > MOST_LINES:
        raise HivmError(f"the text has {len(lines)} lines, the limit is {MOST_LINES}")
    reader = _Reader(_places(lines))
    for number, line in enumerate(lines, 1):
        reader.read(number, line.strip())
    if reader.open:
        raise HivmError("a function is not closed")
    if not 0 < reader.functions <= MOST_FUNCTIONS:
        raise HivmError(f"the text has {reader.functions} functions for the device")
    limits = {name: max(0, reader.target.get(f"{name}_SIZE", 0)) // 8 for name in MEMORIES.values()}
    return Program(
        tuple(sorted(reader.cores)), reader.used, limits, reader.counts, reader.alternating
    )


def _places(lines: list[str]) -> dict[str, int]:
    """Return lines of the kernel's file by location; of a call that was inlined, the caller's."""
    named = {found[1]: found[2] for line in lines if (found := _ALIAS.match(line.strip()))}
    places = {}
    for name, where in named.items():
        told = where
        for _ in range(MOST_INLINED):
            if (called := _CALL_SITE.match(told)) is None:
                break
            told = named.get(called[1], "")
        if found := _PLACE.match(told):
            places[name] = int(found[1])
    return places


class _Region(Struct):
    """A part of a function in braces: its instructions, and whether it is inside a loop."""

    counts: Counter[Counted]
    loops: bool
    host: bool = False


class _Reader:
    """Reads line after line; `open` are the regions that are not closed."""

    def __init__(self, places: dict[str, int]) -> None:
        self._places = places
        self._core = "AIV"
        self._constants: dict[str, int] = {}
        self.target: dict[str, int] = {}
        self.functions = 0
        self.cores: set[str] = set()
        self.used: dict[str, int] = {}
        self.counts: Counter[Counted] = Counter()
        self.alternating = 0
        self.open: list[_Region] = []

    def read(self, number: int, line: str) -> None:
        """Read a line without the spaces around it."""
        location = ""
        if found := _LOCATION.search(line):
            location, line = found[1], line[: found.start()].rstrip()
        if not self.open:
            self._outside(line)
        elif line.startswith("}"):
            self._close(line[1:].strip())
        elif line and not line.startswith(("//", "^")):
            if line.endswith("{"):
                if len(self.open) >= MOST_DEPTH:
                    raise HivmError(f"line {number} is nested more than {MOST_DEPTH} deep")
                loops = "scf.for" in line or "scf.while" in line
                outer = self.open[-1]
                self.open.append(_Region(Counter(), loops or outer.loops, outer.host))
            elif not self.open[-1].host and (told := _INSTRUCTION.match(line)):
                self._instruction(told[1] or "", told[2], told[3], self._places.get(location, 0))

    def _outside(self, line: str) -> None:
        if line.startswith("module"):
            self.target |= {name: int(value) for name, value in _ENTRY.findall(line)}
            self._core = found[1] if (found := _CORE.search(line)) else self._core
        elif _FUNCTION.match(line):
            host = "function_kind<HOST>" in line
            self.open = [_Region(Counter(), loops=False, host=host)]
            self._constants = {}
            if not host:
                self.functions += 1
                core = found[1] if (found := _CORE.search(line)) else self._core
                self.cores.add(_CORES[core])

    def _close(self, rest: str) -> None:
        if rest.endswith("{") and rest.split(maxsplit=1)[0] in ("else", "do"):
            return
        closed = self.open.pop()
        if "unlikely_condition" not in rest:
            (self.open[-1].counts if self.open else self.counts).update(closed.counts)

    def _instruction(self, result: str, name: str, text: str, place: int) -> None:
        region = self.open[-1]
        if name == "arith.constant" and (found := _CONSTANT.match(text)):
            self._constants[result] = int(found[1])
        elif name == "hivm.hir.pointer_cast":
            self._buffers(text)
        elif name == "arith.select" and "memref<" in text:
            self.alternating += 1
        if _SILENT.match(name):
            return
        short = name.removeprefix("hivm.hir.")
        if short in _COUNTED:
            if kind := _COUNTED[short]:
                region.counts[Counted(kind)] += 1
            return
        if name in ("func.call", "call"):
            kind, told = _call(text)
        elif name in ("memref.load", "memref.store"):
            kind, told = "scalar", name.removeprefix("memref.")
        else:
            kind, told = "unknown", name[:60]
        region.counts[Counted(kind, told, place, region.loops)] += 1

    def _buffers(self, text: str) -> None:
        """Note the end of each buffer whose address and size are known."""
        arguments, _, kind = text.partition(" : ")
        space, shape = _SPACE.search(kind), _MEMREF.search(kind)
        if space is None or shape is None or "?" in shape[1]:
            return
        name = MEMORIES.get(space[1], space[1][:8].upper())
        width = _WIDTH.search(shape[2])
        elements = math.prod(int(each[:9]) for each in shape[1].split("x") if each)
        size = -(-elements * (int(width[0]) if width else 32) // 8)
        for operand in _OPERAND.findall(arguments):
            if operand in self._constants:
                end = self._constants[operand] + size
                self.used[name] = max(self.used.get(name, 0), end)


def _call(text: str) -> tuple[str, str]:
    """Return the kind and the name of a call of the compiler's library."""
    found = _CALLED.match(text)
    whole = found[1][:80] if found else "call"
    types = text.partition(" : ")[2]
    spaces, elements = _SPACE.findall(types), _MEMREF.findall(types)
    if whole.startswith("mma_tile"):
        return "cube", f"{whole[:40]}"
    if not spaces or len(set(spaces)) > 2:
        return "unknown", whole
    if set(spaces) == {"ub"}:
        widest = max(elements, key=lambda each: int(w[0]) if (w := _WIDTH.search(each[1])) else 0)
        name = _FORMS.split(whole.removeprefix("enablevc_"), maxsplit=1)[0]
        return "vector", f"{name} {widest[1]}"
    if "gm" not in spaces:
        return "move", whole
    return ("load" if spaces[0] == "gm" else "store"), whole
