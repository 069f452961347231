"""What engine and judge say to one another: one JSON object a line.

Plain data. Both ends are ours, but all text that came from a kernel has been cleaned
before it is put in here.
"""

from __future__ import annotations

import hashlib
from typing import TypeAlias

import msgspec
from msgspec import Struct

from akg_tui.core.measurement import Measurement, Progress
from akg_tui.core.task import Task

LINE_LIMIT = 32 << 20


class Begin(Struct, frozen=True, tag=True, kw_only=True):
    """Engine to judge, first: what to judge by."""

    task: Task
    reference: str
    scratch: str
    engine: int
    """The engine's process id."""

    prefetch: bool = True
    """Whether to make things ready for an evaluation while there is none."""

    def sha256(self) -> str:
        """Return the digest of what decides a verdict: the task and the reference."""
        judged = [_encoder.encode(self.task), self.reference.encode("utf-8", "surrogatepass")]
        return hashlib.sha256(b"\0".join(judged)).hexdigest()


class Evaluate(Struct, frozen=True, tag=True, kw_only=True):
    """Engine to judge: evaluate this kernel; without an incumbent, against the reference.

    With `precise`, until half of the interval is this share of the ratio. A probe may leave
    the timing out, end it after about so many `samples` (0: when the ratio is decided), and
    ask for so many untimed calls before it.
    """

    number: int
    kernel: str
    incumbent: str | None
    label: str
    task_sha256: str
    """Digest of the task and the reference that the engine holds (`Begin.sha256`)."""

    precise: float | None = None
    timed: bool = True
    samples: int = 0
    warmups: int = 0


class Cancel(Struct, frozen=True, tag=True):
    """Engine to judge: drop this evaluation, if it is still under way."""

    number: int


class Step(Struct, frozen=True, tag=True):
    """Judge to engine: how far the evaluation is."""

    number: int
    progress: Progress


class Result(Struct, frozen=True, tag=True):
    """Judge to engine: what the evaluation found; None when it was cancelled."""

    number: int
    measurement: Measurement | None


ToJudge: TypeAlias = Begin | Evaluate | Cancel
ToEngine: TypeAlias = Step | Result

_encoder = msgspec.json.Encoder()
_judge_decoder: msgspec.json.Decoder[ToJudge] = msgspec.json.Decoder(ToJudge)
_engine_decoder: msgspec.json.Decoder[ToEngine] = msgspec.json.Decoder(ToEngine)


def encode(message: ToJudge | ToEngine) -> bytes:
    """Return a message as one line."""
    return _encoder.encode(message) + b"\n"


def decode_for_judge(text: bytes) -> ToJudge:
    """Return what the engine said."""
    return _judge_decoder.decode(text)


def decode_for_engine(text: bytes) -> ToEngine:
    """Return what the judge said."""
    return _engine_decoder.decode(text)
