"""A kernel in HIVM, the last form before its object: its operations by pipe, and its buffers.

Pure. An Ascend core has a pipe for each kind of work: MTE2 loads from global memory, MTE3 stores,
MTE1 moves from L1 to L0, V is the vector unit, M the cube unit, FIX moves the cube's results, S is
the scalar unit. Pipes run beside one another; only flags and barriers order them. In HIVM each
operation is a call of the compiler's library, and the spaces of its places tell the pipe.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from akg_tui.evaluate.evidence.ascend.hivm_text import (
    LARGEST,
    Body,
    HivmError,
    Instruction,
    Tree,
    memref_type,
    read_tree,
)
from akg_tui.evaluate.evidence.ascend.hivm_values import Memref, Number, Value, Values, of_type

__all__ = [
    "Buffer", "Function", "HivmError", "Module", "Operation", "Target", "known_arguments",
    "operation_of", "read_hivm",
]  # fmt: skip

PIPES = ("MTE2", "MTE1", "M", "FIX", "V", "MTE3", "S")
SPACES = {"gm": "GM", "ub": "UB", "cbuf": "L1", "ca": "L0A", "cb": "L0B", "cc": "L0C"}
MOST_FUNCTIONS = 4
HIDDEN_ARGUMENTS = 3
"""Arguments before the kernel's own: the base of synchronisation, a lock and a workspace."""
GRID_ARGUMENTS = 3
BLOCK = 32
"""Bytes of a block of the unified buffer, in which vector operations and transfers work."""

_CALL = re.compile(r"@([\w$.-]+)\(")
_FLAG = re.compile(r"\[<PIPE_(\w+)>, *<PIPE_(\w+)>, *(?:<EVENT_ID(\d{1,4})>|(%[\w$.#-]+))\]")
_BARRIER = re.compile(r"\[<PIPE_(\w+)>\]")
_BLOCK_FLAG = re.compile(
    r"\[<(\w+)>, *<PIPE_(\w+)>, *<PIPE_(\w+)>\] *flag *= *(\d{1,4}|%[\w$.#-]+)"
)
_CORE = re.compile(r"func_core_type<(AIV|AIC)>")
_FOR = re.compile(r"(%[\w$.-]+) = (%[\w$.#-]+) to (%[\w$.#-]+) step (%[\w$.#-]+)")
# Not work of a pipe: values, places, structure and settings of a register.
_SILENT = re.compile(
    r"arith\.|affine\.|math\.|index\.|scf\.|cf\.|func\.(?!call)|return$|block$|annotation\.|llvm\."
    r"|memref\.(?!load|store|copy)"
    r"|hivm\.hir\.(?:pointer_cast|get_\w+|set_mask\w*|set_ffts\w*|set_ctrl\w*)$"
)


class Target(Struct, frozen=True):
    """The target as the module describes it: cores, and bytes of the memories of a core."""

    vector_cores: int = 0
    cube_cores: int = 0
    ub: int = 0
    l1: int = 0
    l0a: int = 0
    l0b: int = 0
    l0c: int = 0


class Buffer(Struct, frozen=True, order=True):
    """A buffer of a core's memory: its space (UB, L1, L0C, …), first byte and bytes."""

    space: str
    address: int
    size: int


class Operation(Struct, frozen=True, kw_only=True):
    """One operation of a pipe.

    `kind` is one of transfer, vector, cube, scalar, set_flag, wait_flag, barrier, block_set,
    block_wait and unknown. What does not belong to the kind is 0 or "". `line` is that of the text,
    `place` that of the kernel's file, 0 if it is not told.

    A transfer moves `size` bytes from `source` to `target` (spaces), `run` bytes at a time without
    a gap; an access of the scalar unit to global memory is a transfer on pipe S. A vector operation
    processes `elements` of `dtype` in `blocks` blocks of 32 bytes. A cube operation multiplies
    `m` x `k` by `k` x `n`. A flag leads from `before` to `after` (pipes) with number `event`, or
    None if it depends on unknown values; those of a block join cube and vector cores. A cube
    operation has such flags inside: `waits` and `sets` are events from MTE2 to MTE1 and back.

    Sizes that depend on unknown values are their bounds. `times` is how often the constant loops
    around execute it for each program, None if a trip count is unknown; `depth` is their number.
    """

    kind: str
    pipe: str
    name: str
    line: int
    place: int = 0
    size: int = 0
    run: int = 0
    source: str = ""
    target: str = ""
    elements: int = 0
    blocks: int = 0
    dtype: str = ""
    m: int = 0
    n: int = 0
    k: int = 0
    before: str = ""
    after: str = ""
    event: int | None = 0
    waits: tuple[int | None, ...] = ()
    sets: tuple[int | None, ...] = ()
    depth: int = 0
    times: int | None = 1
    unlikely: bool = False

    @property
    def discrete(self) -> bool:
        """Whether a transfer with global memory moves one element at a time."""
        return (
            self.kind == "transfer"
            and "GM" in (self.source, self.target)
            and self.size > 0
            and (self.pipe == "S" or (self.run * 8 <= _bits(self.dtype) and self.elements > 1))
        )


def _bits(dtype: str) -> int:
    return Memref("", dtype, (), ()).bits


class Function(Struct, frozen=True):
    """A function that a core executes: `core` is AIV (vector) or AIC (cube).

    `operations` has each operation of the text once, `unknown` what was not understood by name.
    `multi_buffered` is the number of buffers that alternate between iterations of a loop.
    """

    name: str
    core: str
    body: Body
    operations: tuple[Operation, ...]
    buffers: tuple[Buffer, ...]
    unknown: Mapping[str, int]
    multi_buffered: int = 0

    def used(self, space: str) -> int:
        """Return the bytes in use of a space: the end of its last buffer."""
        ends = (each.address + each.size for each in self.buffers if each.space == space)
        return max(ends, default=0)


class Module(Struct, frozen=True):
    """A compiled kernel: one function, or one for each kind of core (`mixed`)."""

    tree: Tree
    target: Target
    functions: tuple[Function, ...]

    @property
    def mixed(self) -> bool:
        """Whether cube and vector cores work together."""
        return len({function.core for function in self.functions}) > 1


def read_hivm(text: str) -> Module:
    """Return the kernel of a module's text.

    Raises
    ------
    HivmError
        If the text is not HIVM, or beyond the limits.

    """
    tree = read_tree(text)
    functions = tuple(
        _function(tree, body) for body in tree.functions if "function_kind<HOST>" not in
        body.attributes
    )  # fmt: skip
    if not 0 < len(functions) <= MOST_FUNCTIONS:
        raise HivmError(f"the text has {len(functions)} functions for the device")
    told = tree.target

    def size(name: str) -> int:
        return max(0, told.get(name, 0)) // 8

    target = Target(
        vector_cores=max(0, told.get("VECTOR_CORE_COUNT", 0)),
        cube_cores=max(0, told.get("CUBE_CORE_COUNT", 0)),
        ub=size("UB_SIZE"),
        l1=size("L1_SIZE"),
        l0a=size("L0A_SIZE"),
        l0b=size("L0B_SIZE"),
        l0c=size("L0C_SIZE"),
    )
    return Module(tree, target, functions)


def known_arguments(
    body: Body, given: tuple[Number, ...], grid: tuple[int, ...]
) -> dict[str, Value]:
    """Return the arguments of a function by name: places, the kernel's integers, the grid.

    `given` are the kernel's own arguments in order, None for each that is no integer.
    """
    known: dict[str, Value] = {}
    for name, kind in body.arguments:
        found = memref_type(kind)
        known[name] = None if found is None else of_type(found)
    own = body.arguments[
        HIDDEN_ARGUMENTS : max(HIDDEN_ARGUMENTS, len(body.arguments) - GRID_ARGUMENTS)
    ]
    for (name, kind), value in zip(own, given, strict=False):
        if value is not None and kind.startswith(("i", "index")):
            known[name] = value
    sides = (*grid, 1, 1, 1)[:GRID_ARGUMENTS]
    if grid and len(body.arguments) >= HIDDEN_ARGUMENTS + GRID_ARGUMENTS:
        for (name, kind), side in zip(body.arguments[-GRID_ARGUMENTS:], sides, strict=True):
            if kind.startswith("i"):
                known[name] = side
    return known


def _function(tree: Tree, body: Body) -> Function:
    visit = _Visit(Values(tree.maps, known_arguments(body, (), ())), tree.places)
    visit.region(body.instructions, 0, 1, unlikely=False)
    core = _CORE.search(body.attributes) or _CORE.search(tree.attributes)
    return Function(
        body.name[:120],
        core[1] if core else "AIV",
        body,
        tuple(visit.operations),
        tuple(sorted(visit.buffers)),
        visit.unknown,
        visit.alternating,
    )


class _Visit:
    """Goes through each instruction of a function once."""

    def __init__(self, values: Values, places: Mapping[str, int]) -> None:
        self._values, self._places = values, places
        self.operations: list[Operation] = []
        self.buffers: set[Buffer] = set()
        self.unknown: Counter[str] = Counter()
        self.alternating = 0

    def region(
        self,
        instructions: tuple[Instruction, ...],
        depth: int,
        times: int | None,
        *,
        unlikely: bool,
    ) -> None:
        values = self._values
        for each in instructions:
            if each.regions:
                inner = times
                if each.operation in ("scf.for", "scf.while"):
                    trips = trip_count(each, values)
                    inner = None if trips is None or times is None else min(trips * times, LARGEST)
                    depth_inside = depth + 1
                else:
                    depth_inside = depth
                    if each.operation != "scf.if":
                        self.unknown[each.operation[:60]] += 1
                rare = unlikely or "unlikely_condition" in each.attributes
                for name, value in carried(each, values):
                    values.define(name, value)
                for region in each.regions:
                    self.region(region, depth_inside, inner, unlikely=rare)
                for name in each.results:
                    values.define(name, None)
                _typed_results(each, values)
                continue
            values.run(each)
            if each.operation == "hivm.hir.pointer_cast":
                self._buffers(each)
            elif each.operation == "arith.select" and values.place(each.results[0]) is not None:
                self.alternating += 1
            found = operation_of(each, values)
            if found is None:
                continue
            if found.kind == "unknown":
                self.unknown[found.name] += 1
            place = self._places.get(each.location, 0)
            found = replace(found, place=place, depth=depth, times=times, unlikely=unlikely)
            self.operations.append(found)

    def _buffers(self, instruction: Instruction) -> None:
        place = self._values.place(instruction.results[0])
        if place is None or not place.elements:
            return
        size = -(-place.elements * place.bits // 8)
        for name in instruction.operands:
            address = self._values.number(name)
            if address is not None and 0 <= address < LARGEST:
                space = SPACES.get(place.space, place.space[:8])
                self.buffers.add(Buffer(space, address, size))


def _typed_results(instruction: Instruction, values: Values) -> None:
    """Give the results of a region the places of their types."""
    if len(instruction.results) != 1 or "->" not in instruction.text:
        yields = [each for region in instruction.regions for each in region if
                  each.operation in ("scf.yield", "scf.condition")]  # fmt: skip
        for each in yields:
            names = each.operands[each.operation == "scf.condition" :]
            for result, name in zip(instruction.results, names, strict=False):
                if values.value(result) is None:
                    values.define(result, values.place(name))
        return
    kind = memref_type(instruction.text.split("->")[-1])
    if kind is not None:
        values.define(instruction.results[0], of_type(kind))


def bounds(loop: Instruction) -> tuple[str, str, str] | None:
    """Return the names of a loop's first value, its end and its step; None if it has none."""
    found = _FOR.match(loop.text)
    return None if found is None else (found[2], found[3], found[4])


def trip_count(loop: Instruction, values: Values) -> int | None:
    """Return how often a loop with bounds is executed, None if they are unknown."""
    names = bounds(loop)
    if loop.operation != "scf.for" or names is None:
        return None
    first, last, step = map(values.number, names)
    if first is None or last is None or step is None or step <= 0:
        return None
    return max(0, -(-(last - first) // step))


_ASSIGNED = re.compile(r"(%[\w$.-]+) = (%[\w$.#-]+|-?\d+)")


def carried(loop: Instruction, values: Values) -> Iterator[tuple[str, Value]]:
    """Return what a loop hands from one iteration to the next, with its first values.

    The counter of a loop with bounds is unknown here.
    """
    counter = _FOR.match(loop.text)
    text = loop.text[counter.end() :] if counter else loop.text
    if counter:
        yield counter[1], None
    if loop.operation in ("scf.for", "scf.while"):
        for name, first in _ASSIGNED.findall(text):
            yield name, values.place(first)


@lru_cache(maxsize=512)
def is_silent(name: str) -> bool:
    """Tell whether an instruction of this name is no work of a pipe."""
    return _SILENT.match(name) is not None


def operation_of(instruction: Instruction, values: Values) -> Operation | None:
    """Return the operation of a pipe that an instruction is, None if it only computes values."""
    name, line = instruction.operation, instruction.line
    if is_silent(name):
        return None
    if name in ("func.call", "call"):
        return _call(instruction, values)
    if name in ("memref.load", "memref.store"):
        return _scalar_access(instruction, values)
    short = name.removeprefix("hivm.hir.")
    if short in ("set_flag", "wait_flag") and (found := _FLAG.match(instruction.text)):
        event = int(found[3]) if found[3] else values.number(found[4])
        before, after = found[1], found[2]
        pipe = before if short == "set_flag" else after
        return Operation(
            kind=short, pipe=pipe, name=short, line=line, before=before, after=after, event=event
        )
    if short == "pipe_barrier" and (found := _BARRIER.match(instruction.text)):
        return Operation(kind="barrier", pipe=found[1], name=short, line=line)
    if short in ("sync_block_set", "sync_block_wait") and (
        found := _BLOCK_FLAG.match(instruction.text)
    ):
        sets = short == "sync_block_set"
        return Operation(
            kind="block_set" if sets else "block_wait",
            pipe=found[2] if sets else found[3],
            name=short,
            line=line,
            before=found[2],
            after=found[3],
            event=values.number(found[4]),
        )
    return Operation(kind="unknown", pipe="", name=(name or instruction.text)[:60], line=line)


def _call(instruction: Instruction, values: Values) -> Operation:
    found = _CALL.match(instruction.text)
    name = found[1][:80] if found else ""
    places = [place for each in instruction.operands if (place := values.place(each)) is not None]
    spaces = {place.space for place in places}
    line = instruction.line
    if name.startswith("mma_tile"):
        return _cube(name, instruction, values, places)
    if not places or len(spaces) > 2:
        return Operation(kind="unknown", pipe="", name=name or "call", line=line)
    first, last = places[0], places[-1]
    if spaces == {"ub"}:
        return _vector(name, line, places)
    if spaces == {"cbuf"}:
        # L1 is filled with a value by the pipe that loads into it.
        return _transfer("MTE2", name, line, first, first)
    pipe = ""
    if spaces in ({"gm", "ub"}, {"gm", "cbuf"}):
        pipe = "MTE2" if first.space == "gm" else "MTE3"
    elif "cc" in spaces:
        pipe = "FIX"
    elif spaces == {"ub", "cbuf"}:
        pipe = "MTE3" if first.space == "ub" else "MTE1"
    elif spaces & {"ca", "cb"}:
        pipe = "MTE1"
    if not pipe:
        return Operation(kind="unknown", pipe="", name=name, line=line)
    second = next((place for place in places if place.space != first.space), last)
    return _transfer(pipe, name, line, first, second if last.space == first.space else last)


def _vector(name: str, line: int, places: list[Memref]) -> Operation:
    widest = max(places, key=lambda place: place.elements or 0)
    return Operation(
        kind="vector",
        pipe="V",
        name=name,
        line=line,
        elements=widest.elements or 0,
        blocks=max(_blocks(place) for place in places),
        dtype=max(places, key=lambda place: place.bits).element,
    )


def _blocks(place: Memref) -> int:
    """Return the blocks of 32 bytes that a vector operation reads or writes of a place."""
    elements = place.elements or 0
    run = max(1, place.run)
    return -(-elements // run) * -(-run * place.bits // 8 // BLOCK or -1) if elements else 0


def _transfer(pipe: str, name: str, line: int, source: Memref, target: Memref) -> Operation:
    # The two sides have equally many elements; a fractal layout in L1 and L0 is padded.
    outer = next((each for each in (source, target) if each.space == "gm"), source)
    other = target if outer is source else source
    counts = [each.elements for each in (outer, other) if each.elements is not None]
    elements = min(counts, default=0) if other.space == "ub" else next(iter(counts), 0)
    run = outer.run
    if other.space == "ub":
        run = min(run, max(1, other.run))
    run = max(1, min(run, elements))
    return Operation(
        kind="transfer",
        pipe=pipe,
        name=name,
        line=line,
        size=elements * outer.bits // 8,
        run=max(1, run * outer.bits // 8),
        source=SPACES.get(source.space, source.space),
        target=SPACES.get(target.space, target.space),
        elements=elements,
        dtype=outer.element,
    )


def _scalar_access(instruction: Instruction, values: Values) -> Operation:
    loads = instruction.operation == "memref.load"
    name = instruction.operands[0 if loads else 1 : 2] or ("",)
    place = values.place(name[0])
    kind = memref_type(instruction.text)
    space = place.space if place else kind.space if kind else ""
    element = place.element if place else kind.element if kind else ""
    bits = Memref(space, element, (), ()).bits
    return Operation(
        kind="transfer" if space == "gm" else "scalar",
        pipe="S",
        name=instruction.operation,
        line=instruction.line,
        size=max(1, bits // 8),
        run=max(1, bits // 8),
        source=SPACES.get(space, space) if loads else "S",
        target="S" if loads else SPACES.get(space, space),
        elements=1,
        dtype=element,
    )


def _cube(name: str, instruction: Instruction, values: Values, places: list[Memref]) -> Operation:
    """Return a product of tiles of L1.

    Its arguments are A, B, whether to start from zero, m, k, n, a bias if there is one, C, and
    events: two to wait for and two to set (A and B; -1 is none), and more inside.
    """
    names = instruction.operands
    numbers = [values.number(each) for each in names[3:6]]
    m, k, n = (each or 0 for each in (*numbers, 0, 0, 0)[:3])
    a, b = (*places, None, None)[:2]
    if None in numbers and a is not None and b is not None:
        m, k, n = _bounds(a, b, m, k, n)
    after = [at for at, each in enumerate(names) if values.place(each) is not None]
    start = after[-1] + 1 if after else len(names)
    events = [values.number(each) for each in names[start : start + 4]]
    return Operation(
        kind="cube",
        pipe="M",
        name=name,
        line=instruction.line,
        m=m,
        n=n,
        k=k,
        elements=m * n,
        dtype=a.element if a else "",
        waits=tuple(each for each in events[:2] if each != -1),
        sets=tuple(each for each in events[2:4] if each != -1),
    )


def _bounds(a: Memref, b: Memref, m: int, k: int, n: int) -> tuple[int, int, int]:
    """Return the sides of a product by the buffers of A and B where they are unknown.

    A tile lies in fractals: two outer sizes, then those of a fractal of 16 rows.
    """
    of_a, of_b = a.elements or 0, b.elements or 0
    if len(a.sizes) == 4 and None not in a.sizes:
        outer_columns, outer_rows, rows, columns = (each or 0 for each in a.sizes)
        m, k = m or outer_rows * rows, k or outer_columns * columns
    k = k or 16
    m = m or of_a // k or 1
    return m, k, n or of_b // k or 1
