"""Moments of the scripted run that several tests look at."""

from __future__ import annotations

from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.measurement import Interval, Progress
from akg_tui.core.phases import Mode, Phase
from akg_tui.core.sanitize import Said

from .script import FakeHandle, Try, faster


def at_work(settled: int = 7, **options: object) -> FakeHandle:
    """After so many rounds, before the evaluation of the next one."""
    handle = FakeHandle(**options)  # type: ignore[arg-type]
    return handle.to_phase(Phase.EVAL, settled=settled)


def evaluating(settled: int = 7) -> FakeHandle:
    """At the beginning of the evaluation of the next round."""
    handle = at_work(settled)
    start = cmd.StartEval(ev.Purpose.CANDIDATE, settled + 1, handle.state.work_blob)
    assert handle.send(start) is None
    return handle


def under_evaluation() -> FakeHandle:
    """In the eighth round, with five of eight pairs timed."""
    handle = evaluating()
    handle.live.show(Said("{what} evaluation", what="candidate"))
    handle.live.report(Progress("time", 5, 8, ratio=Interval(0.97, 0.93, 1.02, 0.95)))
    handle.now += 5
    return handle


def keeping(agent: str = "sweep") -> FakeHandle:
    """The KEEP of the first attempt waits for a person."""
    handle = FakeHandle(mode=Mode.REVIEW, agent=agent).work()
    assert handle.state.gate
    return handle


def over() -> FakeHandle:
    return FakeHandle().work()


def long_kernel() -> FakeHandle:
    """A candidate that changes lines 30, 90 and 150 of a kernel of 200 lines."""
    kernel = "".join(f"line_{n} = {n}\n" for n in range(1, 201))
    changed = kernel
    for n in (30, 90, 150):
        changed = changed.replace(f"line_{n} = {n}\n", f"line_{n} = 0\n")
    handle = FakeHandle(kernel=kernel, plans=[[Try("zeros", kernel, changed, faster(1.3))]])
    return handle.to_phase(Phase.EVAL)
