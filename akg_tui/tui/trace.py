"""The attempts of a run as series of points, for the chart. Pure but for what it has read.

Reads each attempt once, so a long run costs no more a pull than a short one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from statistics import median

from akg_tui.core.machine import Verdict
from akg_tui.core.measurement import Interval
from akg_tui.core.state import Attempt, Item, RunState
from akg_tui.tui import words
from akg_tui.tui.commands import way_to
from akg_tui.tui.glyphs import LIVE, PROMISED, VERDICT
from akg_tui.tui.language import tr
from akg_tui.tui.predicted import predicted
from akg_tui.tui.snapshot import no_attempt
from akg_tui.tui.widgets.plot import Plot, Series

UNITS = ("ratio", "ms", "tokens", "roof")
LEAST_X = 8
NOISE_OF = 20  # the newest attempts that tell the noise


class Trace:
    """What was read of one run so far, in one unit."""

    def __init__(self, unit: str = "ratio") -> None:
        self.unit = unit
        self._tokens = 0
        self._clear()

    def _clear(self) -> None:
        self._attempts: Sequence[Attempt] = ()
        self._count = 0  # of them that there are at the moment that is looked at
        self._undone: tuple[int, ...] = ()
        self._series = {verdict: Series(*sign) for verdict, sign in VERDICT.items()}
        self._promised = Series(PROMISED, "figure")
        self._kept: list[tuple[int, int, float]] = []  # KEEPs: attempt, place, value
        self._halves: list[tuple[int, float]] = []  # by attempt

    def turn(self, unit: str) -> None:
        """Read everything anew in another unit."""
        self.unit = unit
        self._clear()

    @property
    def promises(self) -> bool:
        """Whether any item has promised a gain."""
        return bool(len(self._promised))

    @property
    def noise(self) -> float | None:
        """Half an interval as a share of its ratio, in the middle of the newest attempts."""
        stop = bisect_left(self._halves, (self._count,))
        newest = [half for _, half in self._halves[max(0, stop - NOISE_OF) : stop]]
        return median(newest) if newest else None

    def read(self, state: RunState) -> None:
        """Read what is new. An earlier moment of the run is known already."""
        attempts, known = state.attempts, self._attempts
        if attempts and known and attempts[0] != known[0]:
            self._clear()
            known = ()
        self._tokens = state.tokens
        self._undone, self._count = state.undone, len(attempts)
        fresh = attempts[len(known) :]
        if fresh:
            items = {item.id: item for item in state.items}
            for attempt in fresh:
                self._add(attempt, items.get(attempt.item))
        if len(attempts) > len(known):
            self._attempts = attempts

    def _x(self, attempt: Attempt) -> int:
        return attempt.tokens if self.unit == "tokens" else attempt.number

    def _add(self, attempt: Attempt, item: Item | None) -> None:
        x, y = self._x(attempt), self._y(attempt)
        if y is not None and attempt.verdict is Verdict.KEEP:
            self._kept.append((attempt.number, x, y))
        if not attempt.number:
            return
        interval = attempt.measurement.ratio
        low = high = None
        if y is not None and interval is not None:
            half = (interval.high - interval.low) / 2 / interval.ratio
            self._halves.append((attempt.number, half))
            low, high = y * interval.low / interval.ratio, y * interval.high / interval.ratio
            if self.unit == "ms":
                low, high = y * interval.ratio / interval.high, y * interval.ratio / interval.low
        self._series[attempt.verdict].add(x, y, low, high)
        if self.unit == "ratio" and y is not None and interval is not None:
            promised = predicted(item.text, item.rationale) if item else None
            if promised is not None:
                self._promised.add(x, y / interval.ratio * promised)

    def _y(self, attempt: Attempt) -> float | None:
        found = attempt.measurement
        match self.unit:
            case "ms":
                return found.candidate_ms
            case "roof":
                return found.roofline.share * 100 if found.roofline else None
            case _:
                return attempt.over_seed

    def plot(self, state: RunState, running: Interval | None) -> Plot:
        """The chart now. `running` is the estimate of the evaluation under way."""
        series = [self._promised, *self._series.values()]
        if self._count < len(self._attempts):
            last = self._x(self._attempts[self._count - 1]) if self._count else -1
            series = [each.upto(last) for each in series]
        undone = self._undone
        steps = [
            (x, y) for number, x, y in self._kept if number < self._count and number not in undone
        ]
        now, best = _live(state, running), state.best
        tokens = self.unit == "tokens"
        next_x = max(self._tokens, 1) if tokens else state.next_attempt
        if self.unit in ("ratio", "tokens") and now is not None and best is not None:
            live = Series(LIVE, "chart.live")
            live.add(next_x, *(best.over_seed * v for v in (now.ratio, now.low, now.high)))
            series.append(live)
        empty, key = no_attempt(state), way_to("chart.cycle")
        if tokens and not self._tokens:
            empty = tr("this agent uses no tokens: {key} shows another unit", key=key)
        if self.unit == "roof" and self._count > 1 and not steps:
            empty = tr("no measurement tells its share of the roofline: {key} shows another unit",
                       key=key)  # fmt: skip
        band, noise = None, self.noise
        if steps and noise and self._halves[1:] and self._halves[1][0] < self._count:
            at, value = steps[-1]
            band = (at, value * (1 - noise), value * (1 + noise))
        return Plot(
            tuple(series),
            () if tokens and not self._tokens else tuple(steps),
            next_x if tokens else max(LEAST_X, next_x),
            {"ms": "", "roof": "%"}.get(self.unit, "×"),
            empty,
            band,
            words.tokens if tokens else str,
        )


def _live(state: RunState, running: Interval | None) -> Interval | None:
    """The candidate that is not settled yet."""
    if running is not None and state.running and state.running.purpose == "candidate":
        return None if words.too_early(running) else running
    if state.measured is not None and state.active is not None:
        return state.measured.ratio
    return None
