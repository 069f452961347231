"""Asks llvm-mca what one iteration of a loop costs, and reads its answer.

Runs nothing itself: the caller starts the program. The estimate holds for data in the nearest cache
and for branches that are predicted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from akg_tui.evaluate.evidence.findings import Instruction, Throughput

ARGUMENTS = (
    "-mcpu=native", "-iterations=200", "-bottleneck-analysis", "-instruction-info=0",
    "-resource-pressure=0",
)  # fmt: skip
MOST_ROWS = 600
LEAST_SHARE = 20.0
"""The percentage of cycles from which on a cause is told."""
SUMS = frozenset({"Resource Pressure", "Data Dependencies"})
SEPARATOR = "; "
CALLS = ("call", "callq", "bl", "blr")

_NUMBER = re.compile(
    r"^(?P<name>Iterations|Total Cycles|IPC|Block RThroughput):\s+(?P<value>[\d.]+)", re.M
)
_SHARE = re.compile(
    r"^\s*(?:- )?(?P<name>Resource Pressure|Data Dependencies:|Register Dependencies"
    r"|Memory Dependencies|\w+)\s+\[ +(?P<share>[\d.]+)% \]$",
    re.M,
)
_COMMENT = re.compile(r"\s+#.*$")


def assembly_of(rows: Sequence[Instruction]) -> str:
    """Return the rows of a loop as assembly text: only the jump back to the top has a target."""
    top = rows[0].label
    lines = [".Ltop:"]
    for row in rows[:MOST_ROWS]:
        text = _COMMENT.sub("", row.text)
        operation, _, operands = text.partition(" ")
        label = operands.rpartition(",")[2].strip()
        if re.fullmatch(r"\.\d+", label):
            before = operands[: len(operands) - len(label)]
            text = f"{operation} {before}{'.Ltop' if label == top else '.Lend'}"
        elif operation in CALLS:
            # What it costs is not known; a call of an unknown name is all that can be said.
            text = f"{operation} .Lend"
        lines.append(text)
    return "\n".join([*lines, ".Lend:", ""])


def read_answer(text: str, cpu: str, *, calls: bool = False) -> Throughput | None:
    """Return what llvm-mca printed, or None if it has no numbers. `calls`: the loop has a call."""
    numbers = {found["name"]: float(found["value"]) for found in _NUMBER.finditer(text)}
    try:
        cycles = numbers["Total Cycles"] / numbers["Iterations"]
        ipc, least = numbers["IPC"], numbers["Block RThroughput"]
    except (KeyError, ZeroDivisionError):
        return None
    binds = _binds(text, cycles, least)
    if calls:
        binds = SEPARATOR.join([binds, "the function that it calls is not counted"])
    return Throughput(cpu, round(cycles, 2), ipc, binds)


def has_call(rows: Sequence[Instruction]) -> bool:
    """Return whether a loop calls a function, whose cycles llvm-mca can't know."""
    return any(row.text.partition(" ")[0] in CALLS for row in rows)


def _binds(text: str, cycles: float, least: float) -> str:
    """Return what the cycles of an iteration are spent on.

    `least` are the cycles that its instructions take if none waits for another.
    """
    shares = {found["name"].rstrip(":"): float(found["share"]) for found in _SHARE.finditer(text)}
    told = []
    if (chain := shares.pop("Register Dependencies", 0.0)) >= LEAST_SHARE:
        told.append(f"a chain of dependent instructions ({chain:.0f} % of cycles)")
    if (stores := shares.pop("Memory Dependencies", 0.0)) >= LEAST_SHARE:
        told.append(f"loads that wait for stores ({stores:.0f} % of cycles)")
    units = [
        f"{name} {share:.0f} %"
        for name, share in shares.items()
        if name not in SUMS and share >= LEAST_SHARE
    ]
    if units:
        told.append(f"execution units ({', '.join(units[:4])})")
    if not told:
        told.append("the number of instructions")
    if cycles > 1.5 * least:
        told.append(f"independent iterations would take {least:g} cycles")
    return SEPARATOR.join(told)
