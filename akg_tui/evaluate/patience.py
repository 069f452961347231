"""How long a process may work before it is asked for no more.

Counts what the process itself worked, which other work on the machine does not change, so what
is left out does not depend on the load. Reads the kernel's clocks only.
"""

from __future__ import annotations

import time

WAITING = 20.0
"""By the wall's clock it may take this many times as long: it might sleep, and work not at all."""

_CPUCLOCK_SCHED = 2
_PROCESS_BITS = 3


def worked_s(pid: int) -> float | None:
    """Return the seconds that all threads of a process have worked; None if it is gone."""
    worked = worked_ns(pid)
    return None if worked is None else worked / 1e9


def worked_ns(pid: int) -> int | None:
    """Return the same in nanoseconds: the scheduler's own sum, also of threads that have ended.

    The clock's number is made as clock_getcpuclockid(3) makes it, for which Python has no name.
    """
    try:
        return time.clock_gettime_ns((~pid << _PROCESS_BITS) | _CPUCLOCK_SCHED)
    except OSError:
        return None


class Patience:
    """Begins with the process as it is now, and ends when it has worked for `work_s`."""

    def __init__(self, pid: int, work_s: float) -> None:
        self._pid = pid
        self._work_s = work_s
        self._before = worked_s(pid)
        self._limit = time.monotonic() + WAITING * work_s

    def lost(self) -> str:
        """Return why the process has had its time, in words, or nothing."""
        if time.monotonic() >= self._limit:
            return f"no time left after {WAITING * self._work_s:.3g} s"
        now = worked_s(self._pid)
        if now is None or self._before is None or now - self._before < self._work_s:
            return ""
        return f"no time left after {self._work_s:.3g} s of the reference's work"
