"""The result of an evaluation: the only numbers that a decision may use.

Only `akg_tui.evaluate` makes measurements; the journal stores them and every display uses them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import TypedDict

from msgspec import Struct

from akg_tui.core.kernel.kernel_files import Kernel, Place
from akg_tui.core.sanitize import Said, one_line

PRECISE = 0.02
"""The largest half-width of the interval, as a fraction of the ratio, of a quotable figure.

Of a ratio far from 1 it may be wider (`statistics.is_precise`)."""

NOT_VERIFIED = "not verified"
"""The message of a measurement that looked at no result."""

LEAST_CLUSTERS = 4
"""The least pairs of processes of a comparison, whatever bounds its samples."""

STEADY_CLUSTERS = 12
"""The least values of a comparison on a disturbed machine that tell what its noise hides."""


class Outcome(StrEnum):
    """The outcome: CORRECT and FAILED concern the candidate, ERROR all other causes."""

    CORRECT = "correct"
    FAILED = "failed"
    ERROR = "error"


class FailureKind(StrEnum):
    """The reason for FAILED or ERROR. REFERENCE, TOOLCHAIN and JUDGE belong to ERROR."""

    SYNTAX = "syntax"  # the file does not parse, or has no class ModelNew
    GUARD = "guard"  # the static guard refused it, or its work is left to others
    BUILD = "build"  # compiling or importing the kernel raised
    CALL = "call"  # constructing or calling the kernel raised
    CRASH = "crash"  # the process ended, with any exit code
    TIMEOUT = "timeout"  # building or one call took too long
    WRONG = "wrong"  # shape, dtype or values differ from the reference
    REFERENCE = "reference"  # the reference itself could not be used
    TOOLCHAIN = "toolchain"  # a compiler is missing
    UNSUPPORTED = "unsupported"  # it does what its device alone can do; `eval` calls it ERROR
    JUDGE = "judge"  # the judge failed, or its process was lost
    IMPOSSIBLE = "impossible"  # faster than memory can be written; the outcome is FAILED


class Interval(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A ratio with its two-sided confidence interval. A ratio above 1 means faster."""

    ratio: float
    low: float
    high: float
    confidence: float

    def __str__(self) -> str:
        return f"{digits(self.ratio)} [{digits(self.low)}, {digits(self.high)}]"

    def chained(self, other: Interval) -> Interval:
        """Return the ratio of a chain of two comparisons.

        The bounds are multiplied, and the error probabilities add up (Bonferroni), so a longer
        chain has a lower confidence.
        """
        return Interval(
            self.ratio * other.ratio,
            self.low * other.low,
            self.high * other.high,
            max(0.0, self.confidence + other.confidence - 1.0),
        )

    @property
    def inverse(self) -> Interval | None:
        """The ratio of the other kernel over this one; None if a bound is not positive."""
        if min(self.ratio, self.low, self.high) <= 0:
            return None
        return Interval(1 / self.ratio, 1 / self.high, 1 / self.low, self.confidence)


class InputError(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The error nearest to its bound of one kind of input, over all its trials.

    `name` is the kind of input, `case` the case of the task, and `dtype` that of the results; each
    combination has its own error. `error` is None when there is no number; then `note` gives the
    reason, for example a skipped input, or a NaN where the reference has none. Integers and
    booleans must be equal: their error and tolerance are 0. In older journals `name` begins with
    the case, and `dtype` is unknown.
    """

    name: str
    error: float | None = None
    tolerance: float | None = None
    note: str = ""
    case: str = ""
    dtype: str = ""

    @property
    def label(self) -> str:
        """The kind of input after the name of its case, if it has one."""
        return f"{self.case}: {self.name}" if self.case else self.name

    @property
    def share(self) -> float | None:
        """The error as a share of its bound; None if there is no number."""
        if self.error is None or self.tolerance is None:
            return None
        if not self.tolerance:
            return 0.0 if not self.error else math.inf
        return self.error / self.tolerance


def nearest_errors(errors: Iterable[InputError]) -> tuple[InputError, ...]:
    """Return the error nearest to its bound of each case and dtype; none of inputs not tried."""
    nearest: dict[tuple[str, str], InputError] = {}
    for each in errors:
        tried = each.share is not None or each.tolerance is not None
        known = nearest.get((each.case, each.dtype))
        if tried and (known is None or _share(each) > _share(known)):
            nearest[each.case, each.dtype] = each
    return tuple(nearest.values())


def _share(error: InputError) -> float:
    """Return the share of the bound; infinite for a result that has no number and is wrong."""
    return math.inf if error.share is None else error.share


class Metric(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A number that the task declares, as its reference's `metrics` computed it for a kernel.

    `low` and `high` are the smallest and the largest value over all cases and ordinary inputs. Both
    are None when one of the values is not finite; then `note` says so.
    """

    name: str
    low: float | None = None
    high: float | None = None
    note: str = ""

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return self.note
        low, high = f"{self.low:.6g}", f"{self.high:.6g}"
        return low if low == high else f"{low} – {high}"


class Finding(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A finding of the static guard in a line of a kernel. `refused`: the finding causes a FAIL.

    `file` is "" for the file that the judge loads.
    """

    rule: str
    line: int
    reason: str
    refused: bool = False
    file: str = ""

    def __str__(self) -> str:
        named = f"{self.file}: {self.reason}" if self.file else self.reason
        return Said("line {n}: {why} ({rule})", n=self.line, why=named, rule=self.rule)

    def place(self, kernel: str) -> Place:
        """Return its place; `kernel` is the file that is loaded."""
        return Place(self.file or kernel, self.line)


def digits(ratio: float) -> str:
    """Return a ratio as text with three decimals, or three significant digits below 0.1.

    The text is never "0.000", because the ratio of a kernel 10,000 times slower is not zero.
    """
    return f"{ratio:.3f}" if ratio >= 0.1 else f"{ratio:.3g}"


class Confirmation(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A gain measured again, on new inputs in new processes; `agrees`: it was a gain again."""

    ratio: Interval | None
    agrees: bool


class Roofline(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The speed of a kernel as `share` of the memory bound; operations are not counted.

    `moved_bytes` counts the inputs and outputs of one call, each once; `bandwidth` is this
    machine's measured rate in bytes a second at `level`, the nearest level that holds all of them.
    `bounds`: no kernel of this task moves them faster, so that `share` is how near its end is.
    """

    moved_bytes: int
    level: str
    bandwidth: float
    share: float
    bounds: bool = False


class CaseEstimate(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The estimate of one case of a task, in microseconds a call."""

    name: str
    us: float
    binds: str


class Estimate(Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """The time of a kernel on the hardware `arch` by a model of it, in microseconds a call.

    Nothing ran there: it ranks kernels, and is never a ratio. `binds` is what the model says binds.
    With `cases`, `us` is their weighted geometric mean, and the longest case says what binds.
    """

    arch: str
    us: float
    binds: str
    cases: tuple[CaseEstimate, ...] = ()

    def __str__(self) -> str:
        return f"~{self.us:.3g} µs estimated for {self.arch}"


class CaseTiming(Struct, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True):
    """The times of one case of a task, in milliseconds a call, and their ratio.

    `slower`: the candidate is slower than the task allows, beyond doubt. `open`: neither that nor
    its opposite is proved.
    """

    name: str
    weight: float = 1.0
    candidate_ms: float | None = None
    baseline_ms: float | None = None
    ratio: Interval | None = None
    roofline: Roofline | None = None
    slower: bool = False
    open: bool = False


class ProbeTerms(TypedDict, total=False):
    """How a kernel is probed: verified and, unless not `timed`, timed until the ratio is decided.

    Not `verified`, no result is looked at: the outcome says only that the kernel runs, and the
    message is `NOT_VERIFIED`. If `whole`, all inputs are tried, and they are drawn for longer.
    Sampling ends after about `samples` timed samples of each side (0: when the ratio is decided),
    though never before `LEAST_CLUSTERS` pairs of processes, or two that leave no doubt; `warmups`
    untimed calls come first. With another `reference` or `device` a judge of its own answers, by
    the task's limits and the usual rules.

    After `limit_s` seconds of work (0: never) the probe is given up, and the message tells the
    stages that were reached; a kernel that was verified by then is correct. Probes of the kernels
    `ahead` follow: they have the same inputs, and the next are built together with this one.
    """

    timed: bool
    verified: bool
    whole: bool
    samples: int
    warmups: int
    reference: str
    device: int
    limit_s: float
    ahead: Sequence[Kernel]


class Measurement(Struct, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True):
    """One evaluation of one kernel.

    `ratio` compares with the incumbent, or with the reference when there is no
    incumbent (baseline). Times are milliseconds a call: medians over clusters.
    `confirmation` is set when the ratio alone would mean KEEP. `deviation` is the
    standard deviation between pairs of processes, and `detectable` the smallest gain
    (0.03 for 3 %) that this number of clusters with this spread would find. `excluded` is the
    gain that the values exclude at 98 %: the kernel is faster by at most this (-0.1: it is slower
    by at least 10 %). `noise` describes, in short sentences, disturbances of the machine during
    the evaluation.
    `sampled_s` is the part of `elapsed_s` in which kernel calls were timed, and `waited_s` that in
    which others timed on the device. `timed` is False
    when times are meaningless (an interpreter replaces the device): then the kernel is only
    verified, and `message` gives the reason; in an estimate run it has an `estimate`.
    `max_error` is the error nearest to its bound, `tolerance` that bound, and `tolerance_from` the
    origin of the bound.
    `log_ratios` are the natural logarithms of incumbent time / candidate time, one for each
    cluster measured so far of this candidate against this incumbent, those of earlier
    measurements first. `undecided`: the time budget was spent before the ratio was decided,
    and a gain of 5 % is not excluded.
    `cases` are the times by case, if the task has cases. Then `candidate_ms`, `baseline_ms` and
    `ratio` are weighted geometric means over them, and `roofline` is None.
    `notes` are sentences on results that are wrong where the task does not count it.
    `contract` are sentences on how the reference is called, where that is not with tensors one by
    one: nested arguments, arguments that it changes, gradients.
    `message` is one line, `place` the line of the kernel that it names; `detail` is bounded text
    (compiler output, the first mismatches) from untrusted code and must be displayed without
    markup.
    """

    outcome: Outcome
    failure: FailureKind | None = None
    message: str = ""
    place: Place | None = None
    detail: str = ""
    max_error: float | None = None
    tolerance: float | None = None
    tolerance_from: str = ""
    errors: tuple[InputError, ...] = ()  # by case, kind of input and dtype, as they were tried
    notes: tuple[str, ...] = ()
    contract: tuple[str, ...] = ()
    metrics: tuple[Metric, ...] = ()  # of a correct kernel, in the order of the task
    findings: tuple[Finding, ...] = ()  # by the static guard
    candidate_ms: float | None = None
    baseline_ms: float | None = None
    ratio: Interval | None = None
    clusters: int = 0
    samples: int = 0
    build_s: float = 0.0
    elapsed_s: float = 0.0
    threads: int = 1
    sandbox: tuple[str, ...] = ()  # the protections that were in force
    sandbox_missing: tuple[str, ...] = ()  # the protections not in force, each with the reason
    environment: dict[str, str] = {}
    confirmation: Confirmation | None = None
    log_ratios: tuple[float, ...] = ()
    undecided: bool = False
    deviation: float | None = None
    detectable: float | None = None
    excluded: float | None = None
    noise: tuple[str, ...] = ()
    roofline: Roofline | None = None
    cases: tuple[CaseTiming, ...] = ()
    sampled_s: float = 0.0
    waited_s: float = 0.0
    timed: bool = True
    estimate: Estimate | None = None

    @property
    def times_agree(self) -> bool:
        """Whether the two times, medians of each side alone, agree with the ratio.

        The ratio is the median of calls side by side, so on a machine that changes its speed the
        quotient of the times can lie outside the interval.
        """
        if self.ratio is None or self.baseline_ms is None or not self.candidate_ms:
            return False
        return self.ratio.low <= self.baseline_ms / self.candidate_ms <= self.ratio.high

    @property
    def values(self) -> int:
        """The number of values of the ratio: one a cluster, or one a round of all cases."""
        return len(self.log_ratios) or self.clusters // max(1, len(self.cases))

    @property
    def memory_share(self) -> float | None:
        """The share of the memory bound that the kernel reaches; of cases, the weighted mean."""
        if self.roofline is not None:
            return self.roofline.share
        known = [(each.weight, each.roofline.share) for each in self.cases if each.roofline]
        total = math.fsum(weight for weight, _ in known)
        if not total or min(share for _, share in known) <= 0:
            return None
        return math.exp(math.fsum(w * math.log(share) for w, share in known) / total)

    @property
    def bound_share(self) -> float | None:
        """`memory_share`, if memory bounds every kernel of the task, else None."""
        roofs = [self.roofline] if self.roofline else [each.roofline for each in self.cases]
        return self.memory_share if all(roof and roof.bounds for roof in roofs) else None

    @property
    def excluded_gain(self) -> float | None:
        """`excluded`, or the gain at the upper bound of the interval; None without a ratio.

        The interval is at least as wide, because its upper bound holds at 99 % or more.
        """
        if self.excluded is None and self.ratio is not None:
            return self.ratio.high - 1
        return self.excluded


class Racer(Struct, frozen=True):
    """One of several kernels that were timed in turns.

    `ms` is the median time of a call, `ratio` the time of the first kernel over that of this one.
    The kernels of a `group` cannot be told apart from its fastest; group 1 has the fastest of all.
    `failed` is why the kernel left the race; then its group is 0.
    """

    ms: float = 0.0
    ratio: Interval | None = None
    rounds: int = 0
    group: int = 0
    failed: str = ""


class RaceOutcome(Struct, frozen=True):
    """The kernels of a race in the order in which they were given.

    `noise` and `waited_s` are as in `Measurement`; `detectable` is the smallest gain that would be
    seen between two of them, None if fewer were timed; `message` is why there was no race.
    """

    racers: tuple[Racer, ...] = ()
    noise: tuple[str, ...] = ()
    detectable: float | None = None
    message: str = ""
    waited_s: float = 0.0


class Progress(Struct, frozen=True):
    """The progress of an evaluation, for the screen only, never for a decision.

    `stage` is one of start, reference, build, verify, time, confirm. `done` of `total` steps are
    complete (total 0: unknown). A task with cases is verified case by case: the steps are those
    of `case`, and `cases_done` of its `cases` are verified. `ratio` is the running estimate during
    timing; `noise` and `detectable` are as in `Measurement`, of the timing so far. `waits_for` are
    words for who times on the device meanwhile, and `waited_s` the seconds in which others did.
    """

    stage: str
    done: int = 0
    total: int = 0
    message: str = ""
    ratio: Interval | None = None
    noise: tuple[str, ...] = ()
    detectable: float | None = None
    case: str = ""
    cases_done: int = 0
    cases: int = 1
    waits_for: str = ""
    waited_s: float = 0.0

    @property
    def waits(self) -> bool:
        """Whether others time on the device."""
        return bool(self.waits_for)

    @property
    def told_by_message(self) -> str:
        """The sentence on the holder of the clock that it waits for, or else the message."""
        if self.waits_for:
            return Said("waits for the clock: {who}", who=self.waits_for)
        return self.message

    @property
    def filled(self) -> tuple[int, int]:
        """The bar of the stage as (part, whole), over all cases: it never falls back; (0, 0) if
        nothing is known.
        """
        if not self.total:
            return (self.cases_done, self.cases) if self.cases > 1 else (0, 0)
        return self.cases_done * self.total + self.done, self.cases * self.total

    @property
    def told(self) -> str:
        """The steps as text, after the name of the case: `wide 3/20`; "" if they are unknown."""
        steps = f"{self.done}/{self.total}" if self.total else ""
        return f"{one_line(self.case, 40)} {steps}".strip() if self.cases > 1 else steps

    @property
    def values(self) -> int:
        """The number of values that `detectable` is from; 0 where the steps count other things."""
        return self.done if self.stage == "time" else 0
