"""The immutable snapshot of a run that one refresh hands to every pane.

Reads a run handle and nothing else. A pane compares snapshots to decide whether to redraw.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.phases import Phase

if TYPE_CHECKING:
    from akg_tui.core.events import Record
    from akg_tui.core.measurement import Progress
    from akg_tui.core.past_states import Mark
    from akg_tui.core.state import Question, RunState
    from akg_tui.engine.run_handle import RunHandle


@dataclass(frozen=True)
class Moment:
    """A past event of the run, number `seq` of `last`, shown instead of the live run.

    `at` and `last_at` are times of events, in seconds since the epoch.
    """

    seq: int
    last: int
    at: float
    last_at: float
    mark: Mark | None
    rounds: int
    waits: bool
    marks: Sequence[Mark] = field(compare=False)


@dataclass(frozen=True)
class RunSnapshot:
    """The run at one moment. `trouble` is an error outside the run itself.

    With `past`, the snapshot shows an earlier event: `records` end there, so they may be fewer
    than in the previous snapshot. `streams` returns the text that a subagent is streaming.
    `holds`: no work is under way; `at_rest`: no process is at work on the run, and `now` is the
    time of its last event.
    """

    state: RunState
    records: Sequence[Record]
    activity: str
    progress: Progress | None
    stream: str
    live_version: int
    now: float
    kernel: Callable[[str], KernelFiles]
    streams: Callable[[str], str] = lambda subagent: ""
    trouble: str = ""
    past: Moment | None = None
    holds: bool = True
    at_rest: bool = False

    @property
    def gate_waits(self) -> bool:
        """Whether a gate waits for the person; False for a past event, and where nobody is at work
        who would take the answer.
        """
        gate = self.state.gate
        asks = gate is not None and not gate.answer and not self.state.finished
        return asks and self.past is None and not self.at_rest

    @property
    def waits(self) -> bool:
        """Whether a gate or question waits for the person; for a past event, in the live run."""
        if self.past is not None:
            return self.past.waits
        return self.gate_waits or (waiting(self.state) is not None and not self.at_rest)

    @property
    def candidate(self) -> str | None:
        """The blob under work; None where it is the best kernel, or that before the first edit."""
        work = self.state.work_blob
        return None if work == self.state.standing_blob else work


def waiting(state: RunState) -> Question | None:
    """Return the agent's question that waits for the person, or None."""
    question = state.question
    if question is None or not question.attended or state.finished:
        return None
    return None if state.phase is Phase.DONE else question


def snapshot_of(handle: RunHandle, now: float, trouble: str) -> RunSnapshot:
    """Return the snapshot of a live run. Reads only memory."""
    live = handle.live
    return RunSnapshot(
        state=handle.state,
        records=handle.records,
        activity=live.activity,
        progress=live.progress,
        stream=live.stream,
        live_version=live.version,
        now=handle.state.last_at if live.at_rest else now,
        kernel=handle.kernel,
        streams=live.subagents.stream,
        trouble=trouble,
        holds=live.holds,
        at_rest=live.at_rest,
    )
