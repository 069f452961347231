"""Finds accesses to shared memory whose lanes meet in one bank, in the PTX of a kernel.

Pure. The addresses of the 32 lanes of a block's first warp are computed from the PTX; where they
depend on more than the lane, such as on data, nothing is said. An addend that is the same for all
lanes does not matter: it shifts all banks alike.

Shared memory has 32 banks of 4 bytes. Lanes that access 8 (16) bytes each take turns by half
(quarter) warps; lanes in the same bank at different words take turns too (CUDA C++ Programming
Guide). `ldmatrix` and `stmatrix` move a row of 16 bytes for each address.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct

from akg_tui.evaluate.evidence.findings import Place, Text
from akg_tui.evaluate.evidence.gpu.loops import Statement

LANES = 32
BANKS = 32
WORD = 4
MOST_PASSES = 12
MOST_CONFLICTS = 24


class Conflict(Struct, frozen=True, gc=False):
    """An access at a line of the kernel's file (0: unknown) whose lanes take `ways` turns.

    `times` counts equal instructions of the line.
    """

    line: Place
    access: Text
    ways: Place
    times: Place = 1


class SharedAccesses(Struct, frozen=True):
    """Accesses to shared memory with the conflicts among those whose addresses are `known`."""

    conflicts: Annotated[tuple[Conflict, ...], Meta(max_length=MOST_CONFLICTS)] = ()
    known: Place = 0
    unknown: Place = 0


class _Lanes(NamedTuple):
    """A value for each lane, up to an unknown addend that is the same for all if `shifted`."""

    values: tuple[int, ...]
    shifted: bool = False

    @property
    def same(self) -> bool:
        return len(set(self.values)) == 1


_UNIFORM = _Lanes((0,) * LANES, shifted=True)
_LANE = _Lanes(tuple(range(LANES)))
_Env = dict[str, _Lanes | None]
"""The values of registers; None where lanes differ in an unknown way."""

_ALIKE = re.compile(r"%(?:ctaid|nctaid|ntid|nwarpid|smid|cluster\w*)\b|%tid\.[yz]")


def read_accesses(statements: Sequence[Statement]) -> SharedAccesses:
    """Return the accesses of a kernel's PTX to shared memory."""
    code = [each for each in statements if each.opcode]
    env = _values(code)
    found: Counter[tuple[int, str, int]] = Counter()
    known = unknown = 0
    for each in code:
        access = _access(each)
        if access is None:
            continue
        name, where, size, lanes = access
        address = _operand(where, env)
        if address is None:
            unknown += 1
            continue
        known += 1
        ways = _ways(address, size, _active(each, env, lanes))
        if ways > 1:
            found[each.line, name, ways] += 1
    ordered = sorted(found.items(), key=lambda item: (-item[0][2], item[0][0]))
    conflicts = tuple(Conflict(*key, times=times) for key, times in ordered[:MOST_CONFLICTS])
    return SharedAccesses(conflicts, known, unknown)


_MATRIX = re.compile(r"(?:ld|st)matrix\..*?\.x([124])\b")
_SIZE = re.compile(r"(?:\.v(\d))?\.[busf](\d+)$")


def _access(each: Statement) -> tuple[str, str, int, int] | None:
    """Return name, address, bytes of a lane and number of addressing lanes of a shared access."""
    parts = each.opcode.split(".")
    where = re.search(r"\[([^\]]*)\]", each.operands)
    if where is None:
        return None
    if told := _MATRIX.match(each.opcode):
        return parts[0], where[1], 16, 8 * int(told[1])
    if parts[0] == "cp" and each.opcode.startswith("cp.async.c"):
        size = re.search(r"\],\s*\[[^\]]*\],\s*(0x[0-9a-f]+|\d+)", each.operands)
        return ("copy to shared", where[1], int(size[1], 0), LANES) if size else None
    shared = any(part.partition("::")[0] == "shared" for part in parts)
    if parts[0] in ("ld", "st") and shared and (told := _SIZE.search(each.opcode)):
        name = "load" if parts[0] == "ld" else "store"
        return name, where[1], int(told[1] or 1) * int(told[2]) // 8, LANES
    return None


def _active(each: Statement, env: _Env, lanes: int) -> list[int]:
    """Return the lanes that take part: all of them where the predicate is not known."""
    taking_part = list(range(lanes))
    if not each.predicate:
        return taking_part
    value = env.get(each.predicate.lstrip("@!"))
    if value is None or value.shifted:
        return taking_part
    wanted = not each.predicate.startswith("@!")
    return [lane for lane in taking_part if bool(value.values[lane]) == wanted]


def _ways(address: _Lanes, size: int, active: Sequence[int]) -> int:
    """Return the most words that one bank has to give in a turn of lanes."""
    together = LANES // max(1, size // WORD)
    # By differences, because an unknown addend may have made the values negative.
    base = min(address.values)
    worst = 0
    for first in range(0, LANES, together):
        words: dict[int, set[int]] = defaultdict(set)
        for lane in active:
            if first <= lane < first + together:
                start = (address.values[lane] - base) // WORD
                for word in range(start, start + max(1, size // WORD)):
                    words[word % BANKS].add(word)
        worst = max([worst, *map(len, words.values())])
    return worst


def _values(code: Sequence[Statement]) -> _Env:
    """Return what every register holds, for all of its definitions together."""
    env: _Env = {}
    for _ in range(MOST_PASSES):
        before = dict(env)
        for each in code:
            for register, value in _defined(each, env):
                known = register in env
                env[register] = _joined(env[register], value) if known else value
        if env == before:
            return env
    return {}


def _joined(one: _Lanes | None, other: _Lanes | None) -> _Lanes | None:
    """Return what is known of a register that holds one value or the other."""
    if one is None or other is None:
        return None
    if one == other:
        return one
    first, second = _normal(one), _normal(other)
    return _Lanes(first, shifted=True) if first == second else None


def _normal(value: _Lanes) -> tuple[int, ...]:
    return tuple(each - value.values[0] for each in value.values)


def _operand(text: str, env: _Env) -> _Lanes | None:
    """Return the value of an operand: a register, a number, a symbol, or a sum of them."""
    text = text.strip()
    if re.fullmatch(r"-?(?:0x[0-9a-fA-F]+|\d+)", text):
        return _Lanes((int(text, 0),) * LANES)
    if text in ("%tid.x", "%laneid"):
        return _LANE
    if _ALIKE.match(text):
        return _UNIFORM
    if "+" in text:
        parts = [_operand(part, env) for part in text.split("+")]
        total: _Lanes | None = _Lanes((0,) * LANES)
        for part in parts:
            total = _added(total, part)
        return total
    if text.startswith("%"):
        return env.get(text)
    # A symbol: the begin of shared memory, or a parameter.
    return _UNIFORM if re.fullmatch(r"[A-Za-z_$][\w$]*", text) else None


def _added(one: _Lanes | None, other: _Lanes | None, sign: int = 1) -> _Lanes | None:
    if one is None or other is None:
        return None
    values = tuple(a + sign * b for a, b in zip(one.values, other.values, strict=True))
    return _Lanes(values, one.shifted or other.shifted)


def _defined(each: Statement, env: _Env) -> Iterator[tuple[str, _Lanes | None]]:
    """Return the registers that an instruction writes, with their values."""
    operands = _split(each.operands)
    name = each.opcode.partition(".")[0]
    if not operands or name in ("st", "bra", "ret", "bar", "red", "cp", "stmatrix"):
        return
    targets = re.findall(r"%\w+", operands[0])
    if operands[0].startswith("{") or "|" in operands[0]:
        for register in targets:
            yield register, _UNIFORM if ".param" in each.opcode else None
        return
    if not targets:
        return
    yield targets[0], _computed(each, operands[1:], env)


def _split(operands: str) -> list[str]:
    return [part.strip() for part in re.split(r",(?![^{\[]*[}\]])", operands)]


def _computed(each: Statement, given: Sequence[str], env: _Env) -> _Lanes | None:
    parts = each.opcode.split(".")
    name = parts[0]
    if each.predicate:
        return None
    if name == "ld":
        return _UNIFORM if "param" in parts else None
    values = [_operand(text, env) for text in given]
    if name == "shfl":
        # Of one lane for all: the number of the warp is told so.
        return _UNIFORM if parts[2:3] == ["idx"] and re.fullmatch(r"0(x0)?", given[1]) else None
    if name not in _COMPUTED:
        return _UNIFORM if values and all(v is not None and v.same for v in values) else None
    known = [value for value in values if value is not None]
    # A comparison that is combined with another predicate has a third operand.
    if len(known) < len(values) or (name == "setp" and len(known) > 2):
        return None
    if name in ("mov", "cvt", "cvta") and known[0].shifted:
        return known[0]
    if name in ("add", "sub"):
        return _wrapped(_added(known[0], known[1], -1 if name == "sub" else 1), parts)
    if all(value.same for value in known):
        if any(value.shifted for value in known):
            return _UNIFORM
    elif any(value.shifted for value in known):
        return _of_shifted(name, parts, known)
    kept = [_COMPUTED[name](parts, *lane) for lane in zip(*(v.values for v in known), strict=True)]
    return _wrapped(_Lanes(tuple(kept)), parts)


def _of_shifted(name: str, parts: Sequence[str], known: Sequence[_Lanes]) -> _Lanes | None:
    """Return a product with a number, or the sum with one; all else depends on the addend."""
    if name == "shl" and known[1].same and not known[1].shifted:
        return _Lanes(tuple(v << known[1].values[0] for v in known[0].values), shifted=True)
    if name in ("mul", "mad") and "hi" not in parts:
        numbers = [v.values[0] for v in known[:2] if v.same and not v.shifted]
        if not numbers:
            return None
        varying = next((v for v in known[:2] if not (v.same and not v.shifted)), known[1])
        product = _Lanes(tuple(v * numbers[0] for v in varying.values), varying.shifted)
        return _added(product, known[2]) if name == "mad" else product
    return None


def _wrapped(value: _Lanes | None, parts: Sequence[str]) -> _Lanes | None:
    """Return a value without an addend as the unsigned number that a register holds."""
    if value is None or value.shifted:
        return value
    # A conversion has the result's type first.
    kind = parts[-2] if parts[0] == "cvt" else parts[-1]
    bits = 64 if kind.endswith("64") or "wide" in parts else 32
    return _Lanes(tuple(each & ((1 << bits) - 1) for each in value.values))


def _signed(value: int, parts: Sequence[str]) -> int:
    bits = 64 if parts[-1].endswith("64") else 32
    value &= (1 << bits) - 1
    return value - (1 << bits) if parts[-1].startswith("s") and value >> (bits - 1) else value


def _compared(parts: Sequence[str], a: int, b: int, *_: int) -> int:
    a, b = _signed(a, parts), _signed(b, parts)
    tests = {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}
    unsigned = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
    return int(tests[unsigned.get(parts[1], parts[1])])


def _product(parts: Sequence[str], a: int, b: int) -> int:
    product = _signed(a, parts) * _signed(b, parts)
    return product >> (64 if parts[-1].endswith("64") else 32) if "hi" in parts else product


def _field(parts: Sequence[str], a: int, start: int, length: int) -> int:
    field = a >> start & ((1 << length) - 1)
    negative = parts[-1].startswith("s") and length and field >> (length - 1)
    return field - (1 << length) if negative else field


def _inverted(parts: Sequence[str], a: int) -> int:
    return int(not a) if parts[-1] == "pred" else ~a


_COMPUTED: dict[str, Callable[..., int]] = {
    "mov": lambda _, a: a,
    "cvt": lambda parts, a: _signed(a, parts),
    "cvta": lambda _, a: a,
    "add": lambda _, a, b: a + b,
    "sub": lambda _, a, b: a - b,
    "mul": _product,
    "mad": lambda parts, a, b, c: _product(parts, a, b) + c,
    "and": lambda _, a, b: a & b,
    "or": lambda _, a, b: a | b,
    "xor": lambda _, a, b: a ^ b,
    "not": _inverted,
    "neg": lambda _, a: -a,
    "shl": lambda _, a, b: a << b,
    "shr": lambda parts, a, b: _signed(a, parts) >> b,
    "bfe": _field,
    "setp": _compared,
    "selp": lambda _, a, b, chosen: a if chosen else b,
    "min": lambda parts, a, b: min(_signed(a, parts), _signed(b, parts)),
    "max": lambda parts, a, b: max(_signed(a, parts), _signed(b, parts)),
}
