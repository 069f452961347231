"""A fake judge: it answers at once, from the kernel's text, and measures nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from akg_tui.core.measurement import FailureKind, Interval, Measurement, Outcome, Progress
from akg_tui.core.task import CompileBaseline

COST = {"A": 4.0, "B": 2.0, "C": 1.0, "WRONG": 0.0}


class FakeJudge:
    """Takes the kernel's `SPEED = "A"` for its speed; "WRONG" or none is a wrong kernel."""

    def __init__(self, on_progress: Callable[[Progress], None]) -> None:
        self.on_progress = on_progress
        self.seen: list[str] = []
        self.probes: list[tuple[bool, int, int]] = []
        self.closed = False
        self.compiled = 0
        """How often the compiled reference was measured."""
        self.compile_fault = ""
        self.on_compile: Callable[[], None] = lambda: None

    async def prepare(self) -> None:
        pass

    async def evaluate(
        self,
        kernel: str,
        incumbent: str | None,
        *,
        precise: float | None = None,
        prior: tuple[float, ...] = (),
    ) -> Measurement:
        await asyncio.sleep(0)
        self.seen.append(kernel)
        self.on_progress(Progress("time", 1, 1))
        cost = _cost(kernel)
        if not cost:
            return Measurement(
                outcome=Outcome.FAILED, failure=FailureKind.WRONG, message="wrong values"
            )
        base = _cost(incumbent) if incumbent else 3.0
        ratio = base / cost
        return Measurement(
            outcome=Outcome.CORRECT,
            ratio=Interval(ratio, ratio * 0.99, ratio * 1.01, 0.99),
            candidate_ms=cost,
            baseline_ms=base,
        )

    async def measure_compiled(self, baseline: CompileBaseline) -> Measurement:
        """Take the compiled reference for 1.5 times as fast as the reference, which takes 3 ms, and
        with max-autotune for twice as fast.
        """
        await asyncio.sleep(0)
        self.compiled += 1
        self.on_compile()
        if self.compile_fault:
            return Measurement(
                outcome=Outcome.FAILED, failure=FailureKind.BUILD, message=self.compile_fault
            )
        over = 1.5 if baseline == "compile" else 2.0
        ratio = Interval(over, over * 0.99, over * 1.01, 0.99)
        return Measurement(
            outcome=Outcome.CORRECT, ratio=ratio, candidate_ms=3.0 / over, baseline_ms=3.0
        )

    async def probe(
        self,
        kernel: str,
        incumbent: str | None = None,
        *,
        timed: bool,
        samples: int,
        warmups: int,
    ) -> Measurement:
        self.probes.append((timed, samples, warmups))
        found = await self.evaluate(kernel, incumbent)
        if timed or found.outcome is not Outcome.CORRECT:
            return found
        return Measurement(outcome=Outcome.CORRECT, max_error=0.0, tolerance=1e-6)

    async def close(self) -> None:
        self.closed = True


def _cost(kernel: str) -> float:
    for line in kernel.split("\n"):
        if line.startswith("SPEED = "):
            return COST[line.split('"')[1]]
    return 0.0
