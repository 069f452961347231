"""Numbers, times, intervals and counts as text, in the language in use.

Workbench, command line and report format all figures with these functions. Pure.
"""

from __future__ import annotations

from akg_tui.core.measurement import Estimate, Interval, Measurement, Metric, Outcome, digits
from akg_tui.core.sanitize import Said, one_line
from akg_tui.core.state import RunState
from akg_tui.core.summary import Ratios, doubt, doubt_told, ratio_text
from akg_tui.core.verdict import is_surely_slower, percent
from akg_tui.view.language import Joined, Text, counted, tr, translated


def clock(seconds: float) -> str:
    """Return hours, minutes and seconds, for example ``00:42:17``."""
    whole = max(0, int(seconds))
    return f"{whole // 3600:02d}:{whole % 3600 // 60:02d}:{whole % 60:02d}"


def short_time(seconds: float) -> str:
    """Return a duration in short form: ``12 s``, ``3:04``, ``1:02:33``."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d}"
    return f"{whole // 3600}:{whole % 3600 // 60:02d}:{whole % 60:02d}"


def hours(value: float) -> str:
    """Return a budget of hours as text: ``90 min``, ``8 h``."""
    return f"{value * 60:g} min" if value < 2 else f"{value:g} h"


def times(ratio: float) -> str:
    """Return a ratio as text: ``1.84×``; with one decimal from ten on: ``12.4×``."""
    return f"{ratio_text(ratio)}×"


def ratio(found: Interval) -> str:
    """Return a ratio as text, marked if it is not proved: ``1.84×``, ``1.70×?``."""
    return f"{times(found.ratio)}{doubt(found)}"


def ratios(found: Ratios, most: int | None = None, *, bounds: bool = False) -> str:
    """Return a kernel's ratios as text: ``22.0× seed · 2.10× eager · 1.70×? compile``, or the
    first `most` of them; with `bounds`, the interval follows a ratio that is not proved.
    """
    return " · ".join(
        f"{ratio(over)} {tr(name)}{doubt_told(over) if bounds else ''}"
        for name, over in found.named[:most]
    )


def sign(found: Ratios) -> str:
    """Return the sign before ratios that are provisional, where there is no room for words."""
    return "~" if found.provisional else ""


def best_label(found: Ratios) -> str:
    """Return what the ratios of the best kernel are called: provisional, or measured afresh."""
    if found.provisional:
        return tr("best so far")
    if found.fresh:
        return tr("best, measured afresh")
    return tr("best") if found.attempt else attempt(0)


def overall(found: Ratios) -> str:
    """Return a kernel's ratios: with a word if they were measured afresh, with `~` if provisional,
    so that figures of different bases differ in looks.
    """
    told = f"{sign(found)}{ratios(found, bounds=True)}"
    return f"{told}, {tr('measured afresh')}" if found.fresh else told


OVER = (Said("seed"), Said("eager"), Said("compile"))
"""What a kernel is compared with, as in `Ratios.named`."""


def milliseconds(value: float) -> str:
    """Return a time in milliseconds as text with three figures: ``1.23 ms``, ``45.6 µs``."""
    if value < 0.1:
        return f"{value * 1000:.3g} µs"
    return f"{value:.3g} ms" if value < 1000 else f"{value / 1000:.3g} s"


def estimated(found: Estimate) -> str:
    """Return an estimate with the sign that marks estimates: ``~12.3 µs``."""
    return f"~{milliseconds(found.us / 1000)}"


def call_times(measurement: Measurement) -> str:
    """Return the time of a call, with the other kernel's time before it if the ratio agrees."""
    if measurement.candidate_ms is None:
        return ""
    told = tr("{time} a call", time=milliseconds(measurement.candidate_ms))
    if measurement.baseline_ms is None or not measurement.times_agree:
        return told
    return f"{milliseconds(measurement.baseline_ms)} → {told}"


def count(number: int, noun: str, figure: str = "") -> str:
    """Return a number with its noun: ``3 lines``; other languages have a pattern per noun.

    `figure` replaces the digits of the number unless it is empty.
    """
    return translated(counted(number, noun, figure))


def next_try(tries: int, seconds: float, reason: str) -> Said:
    """Return the message of a retry: the number of the try, the wait, and the reason."""
    return Said("try {number} in {time}: {why}", number=tries + 1, time=short_time(seconds),
                   why=Said(one_line(reason)))  # fmt: skip


def attempt(number: int) -> str:
    """Return the name of an attempt by its number; 0 is the seed."""
    return tr("attempt {number}", number=number) if number else tr("the seed")


def changed(state: RunState, name: str, added: int, removed: int) -> str:
    """Return the lines that the kernel under work adds and removes, and to which kernel."""
    if state.best is None:
        return tr("{name} +{added} -{removed} against the last", name=name, added=added,
                  removed=removed)  # fmt: skip
    return tr("{name} +{added} -{removed} against the best", name=name, added=added,
              removed=removed)  # fmt: skip


STAGES = (
    Said("start"), Said("reference"), Said("build"), Said("verify"), Said("time"),
    Said("confirm"),
)  # fmt: skip
"""The stages of an evaluation, in order."""

_ENDINGS = {
    "working": Said("working"),
    "idle": Said("idle"),
    "waiting": Said("waiting"),
    "done": Said("done"),
    "limit": Said("at its limit"),
    "failed": Said("failed"),
    "cancelled": Said("cancelled"),
    "interrupted": Said("interrupted"),
    "stopped": Said("stopped"),
}


def ending(status: str) -> Said | str:
    """Return the status of a subagent in words."""
    return _ENDINGS.get(status) or one_line(status)


def stage(name: str) -> str:
    """Return an evaluation stage in the language in use; an unknown stage unchanged."""
    return tr(name) if name in STAGES else one_line(name)


def percent_of(share: float) -> str:
    """Return a share as percent, with one decimal below ten: ``43 %``, ``9.6 %``."""
    return f"{share * 100:.1f} %" if share < 0.0995 else f"{share * 100:.0f} %"


def error_of(error: float, tolerance: float) -> str:
    """Return an error together with the tolerance."""
    return tr("{error} of {tolerance} allowed", error=f"{error:.1e}", tolerance=f"{tolerance:.1e}")


def short_metric(found: Metric | None) -> str:
    """Return the value of a metric in a narrow cell, or the smallest and the largest."""
    if found is None:
        return ""
    if found.low is None or found.high is None:
        return "-"
    low, high = f"{found.low:.4g}", f"{found.high:.4g}"
    return low if low == high else f"{low}–{high}"


def tokens(number: int) -> str:
    return f"{number / 1000:.1f}k" if number >= 1000 else str(number)


def token_limit(limit: int) -> str:
    """Return a limit of tokens as text: ``500k tokens``."""
    return count(limit, "token", f"{limit / 1000:g}k" if limit >= 1000 else str(limit))


_TELLING = 20.0
"""The largest high / low of an interval whose ratio is still shown."""


def too_early(interval: Interval) -> bool:
    """Return whether the interval is too wide for a meaningful ratio: too few samples yet."""
    return interval.low <= 0 or interval.high > _TELLING * interval.low


def sure(interval: Interval) -> str:
    """Return a ratio with its interval in words: ``12.3 % faster (9.8 to 14.9), 95 % sure``."""
    low, mid, high = ((v - 1) * 100 for v in (interval.low, interval.ratio, interval.high))
    percents = f"{interval.confidence * 100:g}"
    confidence = tr("{percent} % sure", percent=percents)
    if interval.low > 1:
        faster = tr("{mid} % faster ({low} to {high})", **_figures(mid, low, high))
        return f"{faster}, {confidence}"
    if interval.high < 1:
        figures = _figures(-mid, -high, -low)
        if not is_surely_slower(interval):
            return tr("probably {mid} % slower ({low} to {high})", **figures)
        slower = tr("{mid} % slower ({low} to {high})", **figures)
        return f"{slower}, {confidence}"
    return tr("no difference proved: {figures} at {percent} % confidence",
              figures=percent(interval), percent=percents)  # fmt: skip


def verdict_reason(reason: str, ratio: Interval | None) -> Said:
    """Return the reason of a verdict from a journal, made again where it tells the ratio alone."""
    if ratio is not None:
        what = percent(ratio)
        for told in (Said("faster: {what}", what=what), Said("slower: {what}", what=what)):
            if told == reason:
                return told
    return Said(one_line(reason))


def _figures(mid: float, low: float, high: float) -> dict[str, str]:
    return {"mid": f"{mid:.1f}", "low": f"{low:.1f}", "high": f"{high:.1f}"}


def measured(measurement: Measurement, against: Said) -> Joined | Said:
    """Return a measurement on one line; `against` names the best, the seed or the reference."""
    if measurement.outcome is not Outcome.CORRECT:
        why = Said(one_line(measurement.message))
        return Joined((Said(measurement.failure), why), ": ") if measurement.failure else why
    parts: list[Text] = [Said("correct")]
    if interval := measurement.ratio:
        bounds = f"[{digits(interval.low)}, {digits(interval.high)}]"
        parts.append(Joined((times(interval.ratio), against, bounds), " "))
    if measurement.candidate_ms is not None:
        parts.append(milliseconds(measurement.candidate_ms))
    if measurement.clusters:
        parts.append(counted(measurement.clusters, "pair"))
    if measurement.estimate is not None:
        parts.append(estimated(measurement.estimate))
    return Joined(tuple(parts))
