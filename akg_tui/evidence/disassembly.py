"""Reads the output of objdump: functions, instructions with their lines, and innermost loops.

Pure. The text comes from a compiler that was given untrusted code, so every size is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from akg_tui.evidence.findings import MOST_ROWS, CodeFunction, Instruction, Loop

MOST_FUNCTIONS = 200
MOST_LOOPS = 12
MOST_TEXT = 160

_FUNCTION = re.compile(r"^[0-9a-f]+ <(?P<name>.+)>:$")
_PLACE = re.compile(r"^(?P<path>\S.*):(?P<line>\d+)(?: \(discriminator \d+\))?$")
_PADDING = ("nop", "data16", "cs nop", "xchg   %ax,%ax", "int3")
_INSTRUCTION = re.compile(r"^\s+(?P<address>[0-9a-f]+):\t(?P<text>.+)$")
_TARGET = re.compile(r"^(?P<op>\S+(?: [a-z]+)?)\s+(?:\S+, ?)*?(?P<address>[0-9a-f]+) <(?P<to>.+)>$")
# x86: ja, jne, loop …; AArch64: b, b.ne, cbz, tbnz …
_JUMP = re.compile(r"^(j[a-z]+|loop[a-z]*|b|b\.[a-z]+|bc\.[a-z]+|cbn?z|tbn?z)$")
_VECTOR = re.compile(r"%[xyz]mm\d|\b[vz]\d+\.|\bq\d+\b")
# Packed arithmetic, conversion or a move of whole registers; scalar forms end in ss, sd or sh.
_SCALAR = re.compile(
    r"^v?[a-z0-9]*(ss|sd|sh)2?[a-z]*$|^v?mov[dq]$|^v?cvt[a-z0-9]*s[sdih][a-z0-9]*$"
)
# `xor` of a register with itself, which only clears it.
_CLEARS = re.compile(r"^v?p?xor\S* (%\w+), ?\1(, ?%\w+)?$")
_COPIES = re.compile(r"^v?mov(ap|up|dq)\w+ %\w+, ?%\w+$")
_ALWAYS = frozenset({"jmp", "b"})
# What the linker adds, and padding between functions.
_NOT_OF_THE_KERNEL = frozenset(
    {"_init", "_fini", "_start", "deregister_tm_clones", "register_tm_clones",
     "__do_global_dtors_aux", "frame_dummy", "set_fast_math"}
)  # fmt: skip


class _Raw(NamedTuple):
    address: int
    text: str
    line: int
    target: int
    """The address of the same function that it jumps to; -1 if there is none."""


def read_functions(
    listing: Iterable[str], line_of: Callable[[int], int], source: str
) -> tuple[list[CodeFunction], int]:
    """Return the functions of an ``objdump -dl`` listing, and the number of rows left out.

    `source` is the file whose lines count, by its name; `line_of` turns one of them into a line of
    the kernel's file. An instruction that the compiler took from another file (an inlined function
    of a header) has the last line before it.
    """
    functions: list[CodeFunction] = []
    kept = cut = 0
    name, rows, line = "", [], 0
    for text in (*listing, "0 <>:"):
        if (found := _INSTRUCTION.match(text)) is not None:
            rows.append(_raw(found["address"], found["text"], line, name))
        elif (found := _FUNCTION.match(text)) is not None or text == "0 <>:":
            if rows and _wanted(name):
                room = MOST_ROWS - kept if len(functions) < MOST_FUNCTIONS else 0
                # Padding that aligns the next function is no code of this one.
                while rows and rows[-1].text.startswith(_PADDING):
                    rows.pop()
                cut += max(0, len(rows) - room)
                if taken := rows[: max(0, room)]:
                    functions.append(CodeFunction(name[:MOST_TEXT], tuple(_labelled(taken))))
                    kept += len(taken)
            name, rows, line = (found["name"] if found else ""), [], 0
        elif (found := _PLACE.match(text)) is not None and (
            found["path"].rpartition("/")[2] == source
        ):
            line = line_of(int(found["line"])) or line
    return functions, cut


def _wanted(name: str) -> bool:
    return not (name in _NOT_OF_THE_KERNEL or name.endswith("@plt") or ".plt" in name)


def _raw(address: str, text: str, line: int, function: str) -> _Raw:
    text, _, about = text.partition("#")
    text = text.strip()
    # A constant without a name is told as far behind whatever symbol lies before it.
    if (symbol := about.partition("<")[2].rpartition(">")[0]) and "+0x" not in symbol:
        text = f"{text}  # {symbol}"
    found = _TARGET.match(text)
    if found is None:
        return _Raw(int(address, 16), text[:MOST_TEXT], line, -1)
    inside = found["to"] == function or found["to"].startswith(f"{function}+")
    if not inside:
        text = f"{found['op']:<6} {found['to']}"
    return _Raw(
        int(address, 16), text[:MOST_TEXT], line, int(found["address"], 16) if inside else -1
    )


def _labelled(rows: Sequence[_Raw]) -> Iterable[Instruction]:
    """Yield the instructions, with labels in the order of their places instead of addresses."""
    targets = sorted({row.target for row in rows if row.target >= 0})
    labels = {address: f".{number}" for number, address in enumerate(targets, 1)}
    for row in rows:
        text = " ".join(row.text.split())
        if row.target >= 0:
            text = re.sub(r"[0-9a-f]+ <.+>$", labels[row.target], text)
        yield Instruction(text, row.line, labels.get(row.address, ""))


def find_loops(functions: Sequence[CodeFunction]) -> list[Loop]:
    """Return the innermost loops, those with the most vector arithmetic first.

    A loop is what a backward jump of a function encloses; it is innermost if no other loop lies
    inside it. That the first is the hot one is a guess, named so wherever it is shown: remainder
    loops have scalar instructions, and so come after the loops whose work they end.
    """
    found: list[Loop] = []
    for number, function in enumerate(functions):
        at = {row.label: index for index, row in enumerate(function.rows) if row.label}
        spans = set()
        for index, row in enumerate(function.rows):
            operation, _, target = row.text.partition(" ")
            label = target.rpartition(",")[2].strip()
            if _JUMP.match(operation) and at.get(label, index + 1) <= index:
                spans.add((at[label], index))
        for first, last in spans:
            if any(first <= a and b <= last and (a, b) != (first, last) for a, b in spans):
                continue
            body = function.rows[first : last + 1]
            # Compilers move an inner loop out of the range of addresses of its outer one.
            if any(_goes_out(row, at, first, last) for row in body) and len(spans) > 1:
                continue
            texts = [row.text for row in body if not _CLEARS.match(row.text)]
            vector = [text for text in texts if _VECTOR.search(text)]
            packed = sum(
                not (_SCALAR.match(text.partition(" ")[0]) or _COPIES.match(text))
                for text in vector
            )
            lines = tuple(sorted({row.line for row in body if row.line}))
            found.append(Loop(number, first, last, len(vector), packed, lines))
    found.sort(key=lambda loop: (-loop.packed, -loop.vector, loop.instructions, loop.function))
    return found[:MOST_LOOPS]


def _goes_out(row: Instruction, at: Mapping[str, int], first: int, last: int) -> bool:
    """Return whether a row always jumps out of the rows `first` to `last`, as to an inner loop."""
    operation, _, target = row.text.partition(" ")
    return operation in _ALWAYS and not first <= at.get(target.strip(), first) <= last
