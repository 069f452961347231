"""A believable run, played by hand: real events, folded and decided by core.

`FakeHandle` stands in for the engine: it takes each effect of core when told to, with
kernels and measurements from a script, at a clock that only it moves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

from akg_tui.core import commands as cmd
from akg_tui.core import effects as fx
from akg_tui.core import events as ev
from akg_tui.core.decide import Rejected, decide
from akg_tui.core.fold import evolve
from akg_tui.core.kernel.kernel_files import Kernel, KernelFiles, files_of
from akg_tui.core.measurement import FailureKind, Interval, Measurement, Outcome, Progress
from akg_tui.core.phases import Mode, Phase
from akg_tui.core.sanitize import Said
from akg_tui.core.state import RunState
from akg_tui.core.task import Policy, Target, Task
from akg_tui.engine.live import Live

START = 1_700_000_000.0

KERNEL = '''\
"""Softmax over the last dimension, with the knobs to tune it."""

import torch
from torch import nn

from akg_tui.dsl import compile_cpp, pointer

FLAGS = "-O1"  # tune: ["-O1", "-O3", "-O3 -march=native"]
EXP = "libm64"  # tune: ["libm64", "libm32", "poly5"]
LANES = 1  # tune: [1, 4, 8, 16]
PASSES = "recompute"  # tune: ["recompute", "keep", "online"]

SOURCE = r"""
#include <cmath>
#include <cstdint>

static inline float exponential(float x) {
    if constexpr (EXP == libm64) return std::exp(static_cast<double>(x));
    return std::exp(x);  // 32 bits
}

extern "C" void row_softmax(const float* x, float* y, int64_t rows, int64_t n) {
    for (int64_t r = 0; r < rows; ++r, x += n, y += n) {
        float top = x[0], sum = 0.0f;
        for (int64_t i = 1; i < n; ++i) top = x[i] > top ? x[i] : top;
        for (int64_t i = 0; i < n; ++i) sum += y[i] = exponential(x[i] - top);
        for (int64_t i = 0; i < n; ++i) y[i] /= sum;
    }
}
"""


class ModelNew(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.kernel = compile_cpp(SOURCE, f"{FLAGS} -DEXP={EXP} -DLANES={LANES}").row_softmax

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        self.kernel(pointer(x), pointer(y), x.numel() // x.shape[-1], x.shape[-1])
        return y
'''


@dataclass(frozen=True)
class Try:
    """One plan item of the script: the edit it makes and what its measurement finds."""

    text: str
    old: str
    new: Kernel
    """The text that replaces `old`, or a whole kernel in several files."""
    measurement: Measurement


def faster(ratio: float, half: float = 0.03, ms: float = 1.0) -> Measurement:
    return Measurement(
        outcome=Outcome.CORRECT,
        max_error=2.4e-7,
        tolerance=1.2e-5,
        candidate_ms=ms / ratio,
        baseline_ms=ms,
        ratio=Interval(ratio, ratio * (1 - half), ratio * (1 + half), 0.95),
        clusters=8,
        samples=640,
        build_s=0.3,
        elapsed_s=6.2,
    )


def wrong(message: str, detail: str = "") -> Measurement:
    return Measurement(
        outcome=Outcome.FAILED, failure=FailureKind.WRONG, message=message, detail=detail
    )


PLANS: tuple[tuple[Try, ...], ...] = (
    (
        Try("FLAGS = -O3", '"-O1"  #', '"-O3"  #', faster(1.31, ms=8.1)),
        Try("EXP = libm32", '"libm64"  #', '"libm32"  #', faster(1.42, ms=6.2)),
        Try("LANES = 16", "LANES = 1 ", "LANES = 16 ", faster(1.24, ms=4.4)),
        Try("PASSES = online", '"recompute"  #', '"online"  #', faster(0.91, ms=3.5)),
        Try(
            "FLAGS = -O3 -ffast-math",
            '"-O3"  #',
            '"-O3 -ffast-math"  #',
            wrong("values differ: 37 of 65536, the first at [3, 17]", "got nan, expected 0.0017"),
        ),
        Try("PASSES = keep", '"recompute"  #', '"keep"  #', faster(1.004, ms=3.5)),
    ),
    (
        Try("EXP = poly5", '"libm32"  #', '"poly5"  #', faster(1.58, ms=3.5)),
        Try("LANES = 8", "LANES = 16 ", "LANES = 8 ", faster(0.97, 0.05, ms=2.2)),
        Try("LANES = 4", "LANES = 16 ", "LANES = 4 ", faster(0.88, 0.05, ms=2.2)),
    ),
)


def task(**policy: int) -> Task:
    return Task(
        op="row_softmax",
        target=Target(backend="cpu", dsl="cpp", arch="zen4"),
        policy=Policy(**{"max_rounds": 12, **policy}),
    )


class FakeHandle:
    """A `RunHandle` over records in memory. `work` takes effects; nothing moves by itself."""

    def __init__(
        self,
        *,
        mode: Mode = Mode.AUTO,
        plans: Sequence[Sequence[Try]] = PLANS,
        kernel: Kernel = KERNEL,
        path: str = "/tasks/row_softmax/runs/20231114-2213-row-softmax",
        the_task: Task | None = None,
        agent: str = "sweep",
    ) -> None:
        self.now = START
        self.live = Live()
        self.path = path
        self.sent: list[cmd.Command] = []
        self.closed = False
        self.over = asyncio.Event()
        self._plans = [list(plan) for plan in plans]
        self._tries: dict[str, Try] = {}
        self._blobs: dict[str, KernelFiles] = {}
        self._calls = 0
        self.records: list[ev.Record] = []
        self._state: RunState | None = None
        self._append(
            ev.RunCreated(
                run_id="20231114-2213",
                task=the_task or task(),
                mode=mode,
                agent=agent,
                version="0.1.0",
                reference_sha256="0" * 64,
                kernel_sha256=files_of(kernel, "kernel.py").sha256,
                kernel_blob=self._blob(kernel),
            )
        )
        self._append(ev.SessionOpened(pid=1, version="0.1.0", resumed=False))

    @property
    def state(self) -> RunState:
        assert self._state is not None
        return self._state

    def clock(self) -> float:
        return self.now

    def kernel(self, blob: str) -> KernelFiles:
        return self._blobs[blob]

    def _blob(self, kernel: Kernel) -> str:
        files = files_of(kernel, "kernel.py")
        self._blobs[files.sha256[:40]] = files
        return files.sha256[:40]

    def _append(self, event: ev.AnyEvent) -> None:
        self.now += 0.7
        record = ev.Record(len(self.records) + 1, self.now, event)
        self._state = evolve(self._state, record)
        self.records.append(record)

    def send(self, command: cmd.Command) -> Rejected | None:
        decided = decide(self.state, command, self.now)
        if isinstance(decided, Rejected):
            return decided
        self.sent.append(command)
        for event in decided:
            self._append(event)
        return None

    async def run(self) -> None:
        await self.over.wait()

    async def close(self) -> None:
        self.closed = True

    def tell(self, event: ev.AnyEvent) -> None:
        """Append a fact, whatever the script says."""
        assert self.send(cmd.Observe(event)) is None

    def tell_broken_baseline(self) -> None:
        """The seed kernel is wrong: the run cannot do its job."""
        seed = self.state.seed_blob
        self._must(cmd.StartEval(ev.Purpose.BASELINE, 0, seed))
        self._must(cmd.FinishEval(wrong("values differ: all of them")))
        self.work()

    def work(self, until: Callable[[RunState], bool] = lambda state: False) -> Self:
        """Take effects until something holds the run, it is over, or `until` is true."""
        while not until(self.state) and self.step():
            pass
        return self

    def to_phase(self, phase: Phase, settled: int | None = None) -> Self:
        """Work until the run stands in `phase`, with so many rounds settled."""
        self.work(lambda s: s.phase is phase and settled in (None, s.settled))
        assert self.state.phase is phase
        return self

    def step(self) -> bool:
        """Take one effect, as the engine would; False when the run waits or is over."""
        effect = fx.next_effect(self.state, self.now)
        match effect:
            case None | fx.Hold():
                self.live.holds = True
                return False
            case fx.Measure():
                self._measure(effect)
            case fx.CommitSeed():
                self._must(cmd.AcceptBaseline("5eed" * 10))
            case fx.RunAgent():
                self._visit(effect.phase)
            case fx.Commit():
                self._must(cmd.Settle(f"{effect.attempt:040x}"))
            case fx.Step():
                self.live.holds = True
                for event in effect.events:
                    self._append(event)
        return True

    def _must(self, command: cmd.Command) -> None:
        refused = self.send(command)
        assert refused is None, refused

    def _measure(self, effect: fx.Measure) -> None:
        self._must(cmd.StartEval(effect.purpose, effect.attempt, effect.blob))
        self.live.show(Said("{what} evaluation", what=effect.purpose))
        if effect.purpose is ev.Purpose.BASELINE:
            found = faster(0.42, ms=3.4)
        elif effect.purpose is ev.Purpose.FINAL:
            found = faster(self.state.best.over_seed if self.state.best else 1.0, ms=8.1)
        else:
            found = self._tries[self.state.active or ""].measurement
        self.live.report(Progress("time", 5, 8, ratio=found.ratio))
        self.now += 5.0
        self._must(cmd.FinishEval(found))

    def _visit(self, phase: Phase) -> None:
        self.live.show(Said("{name} is at work", name="sweep"))
        if phase is Phase.PLAN:
            self._write_plan()
        elif phase is Phase.EDIT:
            self._edit()
        else:
            self._reply(phase, "Each of them changed the exponential; leave it alone.", 1)
            self._call(
                "report_diagnosis",
                cmd.ReportDiagnosis(
                    "the exponential loses digits", directions=("keep the exponential in 64 bits",)
                ),
            )
        self.tell(ev.TurnEnded())

    def _reply(self, phase: Phase, text: str, calls: int) -> None:
        self.live.write(text)
        self.tell(ev.ModelReplied(phase=phase, model="sweep", text=text, tool_calls=calls))

    def _call(self, tool: str, command: cmd.Command, **arguments: object) -> None:
        self._calls += 1
        call = f"c{self._calls}"
        self.tell(ev.ToolCalled(call=call, tool=tool, arguments=dict(arguments)))
        self._must(command)
        self.tell(ev.ToolAnswered(call=call, tool=tool, status="success", output="ok"))

    def _write_plan(self) -> None:
        if not self._plans:
            self._reply(Phase.PLAN, "Every knob was tried near the best values.", 1)
            self._call("finish", cmd.RequestFinish("the space is searched"))
            return
        plan = self._plans.pop(0)
        self._reply(Phase.PLAN, "The compiler flags first, then the exponential and the lanes.", 1)
        first = len(self.state.items) + 1
        for offset, each in enumerate(plan):
            self._tries[f"p{first + offset}"] = each
        items = tuple(ev.PlannedItem("", each.text, "a declared knob") for each in plan)
        self._call("submit_plan", cmd.SubmitPlan(items, "one knob at a time"), items=[*items])

    def _edit(self) -> None:
        state = self.state
        each = self._tries[state.active or ""]
        before, after = self.kernel(state.work_blob), each.new
        if isinstance(after, str):
            after = files_of(before.text.replace(each.old, after, 1), before.main)
        assert after != before, each
        self._reply(Phase.EDIT, f"I set {each.text}; everything else stays.", 1)
        edit = cmd.Edit(self._blob(after), "0" * 64, added=1, removed=1, note=each.text)
        self._call("edit_kernel", edit, ops=[{"op": "replace"}])
