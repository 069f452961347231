"""What the program of a kernel for an Ascend NPU tells: memories and instructions.

Pure. Counts are those of the text: an instruction in a loop counts once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from akg_tui.core.kernel.kernel_files import LineNames
from akg_tui.core.sanitize import one_line
from akg_tui.evidence.ascend.program import MEMORIES, Counted, HivmError, Program, read_program

MOST_KINDS = 16
MOST_LINES = 6

Fields = dict[str, object]

_OVERFLOW = re.compile(r"(\w+) overflow, requires (\d+) bits while (\d+) bits available")
_NO_BUFFERS = "enable-auto-multi-buffer to false"


def refusal(said: str, constants: Iterable[str]) -> str:
    """Return in plain words why the compiler refuses a kernel with these constants.

    What is not known is returned as the compiler says it.
    """
    found = _OVERFLOW.search(said)
    if found is None:
        return said
    needed, there = int(found[2]) // 8, int(found[3]) // 8
    memory = MEMORIES.get(found[1].lower(), found[1])
    sizes = [each for each in constants if re.fullmatch(r"\w+=\d+", each)]
    given = f" with {', '.join(sizes)}" if sizes else ""
    return (
        f"{memory} overflow: a program needs {needed:,} bytes of {memory}{given}, and a core has "
        f"{there:,}: make its blocks smaller, or go through them in a loop"
    )


@lru_cache(maxsize=8)
def _read(hivm: str) -> Program | str:
    try:
        return read_program(hivm)
    except HivmError as error:
        return f"the program can't be read: {one_line(str(error), 200)}"


def fields(hivm: str, notes: Sequence[str], names: LineNames) -> Fields:
    """Return what a program tells as JSON's values; `notes` are the compiler's."""
    program = _read(hivm)
    if isinstance(program, str):
        return {"left_out": program}
    told: Fields = {
        "cores": " and ".join(program.cores),
        "memory": {
            name: {"used": program.used[name], "of": limit}
            for name, limit in program.limits.items()
            if name in program.used
        },
        "loads": program.of("load").total(),
        "stores": program.of("store").total(),
        "moves": program.of("move").total(),
        "vector_operations": _by_name(program.of("vector")),
        "cube_operations": _by_name(program.of("cube")),
        "scalar_operations": program.of("scalar").total(),
        "flags": program.of("flags").total(),
        "barriers": program.of("barriers").total(),
        "core_flags": program.of("core_flags").total(),
        "multi_buffering": _multi_buffering(program.alternating, notes),
    }
    for name, kinds in (("load_lines", "load"), ("store_lines", "store")):
        told[name] = _by_line(program.of(kinds), names)
    in_loops = {each: n for each, n in program.of("scalar").items() if each.in_loop}
    if lines := _by_line(Counter(in_loops), names):
        told["scalar_work"] = lines
    if unknown := _by_name(program.of("unknown")):
        told["unknown_operations"] = unknown
    return told


def _by_name(counts: Counter[Counted]) -> dict[str, int]:
    """Return instructions by name, the most frequent first."""
    found: Counter[str] = Counter()
    for each, number in counts.items():
        found[one_line(each.name, 60)] += number
    return dict(sorted(found.items(), key=lambda entry: (-entry[1], entry[0])))


def _by_line(counts: Counter[Counted], names: LineNames) -> dict[str, int]:
    """Return how many instructions come from each line of the kernel's file."""
    found: Counter[str] = Counter()
    for each in sorted(counts):
        found[names.place(each.place)] += counts[each]
    return dict(found.most_common(MOST_LINES))


def _multi_buffering(alternating: int, notes: Sequence[str]) -> str:
    if any(_NO_BUFFERS in note for note in notes):
        return "dropped by the compiler, because UB would overflow with it"
    if not alternating:
        return "none: no loop alternates between buffers"
    return f"done for {alternating} buffers"


def words(facts: Fields) -> list[list[str]]:
    """Return the fields of a program as lines for a person, each as its parts."""
    if "left_out" in facts:
        return [[str(facts["left_out"])]]
    use = [
        f"{name} {each['used']:,} of {each['of']:,} bytes ({each['used'] / max(1, each['of']):.0%})"
        for name, each in _dict(facts["memory"]).items()
    ]
    told = [[f"{facts['cores']} cores", *(use or ["no buffers"])]]
    told.append(
        [
            f"  {_count(facts['loads'], 'load')}{_lines(facts['load_lines'])}",
            f"{_count(facts['stores'], 'store')}{_lines(facts['store_lines'])}",
        ]
    )
    for unit in ("vector", "cube"):
        if found := _dict(facts[f"{unit}_operations"]):
            kinds = [f"{n} {name}" for name, n in found.items()]
            more = [f"{len(kinds) - MOST_KINDS} more kinds"] if len(kinds) > MOST_KINDS else []
            many = _count(sum(found.values()), f"{unit} operation")
            told.append([f"  {many}", *kinds[:MOST_KINDS], *more])
    if "scalar_work" in facts:
        told.append([f"  scalar unit, accesses in loops{_lines(facts['scalar_work'])}"])
    flags = facts["core_flags"]
    told.append(
        [
            f"  {_count(facts['flags'], 'flag')} between pipes",
            _count(facts["barriers"], "barrier"),
            *([f"{_count(flags, 'flag')} between cores"] if flags else []),
            f"multi-buffering: {facts['multi_buffering']}",
        ]
    )
    if unknown := facts.get("unknown_operations"):
        told.append([f"  not understood: {', '.join(_dict(unknown))}"])
    return told


def _lines(found: object) -> str:
    listed = ", ".join(f"{place}: {n}" for place, n in _dict(found).items())
    return f" ({listed})" if listed else ""


def _count(number: object, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _dict(value: object) -> dict[str, Any]:
    assert isinstance(value, dict)
    return value
