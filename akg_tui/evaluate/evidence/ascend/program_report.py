"""What a kernel in HIVM tells: memories, transfers, operations, flags; and why there is none.

Pure. Counts are those of one program of the grid: an operation in a loop of known length counts as
often as the loop runs, in a loop of unknown length once. What is only executed at the edge of a
tensor is left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

from akg_tui.core.sanitize import one_line
from akg_tui.evaluate.evidence.ascend.hivm import Function, HivmError, Module, Operation, read_hivm
from akg_tui.kernel_files import LineNames

MOST_TRANSFERS = 24
MOST_KINDS = 16
MOST_LINES = 6

Fields = dict[str, object]

_OVERFLOW = re.compile(r"(\w+) overflow, requires (\d+) bits while (\d+) bits available")
_MEMORIES = {"ub": "UB", "cbuf": "L1", "ca": "L0A", "cb": "L0B", "cc": "L0C"}
_ROLE = re.compile(
    r"_(?:[vs]{2}|\d+d|to|r|ar|ra|with|align|tb|ta|float|half|bfloat16|u?int\d+|bool)(?:_|$)"
)
_BITS = re.compile(r"\d+")
_NO_BUFFERS = "enable-auto-multi-buffer to false"


def refusal(said: str, constants: Iterable[str]) -> str:
    """Return in plain words why the compiler refuses a kernel with these constants.

    What is not known is returned as the compiler says it.
    """
    found = _OVERFLOW.search(said)
    if found is None:
        return said
    needed, there = int(found[2]) // 8, int(found[3]) // 8
    memory = _MEMORIES.get(found[1].lower(), found[1])
    sizes = [each for each in constants if re.fullmatch(r"\w+=\d+", each)]
    given = f" with {', '.join(sizes)}" if sizes else ""
    return (
        f"{memory} overflow: a program needs {needed:,} bytes of {memory}{given}, and a core has "
        f"{there:,}: make its blocks smaller, or go through them in a loop"
    )


@lru_cache(maxsize=8)
def _read(hivm: str) -> Module | str:
    try:
        return read_hivm(hivm)
    except HivmError as error:
        return f"the program can't be read: {one_line(str(error), 200)}"


def fields(hivm: str, notes: Sequence[str], names: LineNames) -> Fields:
    """Return what a program tells as JSON's values; `notes` are the compiler's."""
    module = _read(hivm)
    if isinstance(module, str):
        return {"left_out": module}
    operations = [each for part in module.functions for each in part.operations]
    often = [each for each in operations if not each.unlikely]
    told: Fields = {
        "cores": _cores(module),
        "memory": _memory(module),
        **_transfers(often, names),
        "vector_operations": _vector(often),
        "cube_operations": _cube(often),
        "scalar_operations": sum(map(_times, _of(often, "scalar"))),
        "flags": sum(map(_times, _of(often, "set_flag"))),
        "barriers": sum(map(_times, _of(often, "barrier"))),
        "core_flags": sum(map(_times, _of(often, "block_set"))),
        "multi_buffering": _multi_buffering(module.functions, notes),
    }
    if (used := _lanes(often)) is not None:
        told["vector_blocks_filled"] = round(used, 3)
    if scalar := _scalar_lines(often, names):
        told["scalar_work"] = scalar
    if any(each.times is None for each in often):
        told["loops_of_unknown_length"] = "count once"
    if unknown := sum((Counter(part.unknown) for part in module.functions), Counter()):
        told["unknown_operations"] = {one_line(name, 60): n for name, n in unknown.items()}
    return told


def _of(operations: Iterable[Operation], *kinds: str) -> list[Operation]:
    return [each for each in operations if each.kind in kinds]


def _times(operation: Operation) -> int:
    return 1 if operation.times is None else operation.times


def _cores(module: Module) -> str:
    names = {"AIV": "vector", "AIC": "cube"}
    return " and ".join(sorted({names.get(part.core, part.core) for part in module.functions}))


def _memory(module: Module) -> Fields:
    """Return bytes in use and there of each memory in which buffers are."""
    target = module.target
    limits = {"UB": target.ub, "L1": target.l1, "L0A": target.l0a, "L0B": target.l0b}
    told: Fields = {}
    for name, limit in (limits | {"L0C": target.l0c}).items():
        if used := max(part.used(name) for part in module.functions):
            told[name] = {"used": used, "of": limit}
    return told


def _transfers(operations: Sequence[Operation], names: LineNames) -> Fields:
    """Return transfers with global memory by line, and their sums."""
    moved = [each for each in _of(operations, "transfer") if "GM" in (each.source, each.target)]
    rows: dict[tuple[object, ...], int] = {}
    for each in moved:
        key = (
            names.place(each.place),
            each.source,
            each.target,
            each.size,
            each.run,
            each.discrete,
        )
        rows[key] = rows.get(key, 0) + _times(each)
    told: Fields = {}
    for name, side in (("loads", "source"), ("stores", "target")):
        found = [each for each in moved if getattr(each, side) == "GM"]
        told[name] = {
            "transfers": sum(map(_times, found)),
            "bytes": sum(_times(each) * each.size for each in found),
        }
    discrete = [each for each in moved if each.discrete]
    told["discrete"] = {
        "transfers": sum(map(_times, discrete)),
        "bytes": sum(_times(each) * each.size for each in discrete),
        "lines": [
            names.place(line) if names.before else line
            for line in sorted({each.place for each in discrete if each.place})
        ],
    }
    fields = ("place", "from", "to", "bytes", "bytes_without_a_gap", "discrete", "times")
    told["transfers"] = [
        dict(zip(fields, (*key, times), strict=True)) for key, times in rows.items()
    ][:MOST_TRANSFERS]
    return told


def _vector(operations: Sequence[Operation]) -> Fields:
    """Return vector operations by name and type, those with the most elements first."""
    counts: Counter[str] = Counter()
    elements: Counter[str] = Counter()
    for each in _of(operations, "vector"):
        name = f"{_name(each)} {each.dtype}".strip()
        counts[name] += _times(each)
        elements[name] += _times(each) * each.elements
    return {
        one_line(name, 60): {"operations": counts[name], "elements": elements[name]}
        for name in sorted(counts, key=lambda name: (-elements[name], name))
    }


def _cube(operations: Sequence[Operation]) -> Fields:
    counts: Counter[str] = Counter()
    for each in _of(operations, "cube"):
        counts[f"{each.m}x{each.k} by {each.k}x{each.n} {each.dtype}"] += _times(each)
    return dict(counts)


def _name(operation: Operation) -> str:
    """Return the name of a library function without the forms of its arguments and its type."""
    name = operation.name.removeprefix("enablevc_")
    return _ROLE.split(name, maxsplit=1)[0]


def _lanes(operations: Sequence[Operation]) -> float | None:
    """Return which share of the blocks of 32 bytes that vector operations go through is data."""
    data = blocks = 0
    for each in _of(operations, "vector"):
        if each.blocks and (bits := _BITS.search(each.dtype)):
            data += _times(each) * each.elements * int(bits[0]) // 8
            blocks += _times(each) * each.blocks
    return min(1.0, data / (32 * blocks)) if blocks else None


def _scalar_lines(operations: Sequence[Operation], names: LineNames) -> list[str]:
    """Return the lines whose elements the scalar unit accesses in loops, with the accesses."""
    found: Counter[str] = Counter()
    for each in _of(operations, "scalar", "transfer"):
        if each.pipe == "S" and each.depth:
            found[names.place(each.place)] += _times(each)
    return [f"{place}: {n}" for place, n in found.most_common(MOST_LINES)]


def _multi_buffering(functions: Sequence[Function], notes: Sequence[str]) -> str:
    if any(_NO_BUFFERS in note for note in notes):
        return "dropped by the compiler, because UB would overflow with it"
    number = sum(part.multi_buffered for part in functions)
    return f"done for {number} buffers" if number else "none: no loop alternates between buffers"


def words(facts: Fields) -> list[str]:
    """Return the fields of a program as lines for a person."""
    if "left_out" in facts:
        return [str(facts["left_out"])]
    memory, discrete = _dict(facts["memory"]), _dict(facts["discrete"])
    use = [
        f"{name} {_dict(each)['used']:,} of {_dict(each)['of']:,} bytes ("
        f"{_int(_dict(each)['used']) / max(1, _int(_dict(each)['of'])):.0%})"
        for name, each in memory.items()
    ]
    told = [f"{facts['cores']} cores; {', '.join(use) or 'no buffers'}"]
    told.append(f"  {_moved(facts, 'loads')}; {_moved(facts, 'stores')}{_rows(facts)}")
    if discrete["transfers"]:
        lines = _list(discrete["lines"])
        named = "line " if lines and isinstance(lines[0], int) else ""
        where = f", {named}{', '.join(map(str, lines))}" if lines else ""
        told.append(
            f"  discrete, one element at a time: {discrete['bytes']:,} bytes in "
            f"{_count(discrete['transfers'], 'transfer')}{where}"
        )
    vector = _dict(facts["vector_operations"])
    if vector:
        filled = facts.get("vector_blocks_filled")
        share = f", {filled:.0%} of their blocks is data" if isinstance(filled, float) else ""
        kinds = [f"{_dict(n)['operations']} {name}" for name, n in vector.items()]
        total = sum(_int(_dict(n)["operations"]) for n in vector.values())
        more = f" and {len(kinds) - MOST_KINDS} more kinds" if len(kinds) > MOST_KINDS else ""
        listed = ", ".join(kinds[:MOST_KINDS])
        told.append(f"  {_count(total, 'vector operation')}{share}: {listed}{more}")
    if cube := _dict(facts["cube_operations"]):
        told.append(f"  cube: {', '.join(f'{n} of {name}' for name, n in cube.items())}")
    if scalar := facts.get("scalar_work"):
        told.append(f"  scalar unit, accesses in loops: {', '.join(map(str, _list(scalar)))}")
    flags = facts["core_flags"]
    between = f", {_count(flags, 'flag')} between cores" if flags else ""
    once = "; loops of unknown length count once" if "loops_of_unknown_length" in facts else ""
    told.append(
        f"  {_count(facts['flags'], 'flag')} between pipes, "
        f"{_count(facts['barriers'], 'barrier')}{between}; "
        f"multi-buffering: {facts['multi_buffering']}{once}"
    )
    if unknown := facts.get("unknown_operations"):
        told.append(f"  not understood: {', '.join(_dict(unknown))}")
    return told


def _moved(facts: Fields, name: str) -> str:
    found = _dict(facts[name])
    return f"{name} {found['bytes']:,} bytes in {_count(found['transfers'], 'transfer')}"


def _rows(facts: Fields) -> str:
    """Return the shortest pieces without a gap, which cost the most."""
    runs = [
        _int(_dict(each)["bytes_without_a_gap"])
        for each in _list(facts["transfers"])
        if _dict(each)["bytes"]
    ]
    return f"; shortest piece without a gap {min(runs):,} bytes" if runs else ""


def _count(number: object, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _dict(value: object) -> dict[str, object]:
    assert isinstance(value, dict)
    return value


def _list(value: object) -> list[object]:
    assert isinstance(value, list)
    return value


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value
