"""From a measurement to a verdict. One pure function, so that nobody can argue with it."""

from __future__ import annotations

from msgspec import Struct

from akg_tui.core.machine import Verdict
from akg_tui.core.measurement import Interval, Measurement, Outcome


class Decision(Struct, frozen=True):
    verdict: Verdict
    reason: str


def percent(interval: Interval) -> str:
    """The interval in words a person reads at a glance, for example ``+12.3 % (9.8 to 14.9)``."""
    low, mid, high = ((value - 1) * 100 for value in (interval.low, interval.ratio, interval.high))
    return f"{mid:+.1f} % ({low:+.1f} to {high:+.1f})"


def decide_verdict(measurement: Measurement, min_gain: float) -> Decision:
    """KEEP, DISCARD or FAIL for a candidate measured against its incumbent.

    FAIL: not correct. KEEP: the lower confidence bound of the ratio exceeds
    ``1 + min_gain``. DISCARD: correct, but not faster beyond doubt.

    Raises
    ------
    ValueError
        If the measurement is an ERROR: that is nobody's verdict.
    """
    if measurement.outcome is Outcome.ERROR:
        raise ValueError(f"an evaluation that did not happen has no verdict: {measurement.message}")
    if measurement.outcome is Outcome.FAILED:
        return Decision(Verdict.FAIL, measurement.message)
    ratio = measurement.ratio
    if ratio is None:
        return Decision(Verdict.DISCARD, "correct, but no timing was possible")
    if ratio.low > 1 + min_gain:
        return Decision(Verdict.KEEP, f"faster: {percent(ratio)}")
    if ratio.high < 1:
        return Decision(Verdict.DISCARD, f"slower: {percent(ratio)}")
    return Decision(Verdict.DISCARD, f"not faster beyond doubt: {percent(ratio)}")
