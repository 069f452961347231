"""What one program of a grid executes: the operations that a core issues, in order.

Pure. Control flow is followed with the integers that are known: the arguments of the launch, the
number of the program, counters of loops. A condition or a trip count that is unknown is assumed,
and counted. Long loops are shortened; their second half stands for what is left out.
"""

from __future__ import annotations

from msgspec import Struct

from akg_tui.evaluate.evidence.ascend.hivm import (
    Function,
    Operation,
    bounds,
    carried,
    is_silent,
    known_arguments,
    operation_of,
    trip_count,
)
from akg_tui.evaluate.evidence.ascend.hivm_text import LARGEST, AffineMap, Instruction
from akg_tui.evaluate.evidence.ascend.hivm_values import Number, Value, Values

ASSUMED_TRIPS = 4
"""Iterations of a loop whose trip count is unknown."""
LONGEST_LOOPS = (32, 8, 8)
"""Iterations that are followed of a loop that is not inside another, of one inside, and so on."""
MOST_STEPS = 20_000
MOST_INSTRUCTIONS = 80_000
_COMPUTES = ("arith.", "affine.", "math.")


class Step(Struct):
    """An operation that is issued `repeats` times in a row, after `scalars` scalar instructions.

    `weight` is how many executions it stands for, more than 1 in a loop that was shortened.
    """

    operation: Operation
    scalars: int = 0
    repeats: int = 1
    weight: float = 1.0


class Shortened(Struct, frozen=True):
    """A loop of which iterations are left out.

    The steps from `start` to `end` are executed `more` times more.
    """

    start: int
    end: int
    more: float


class Program(Struct, frozen=True):
    """The steps of one program on one core.

    `iterations` are the steps at which an iteration of the outer loop with the most steps starts.
    `assumed` is the number of decisions without known values, `cut` whether the end is left out,
    `followed` the number of instructions that were followed.
    """

    steps: tuple[Step, ...]
    shortened: tuple[Shortened, ...] = ()
    iterations: tuple[int, ...] = ()
    assumed: int = 0
    cut: bool = False
    followed: int = 0

    @property
    def looped(self) -> int:
        """The number of steps in the iterations."""
        return self.iterations[-1] - self.iterations[0] if self.iterations else 0


class _Cut(Exception):
    pass


def program_of(
    function: Function,
    maps: dict[str, AffineMap],
    *,
    arguments: tuple[Number, ...],
    grid: tuple[int, ...],
    block: int,
    sub_block: int = 0,
) -> Program:
    """Return what program number `block` of a grid executes on vector core `sub_block`."""
    known = known_arguments(function.body, arguments, grid)
    run = _Run(Values(maps, known, block=block, sub_block=sub_block))
    try:
        run.region(function.body.instructions, 0)
        cut = False
    except _Cut:
        cut = True
    return Program(
        tuple(run.steps),
        tuple(run.shortened),
        tuple(run.iterations),
        run.assumed,
        cut,
        MOST_INSTRUCTIONS - run.left,
    )


class _Run:
    def __init__(self, values: Values) -> None:
        self._values = values
        self._scalars = 0
        self._weight = 1.0
        self.left = MOST_INSTRUCTIONS
        self._only_scalar: dict[int, bool] = {}
        self.steps: list[Step] = []
        self.shortened: list[Shortened] = []
        self.iterations: list[int] = []
        self.assumed = 0

    def region(self, instructions: tuple[Instruction, ...], depth: int) -> tuple[str, ...]:
        """Execute a region and return the names that it yields."""
        values = self._values
        for each in instructions:
            self.left -= 1
            if self.left < 0:
                raise _Cut
            name = each.operation
            if each.regions:
                self._nested(each, depth)
            elif name in {"scf.yield", "scf.condition"}:
                return each.operands
            else:
                values.run(each)
                self._issue(each)
        return ()

    def _issue(self, instruction: Instruction, repeats: int = 1) -> None:
        if instruction.operation.startswith(_COMPUTES):
            if instruction.operation != "arith.constant":
                self._scalars = min(self._scalars + repeats, LARGEST)
            return
        if is_silent(instruction.operation):
            return
        operation: Operation | None = self._values.remembered("operation", instruction)
        if operation is None:
            operation = operation_of(instruction, self._values)
            if operation is None:
                return
            self._values.remember("operation", instruction, operation)
        if len(self.steps) >= MOST_STEPS:
            raise _Cut
        self.steps.append(Step(operation, self._scalars, repeats, self._weight))
        self._scalars = 0

    def _nested(self, each: Instruction, depth: int) -> None:
        if each.operation == "scf.for":
            self._for(each, depth)
        elif each.operation == "scf.while" and len(each.regions) == 2:
            self._while(each, depth)
        elif each.operation == "scf.if":
            self._if(each, depth)
        else:
            for region in each.regions:
                self.region(region, depth)

    def _for(self, loop: Instruction, depth: int) -> None:
        values = self._values
        trips = trip_count(loop, values)
        if trips is None:
            self.assumed += 1
            trips = ASSUMED_TRIPS
        (counter, _), *handed = [*carried(loop, values), ("", None)]
        first, step = self._bounds(loop)
        body = loop.regions[0]
        for name, value in handed:
            values.define(name, value)
        if trips and self._is_scalar(body):
            values.define(counter, None)
            self._repeat(body, trips)
            return
        limit = LONGEST_LOOPS[min(depth, len(LONGEST_LOOPS) - 1)]
        followed = min(trips, limit)
        half = followed // 2
        more = (trips - followed) / (followed - half) if trips > followed else 0.0
        starts = []
        middle, weight = 0, self._weight
        for number in range(followed):
            if more and number == half:
                middle = len(self.steps)
                self._weight = weight * (1 + more)
            starts.append(len(self.steps))
            values.define(counter, None if first is None else first + number * (step or 1))
            yielded = [values.value(name) for name in self.region(body, depth + 1)]
            for (name, _), value in zip(handed, yielded, strict=False):
                values.define(name, value)
        self._weight = weight
        if more:
            self.shortened.append(Shortened(middle, len(self.steps), more))
        self._looped([*starts, len(self.steps)], depth)
        for result, (name, _) in zip(loop.results, handed, strict=False):
            values.define(result, values.value(name))

    def _looped(self, starts: list[int], depth: int) -> None:
        before = self.iterations
        if not depth and (not before or starts[-1] - starts[0] > before[-1] - before[0]):
            self.iterations = starts

    def _bounds(self, loop: Instruction) -> tuple[Number, Number]:
        """Return the first value of a loop's counter, and its step."""
        first, _, step = bounds(loop) or ("", "", "")
        return self._values.number(first), self._values.number(step)

    def _is_scalar(self, body: tuple[Instruction, ...]) -> bool:
        """Tell whether a loop's body only has work of the scalar unit, and no flag."""
        key = id(body)
        if key not in self._only_scalar:
            self._only_scalar[key] = all(
                all(self._is_scalar(region) for region in each.regions)
                if each.operation == "scf.for"
                else not each.regions
                and not each.operation.startswith(("hivm.", "func.call", "call"))
                for each in body
            )
        return self._only_scalar[key]

    def _repeat(self, body: tuple[Instruction, ...], times: int) -> None:
        """Issue the operations of a scalar loop, each as often as the loop executes it."""
        for each in body:
            self.left -= 1
            if self.left < 0:
                raise _Cut
            if each.regions:
                trips = trip_count(each, self._values)
                if trips is None:
                    self.assumed += 1
                    trips = ASSUMED_TRIPS
                self._repeat(each.regions[0], min(trips * times, LARGEST))
            else:
                self._values.run(each)
                self._issue(each, times)

    def _while(self, loop: Instruction, depth: int) -> None:
        values = self._values
        before, after = loop.regions
        handed = [name for name, _ in carried(loop, values)]
        block = after[0] if after and after[0].operation == "block" else None
        inside = () if block is None else block.operands
        starts = []
        for name, value in self._initial(loop):
            values.define(name, value)
        limit = LONGEST_LOOPS[min(depth, len(LONGEST_LOOPS) - 1)]
        assumed = 0
        passed: list[Value] = []
        for number in range(limit + 1):
            starts.append(len(self.steps))
            condition, *names = self.region(before, depth + 1) or ("",)
            passed = [values.value(name) for name in names]
            goes_on = values.number(condition)
            if goes_on is None:
                assumed = 1
                goes_on = number < ASSUMED_TRIPS
            if not goes_on:
                break
            for name, value in zip(inside, passed, strict=False):
                values.define(name, value)
            yielded = [values.value(name) for name in self.region(after, depth + 1)]
            for name, value in zip(handed, yielded, strict=False):
                values.define(name, value)
        else:
            # The rest is not followed: how long it is cannot be known.
            assumed = 1
        self.assumed += assumed
        self._looped(starts, depth)
        for result, value in zip(loop.results, passed, strict=False):
            values.define(result, value)

    def _initial(self, loop: Instruction) -> list[tuple[str, Value]]:
        return [
            (name, self._values.value(first))
            for name, first in zip(loop.operands[::2], loop.operands[1::2], strict=False)
        ]

    def _if(self, each: Instruction, depth: int) -> None:
        values = self._values
        condition = values.number(each.operands[0]) if each.operands else None
        taken, *others = each.regions
        if condition is None:
            self.assumed += 1
            choices = others if "unlikely_condition" in each.attributes else each.regions
            chosen = max(choices, key=_length, default=())
        else:
            chosen = taken if condition else next(iter(others), ())
        yielded = [values.value(name) for name in self.region(chosen, depth)]
        for result, value in zip(each.results, yielded, strict=False):
            values.define(result, value)


def _length(region: tuple[Instruction, ...]) -> int:
    return sum(1 + sum(map(_length, each.regions)) for each in region)
