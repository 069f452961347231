"""The reference, as the judge sees it: what its data looks like, and draws from it.

A reference child never lives beside a candidate's, except as the baseline that is timed.
The seeds come from the judge and die with it; what is drawn stays in the judge's memory.
"""

from __future__ import annotations

import dataclasses
import secrets
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

import msgspec
import torch

from akg_tui.core.measurement import FailureKind
from akg_tui.evaluate import correctness
from akg_tui.evaluate import layout as layouts
from akg_tui.evaluate.layout import Layout
from akg_tui.evaluate.nursery import Misjudged, Nursery, blamed_on
from akg_tui.evaluate.region import Region
from akg_tui.evaluate.wire import REPORT_BYTES, Description, Op, Plan, Want
from akg_tui.evaluate.worker import Worker

RESULTS_SHARE = 0.5
BATCH_S = 0.05
"""Items are asked for in batches of about this long, so that the time can be kept."""


@dataclass(frozen=True)
class Draw:
    """Items drawn from the reference. The first `checkable` have results beside them."""

    description: Description
    count: int
    checkable: int
    inputs: Region
    outputs: Region
    exact: Region | None

    def results(self, item: int) -> list[torch.Tensor]:
        """Return the reference's results for an item."""
        layout = self.description.outputs
        return layouts.views(layout, self.outputs.map, item * layout.size)

    def exact_results(self, item: int) -> list[torch.Tensor] | None:
        """Return the results in double precision, where the reference has such a form."""
        if self.exact is None:
            return None
        layout = layouts.results_in(self.description.outputs, exact=True)
        return layouts.views(layout, self.exact.map, item * layout.size)

    @property
    def fds(self) -> tuple[int, ...]:
        """The descriptors that a DRAW needs."""
        return tuple(region.fd for region in (self.inputs, self.outputs, self.exact) if region)

    def close(self) -> None:
        """Give the memory back."""
        for region in (self.inputs, self.outputs, self.exact):
            if region is not None:
                region.close()


class Reference:
    """Makes reference children, and remembers what the first one said of itself."""

    def __init__(self, nursery: Nursery, source: str, filename: str) -> None:
        self._nursery = nursery
        self._source = source
        self._filename = filename
        self._seed = secrets.randbits(63)
        self._description: Description | None = None
        self._state: Region | None = None
        self._sample: Draw | None = None

    @property
    def description(self) -> Description:
        """How inputs, results, weights and constructor arguments lie in memory."""
        if self._description is None:
            raise Misjudged(FailureKind.JUDGE, "the reference was not examined")
        return self._description

    @property
    def state(self) -> Region:
        """The constructor's arguments, then the weights."""
        if self._state is None:
            raise Misjudged(FailureKind.JUDGE, "the reference was not examined")
        return self._state

    @property
    def sample(self) -> Draw:
        """One item that is never timed nor compared: for building and warming up."""
        if self._sample is None:
            raise Misjudged(FailureKind.JUDGE, "the reference was not examined")
        return self._sample

    def plan(self, **bound: Layout | int) -> Plan:
        """Return the plan of a reference child."""
        base = Plan(kind="reference", source=self._source, filename=self._filename, seed=self._seed)
        return msgspec.structs.replace(base, **bound)

    def kernel_plan(self, source: str, filename: str, slots: int) -> Plan:
        """Return the plan of a kernel with the reference's arguments and weights."""
        known = self.description
        return Plan(
            kind="kernel",
            source=source,
            filename=filename,
            seed=self._seed,
            slots=slots,
            arguments=known.arguments,
            weights=known.weights,
            inputs=known.inputs,
            outputs=known.outputs,
        )

    def examine(self) -> None:
        """Load the reference once and check that it keeps its contract.

        Raises
        ------
        Misjudged
            It does not load, lacks a part, raises, or gives two results for one input.
        """
        if self._description is not None:
            return
        with self._loaded() as (worker, description):
            for layout in (description.arguments, description.weights, description.inputs):
                layout.check()
            state = Region(description.arguments.size + description.weights.size)
            worker.send(Op.STATE, fds=(state.fd,))
            worker.answer(self._call_s, "writing its weights")
            sample = self._memory(description, 2, exact=True)
            wanted = Want.OUTPUT | Want.TWICE
            if sample.exact is not None:
                wanted |= Want.EXACT
            self._ask(worker, 0, 1, wanted, sample.fds)
            first, second = sample.results(0), sample.results(1)
            held = correctness.bounds(first, sample.exact_results(0), None)
            found = correctness.compare(second, first, None, correctness.loosened(held))
            if found.message:
                raise Misjudged(
                    FailureKind.REFERENCE,
                    f"{self._filename}: Model is not deterministic: called twice on the same "
                    f"input it gave different results ({found.message})",
                    found.detail,
                )
        # Every kernel's process is given these; none may change them for the next.
        state.finish()
        self._description, self._state, self._sample = description, state, sample

    def draw(
        self,
        count: int,
        *,
        exact: bool,
        checkable: int,
        seconds: float,
        at_least: int,
    ) -> Draw:
        """Draw up to `count` items from fresh secret seeds, the first `checkable` with results.

        Stops after `seconds`, but not before `at_least` items. Half of the time at most goes
        into results: without any left, a slow reference would leave nothing to time with.
        """
        with self._loaded() as (worker, description):
            if description != self.description:
                raise Misjudged(
                    FailureKind.REFERENCE,
                    f"{self._filename}: get_inputs() must return the same shapes, dtypes and "
                    "constants every time",
                )
            memory = self._memory(description, count, exact=exact)
            start = time.monotonic()
            done = with_results = 0
            every, batch, fds = True, 1, memory.fds
            while done < count:
                spent = time.monotonic() - start
                if spent > seconds and done >= at_least:
                    break
                wanted = 0
                batch = min(batch, count - done)
                if done < checkable and (done < at_least or spent < seconds * RESULTS_SHARE):
                    batch = min(batch, checkable - done)
                    wanted = Want.OUTPUT | (Want.EXACT if memory.exact is not None else 0)
                    with_results = done + batch
                made = self._ask(worker, done, batch, wanted, fds)
                every, fds = every and made == wanted, ()
                done += batch
                if time.monotonic() - start - spent < BATCH_S:
                    batch *= 2
        return dataclasses.replace(
            memory,
            count=done,
            checkable=with_results,
            exact=memory.exact if every else None,
        )

    @contextmanager
    def _loaded(self) -> Iterator[tuple[Worker, Description]]:
        with (
            closing(Region(REPORT_BYTES)) as report,
            blamed_on(FailureKind.REFERENCE, self._filename),
            self._nursery.child(self._source) as worker,
        ):
            self._nursery.send_plan(worker, self.plan(), report)
            size = self._nursery.await_load(worker)
            text = bytes(report.map[: min(size, REPORT_BYTES)])
            try:
                description = msgspec.json.decode(text, type=Description)
            except msgspec.MsgspecError as error:
                raise Misjudged(
                    FailureKind.REFERENCE, f"{self._filename}: it describes itself wrongly: {error}"
                ) from error
            yield worker, description

    @property
    def _call_s(self) -> float:
        # Drawing makes inputs and calls the model up to three times, once in double precision.
        return 4 * self._nursery.task.timing.call_timeout_s + 10.0

    def _memory(self, description: Description, count: int, *, exact: bool) -> Draw:
        wide = layouts.results_in(description.outputs, exact=True).size
        return Draw(
            description,
            count,
            count,
            Region(count * description.inputs.size),
            Region(count * description.outputs.size),
            Region(count * wide) if exact and description.has_floats else None,
        )

    def _ask(self, worker: Worker, item: int, count: int, wanted: int, fds: tuple[int, ...]) -> int:
        seed = secrets.randbits(63)
        worker.send(Op.DRAW, count=count, seed=seed, item=item, wanted=wanted, fds=fds)
        # No candidate lives now, so there is nobody to be protected by stopping this one.
        return worker.answer(count * self._call_s, "drawing inputs", stop=False)
