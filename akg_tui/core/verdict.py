"""The verdict on a measurement, with its reason, and intervals as text. Pure.

A reason is one sentence that agrees with its numbers: what it says of the gain can be read off
the interval beside it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from akg_tui.core.measurement import CaseTiming, Interval, Measurement, Outcome
from akg_tui.core.phases import Verdict

MOST_CASES = 3
"""The cases that a reason names."""

SEEN = 0.1
"""The gain that a measurement should see; if it does not, a reason says so first."""


class Decision(Struct, frozen=True):
    verdict: Verdict
    reason: str


def percent(interval: Interval) -> str:
    """Return the interval as percent of gain, for example ``+12.3 % (+9.8 to +14.9)``."""
    low, mid, high = ((value - 1) * 100 for value in (interval.low, interval.ratio, interval.high))
    return f"{mid:+.1f} % ({low:+.1f} to {high:+.1f})"


def plus_minus(interval: Interval) -> str:
    """Return ``1.02 ± 0.03``, the larger half of the interval, or ``0.08 (0.01 to 0.46)``.

    The ends of an interval are told where its half is larger than half of the ratio.
    """
    half = max(interval.high - interval.ratio, interval.ratio - interval.low)
    if half > interval.ratio / 2:
        return f"{interval.ratio:.2g} ({interval.low:.2g} to {interval.high:.2g})"
    places = 2 if half >= 0.01 else 3
    return f"{interval.ratio:.{places}f} ± {half:.{places}f}"


def decide_verdict(measurement: Measurement, min_gain: float) -> Decision:
    """Return the verdict on a candidate measured against its incumbent.

    FAIL: not correct. INCONCLUSIVE: correct, but the time budget was spent before a probable
    gain was proved. KEEP: the lower confidence bound of the ratio exceeds ``1 + min_gain``, and
    a second measurement, if there was one, agrees. DISCARD: correct, but not proved faster by
    more than `min_gain`, slower in a case of the task, not confirmed, or not timed.

    Raises `ValueError` if the outcome is ERROR, because such a measurement is not about the kernel.
    """
    if failed := _failed(measurement):
        return failed
    ratio = measurement.ratio
    if ratio is None:
        why = "no timing was possible" if measurement.timed else measurement.message
        return Decision(Verdict.DISCARD, f"correct, but {why}")
    slower = [case for case in measurement.cases if case.slower]
    if slower and ratio.high >= 1:
        return Decision(Verdict.DISCARD, _slower_cases(slower, ratio))
    if measurement.undecided:
        return Decision(Verdict.INCONCLUSIVE, _undecided(measurement, ratio, min_gain))
    if ratio.low > 1 + min_gain:
        return _confirmed(measurement, ratio)
    if ratio.high < 1 and is_surely_slower(ratio):
        return Decision(Verdict.DISCARD, f"slower: {percent(ratio)}")
    if ratio.low > 1:
        what = f"faster, but not by more than {min_gain * 100:g} % beyond doubt"
        return Decision(Verdict.DISCARD, f"{what}: {percent(ratio)}")
    return Decision(Verdict.DISCARD, _no_gain(measurement, ratio, min_gain))


def _failed(measurement: Measurement) -> Decision | None:
    if measurement.outcome is Outcome.ERROR:
        raise ValueError(f"an evaluation that did not happen has no verdict: {measurement.message}")
    if measurement.outcome is Outcome.FAILED:
        return Decision(Verdict.FAIL, measurement.message)
    return None


def not_proved(measurement: Measurement, times: int) -> Decision:
    """Return the DISCARD of a probable gain that `times` measurements did not prove."""
    figures = f": {_figures(measurement, measurement.ratio)}" if measurement.ratio else ""
    told = f"not proved in {times} measurements{figures}"
    return Decision(Verdict.DISCARD, busy_first(measurement, told))


def _slower_cases(slower: Sequence[CaseTiming], ratio: Interval) -> str:
    """Return the reason of a kernel that is slower in some cases, the worst case first."""
    worst = sorted(slower, key=lambda case: case.ratio.ratio if case.ratio else 0.0)
    named = _some([f"case {case.name}: {percent(case.ratio)}" for case in worst if case.ratio])
    return f"slower in {named}; over all cases {percent(ratio)}"


def _some(names: Sequence[str]) -> str:
    return ", ".join([*names[:MOST_CASES], *(["…"] if len(names) > MOST_CASES else [])])


def _figures(measurement: Measurement, ratio: Interval) -> str:
    """Return the interval and the number of pairs of processes it rests on, if that is known."""
    count = len(measurement.log_ratios) or measurement.clusters
    return f"{percent(ratio)} after {count} pairs of processes" if count > 1 else percent(ratio)


def _undecided(measurement: Measurement, ratio: Interval, min_gain: float) -> str:
    figures = f"{_figures(measurement, ratio)}; measuring again may decide it"
    if ratio.low > 1 + min_gain:
        told = f"faster, not confirmed yet: {figures}"
    elif ratio.ratio > 1 + min_gain:
        told = f"probably faster, not proved yet: {figures}"
    else:
        told = f"not decided yet: {figures}"
    return busy_first(measurement, told)


def _no_gain(measurement: Measurement, ratio: Interval, min_gain: float) -> str:
    """Return the reason of a ratio that proves no gain: what gain the values exclude."""
    excluded, bound = excluded_gain(measurement, min_gain), measurement.excluded_gain
    told = f"{plus_minus(ratio)}, no gain proved"
    if bound is not None and bound <= min_gain:
        told = f"{plus_minus(ratio)}, slower or equal: {excluded}"
    elif excluded:
        told = f"{plus_minus(ratio)}, no gain proved: {excluded}"
    return busy_first(measurement, told)


def excluded_gain(measurement: Measurement, min_gain: float = 0.0) -> str:
    """Return the least gain that the values exclude, as a sentence; "" if they exclude none.

    Every bound below `min_gain` is told as `min_gain`, because a smaller gain is none.
    """
    bound = measurement.excluded_gain
    if bound is None or bound > 1:
        return ""
    least = max(min_gain * 100, math.ceil(round(bound * 1000, 6)) / 10)
    return f"a gain above {least:g} % is excluded at 98 %"


def busy_line(noise: Sequence[str], detectable: float | None = None) -> str:
    """Return the line that opens what is told of a measurement on a busy machine; else "".

    `noise` and `detectable` are those of a measurement.
    """
    if not noise:
        return ""
    seen = "" if detectable is None else f"; the smallest gain that would be seen: {detectable:.1%}"
    return f"the machine was busy: {'; '.join(noise)}{seen}"


def busy_first(measurement: Measurement, told: str) -> str:
    """Return `told` behind the remark that the machine was too busy, if it was.

    It was too busy if a gain of `SEEN` was not excluded, and not large enough to be proved.
    """
    bound, ratio = measurement.excluded_gain, measurement.ratio
    unproved = ratio is not None and ratio.low <= 1
    unseen = measurement.detectable is not None and measurement.detectable > SEEN
    if unseen and unproved and (bound is None or bound > SEEN):
        return f"the machine was too busy to see a gain of 10 %; {told}"
    return told


def is_surely_slower(ratio: Interval) -> bool:
    """Return whether a kernel is certainly slower, for an interval below 1.

    The lower bound, used for a KEEP, holds its confidence over all looks together. The upper
    bound holds for a single look only: with several looks it falls below 1 for two or three of
    100 equal kernels. So the upper bound at twice its distance from the ratio must be below 1.
    """
    return ratio.high * (ratio.high / ratio.ratio) < 1


def is_proved(ratio: Interval) -> bool:
    """Return whether it is beyond doubt that the kernel is faster, or that it is slower.

    The ratio of a kernel to itself is exact, so it needs no proof.
    """
    exact = ratio.low == ratio.high
    return exact or ratio.low > 1 or is_surely_slower(ratio)


def _confirmed(measurement: Measurement, ratio: Interval) -> Decision:
    again = measurement.confirmation
    if again is None or again.agrees:
        if unknown := _some([case.name for case in measurement.cases if case.open]):
            why = f"faster: {percent(ratio)}; not known whether slower in {unknown}"
            return Decision(Verdict.KEEP, why)
        return Decision(Verdict.KEEP, f"faster: {percent(ratio)}")
    if again.ratio is None:
        why = "no time was left to confirm it"
    elif again.ratio.low <= 1:
        why = f"measured again it was {percent(again.ratio)}, which reaches 0 %"
    else:
        why = f"measured again it was {percent(again.ratio)}, but single calls do not show it"
    return Decision(Verdict.DISCARD, f"{percent(ratio)} at first, not confirmed: {why}")
