"""Integers and places in memory that instructions in HIVM compute, as far as they are known.

Pure. An integer that depends on data or on an argument that is not given is None. A size that is
not known is replaced by its bound: the size of the buffer that it is cut from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from operator import is_
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from akg_tui.evaluate.evidence.ascend.hivm_text import (
    LARGEST,
    AffineMap,
    Instruction,
    MemrefType,
    memref_type,
)

_TOKEN = re.compile(r"\s*(?:(\d{1,18})|([A-Za-z]\w*)|(.))")
_LIST = re.compile(r"\[([^\[\]]*)\]")
_GROUP = re.compile(r"\[([\d, ]+)\]")
_CONSTANT = re.compile(r"(-?\d{1,19}|true|false) *(?:: *(\w+))?$")
_WIDTH = re.compile(r"(?:b?f|[su]?i)(\d{1,3})")
_CAST_TO = re.compile(r"\bto (\w+)$")
MOST_EXPRESSION = 400

Number = int | None


class Memref(Struct, frozen=True):
    """A place in memory: its space, its shape in elements, and where it starts (None: unknown)."""

    space: str
    element: str
    sizes: tuple[Number, ...]
    strides: tuple[Number, ...]
    address: Number = None

    @property
    def bits(self) -> int:
        """The bits of an element."""
        return element_bits(self.element)

    @property
    def elements(self) -> Number:
        """The number of elements."""
        product = 1
        for size in self.sizes:
            if size is None:
                return None
            product = min(product * size, LARGEST)
        return product

    @property
    def run(self) -> int:
        """The number of elements that lie one after the other before the first gap."""
        run = 1
        for size, stride in zip(reversed(self.sizes), reversed(self.strides), strict=True):
            if size == 1:
                continue
            if size is None or stride != run:
                break
            run = min(run * size, LARGEST)
        return run


Value = int | Memref | None


def element_bits(element: str) -> int:
    """Return the bits of an element type such as f32, bf16, i1 or index."""
    found = _WIDTH.search(element)
    return int(found[1]) if found else 64 if element == "index" else 32


def of_type(kind: MemrefType) -> Memref:
    """Return a place of which only the type is known."""
    return Memref(kind.space, kind.element, kind.sizes, kind.strides)


def _toward_zero(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_BINARY: dict[str, Callable[[int, int], int]] = {
    "arith.addi": lambda a, b: a + b,
    "arith.subi": lambda a, b: a - b,
    "arith.muli": lambda a, b: a * b,
    "arith.floordivsi": lambda a, b: a // b,
    "arith.divsi": _toward_zero,
    "arith.divui": _toward_zero,
    "arith.ceildivsi": lambda a, b: -(-a // b),
    "arith.ceildivui": lambda a, b: -(-a // b),
    "arith.remsi": lambda a, b: a - b * _toward_zero(a, b),
    "arith.remui": lambda a, b: a - b * _toward_zero(a, b),
    "arith.minsi": min,
    "arith.minui": min,
    "arith.maxsi": max,
    "arith.maxui": max,
    "arith.xori": lambda a, b: a ^ b,
    "arith.shli": lambda a, b: a << b if 0 <= b < 64 else 0,
    "arith.shrsi": lambda a, b: a >> b if 0 <= b < 64 else 0,
    "arith.shrui": lambda a, b: a >> b if 0 <= b < 64 else 0,
}
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
_SAME = frozenset({
    "arith.index_cast", "arith.index_castui", "arith.extui", "arith.extsi", "arith.trunci",
    "arith.bitcast",
})  # fmt: skip


def _limited(value: int) -> Number:
    return value if -LARGEST <= value <= LARGEST else None


class Values:
    """The values of one function, by the names of its text.

    `block` and `sub_block` are the number of the program and of the vector core that executes it.
    """

    def __init__(
        self,
        maps: Mapping[str, AffineMap],
        arguments: Mapping[str, Value],
        *,
        block: Number = None,
        sub_block: Number = None,
    ) -> None:
        self._maps = maps
        self._known: dict[str, Value] = dict(arguments)
        self._block, self._sub_block = block, sub_block
        self._memory: dict[tuple[str, int], tuple[list[Value], Any]] = {}

    def number(self, name: str) -> Number:
        """Return an integer: the value of a name, or a literal."""
        if name.startswith("%"):
            value = self._known.get(name)
            return value if isinstance(value, int) else None
        name = name.strip()
        return int(name) if name.removeprefix("-").isdecimal() and len(name) < 20 else None

    def place(self, name: str) -> Memref | None:
        """Return the place that a name stands for."""
        value = self._known.get(name)
        return value if isinstance(value, Memref) else None

    def value(self, name: str) -> Value:
        """Return what a name stands for."""
        return self._known.get(name)

    def define(self, name: str, value: Value) -> None:
        """Give a name its value."""
        self._known[name] = value

    def run(self, instruction: Instruction) -> None:
        """Define the results of an instruction without regions."""
        if not instruction.results:
            return
        operation = instruction.operation
        if operation.startswith("memref.") or operation == "hivm.hir.pointer_cast":
            # Places are the same in most iterations of a loop.
            found = self.remembered("places", instruction)
            if found is None:
                found = self._places(instruction)
                self.remember("places", instruction, found)
            for name, value in zip(instruction.results, found, strict=True):
                self._known[name] = value
            return
        value = self._computed(instruction)
        for name in instruction.results:
            self._known[name] = value

    def remembered(self, what: str, instruction: Instruction) -> Any:
        """Return what was remembered of an instruction with the values that it has now, or None."""
        memory = self._memory.get((what, id(instruction)))
        if memory is None:
            return None
        known = self._known
        same = all(map(is_, memory[0], [known.get(name) for name in instruction.operands]))
        return memory[1] if same else None

    def remember(self, what: str, instruction: Instruction, found: object) -> None:
        """Remember something that depends on an instruction and its values alone."""
        inputs = [self._known.get(name) for name in instruction.operands]
        self._memory[what, id(instruction)] = inputs, found

    def _places(self, instruction: Instruction) -> list[Value]:
        if instruction.operation == "memref.extract_strided_metadata":
            return self._metadata(instruction)
        return [self._place(instruction)] * len(instruction.results)

    def _computed(self, instruction: Instruction) -> Value:
        operation, names = instruction.operation, instruction.operands
        if operation == "arith.constant":
            return _constant(instruction.text)
        if operation == "hivm.hir.get_block_idx":
            return self._block
        if operation == "hivm.hir.get_sub_block_idx":
            return self._sub_block
        if operation.startswith("affine."):
            return self._affine(instruction)
        if operation == "arith.select" and len(names) == 3:
            condition = self.number(names[0])
            one, other = self.value(names[1]), self.value(names[2])
            if condition is None:
                return one if one == other or isinstance(one, Memref) else None
            return one if condition else other
        numbers = [self.number(name) for name in names[:2]]
        if operation in _SAME and len(numbers) == 1:
            value = numbers[0]
            to_bit = _CAST_TO.search(instruction.text)
            return value & 1 if value is not None and to_bit and to_bit[1] == "i1" else value
        if len(numbers) != 2:
            return None
        one, other = numbers
        if operation in ("arith.andi", "arith.ori"):
            return _logic(operation, one, other)
        if one is None or other is None:
            return None
        if operation == "arith.cmpi":
            predicate = instruction.text.split(",")[0].strip()
            compared = _COMPARE.get(predicate if predicate in _COMPARE else predicate[1:])
            return None if compared is None else int(compared(one, other))
        if (binary := _BINARY.get(operation)) is None:
            return None
        if not other and ("div" in operation or "rem" in operation):
            return None
        return _limited(binary(one, other))

    def _affine(self, instruction: Instruction) -> Number:
        """Apply a map, or take the least or the largest of its results.

        One that is unknown is left out of a minimum, which so is an upper bound.
        """
        found = self._maps.get(instruction.text.split("(")[0].strip())
        if found is None or len(found.names) != len(instruction.operands):
            return None
        numbers = tuple(self.number(name) for name in instruction.operands)
        results = [_evaluated(text, found.names, numbers) for text in found.results]
        known = [each for each in results if each is not None]
        if instruction.operation == "affine.min":
            return min(known, default=None)
        if len(known) < len(results) or not known:
            return None
        return max(known)

    def _place(self, instruction: Instruction) -> Memref | None:
        kind = memref_type(instruction.text)
        operation = instruction.operation
        if kind is None or operation in ("memref.load", "memref.dim"):
            return None
        if operation == "hivm.hir.pointer_cast":
            address = self.number(instruction.operands[0]) if instruction.operands else None
            return replace(of_type(kind), address=address)
        source = self.place(instruction.operands[0]) if instruction.operands else None
        if source is None:
            return of_type(kind)
        lists = _lists(instruction.text)
        if operation == "memref.cast":
            return _filled(kind, source.sizes, source.strides, source)
        if operation == "memref.subview" and len(lists) >= 2:
            return self._subview(kind, source, lists)
        if operation == "memref.reinterpret_cast" and len(lists) >= 3:
            sizes = tuple(self.number(each) for each in lists[1] if each)
            strides = tuple(self.number(each) for each in lists[2] if each)
            return _filled(kind, sizes, strides, source)
        if operation == "memref.collapse_shape":
            return _collapsed(kind, source, instruction.text)
        return replace(of_type(kind), address=source.address)

    def _subview(
        self, kind: MemrefType, source: Memref, lists: tuple[tuple[str, ...], ...]
    ) -> Memref:
        sizes = []
        for at, name in enumerate(lists[1]):
            size = self.number(name)
            if size is None:
                size = source.sizes[at] if at < len(source.sizes) else None
            sizes.append(None if size is None else max(size, 0))
        steps = [self.number(each) for each in lists[2]] if len(lists) > 2 else []
        strides = [
            None if stride is None or step is None else _limited(stride * step)
            for stride, step in zip(source.strides, steps, strict=False)
        ]
        # Sizes of 1 may be dropped by the type.
        kept = list(zip(sizes, strides, strict=False))
        for at in range(len(kept) - 1, -1, -1):
            if len(kept) > len(kind.sizes) and lists[1][at] == "1":
                kept.pop(at)
        return _filled(
            kind, tuple(size for size, _ in kept), tuple(stride for _, stride in kept), source
        )

    def _metadata(self, instruction: Instruction) -> list[Value]:
        """Return a base, an offset, then sizes and strides."""
        source = self.place(instruction.operands[0]) if instruction.operands else None
        if source is None:
            return [None] * len(instruction.results)
        base = Memref(source.space, source.element, (), (), source.address)
        told: list[Value] = [base, None, *source.sizes, *source.strides]
        told += [None] * len(instruction.results)
        return told[: len(instruction.results)]


@lru_cache(maxsize=4096)
def _lists(text: str) -> tuple[tuple[str, ...], ...]:
    """Return the lists in brackets before the types."""
    head = text.split(" : ", maxsplit=1)[0]
    return tuple(
        tuple(each.strip() for each in found[1].split(",")) for found in _LIST.finditer(head)
    )


def _filled(
    kind: MemrefType, sizes: Sequence[Number], strides: Sequence[Number], source: Memref
) -> Memref:
    """Return a place of a type; what the type leaves open is that of the source."""
    rank = len(kind.sizes)
    if len(sizes) != rank:
        sizes = kind.sizes
    if len(strides) != rank:
        strides = kind.strides
    made = tuple(a if a is not None else b for a, b in zip(kind.sizes, sizes, strict=True))
    steps = tuple(a if a is not None else b for a, b in zip(kind.strides, strides, strict=True))
    return Memref(kind.space or source.space, kind.element, made, steps, source.address)


def _collapsed(kind: MemrefType, source: Memref, text: str) -> Memref:
    sizes: list[Number] = []
    strides: list[Number] = []
    for group in _GROUP.findall(text.split("]]", maxsplit=1)[0] + "]"):
        numbers = [
            int(each) for each in group.split(",") if each.strip().isdecimal() and len(each) < 6
        ]
        of_group = [n for n in numbers if n < len(source.sizes)]
        product: Number = 1
        for at in of_group:
            size = source.sizes[at]
            product = None if product is None or size is None else min(product * size, LARGEST)
        sizes.append(product)
        strides.append(source.strides[of_group[-1]] if of_group else None)
    return _filled(kind, sizes, strides, source)


def _constant(text: str) -> Number:
    found = _CONSTANT.match(text)
    if found is None or (found[2] or "").startswith(("f", "bf")):
        return None
    if found[1] in ("true", "false"):
        return int(found[1] == "true")
    return int(found[1])


def _logic(operation: str, one: Number, other: Number) -> Number:
    decides = 0 if operation == "arith.andi" else 1
    if one is None or other is None:
        return decides if decides in (one, other) else None
    return one & other if decides == 0 else one | other


def _evaluated(text: str, names: tuple[str, ...], numbers: tuple[Number, ...]) -> Number:
    tokens = _tokens(text)
    if not tokens:
        return None
    try:
        value, rest = _sum(tokens, dict(zip(names, numbers, strict=True)), 0)
    except (IndexError, RecursionError):
        return None
    return None if value is None or rest != len(tokens) else _limited(value)


@lru_cache(maxsize=1024)
def _tokens(text: str) -> tuple[str, ...]:
    if len(text) > MOST_EXPRESSION:
        return ()
    return tuple("".join(found.groups("")) for found in _TOKEN.finditer(text.strip()))


def _sum(tokens: tuple[str, ...], known: Mapping[str, Number], at: int) -> tuple[Number, int]:
    value, at = _product(tokens, known, at)
    while at < len(tokens) and tokens[at] in "+-":
        other, after = _product(tokens, known, at + 1)
        if value is not None and other is not None:
            value = value + other if tokens[at] == "+" else value - other
        else:
            value = None
        at = after
    return value, at


def _product(tokens: tuple[str, ...], known: Mapping[str, Number], at: int) -> tuple[Number, int]:
    value, at = _factor(tokens, known, at)
    while at < len(tokens) and tokens[at] in ("*", "floordiv", "ceildiv", "mod"):
        other, after = _factor(tokens, known, at + 1)
        if value is None or other is None or (not other and tokens[at] != "*"):
            value = None
        elif tokens[at] == "*":
            value = _limited(value * other)
        elif tokens[at] == "mod":
            value %= other
        else:
            value = value // other if tokens[at] == "floordiv" else -(-value // other)
        at = after
    return value, at


def _factor(tokens: tuple[str, ...], known: Mapping[str, Number], at: int) -> tuple[Number, int]:
    token = tokens[at]
    if token == "-":
        value, at = _factor(tokens, known, at + 1)
        return (None if value is None else -value), at
    if token == "(":
        value, at = _sum(tokens, known, at + 1)
        return (value if tokens[at] == ")" else None), at + 1
    return (int(token) if token.isdecimal() else known.get(token)), at + 1
