"""A fake judge: it answers at once, from the kernel's text, and measures nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Unpack

from akg_tui.core.kernel.kernel_files import Kernel, files_of
from akg_tui.core.measurement import (
    FailureKind,
    Interval,
    Measurement,
    Outcome,
    ProbeTerms,
    Progress,
    RaceOutcome,
    Racer,
)
from akg_tui.core.task import CompileBaseline

COST = {"A": 4.0, "B": 2.0, "C": 1.0, "WRONG": 0.0}


class FakeJudge:
    """Takes the kernel's `SPEED = "A"` for its speed; "WRONG" or none is a wrong kernel."""

    yields = False

    def __init__(self, on_progress: Callable[[Progress], None]) -> None:
        self.on_progress = on_progress
        self.seen: list[str] = []
        self.probes: list[tuple[bool, int, int]] = []
        self.asked: list[tuple[bool, str, int]] = []
        """Of each probe: verified, another reference, the device."""
        self.ahead: list[int] = []
        """Of each probe: how many kernels follow it."""
        self.races: list[int] = []
        self.race_noise: list[tuple[tuple[str, ...], float]] = []
        """Of each of the next races: its disturbances, and the smallest gain that it would show."""
        self.closed = False
        self.compiled = 0
        """How often the compiled reference was measured."""
        self.compile_fault = ""
        self.on_compile: Callable[[], None] = lambda: None

    async def prepare(self) -> None:
        pass

    async def evaluate(
        self,
        kernel: Kernel,
        incumbent: Kernel | None,
        *,
        precise: float | None = None,
        within_s: float | None = None,
        whole: bool = False,
        prior: tuple[float, ...] = (),
    ) -> Measurement:
        await asyncio.sleep(0)
        self.seen.append(files_of(kernel, "kernel.py").page)
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
            ratio=_interval(ratio),
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
        self, kernel: Kernel, incumbent: Kernel | None = None, **terms: Unpack[ProbeTerms]
    ) -> Measurement:
        timed, verified = terms.get("timed", True), terms.get("verified", True)
        self.ahead.append(len(terms.get("ahead", ())))
        self.probes.append((timed, terms.get("samples", 0), terms.get("warmups", 0)))
        self.asked.append((verified, terms.get("reference", ""), terms.get("device", 0)))
        found = await self.evaluate(kernel, incumbent)
        if not verified and found.failure is FailureKind.WRONG:
            fast = Interval(6.0, 5.9, 6.1, 0.99)
            return Measurement(
                outcome=Outcome.CORRECT, ratio=fast, candidate_ms=0.5, baseline_ms=3.0
            )
        if timed or found.outcome is not Outcome.CORRECT:
            return found
        return Measurement(outcome=Outcome.CORRECT, max_error=0.0, tolerance=1e-6)

    async def race(
        self, kernels: Sequence[Kernel], *, within_s: float, limit_s: float
    ) -> RaceOutcome:
        """Tell equal speeds as one group."""
        await asyncio.sleep(0)
        self.races.append(len(kernels))
        costs = [_cost(each) for each in kernels]
        groups = {cost: at + 1 for at, cost in enumerate(sorted(set(costs)))}
        noise, detectable = self.race_noise.pop(0) if self.race_noise else ((), None)
        return RaceOutcome(
            tuple(Racer(cost, _interval(costs[0] / cost), 4, groups[cost]) for cost in costs),
            noise,
            detectable,
        )

    async def close(self) -> None:
        self.closed = True


def _interval(ratio: float) -> Interval:
    return Interval(ratio, ratio * 0.99, ratio * 1.01, 0.99)


def _cost(kernel: Kernel) -> float:
    for line in files_of(kernel, "kernel.py").page.split("\n"):
        if line.startswith("SPEED = "):
            return COST[line.split('"')[1]]
    return 0.0
