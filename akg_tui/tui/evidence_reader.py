"""Finds out what binds the kernels of the open run, in other processes, while the screen goes on.

One process at a time, which gives way to every other one, and none while a kernel is being timed.
Keeps the newest answers by kernel; changes no run.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING

from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.sanitize import one_line
from akg_tui.evidence.findings import KernelFindings
from akg_tui.view import formatting
from akg_tui.view.language import tr

if TYPE_CHECKING:
    from akg_tui.core.task import Task
    from akg_tui.evidence.roof import Roof
    from akg_tui.view.run_snapshot import RunSnapshot

KEPT = 24
MOST_WAITING = 4
_TIMED = ("time", "confirm")

Start = Callable[[Coroutine[None, None, None]], object]


class EvidenceReader:
    """Answers at once with what is known, and finds out the rest.

    `start` runs a coroutine as a worker of the screen, `folder` returns the run's folder, and
    `told` is called when something more is known. `clock` is monotonic, in seconds.
    """

    def __init__(
        self,
        start: Start,
        folder: Callable[[], str],
        told: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._start, self._folder, self._told, self._clock = start, folder, told, clock
        self._began = clock()
        self._known: OrderedDict[str, KernelFindings] = OrderedDict()
        self._roofs: dict[str, tuple[Roof, ...]] = {}
        self._wanted: OrderedDict[str, tuple[Task, KernelFiles]] = OrderedDict()
        self._wants_roofs: Task | None = None
        self._works = False

    def findings(self, snapshot: RunSnapshot, blob: str) -> KernelFindings | None:
        """Return what was found about a kernel; None while that is not known."""
        if blob in self._known:
            return self._known[blob]
        try:
            self._wanted[blob] = (snapshot.state.task, snapshot.kernel(blob))
        except Exception as error:  # noqa: BLE001 - the pane tells that the text is lost
            return KernelFindings(left_out={"machine code": one_line(str(error), 200)})
        self._wanted.move_to_end(blob)
        while len(self._wanted) > MOST_WAITING:
            self._wanted.popitem(last=False)
        self._begin(snapshot)
        return None

    def roofs(self, snapshot: RunSnapshot) -> tuple[Roof, ...] | None:
        """Return the limits of the task's cases; None while they are not known."""
        found = self._roofs.get(snapshot.state.run_id)
        if found is None:
            self._wants_roofs = snapshot.state.task
            self._begin(snapshot)
        return found

    def waits(self, snapshot: RunSnapshot) -> str:
        """Return what an answer waits for."""
        if _times(snapshot):
            return tr("it is found out when the timing under way is over, so as not to disturb it")
        took = formatting.short_time(self._clock() - self._began)
        return tr("it is being found out, in a confined process: {time} so far", time=took)

    def _begin(self, snapshot: RunSnapshot) -> None:
        if self._works or _times(snapshot):
            return
        self._works, self._began = True, self._clock()
        self._start(self._work(snapshot.state.run_id))

    async def _work(self, run_id: str) -> None:
        """Find out one thing; the next pull of a pane asks for the next one."""
        try:
            if self._wants_roofs is not None:
                task, self._wants_roofs = self._wants_roofs, None
                self._roofs[run_id] = await self.find_roofs(task)
            elif self._wanted:
                blob, (task, kernel) = self._wanted.popitem()
                self._known[blob] = await self.find_code(task, kernel)
                while len(self._known) > KEPT:
                    self._known.popitem(last=False)
        finally:
            self._works = False
        self._told()

    async def find_code(self, task: Task, kernel: KernelFiles) -> KernelFindings:
        """Return what is found about a kernel, kept from earlier or by reading it now."""
        from akg_tui.evidence import asking

        reference, lost = await asyncio.to_thread(self._reference, task)
        if lost:
            return KernelFindings(left_out={"machine code": lost})
        return await asking.kernel_findings(task, reference, kernel, idle=True)

    async def find_roofs(self, task: Task) -> tuple[Roof, ...]:
        """Return the limits of a task's cases, kept from earlier or found now."""
        from akg_tui.evidence import asking
        from akg_tui.evidence.roof import Roof

        reference, lost = await asyncio.to_thread(self._reference, task)
        return (Roof("", unknown=lost),) if lost else await asking.roofs(task, reference)

    def _reference(self, task: Task) -> tuple[str, str]:
        """Return the text of the run's reference, and why it cannot be read."""
        try:
            path = Path(self._folder()) / "task" / task.files.reference
            return path.read_text("utf-8"), ""
        except (OSError, UnicodeDecodeError) as error:
            why = one_line(str(error), 200)
            return "", tr("the run's reference cannot be read: {why}", why=why)


def _times(snapshot: RunSnapshot) -> bool:
    """Return whether a kernel is being timed now, which another process would disturb."""
    progress = snapshot.progress
    under_way = snapshot.state.running is not None and not snapshot.at_rest
    return under_way and progress is not None and progress.stage in _TIMED
