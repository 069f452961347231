"""The verdict on a measurement (KEEP, DISCARD or FAIL), and intervals in words. Pure."""

from __future__ import annotations

from msgspec import Struct

from akg_tui.core.measurement import Interval, Measurement, Outcome
from akg_tui.core.phases import Verdict


class Decision(Struct, frozen=True):
    verdict: Verdict
    reason: str


def percent(interval: Interval) -> str:
    """The interval in words a person reads at a glance, for example ``+12.3 % (9.8 to 14.9)``."""
    low, mid, high = ((value - 1) * 100 for value in (interval.low, interval.ratio, interval.high))
    return f"{mid:+.1f} % ({low:+.1f} to {high:+.1f})"


def plus_minus(interval: Interval) -> str:
    """A ratio with half of its interval, for example ``1.02 ± 0.03``."""
    half = max(interval.high - interval.ratio, interval.ratio - interval.low)
    places = 2 if half >= 0.01 else 3
    return f"{interval.ratio:.{places}f} ± {half:.{places}f}"


def decide_verdict(measurement: Measurement, min_gain: float) -> Decision:
    """KEEP, DISCARD or FAIL for a candidate measured against its incumbent.

    FAIL: not correct. KEEP: the lower confidence bound of the ratio exceeds
    ``1 + min_gain``, and a second measurement, where there was one, agrees. DISCARD:
    correct, but not faster beyond doubt.

    Raises
    ------
    ValueError
        If the measurement is an ERROR, which says nothing about the kernel.
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
    """Say whether a kernel is slower beyond doubt, of an interval that lies below 1.

    The lower bound, which a KEEP rests on, errs as seldom as it says in all looks together. The
    upper one holds for a single look, and two or three in a hundred equal kernels lie below it
    at one of several: it must be twice as far from the ratio, and below 1 still.
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
