"""The messages between engine and judge: one JSON object a line over a socket.

Plain data. Both ends are trusted, but text from a kernel must be stripped of escape codes before
a message contains it.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec
from msgspec import Struct

from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.measurement import Measurement, Progress, RaceOutcome
from akg_tui.core.task import Task
from akg_tui.evaluate.targets.lease import Claim

LINE_LIMIT = 32 << 20


class Begin(Struct, frozen=True, tag=True, kw_only=True):
    """Engine to judge, the first message. The judge works in its current folder."""

    task: Task
    reference: str
    engine: int
    """The engine's process id."""

    prefetch: bool = True
    """Whether to prepare the next evaluation while the judge is idle."""

    lease: Claim | None = None
    """What is held while kernels are timed; None: nothing."""


class Evaluate(Struct, frozen=True, tag=True, kw_only=True):
    """Engine to judge: evaluate a kernel against `incumbent`, or against the reference if None.

    With `precise`, clusters are run until the ratio is as precise (`statistics.is_precise`), or for
    `within_s` seconds, where those are fewer than the task's time budget. A probe may skip timing
    (`timed`), end it after about `samples` samples of each side (0: when the ratio is decided), and
    ask for `warmups` untimed calls before it, and for times without a look at the results (not
    `verified`). A slow kernel that is timed is tried on some inputs first, and on the others before
    it is kept; if `whole`, on all at once, which are drawn for longer. `prior` are the log ratios
    of earlier measurements of the same kernel against the same incumbent
    (`Measurement.log_ratios`), which count in this one. With `yields` it is cancelled where it
    would wait for the lease. The kernels `ahead` are evaluated next: they have the same inputs, and
    are built together with this one.
    """

    number: int
    kernel: KernelFiles
    incumbent: KernelFiles | None = None
    label: str
    precise: float | None = None
    within_s: float | None = None
    whole: bool = False
    timed: bool = True
    samples: int = 0
    warmups: int = 0
    verified: bool = True
    prior: tuple[float, ...] = ()
    yields: bool = False
    ahead: tuple[KernelFiles, ...] = ()


class Race(Struct, frozen=True, tag=True, kw_only=True):
    """Engine to judge: time verified kernels in turns, for about `within_s` seconds."""

    number: int
    kernels: tuple[KernelFiles, ...]
    within_s: float
    label: str


class Cancel(Struct, frozen=True, tag=True):
    """Engine to judge: end this evaluation if it still runs.

    After `given_up_s` seconds it took too long: the result tells the stages that it reached. At 0.0
    there is no result.
    """

    number: int
    given_up_s: float = 0.0


class Step(Struct, frozen=True, tag=True):
    """Judge to engine: progress of an evaluation."""

    number: int
    progress: Progress


class Result(Struct, frozen=True, tag=True):
    """Judge to engine: the result of an evaluation; None when it was cancelled."""

    number: int
    measurement: Measurement | None


class Raced(Struct, frozen=True, tag=True):
    """Judge to engine: the result of a race; None when it was cancelled."""

    number: int
    outcome: RaceOutcome | None


ToJudge: TypeAlias = Begin | Evaluate | Race | Cancel
ToEngine: TypeAlias = Step | Result | Raced

_encoder = msgspec.json.Encoder()
_judge_decoder: msgspec.json.Decoder[ToJudge] = msgspec.json.Decoder(ToJudge)
_engine_decoder: msgspec.json.Decoder[ToEngine] = msgspec.json.Decoder(ToEngine)

# Both decoders raise msgspec.DecodeError.
decode_for_judge = _judge_decoder.decode
decode_for_engine = _engine_decoder.decode


def encode(message: ToJudge | ToEngine) -> bytes:
    """Return a message as one line of JSON."""
    return _encoder.encode(message) + b"\n"
