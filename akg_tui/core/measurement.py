"""What an evaluation found: the only numbers a decision may rest on.

Made by `akg_tui.evaluate` alone, kept in the journal, shown everywhere.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Outcome(StrEnum):
    """CORRECT and FAILED are about the candidate; ERROR is about everything else."""

    CORRECT = "correct"
    FAILED = "failed"
    ERROR = "error"


class FailureKind(StrEnum):
    """Why an evaluation did not end CORRECT. The last three belong to Outcome.ERROR."""

    SYNTAX = "syntax"  # the file does not parse, or has no class ModelNew
    BUILD = "build"  # compiling or importing it raised
    CALL = "call"  # constructing or calling it raised
    CRASH = "crash"  # the process ended, whatever its exit code
    TIMEOUT = "timeout"  # building or one call took too long
    WRONG = "wrong"  # shape, dtype or values differ from the reference
    REFERENCE = "reference"  # the reference itself could not be used
    TOOLCHAIN = "toolchain"  # a compiler is missing
    JUDGE = "judge"  # the judge broke or was lost


class Interval(Struct, frozen=True, gc=False):
    """A ratio with its two-sided confidence interval. Above 1 is faster."""

    ratio: float
    low: float
    high: float
    confidence: float

    def __str__(self) -> str:
        return f"{digits(self.ratio)} [{digits(self.low)}, {digits(self.high)}]"


def digits(ratio: float) -> str:
    """A ratio for reading, to three digits after the point, or three that count when it is tiny.

    Never "0.000": a kernel 10,000 times slower has a ratio, and it is not zero.
    """
    return f"{ratio:.3f}" if ratio >= 0.1 else f"{ratio:.3g}"


class Measurement(Struct, frozen=True, kw_only=True, gc=False):
    """One evaluation of one kernel.

    `ratio` compares with the incumbent, or with the reference when there is no
    incumbent (baseline). Times are milliseconds a call: medians over clusters.
    `message` is one line; `detail` is bounded text (compiler output, the first
    mismatches) that came from untrusted code and must be shown without markup.
    """

    outcome: Outcome
    failure: FailureKind | None = None
    message: str = ""
    detail: str = ""
    max_error: float | None = None
    tolerance: float | None = None
    candidate_ms: float | None = None
    baseline_ms: float | None = None
    ratio: Interval | None = None
    clusters: int = 0
    samples: int = 0
    build_s: float = 0.0
    elapsed_s: float = 0.0
    threads: int = 1
    sandbox: tuple[str, ...] = ()  # the protections that were in force
    sandbox_missing: tuple[str, ...] = ()  # those that were not, each with the reason
    environment: dict[str, str] = {}


class Progress(Struct, frozen=True):
    """Where an evaluation is: for the screen only, never for a decision.

    `stage` is one of start, reference, build, verify, time; `done` of `total` steps
    (total 0: unknown). `ratio` is the running estimate while timing.
    """

    stage: str
    done: int = 0
    total: int = 0
    message: str = ""
    ratio: Interval | None = None
