"""Proves a machine with an accelerator: verdicts, equal kernels, a planted gain, and samples.

Everything goes through the judge as in a run. Nothing here knows which accelerator it is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from akg_tui.core.measurement import Measurement, Outcome
from akg_tui.core.phases import Verdict
from akg_tui.core.task import Correctness, Target, Task, Timing
from akg_tui.core.verdict import decide_verdict
from akg_tui.evaluate import Judge
from akg_tui.store.task_folder import TaskFolder
from benchmarks.hardware.cheats import CHEATS
from benchmarks.hardware.hostile import HOSTILE
from benchmarks.hardware.kernels import HONEST, ROWS, SOFTMAX, TASK, Honest, Refused
from benchmarks.judge import records
from benchmarks.judge.records import clopper_pearson

SAMPLES = 8
"""Timed samples of each side, where a kernel is only refused for its times."""

PARTS = 10
GAIN_PARTS = 1
GAIN = GAIN_PARTS / PARTS
"""The planted gain: the slower kernel computes so many of its equal parts a second time."""

TIMING = Timing()
"""The judge's own rules."""

FALSE_KEEPS, FOUND = 0.01, 0.95
"""The most equal kernels that may be kept, and the least gains that must be found."""

# Much work for its bytes: sealing and digesting take the smaller part of a call.
REFERENCE = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(torch.erf(x) * torch.tanh(x) * 4, dim=-1)

def get_inputs():
    return [torch.randn(320, 1024)]

def get_init_inputs():
    return []
"""

PLANTED = """
import torch

class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        rows = x.shape[0] // PARTS
        for part in range(COMPUTED):
            at = part % PARTS * rows
            some = x[at : at + rows]
            y[at : at + rows] = torch.softmax(torch.erf(some) * torch.tanh(some) * 4, dim=-1)
        return y
"""


class Checked(Struct, frozen=True):
    """A kernel with a known verdict, and whether the judge gave it."""

    name: str
    kind: str
    right: bool
    found: str
    seconds: float


class Rate(Struct, frozen=True):
    """How many comparisons of two kernels with a known ratio kept the candidate.

    `low` and `high` bound the rate, each with 95 % confidence; ratios are None if none was timed.
    """

    true_gain: float
    trials: int
    kept: int
    failed: int
    low: float
    high: float
    ratio_median: float | None
    ratio_lowest: float | None
    ratio_highest: float | None
    seconds_median: float


class Sampled(Struct, frozen=True):
    """A sample's kernel against its reference in PyTorch's eager mode, on the device."""

    name: str
    found: str
    over_eager: float | None = None
    low: float | None = None
    high: float | None = None
    kernel_ms: float | None = None
    eager_ms: float | None = None


class Proof(Struct, kw_only=True):
    """All that one machine has shown, as it is handed back."""

    target: str
    device: str
    judge: str
    environment: dict[str, str] = {}
    verdicts: list[Checked] = []
    equal: Rate | None = None
    gain: Rate | None = None
    samples: list[Sampled] = []
    error: str = ""

    @property
    def held(self) -> bool:
        """Return whether all verdicts are right, the rates in bounds, and the samples correct."""
        return (
            not self.error
            and all(each.right for each in self.verdicts)
            and self.equal is not None
            and not self.equal.failed
            and self.equal.kept <= FALSE_KEEPS * self.equal.trials
            and self.gain is not None
            and self.gain.kept >= FOUND * self.gain.trials
            and all(each.found == Outcome.CORRECT for each in self.samples)
        )


def planted(extra: int) -> str:
    """Return a kernel that computes `extra` of its parts twice."""
    return PLANTED.replace("PARTS", str(PARTS)).replace("COMPUTED", str(PARTS + extra))


class Prover:
    """Proves the machine for one target, step by step.

    `backend` names the target, `modules` are imported by the judge first, `scratch` is an empty
    folder, and `tell` gets a line for each thing that was done.
    """

    def __init__(
        self,
        proof: Proof,
        *,
        modules: tuple[str, ...],
        scratch: Path,
        tell: Callable[[str], None],
    ) -> None:
        self.proof = proof
        self._modules = modules
        self._scratch = scratch
        self._tell = tell

    @asynccontextmanager
    async def _judge(self, task: Task, reference: str) -> AsyncIterator[Judge]:
        target = msgspec.structs.replace(task.target, backend=self.proof.target)
        task = msgspec.structs.replace(task, target=target)
        folder = self._scratch / f"judge{len(list(self._scratch.iterdir()))}"
        folder.mkdir()
        async with Judge(task, reference, folder, modules=self._modules, prefetch=False) as judge:
            yield judge

    async def verdicts(self, kernels: Sequence[Honest | Refused]) -> None:
        """Evaluate kernels whose verdict is known."""
        for task in (SOFTMAX, ROWS):
            of_task = [each for each in kernels if each.task == task]
            if not of_task:
                continue
            async with self._judge(TASK, task) as judge:
                for kernel in of_task:
                    timed = isinstance(kernel, Refused) and kernel.timed
                    found = await judge.probe(kernel.text, timed=timed, samples=SAMPLES)
                    self._add(kernel, found)

    def _add(self, kernel: Honest | Refused, found: Measurement) -> None:
        self.proof.environment = found.environment or self.proof.environment
        if isinstance(kernel, Honest):
            right, kind = found.outcome is Outcome.CORRECT, "honest"
        else:
            kind = "hostile" if kernel in HOSTILE else "cheat"
            right = (
                found.outcome is Outcome.FAILED
                and found.failure in kernel.fails
                and kernel.says in found.message
            )
        what = " ".join(filter(None, (found.outcome, found.failure, found.message)))
        checked = Checked(kernel.name, kind, right, what, round(found.elapsed_s, 2))
        self.proof.verdicts.append(checked)
        self._tell(f"{'right' if right else 'WRONG':6} {kind:8} {kernel.name}: {what}")

    async def rates(self, trials: int) -> None:
        """Compare equal kernels `trials` times, and half as often two with the planted gain."""
        target = Target(backend="cuda", dsl="torch")
        rules = Correctness(trials=2, fixed_shape=True)
        task = Task(op="planted", target=target, correctness=rules, timing=TIMING)
        async with self._judge(task, REFERENCE) as judge:
            self.proof.equal = await self._rate(judge, 0, trials)
            self.proof.gain = await self._rate(judge, GAIN_PARTS, -(-trials // 2))

    async def _rate(self, judge: Judge, extra: int, trials: int) -> Rate:
        """Compare a kernel with one that computes `extra` parts more."""
        found: list[Measurement] = []
        kept = 0
        gain = f"a gain of {extra / PARTS:.0%}" if extra else "equal kernels"
        for turn in range(trials):
            found.append(await judge.evaluate(planted(0), planted(extra)))
            reason = f"error: {found[-1].message}"
            if found[-1].outcome is not Outcome.ERROR:
                decision = decide_verdict(found[-1], TIMING.min_gain)
                kept += decision.verdict is Verdict.KEEP
                reason = decision.reason
            took = found[-1].elapsed_s
            self._tell(f"{gain}, {turn + 1} of {trials}: {reason} ({took:.1f} s)")
        return _rate(found, kept, extra / PARTS)

    async def sample(self, made: TaskFolder) -> None:
        """Compare a sample's kernel with its reference on the device."""
        name = made.path.name
        async with self._judge(made.task, made.reference) as judge:
            found = await judge.probe(made.kernel)
        what = " ".join(filter(None, (found.outcome, found.failure, found.message)))
        sampled = Sampled(name, what)
        if found.outcome is Outcome.CORRECT and found.ratio is not None:
            ratio = found.ratio
            sampled = Sampled(
                name, what, ratio.ratio, ratio.low, ratio.high, found.candidate_ms,
                found.baseline_ms,
            )  # fmt: skip
        self.proof.samples.append(sampled)
        over = f": {sampled.over_eager:.3f} over eager" if sampled.over_eager else ""
        self._tell(f"sample {name}: {what}{over}")


def catalogue() -> list[Honest | Refused]:
    """Return the kernels with known verdicts that hardware can run."""
    return [*HONEST, *(each for each in (*CHEATS, *HOSTILE) if each.portable)]


def proof_of(target: str, device: str) -> Proof:
    """Return the proof of a target to be filled."""
    return Proof(target=target, device=device, judge=records.judge_digest())


async def prove(prover: Prover, *, trials: int, samples: Sequence[TaskFolder]) -> None:
    """Do everything: verdicts, equal kernels, half as many comparisons with a gain, samples."""
    await prover.verdicts(catalogue())
    await prover.rates(trials)
    for made in samples:
        await prover.sample(made)


def _rate(found: Sequence[Measurement], kept: int, gain: float) -> Rate:
    low, high = clopper_pearson(kept, len(found))
    ratios = sorted(each.ratio.ratio for each in found if each.ratio is not None)
    seconds = sorted(each.elapsed_s for each in found)
    return Rate(
        true_gain=gain,
        trials=len(found),
        kept=kept,
        failed=sum(each.outcome is not Outcome.CORRECT for each in found),
        low=low,
        high=high,
        ratio_median=ratios[len(ratios) // 2] if ratios else None,
        ratio_lowest=ratios[0] if ratios else None,
        ratio_highest=ratios[-1] if ratios else None,
        seconds_median=seconds[len(seconds) // 2],
    )
