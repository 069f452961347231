"""The result of an evaluation: the only numbers a decision may rest on.

Made by `akg_tui.evaluate` alone, kept in the journal, shown everywhere.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

PRECISE = 0.02
"""Half of the interval, as a share of the ratio, of a figure that is to be quoted."""


class Outcome(StrEnum):
    """CORRECT and FAILED are about the candidate; ERROR is about everything else."""

    CORRECT = "correct"
    FAILED = "failed"
    ERROR = "error"


class FailureKind(StrEnum):
    """Why an evaluation did not end CORRECT. REFERENCE, TOOLCHAIN and JUDGE belong to ERROR."""

    SYNTAX = "syntax"  # the file does not parse, or has no class ModelNew
    GUARD = "guard"  # the static guard refused its text
    BUILD = "build"  # compiling or importing it raised
    CALL = "call"  # constructing or calling it raised
    CRASH = "crash"  # the process ended, whatever its exit code
    TIMEOUT = "timeout"  # building or one call took too long
    WRONG = "wrong"  # shape, dtype or values differ from the reference
    REFERENCE = "reference"  # the reference itself could not be used
    TOOLCHAIN = "toolchain"  # a compiler is missing
    JUDGE = "judge"  # the judge broke or was lost
    IMPOSSIBLE = "impossible"  # faster than memory can be written: candidate's, not an ERROR


class Interval(Struct, frozen=True, gc=False):
    """A ratio with its two-sided confidence interval. Above 1 is faster."""

    ratio: float
    low: float
    high: float
    confidence: float

    def __str__(self) -> str:
        return f"{digits(self.ratio)} [{digits(self.low)}, {digits(self.high)}]"


class InputError(Struct, frozen=True, gc=False):
    """How far a kernel was off on one kind of input: the worst of its trials.

    `error` is None where there is no number: `note` then says why, such as what was
    skipped, or that NaN stood where the reference has none.
    """

    name: str
    error: float | None = None
    tolerance: float | None = None
    note: str = ""


class Finding(Struct, frozen=True, gc=False):
    """What the static guard has against a line of a kernel. `refused`: reason enough to FAIL."""

    rule: str
    line: int
    reason: str
    refused: bool = False

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason} ({self.rule})"


def digits(ratio: float) -> str:
    """A ratio for reading, to three digits after the point, or three that count when it is tiny.

    Never "0.000": a kernel 10,000 times slower has a ratio, and it is not zero.
    """
    return f"{ratio:.3f}" if ratio >= 0.1 else f"{ratio:.3g}"


class Confirmation(Struct, frozen=True, gc=False):
    """A gain measured again, on new inputs and in new processes; `agrees` if it is still one."""

    ratio: Interval | None
    agrees: bool


class Roofline(Struct, frozen=True, gc=False):
    """How near a kernel comes to what memory allows; operations are not counted.

    `moved_bytes` are the inputs and outputs of one call, each once; `bandwidth` is what this
    machine was measured to move, in bytes a second, at `level`, the nearest that holds them.
    """

    moved_bytes: int
    level: str
    bandwidth: float
    share: float


class Measurement(Struct, frozen=True, kw_only=True, gc=False):
    """One evaluation of one kernel.

    `ratio` compares with the incumbent, or with the reference when there is no
    incumbent (baseline). Times are milliseconds a call: medians over clusters.
    `confirmation` is there when the ratio alone would mean KEEP. `deviation` is the
    standard deviation between pairs of processes, and `detectable` the gain
    (0.03 for 3 %) that so many clusters of such a spread would have found. `noise` says in
    short sentences what disturbed the machine meanwhile. `sampled_s` is the part of
    `elapsed_s` in which a kernel was being called to be timed. `timed` is False where a time
    would mean nothing (an interpreter stands in for the device): the kernel was verified
    only, and `message` says why.
    `message` is one line; `detail` is bounded text (compiler output, the first
    mismatches) that came from untrusted code and must be shown without markup.
    """

    outcome: Outcome
    failure: FailureKind | None = None
    message: str = ""
    detail: str = ""
    max_error: float | None = None
    tolerance: float | None = None
    errors: tuple[InputError, ...] = ()  # by kind of input, in the order tried
    findings: tuple[Finding, ...] = ()  # of the static guard
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
    confirmation: Confirmation | None = None
    deviation: float | None = None
    detectable: float | None = None
    noise: tuple[str, ...] = ()
    roofline: Roofline | None = None
    sampled_s: float = 0.0
    timed: bool = True


class Progress(Struct, frozen=True):
    """Where an evaluation is: for the screen only, never for a decision.

    `stage` is one of start, reference, build, verify, time, confirm; `done` of `total` steps
    (total 0: unknown). `ratio` is the running estimate while timing.
    """

    stage: str
    done: int = 0
    total: int = 0
    message: str = ""
    ratio: Interval | None = None
