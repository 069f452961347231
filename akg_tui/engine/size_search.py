"""Finds what a reference needs on this machine, and sizes that fit, by asking the sizing process.

Decides by figures only; the reference runs in confined children of that process.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Collection, Mapping
from operator import attrgetter
from pathlib import Path

from msgspec.structs import replace

from akg_tui.core.task import Task
from akg_tui.evaluate.reference_fault import Fault, FaultKind
from akg_tui.evaluate.sandbox.process_watch import usable_memory
from akg_tui.evaluate.targets.cpu import caches
from akg_tui.sizing.fitting import Found, Look, Role, Sizes, grown, role, shrunk, sizes_of
from akg_tui.sizing.needs import Answer, Needs, Question
from akg_tui.sizing.size_probe import ReferenceRefused, SizeProbe
from akg_tui.store.reference_constants import constants

DRAWN_TIMES = 12
"""How many times its tensors a process of the judge holds that draws several items of a fitted
reference, with results in double precision."""

HOPELESS_SHARE = 1 / 2
"""The share from which no evaluation can succeed: one child may use half of the memory."""

FIT_CALL_S = 0.05
FIT_BYTES = 128 << 20
FIT_CACHES = 4
"""The tensors of a fitted reference, temporaries included, take at most these bytes, or this many
times the last cache if that is more. Larger ones take longer to draw than to time."""

ATTEMPTS = 8
"""The most real calls with which a time that fits is sought."""

LARGEST_STEP = 1 / 4
LARGE_SHARE = 1 / 4
"""Sizes from this share of the largest are halved together before all are."""

LEAST_GB = 1.0
"""Torch itself does not run in less."""

SLOW_ESTIMATE_S = 2.0
"""The CPU time of an estimate from which on real calls are quicker."""

LONGEST_S = {"shapes": 5.0, "estimate": 5.0, "measure": 5.0}
"""The longest time that a question may take while sizes are fitted; longer is too large."""

SLOW_TRIED = 2
"""The most questions in succession that may take longer: a reference may loop for ever."""

QUIET_S = 3.0
"""After this time a line tells what is tried."""

GIB = 1 << 30

Values = Mapping[str, int | float]
Fitted = dict[str, int | float]


class SizeSearch:
    """The needs of one reference under different sizes; raises `ReferenceRefused` for its faults.

    `task` has the limits and rules; `source` returns the text of the reference, which may change.
    Of its constants those `fixed` are never changed if sizes are fitted, which is done if `fit` is
    set. `tell` is told from time to time what is tried.
    """

    def __init__(
        self,
        probe: SizeProbe,
        task: Task,
        source: Callable[[], str],
        filename: str,
        *,
        fixed: Collection[str] = (),
        fit: bool = True,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._probe = probe
        self._task = task
        self._source = source
        self._filename = filename
        self._fixed = fixed if fit else ()
        self._fits = fit
        self._tell, self._told_at = tell, time.monotonic()
        self._slow: list[ReferenceRefused] = []
        self._refused: ReferenceRefused | None = None
        """Why the last sizes that were looked at can't be used, if not for their size."""
        self._found: dict[tuple[object, ...], Needs | ReferenceRefused] = {}
        self.free = free_memory()
        self.limit = min(self.free, usable_memory(task.sandbox.memory_gb)) / DRAWN_TIMES
        """The most bytes of tensors with which an evaluation does not run out of memory."""
        self.is_faked = True
        """Whether the reference runs with fake tensors; otherwise it is called for real."""
        self._estimated = False
        """Whether it did: then a refusal is of the sizes."""
        self._inputs_alone = False
        """Whether sizes were refused for the bytes of their inputs, without a call."""
        self._most = self.fit_limit if fit else self.limit
        self._roles: dict[tuple[object, ...], dict[str, Role]] = {}
        self.original: Needs | None = None
        """What the problem needs as it is stated, if known: a fitted one stays near it."""

    def needs(self, values: Values) -> Needs:
        """Return the needs under some sizes, without allocating anything if possible.

        Raises `ReferenceRefused` for sizes that the reference refuses, with fake tensors too.
        """
        key = (self._source(), *sorted(values.items()))
        if key not in self._found:
            try:
                self._found[key] = self._needs(values)
            except ReferenceRefused as error:
                self._found[key] = error
        found = self._found[key]
        if isinstance(found, ReferenceRefused):
            raise found
        return found

    def _needs(self, values: Values) -> Needs:
        if not self.is_faked:
            return self.measured(values)
        try:
            found = self._ask("estimate", values)
            if found.failed and self._estimated:
                raise ReferenceRefused(found.failed, self._filename)
        except ReferenceRefused:
            if self._estimated:
                raise
            # Either fake tensors can't run this reference, or it has a fault, which a real
            # call shows better.
            self.is_faked = False
            return self.measured(values)
        if found.failed:
            # The same, but the inputs are known: larger ones need not be drawn to be refused.
            if found.held > self._most:
                self._inputs_alone = True
                return found
            self.is_faked = False
            return self.measured(values)
        self._estimated = True
        if found.cpu_s > SLOW_ESTIMATE_S and found.held <= self.limit:
            # A loop in Python with many small steps: real calls are quicker from here on.
            self.is_faked = False
            self._found.clear()
        return found

    def measured(self, values: Values) -> Needs:
        """Return the needs found by a real call, which may hold no more than half of what is free.

        Raises `ReferenceRefused` also for a call that needs more; see `is_too_large`.
        """
        most_gb = max(self.free * HOPELESS_SHARE / GIB, LEAST_GB)
        most = replace(self._task.sandbox, memory_gb=most_gb)
        return self._ask("measure", values, replace(self._task, sandbox=most))

    def examine(self, task: Task) -> Answer:
        """Let the judge's own examination pass over the reference with the rules of `task`."""
        return self._probe.examine(task, self._source(), self._filename)

    def _ask(self, question: Question, values: Values, task: Task | None = None) -> Needs:
        changed = replace(self._task.reference, constants=dict(values))
        asked = replace(task or self._task, reference=changed)
        if self._fits:
            timing = replace(asked.timing, build_timeout_s=LONGEST_S[question])
            asked = replace(asked, timing=timing)
            if len(self._slow) >= SLOW_TRIED:
                raise self._slow[-1]
        try:
            found = self._probe.ask(question, asked, self._source(), self._filename)
            self._slow.clear()
        except ReferenceRefused as error:
            self._slow += [error] if error.fault.kind is FaultKind.SLOW else []
            raise
        if found is None:
            raise ReferenceRefused(Fault(reason="its needs were not told"), self._filename)
        return found

    def forget_slow(self) -> None:
        """Ask again, also after sizes for which questions took too long."""
        self._slow.clear()

    @property
    def fit_limit(self) -> float:
        """The bytes of tensors that are sought where `limit` allows more."""
        return min(self.limit, max(FIT_BYTES, FIT_CACHES * max(caches().values(), default=0)))

    def fitting_memory(self, values: Values) -> Fitted | None:
        """Return sizes whose tensors fit into the memory; None if no size makes them smaller.

        Where a real call takes too long, the sizes also have a short call.
        """
        try:
            self.needs(values)
        except ReferenceRefused as error:
            if error.fault.kind is FaultKind.SLOW:
                return self._grown(values)
        held = attrgetter("held")

        def sought() -> Fitted | None:
            found = self._shrunk(values, held, self.fit_limit)
            return found or self._shrunk(values, held, self.limit)

        found = sought()
        called = found is not None and not self.needs(found).failed
        if self._slow and not called:
            return self._grown(values)
        if not self._inputs_alone or called:
            return found
        # Sizes that forward() refuses may have been passed on the way.
        self.is_faked = True  # large inputs are estimated again, not drawn
        # First the largest, of which one may be twice another, then all: numbers of blocks too.
        found = self._halved_together(values, LARGE_SHARE) or self._halved_together(values, 0)
        if found is None:
            self.is_faked, self._inputs_alone = False, False
            self._found.clear()
            found = sought()
        return found

    def _halved_together(self, values: Values, share: float) -> Fitted | None:
        """Return sizes that fit, those from this share of the largest halved together."""
        sizes = self._start(values)
        changed: Fitted = {}
        while sizes and (largest := max(sizes.values())) > 1:
            alike = [name for name, size in sizes.items() if size >= max(largest * share, 2)]
            sizes |= {name: sizes[name] // 2 for name in alike}
            changed |= {name: sizes[name] for name in alike}
            try:
                needs = self.needs({**values, **changed})
            except ReferenceRefused:
                continue
            if needs.held <= self.fit_limit and not needs.failed:
                return self._in_order({**values, **changed})
        return None

    def fitting_time(self, values: Values) -> tuple[Fitted, Needs]:
        """Return sizes with which a call takes at most `FIT_CALL_S`, or the nearest to it.

        The work of a call, counted with fake tensors, tells how far to go; a real call tells
        whether that was far enough.
        """
        current = dict(values)
        if self.is_faked:
            # Not by a call of many seconds; where the count errs, the real calls correct it.
            current = self._shrunk(current, _work, 10 * FIT_CALL_S) or current
        current, needs = self._called(values, current)
        for _ in range(ATTEMPTS):
            if needs.call_s is None or needs.call_s <= FIT_CALL_S:
                break
            work = _work(self.needs(current) if self.is_faked else needs)
            # Not far at a time: large tensors take longer than their size tells.
            share = max(FIT_CALL_S / needs.call_s, LARGEST_STEP)
            # One halving where the whole way can't be gone.
            found = self._shrunk(current, _work, work * share)
            found = found or self._shrunk(current, _work, work * 0.9)
            if found is None:
                break
            current, needs = self._called(values, found)
        return current, needs

    def _called(self, values: Values, current: Fitted) -> tuple[Fitted, Needs]:
        """Return sizes with a real call that is short enough: `current`, or else smaller ones.

        After a quarter of the work they are grown: the count of the work is wrong.
        """
        for share in (LARGEST_STEP, 0):
            try:
                return current, (self.measured if self.is_faked else self.needs)(current)
            except ReferenceRefused as error:
                if error.fault.kind is not FaultKind.SLOW:
                    raise
                found = None
                if share and self.is_faked:
                    found = self._shrunk(current, _work, _work(self.needs(current)) * share)
                with contextlib.suppress(ReferenceRefused):  # of sizes that are too small
                    found = found or self._grown(values)
                if found is None:
                    raise
                current = found
        return current, self.needs(current)

    def smaller(self, values: Values) -> Fitted | None:
        """Return sizes with at most a quarter of the work, or None if there are none.

        The time of a real call tells little of a small one: its bytes count instead.
        """

        def work(needs: Needs) -> float:
            return needs.work if needs.call_s is None else needs.held

        limit = work(self.needs(values)) * LARGEST_STEP
        return self._shrunk(values, work, limit, in_regime=False)

    def _shrunk(
        self,
        values: Values,
        measure: Callable[[Needs], float],
        limit: float,
        *,
        in_regime: bool = True,
    ) -> Fitted | None:
        """Return `values` with smaller sizes, so that the measure of the needs is in its limit."""
        start = self._start(values)
        look = self._looker(values, start, measure, in_regime=in_regime)
        roles = self._roles_of(values, start) if in_regime else {}
        found = shrunk(start, look, limit, roles, self.original.intensity if self.original else 0.0)
        return self._changed(values, start, found)

    def _looker(
        self,
        values: Values,
        start: Sizes,
        measure: Callable[[Needs], float],
        *,
        in_regime: bool = True,
    ) -> Look:
        """Return a function that finds what a call takes under sizes in the place of `start`."""

        def look(sizes: Sizes) -> Found | None:
            changed = {name: value for name, value in sizes.items() if value != start[name]}
            if time.monotonic() - self._told_at > QUIET_S:
                tried = ", ".join(f"{name} {value}" for name, value in changed.items())
                self._tell(f"looking for sizes: {tried or 'as stated'}")
                self._told_at = time.monotonic()
            try:
                needs = self.needs({**values, **changed})
            except ReferenceRefused as error:
                self._refused = None if is_too_large(error) else error
                return None if self._refused else Found(math.inf)
            regime = (needs.intensity, needs.elements) if in_regime else ()
            return Found(measure(needs), *regime)

        return look

    def _changed(self, values: Values, start: Sizes, found: Sizes | None) -> Fitted | None:
        """Return `values` with the sizes that were found in the place of `start`."""
        if found is None:
            return None
        return self._in_order({**values, **{n: v for n, v in found.items() if v != start[n]}})

    def _grown(self, values: Values) -> Fitted | None:
        """Return sizes that fit in bytes and time, grown from small ones by real calls."""
        start = self._start(values)
        if not start:
            return None
        self.is_faked = False
        self._found.clear()  # also of what was not asked because others were slow
        self.forget_slow()

        def cost(needs: Needs) -> float:
            return max((needs.call_s or 0.0) / FIT_CALL_S, needs.held / self.fit_limit)

        look = self._looker(values, start, cost)
        found = grown(start, look, 1.0, self._roles_of(values, start))
        if found is None and self._refused:
            why = f"a call takes too long, and with smaller sizes: {self._refused.fault.reason}"
            raise ReferenceRefused(replace(self._refused.fault, reason=why), self._filename)
        return self._changed(values, start, found)

    def _roles_of(self, values: Values, start: Mapping[str, int]) -> dict[str, Role]:
        """Return the roles of sizes, by the shapes that inputs have with each of them halved."""
        key = (self._source(), *start)
        if key not in self._roles:
            self._roles[key] = {}
            with contextlib.suppress(ReferenceRefused):
                whole = self._ask("shapes", values)
                self._roles[key] = {
                    name: self._role(values, name, size, whole)
                    for name, size in start.items()
                    if size > 1
                }
        return self._roles[key]

    def _role(self, values: Values, name: str, size: int, whole: Needs) -> Role:
        try:
            half = self._ask("shapes", {**values, name: size // 2})
        except ReferenceRefused:
            return Role.WIDTH
        return role(whole.shapes, half.shapes, trained=half.weights != whole.weights)

    def _start(self, values: Values) -> dict[str, int]:
        """Return the sizes that may be changed."""
        start = sizes_of(constants(self._source()))
        start |= {name: value for name, value in values.items() if isinstance(value, int)}
        return {name: value for name, value in start.items() if name not in self._fixed}

    def _in_order(self, values: Values) -> Fitted:
        """Return sizes in the order of the file."""
        return {name: v for name in constants(self._source()) if (v := values.get(name))}


def _work(needs: Needs) -> float:
    return needs.work if needs.call_s is None else needs.call_s


def is_too_large(error: ReferenceRefused) -> bool:
    """Return whether a call failed only because its sizes are too large for this machine."""
    return error.fault.kind in (FaultKind.MEMORY, FaultKind.SLOW)


def free_memory() -> int:
    """Return the bytes that this process's machine or control group can still give."""
    free = int(_text("/proc/meminfo").partition("MemAvailable:")[2].split()[0]) << 10
    group = next((s[4:] for s in _text("/proc/self/cgroup").splitlines() if s[:3] == "0::"), "")
    for folder in (Path("/sys/fs/cgroup") / group.lstrip("/"), Path("/sys/fs/cgroup")):
        most, used = _text(folder / "memory.max").strip(), _text(folder / "memory.current").strip()
        if most.isdigit() and used.isdigit():
            free = min(free, max(int(most) - int(used), 0))
    return free


def _text(path: str | Path) -> str:
    try:
        return Path(path).read_text("utf-8", "replace")
    except OSError:
        return ""
