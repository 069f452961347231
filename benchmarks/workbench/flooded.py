"""A workbench under a flood of events, for `benchmarks.workbench.views`: a run played by hand.

`python -m benchmarks.workbench.flooded RATE` shows a long run whose journal grows by RATE events a
second, until it is killed. The events are those of an agent: replies, tool calls and answers.
Twice a second it writes the worst stall of its event loop and its own cost to the file named by
`FLOODED_REPORT`.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import cast

import msgspec

from akg_tui.core import events as ev
from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.phases import Phase
from akg_tui.core.task import Task
from akg_tui.engine.run_handle import RunHandle
from akg_tui.evidence.findings import (
    MOST_ROWS,
    CodeFunction,
    CompilerRemark,
    Instruction,
    KernelFindings,
    Loop,
    MachineCode,
)
from akg_tui.evidence.roof import Roof
from akg_tui.tui.app import WorkbenchApp
from akg_tui.tui.evidence_reader import EvidenceReader
from akg_tui.view.lazy_rows import OnDemand
from tests.tui.script import KERNEL, FakeHandle

BEAT_S = 0.005
QUIET_BEAT_S = 0.25  # without events: the beat itself must not be what is measured
TOLD_S = 0.010  # a stall that is worth a line


def event(number: int) -> ev.AnyEvent:
    """One of a cycle of three: a reply, a call, its answer."""
    call = f"c{number // 3}"
    match number % 3:
        case 0:
            text = f"{number}: the loads of the inner loop wait; I will unroll it by four."
            return ev.ModelReplied(phase=Phase.EDIT, model="flood", text=text, input_tokens=9)
        case 1:
            return ev.ToolCalled(call=call, tool="read_kernel", arguments={"first": number})
        case _:
            return ev.ToolAnswered(call=call, tool="read_kernel", status="success", output="ok")


class _Journal(OnDemand[ev.Record]):
    """Like a run's journal on disk: only records that are being read are in memory."""

    def __init__(self, begun: list[ev.Record], at: float) -> None:
        self._begun = begun
        self._at = at
        self._made_up = 0

    def __len__(self) -> int:
        return len(self._begun) + self._made_up

    def grow(self, count: int) -> None:
        self._made_up += count

    def _made(self, index: int) -> ev.Record:
        made_up = index - len(self._begun)
        if made_up < 0:
            return self._begun[index]
        return ev.Record(index + 1, self._at, event(made_up))


class Flood(FakeHandle):
    """A run in its eighth round, on a kernel of 20,000 lines where `long`."""

    def __init__(self, rate: int, *, long: bool = False) -> None:
        more = "".join(
            f"    y{n} = x[{n}] * scale + {n}  # line {n} of many\n" if n % 4 else f"def f{n}(x):\n"
            for n in range(20_000)
        )
        super().__init__(kernel=KERNEL + (more if long else ""))
        self.to_phase(Phase.EVAL, settled=7)
        self._journal = _Journal(list(self.records), self.now)
        # What the screens read is a sequence; only the script that is over by now appended to it.
        self.records = self._journal  # type: ignore[assignment]
        self.rate = rate
        self.stalls: list[tuple[float, float, float]] = []

    def as_run(self) -> RunHandle:
        """Itself; it has no PLAN.md that could be edited by hand."""
        return cast(RunHandle, self)

    def clock(self) -> float:
        return self.now + time.monotonic() % 1000

    async def run(self) -> None:
        begin = time.monotonic()
        last, told, made = begin, begin, 0
        busy = time.thread_time()
        beat = BEAT_S if self.rate else QUIET_BEAT_S
        cpu = time.process_time()
        while True:
            await asyncio.sleep(beat)
            now = time.monotonic()
            worked = time.thread_time() - busy
            busy += worked
            if now - last - beat > TOLD_S and now - begin > 3:  # opening is another benchmark's
                self.stalls.append((last, now - last - beat, worked))
            last = now
            due = int((now - begin) * self.rate)
            self._journal.grow(due - made)
            made = due
            if now - told > 0.5:
                self._report((time.process_time() - cpu) / (now - told))
                told, cpu = now, time.process_time()

    def _report(self, share: float) -> None:
        figures = {
            "stalls": self.stalls,
            "cpu": share,
            "events": len(self.records),
            "rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
        path = Path(os.environ["FLOODED_REPORT"])
        new = path.with_suffix(".new")
        new.write_text(json.dumps(figures))
        new.replace(path)


def _findings(odd: bool) -> bytes:
    """As much machine code as a pane gets, as the answer of a process. Every ninth row is `odd`."""
    rows = tuple(
        Instruction(
            f"vaddps %ymm{n % 16},%ymm{(n + (n % 9 == 0) * odd) % 16},%ymm1",
            1 + n // 8,
            f".{n}" if n % 40 == 0 else "",
        )
        for n in range(MOST_ROWS)
    )
    loops = tuple(Loop(0, n, n + 39, 40, 40, (1 + n // 8,)) for n in range(0, MOST_ROWS - 40, 400))
    remarks = tuple(
        CompilerRemark(n, "missed", "not vectorized: a chain") for n in range(1, 400, 4)
    )
    function = CodeFunction("row_softmax", rows)
    code = MachineCode(compiler="g++", functions=(function,), loops=loops, remarks=remarks)
    return msgspec.json.encode(KernelFindings(code=code))


_FOUND = (_findings(False), _findings(True))


async def _code(self: EvidenceReader, task: Task, kernel: KernelFiles) -> KernelFindings:
    """The answer about a kernel, decoded as that of a process is."""
    return msgspec.json.decode(_FOUND[kernel.size % 2], type=KernelFindings)


async def _roofs(self: EvidenceReader, task: Task) -> tuple[Roof, ...]:
    """The limits of eight cases."""
    return tuple(
        Roof(f"case{n}", 8_000_000 * n, 4_000_000 * n, "L3", 20e9, 80e9, "float32")
        for n in range(1, 9)
    )


def main() -> int:
    # What other processes find out is not measured here, what the panes do with it is.
    EvidenceReader.find_code = _code  # type: ignore[method-assign]
    EvidenceReader.find_roofs = _roofs  # type: ignore[method-assign]
    handle = Flood(int(sys.argv[1]), long="long" in sys.argv[2:])

    async def open_run() -> RunHandle:
        return handle.as_run()

    app = WorkbenchApp(open_run, clock=handle.clock)
    app.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
