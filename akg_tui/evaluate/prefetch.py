"""The judge makes inputs and the idle process ready while it is idle; it hands an input out once.

Only the settings of a sweep are verified on the same inputs: none is kept by that.

Drawing ahead is safe: seeds are secret, the data lies in the judge's memory only, and the
reference's process that drew it has ended before a candidate's process begins. The idle process
runs no kernel, so one serves many comparisons.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass

from akg_tui.core.measurement import FailureKind
from akg_tui.evaluate import verification_inputs
from akg_tui.evaluate.device_side import side_of
from akg_tui.evaluate.processes.child_pool import ChildPool
from akg_tui.evaluate.processes.draws import secret_random
from akg_tui.evaluate.reference import Draw, Loaded, Reference
from akg_tui.evaluate.timing_samples import IdleProcess, Side
from akg_tui.evaluate.verification_inputs import (
    UNUSUAL_CPU_S,
    UNUSUAL_WHOLE_CPU_S,
    VerificationInputs,
)


@dataclass(frozen=True)
class Need:
    """Inputs of a comparison: their number, those with results, and the least sufficient number."""

    count: int
    checkable: int
    at_least: int


class Prefetched:
    """The inputs and the idle process of one case, made ready before an evaluation if possible."""

    def __init__(self, pool: ChildPool, reference: Reference, *, share: float = 1.0) -> None:
        self._pool = pool
        self._reference = reference
        self._rng = secret_random()
        self._verification_inputs: VerificationInputs | None = None
        self._timed: Draw | None = None
        self._need: Need | None = None
        self.share = share
        """The share of the memory for inputs, where several cases have inputs of their own."""
        self._kept: VerificationInputs | None = None
        """Verification inputs for the kernels that follow the last one."""
        self._used: list[VerificationInputs | Draw] = []
        """Inputs handed out and closed; freed while the judge is idle, because freeing is slow."""
        self._idle: Side | None = None
        """The idle process that runs, with what ends it."""
        self._ends_idle = ExitStack()

    def fill(self) -> None:
        """Make ready what is missing; can be interrupted at any point, what is whole is kept."""
        self.free_used()
        if not self._reference.examined:
            return
        wants_timed = self._need is not None and self._timed is None
        if self._verification_inputs is None or wants_timed:
            with self._reference.loaded() as loaded:
                if self._need is not None and self._timed is None:
                    self._timed = self._draw_timed(loaded, self._need)
                if self._verification_inputs is None:
                    self._verification_inputs = verification_inputs.draw(
                        self._reference, loaded, self._rng, UNUSUAL_WHOLE_CPU_S
                    )
        if self._need is not None and not self._reference.idle_plan().device:
            self._idle_side()

    @contextmanager
    def idle_process(self) -> Iterator[IdleProcess]:
        """Yield a process that shows the fixed cost of a call.

        On a device it ends afterwards: it would hold memory there while others are timed.
        """
        side = self._idle_side()
        try:
            yield IdleProcess(side, self._reference.sample)
        finally:
            if side.plan.device:
                self.end_idle()

    def end_idle(self) -> None:
        """End the idle process, if it runs."""
        self._ends_idle.close()
        self._idle = None

    def _idle_side(self) -> Side:
        if self._idle is None or not self._idle.worker.is_alive:
            self.end_idle()
            plan = self._reference.idle_plan()
            side = side_of(self._pool, "idle process", plan, FailureKind.JUDGE)
            self._ends_idle.enter_context(closing(side))
            child = self._pool.child(plan.files, builds=bool(plan.device))
            worker = self._ends_idle.enter_context(child)
            with side.blamed():
                side.send_plan(worker, self._reference.state)
                self._pool.await_load(worker)
                worker.await_stop()
            self._idle = side
        return self._idle

    def verification_inputs(
        self, *, again: bool = False, kept: bool = False, whole: bool = False
    ) -> VerificationInputs:
        """Return fresh verification inputs, or `again` those that were kept.

        Where none are ready, unusual ones are drawn for longer if `whole`. The caller closes them,
        unless they are `kept` for the next call.
        """
        self.free_used()
        drawn = self._kept if again else None
        if drawn is None:
            drawn, self._verification_inputs = self._verification_inputs, None
        if drawn is None:
            cpu_s = UNUSUAL_WHOLE_CPU_S if whole else UNUSUAL_CPU_S
            with self._reference.loaded() as loaded:
                drawn = verification_inputs.draw(self._reference, loaded, self._rng, cpu_s)
        self._used.append(drawn)
        self._kept = drawn if kept else None
        return drawn

    def timed(self, need: Need) -> Draw:
        """Return fresh inputs for timing, which the caller closes."""
        self._need = need
        drawn, self._timed = self._timed, None
        # A few less do, and a reference that was too slow to draw enough would be as slow now.
        if drawn is not None and 4 * drawn.count < 3 * need.count and not drawn.cut_short:
            drawn.close()
            drawn = None
        if drawn is None:
            with self._reference.loaded() as loaded:
                drawn = self._draw_timed(loaded, need)
        self._used.append(drawn)
        return drawn

    def free_used(self) -> None:
        """Free the memory of inputs handed out and closed."""
        self._used.clear()

    def _draw_timed(self, loaded: Loaded, need: Need) -> Draw:
        drawn = self._reference.draw_from(
            loaded, need.count, exact=False, checkable=need.checkable, at_least=need.at_least
        )
        drawn.inputs.map_in()
        return drawn
