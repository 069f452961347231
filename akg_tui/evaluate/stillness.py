"""Whether a child stands still from when it was stopped until it is woken.

A stop is sent once, and nothing says that it lasts: a process that is woken behind the judge's
back could work for free while the other side is timed, or slow it down. Whatever the way it is
woken, its clock of CPU time tells. Reads what the scheduler counts, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable

from akg_tui.evaluate.lookout import Lookout
from akg_tui.evaluate.patience import worked_ns

ALLOWED_NS = 20_000
RUNS = 3
"""So many of its stops a child must have broken. A thread counts as stopped a moment before it
leaves its CPU, and may lose it just then, to another or to a hypervisor: then a stop that was
none is seen, about once in ten thousand where CPUs are short. Who runs in two stops of a cluster
gains nothing by it, as the median of its samples counts."""


class Stillness:
    """What the scheduler counts for one child and what descends from it, while they are stopped.

    `lookout` watches the child itself, which commonly is all there is.
    """

    def __init__(self, lookout: Lookout) -> None:
        self._lookout = lookout
        self._clocks: dict[int, int] = {}
        self._arrivals: dict[int, int] = {}
        self._runs = 0

    def begin(self, processes: Iterable[int]) -> None:
        """Note where processes are that were seen to stand still, all their threads."""
        self._clocks = {pid: now for pid in processes if (now := worked_ns(pid)) is not None}
        self._arrivals = {pid: self._arrivals_of(pid) for pid in self._clocks}

    def broken(self) -> bool:
        """Say whether they ran in too many of their stops; they may be woken then.

        Time alone is not enough: what a thread has worked is counted as it leaves its CPU.
        Whoever was woken has been given one again since.
        """
        for pid, before in self._clocks.items():
            now = worked_ns(pid)
            if now is not None and now - before > ALLOWED_NS and self._has_arrived(pid):
                self._runs += 1
                break
        self._clocks = {}
        return self._runs >= RUNS

    def _has_arrived(self, pid: int) -> bool:
        now = self._arrivals_of(pid)
        return now != self._arrivals[pid] or now == 0

    def _arrivals_of(self, pid: int) -> int:
        watched = self._lookout if pid == self._lookout.pid else Lookout(pid)
        return watched.arrivals()
