"""The pipes of Ascend cores as queues: when each operation of a program starts and ends.

Pure and deterministic. The scalar unit issues operations in order; only flags and barriers order
the pipes. An operation occupies its pipe for a time, and its result is there a latency later: the
next one starts before, unless a flag or a barrier waits for the result.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

from msgspec import Struct

from akg_tui.evaluate.evidence.ascend import npu_rates as rates
from akg_tui.evaluate.evidence.ascend.hivm import PIPES, Operation
from akg_tui.evaluate.evidence.ascend.program import Program, Step

CORE_WORDS = {"AIC": "cube", "AIV": "vector"}


def simulate(cores: Sequence[Core]) -> str:
    """Let the cores run until no one can go on; return why one stopped early, or ""."""
    for core in cores:
        core.connect(cores)
    progress = True
    while progress:
        progress = False
        for core in cores:
            progress |= core.advance(cores)
    for core in cores:
        if told := core.blocked():
            return told
    return ""


_Key = tuple[str, str, int | None]


class _Item(Struct):
    """An entry of a pipe's queue, ready when the scalar unit has issued it."""

    kind: str
    ready: float
    busy: float = 0.0
    latency: float = 0.0
    key: _Key = ("", "", 0)
    weight: float = 1.0
    name: str = ""
    step: int = 0


class _Pipe:
    """A queue: when it is free, and when all its results are there."""

    def __init__(self) -> None:
        self.queue: deque[_Item] = deque()
        self.free = 0.0
        self.done = 0.0
        self.busy = 0.0
        self.intervals: list[tuple[float, float, str]] = []


class Core:
    """A core that executes a program: its scalar unit and its pipes.

    `kind` is AIV or AIC, `sharing` the number of cores that share the global memory.
    """

    def __init__(
        self, kind: str, program: Program, *, sub_block: int = 0, sharing: int = 1
    ) -> None:
        self.kind = kind
        self.sub_block = sub_block
        self.program = program
        self.pipes = {pipe: _Pipe() for pipe in PIPES}
        self.flags: dict[_Key, deque[float]] = {}
        self.block_flags: dict[tuple[int, int | None], deque[float]] = {}
        self.ends: list[float] = []
        self.loaded = self.stored = 0.0
        self._sharing = sharing
        self._at = 0
        self._time = 0.0
        self._parts = 0
        self._senders = 1

    def advance(self, cores: Sequence[Core]) -> bool:
        """Go on as far as possible; return whether anything happened."""
        happened = False
        while True:
            issued = self._issue(cores)
            worked = False
            for name, pipe in self.pipes.items():
                while pipe.queue and self._work(name, pipe, cores):
                    worked = True
            if not issued and not worked:
                return happened
            happened = True

    def blocked(self) -> str:
        """Return what the core waits for in vain, or ""."""
        steps = self.program.steps
        for name, pipe in self.pipes.items():
            if pipe.queue:
                return self._in_vain(name, pipe.queue[0].key)
        if self._at < len(steps):
            operation = steps[self._at].operation
            return self._in_vain("S", (operation.before, operation.after, operation.event))
        return ""

    def _in_vain(self, pipe: str, key: _Key) -> str:
        event = "?" if key[2] is None else key[2]
        return (
            f"{pipe} of a {CORE_WORDS[self.kind]} core waits for flag {event} of {key[0]}, "
            "which nothing sets"
        )

    def _issue(self, cores: Sequence[Core]) -> bool:
        """Let the scalar unit issue operations until it has to wait."""
        steps = self.program.steps
        start = self._at
        while self._at < len(steps):
            step = steps[self._at]
            if step.operation.pipe == "S" and step.operation.kind != "barrier":
                if not self._scalar(step):
                    break
            elif step.operation.pipe == "ALL":
                if any(pipe.queue for pipe in self.pipes.values()):
                    break
                self._time = max(self._issued(step), *(p.done for p in self.pipes.values()))
            elif step.operation.pipe in self.pipes:
                self._time = self._issued(step)
                self._enqueue(step)
            else:
                self._time = self._issued(step)
            self._at += 1
        return self._at > start

    def _issued(self, step: Step) -> float:
        return self._time + step.scalars * rates.SCALAR + rates.ISSUE

    def _scalar(self, step: Step) -> bool:
        """Execute an operation of the scalar unit; return False if it waits."""
        operation = step.operation
        time = self._issued(step)
        pipe = self.pipes["S"]
        key = operation.before, operation.after, operation.event
        if operation.kind == "wait_flag":
            if not self.flags.get(key):
                return False
            time = max(time, self.flags[key].popleft())
        elif operation.kind == "set_flag":
            self.flags.setdefault(key, deque()).append(time + rates.FLAG)
        elif operation.kind == "block_wait":
            found = self._block_flag(operation)
            if found is None:
                return False
            time = max(time, found)
        else:
            took = rates.scalar_cycles(operation) * step.repeats
            pipe.intervals.append((time - step.scalars, time + took, operation.name))
            pipe.busy += (took + step.scalars) * step.weight
            time += took
            if operation.kind == "transfer":
                self._count(operation, step.repeats * step.weight)
        self._time = pipe.done = pipe.free = time
        self._ended(self._at, time)
        return True

    def _block_flag(self, operation: Operation) -> float | None:
        """Take a flag of each core on the other side, if all have set it."""
        senders = [key for key in self.block_flags if key[1] == operation.event]
        # A cube core waits for both of its vector cores.
        needed = self._senders
        if len(senders) < needed or not all(self.block_flags[key] for key in senders):
            return None
        return max(self.block_flags[key].popleft() for key in senders)

    def connect(self, cores: Sequence[Core]) -> None:
        """Learn how many cores are on the other side."""
        self._senders = max(1, sum(each.kind != self.kind for each in cores))

    def _count(self, operation: Operation, times: float) -> None:
        if operation.source == "GM":
            self.loaded += operation.size * times
        if operation.target == "GM":
            self.stored += operation.size * times

    def _ended(self, step: int, time: float) -> None:
        while len(self.ends) <= step:
            self.ends.append(0.0)
        self.ends[step] = max(self.ends[step], time)

    def _enqueue(self, step: Step) -> None:
        operation, pipes = step.operation, self.pipes
        queue = pipes[operation.pipe].queue
        base = _Item(
            operation.kind,
            self._time,
            key=(operation.before, operation.after, operation.event),
            weight=step.weight,
            name=operation.name,
            step=self._at,
        )
        if operation.kind == "cube":
            self._enqueue_product(operation, base)
            return
        if operation.kind == "transfer":
            base.busy = rates.transfer_cycles(operation, self._sharing)
            outside = "GM" in (operation.source, operation.target)
            base.latency = rates.TRANSFER_LATENCY if outside else 0.0
            base.kind = "work"
            self._count(operation, step.weight)
        elif operation.kind == "vector":
            base.busy = rates.vector_cycles(operation)
            base.latency = rates.VECTOR_LATENCY
            base.kind = "work"
        elif operation.kind == "unknown":
            return
        queue.append(base)

    def _enqueue_product(self, operation: Operation, base: _Item) -> None:
        """Queue the parts of a product: each is moved to L0 while the one before is multiplied."""
        moves, products = self.pipes["MTE1"].queue, self.pipes["M"].queue
        parts, moving, multiplying = rates.cube_parts(operation)

        def item(kind: str, busy: float = 0.0, latency: float = 0.0, key: _Key = base.key) -> _Item:
            return _Item(
                kind, base.ready, busy, latency, key, base.weight, operation.name, base.step
            )

        moves.extend(item("wait_flag", key=("MTE2", "MTE1", each)) for each in operation.waits)
        for _ in range(parts):
            number = self._parts = self._parts + 1
            if number > 2:
                moves.append(item("wait_flag", key=("M", "L0", number - 2)))
            moves.append(item("work", moving))
            moves.append(item("set_flag", key=("L0", "M", number)))
            products.append(item("wait_flag", key=("L0", "M", number)))
            products.append(item("work", multiplying, rates.CUBE_LATENCY))
            products.append(item("set_flag", key=("M", "L0", number)))
        moves.extend(item("set_flag", key=("MTE1", "MTE2", each)) for each in operation.sets)

    def _work(self, name: str, pipe: _Pipe, cores: Sequence[Core]) -> bool:
        """Work on the head of a queue; return False if it has to wait."""
        item = pipe.queue[0]
        if item.kind == "wait_flag":
            if not self.flags.get(item.key):
                return False
            pipe.free = max(pipe.free, item.ready, self.flags[item.key].popleft())
            time = pipe.free
        elif item.kind == "set_flag":
            time = max(pipe.done, pipe.free, item.ready)
            self.flags.setdefault(item.key, deque()).append(time + rates.FLAG)
        elif item.kind == "block_set":
            time = max(pipe.done, pipe.free, item.ready)
            for each in cores:
                if each.kind != self.kind:
                    sent = each.block_flags.setdefault((self.sub_block, item.key[2]), deque())
                    sent.append(time + rates.BLOCK_FLAG)
        elif item.kind == "work":
            start = max(pipe.free, item.ready)
            pipe.free = start + item.busy
            time = pipe.done = max(pipe.done, pipe.free + item.latency)
            pipe.busy += item.busy * item.weight
            pipe.intervals.append((start, pipe.free, item.name))
        else:
            time = pipe.free = max(pipe.free, pipe.done, item.ready)
        self._ended(item.step, time)
        pipe.queue.popleft()
        return True

    @property
    def cycles(self) -> float:
        """The time of the program, with that of the iterations that were left out."""
        end = max(self._time, *(pipe.done for pipe in self.pipes.values()))
        latest, top = [], 0.0
        for time in self.ends:
            top = max(top, time)
            latest.append(top)
        extra = 0.0
        added: list[tuple[int, float]] = []
        for loop in self.program.shortened:
            if loop.end > len(latest):
                continue
            before = latest[loop.start - 1] if loop.start else 0.0
            inner = math.fsum(time for at, time in added if loop.start <= at < loop.end)
            more = (latest[loop.end - 1] - before + inner) * loop.more
            added.append((loop.start, more))
            extra += more
        return end + extra
