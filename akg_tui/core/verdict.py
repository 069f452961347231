"""The verdict on a measurement (KEEP, DISCARD or FAIL), and intervals as text. Pure."""

from __future__ import annotations

from msgspec import Struct

from akg_tui.core.measurement import Interval, Measurement, Outcome
from akg_tui.core.phases import Verdict


class Decision(Struct, frozen=True):
    verdict: Verdict
    reason: str


def percent(interval: Interval) -> str:
    """Return the interval as percent of gain, for example ``+12.3 % (+9.8 to +14.9)``."""
    low, mid, high = ((value - 1) * 100 for value in (interval.low, interval.ratio, interval.high))
    return f"{mid:+.1f} % ({low:+.1f} to {high:+.1f})"


def plus_minus(interval: Interval) -> str:
    """Return a ratio with the larger half of its interval, for example ``1.02 ± 0.03``."""
    half = max(interval.high - interval.ratio, interval.ratio - interval.low)
    places = 2 if half >= 0.01 else 3
    return f"{interval.ratio:.{places}f} ± {half:.{places}f}"


def decide_verdict(measurement: Measurement, min_gain: float) -> Decision:
    """Return KEEP, DISCARD or FAIL for a candidate measured against its incumbent.

    FAIL: not correct. KEEP: the lower confidence bound of the ratio exceeds
    ``1 + min_gain``, and a second measurement, if there was one, agrees. DISCARD:
    correct, but not proved faster by more than `min_gain`, not confirmed, or not timed.

    Raises
    ------
    ValueError
        If the outcome is ERROR, because such a measurement is not about the kernel.
    """
    if measurement.outcome is Outcome.ERROR:
        raise ValueError(f"an evaluation that did not happen has no verdict: {measurement.message}")
    if measurement.outcome is Outcome.FAILED:
        return Decision(Verdict.FAIL, measurement.message)
    ratio = measurement.ratio
    if ratio is None:
        why = "no timing was possible" if measurement.timed else measurement.message
        return Decision(Verdict.DISCARD, f"correct, but {why}")
    if ratio.low > 1 + min_gain:
        return _confirmed(measurement, ratio)
    if ratio.high < 1:
        if is_surely_slower(ratio):
            return Decision(Verdict.DISCARD, f"slower: {percent(ratio)}")
        return Decision(Verdict.DISCARD, f"not faster: {percent(ratio)}")
    if ratio.low > 1:
        what = f"faster, but not by more than {min_gain * 100:g} % beyond doubt"
        return Decision(Verdict.DISCARD, f"{what}: {percent(ratio)}")
    seen = ""
    if measurement.detectable is not None:
        seen = f"; a gain of {measurement.detectable * 100:.1f} % would have been seen"
    return Decision(Verdict.DISCARD, f"{plus_minus(ratio)}: within noise{seen}")


def is_surely_slower(ratio: Interval) -> bool:
    """Return whether a kernel is certainly slower, for an interval below 1.

    The lower bound, used for a KEEP, holds its confidence over all looks together. The upper
    bound holds for a single look only: with several looks it falls below 1 for two or three of
    100 equal kernels. So the upper bound at twice its distance from the ratio must be below 1.
    """
    return ratio.high * (ratio.high / ratio.ratio) < 1


def _confirmed(measurement: Measurement, ratio: Interval) -> Decision:
    again = measurement.confirmation
    if again is None or again.agrees:
        return Decision(Verdict.KEEP, f"faster: {percent(ratio)}")
    second = (
        f"measured again it was {plus_minus(again.ratio)}" if again.ratio else "no time was left"
    )
    return Decision(Verdict.DISCARD, f"{percent(ratio)} at first, not confirmed: {second}")
