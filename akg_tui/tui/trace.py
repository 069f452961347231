"""The attempts of a run as series of points, for the chart. Pure but for what it has read.

Reads each attempt and each record once, so a long run costs no more a pull than a short one.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from akg_tui.core import events as ev
from akg_tui.core.machine import Verdict
from akg_tui.core.measurement import Interval
from akg_tui.core.state import Attempt, RunState
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
        self._read = 0
        self._spent: list[int] = []  # tokens, by attempt
        self._tokens = 0
        self._records = 0
        self._undone: tuple[int, ...] = ()
        self._clear()

    def _clear(self) -> None:
        self._read = 0
        self._series = {verdict: Series(*sign) for verdict, sign in VERDICT.items()}
        self._promised = Series(PROMISED, "figure")
        self._steps: list[tuple[int, float]] = []
        self._halves: list[float] = []

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
        return median(self._halves[-NOISE_OF:]) if self._halves else None

    def read(self, state: RunState, records: Sequence[ev.Record]) -> None:
        """Read what is new. Of an earlier moment of the run, everything."""
        attempts = state.attempts
        earlier = len(attempts) < self._read or len(records) < self._records
        if earlier or state.undone != self._undone:
            self._undone = state.undone
            self._clear()
        self._count_tokens(records)
        for attempt in attempts[self._read :]:
            self._add(state, attempt)
        self._read = len(attempts)

    def _count_tokens(self, records: Sequence[ev.Record]) -> None:
        if len(records) < self._records:
            self._records, self._tokens, self._spent = 0, 0, []
        for index in range(self._records, len(records)):
            event = records[index].event
            if isinstance(event, ev.ModelReplied):
                self._tokens += event.input_tokens + event.output_tokens
            elif isinstance(event, (ev.Decided, ev.BaselineAccepted)):
                self._spent.append(self._tokens)
        self._records = len(records)

    def _x(self, attempt: Attempt) -> int:
        if self.unit != "tokens":
            return attempt.number
        return self._spent[attempt.number] if attempt.number < len(self._spent) else self._tokens

    def _add(self, state: RunState, attempt: Attempt) -> None:
        x, y = self._x(attempt), self._y(attempt)
        kept = attempt.verdict is Verdict.KEEP and attempt.number not in self._undone
        if y is not None and kept:
            self._steps.append((x, y))
        if not attempt.number:
            return
        interval = attempt.measurement.ratio
        low = high = None
        if y is not None and interval is not None:
            self._halves.append((interval.high - interval.low) / 2 / interval.ratio)
            low, high = y * interval.low / interval.ratio, y * interval.high / interval.ratio
            if self.unit == "ms":
                low, high = y * interval.ratio / interval.high, y * interval.ratio / interval.low
        self._series[attempt.verdict].add(x, y, low, high)
        if self.unit == "ratio" and y is not None and interval is not None:
            item = next((item for item in reversed(state.items) if item.id == attempt.item), None)
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
        if self.unit == "roof" and self._read > 1 and not self._steps:
            empty = tr("no measurement tells its share of the roofline: {key} shows another unit",
                       key=key)  # fmt: skip
        band = None
        if self._steps and self.noise and len(self._halves) > 1:
            at, value = self._steps[-1]
            band = (at, value * (1 - self.noise), value * (1 + self.noise))
        return Plot(
            tuple(series),
            () if tokens and not self._tokens else tuple(self._steps),
            next_x if tokens else max(LEAST_X, next_x),
            {"ms": "", "roof": "%"}.get(self.unit, "×"),
            empty,
            band,
            words.tokens if tokens else str,
        )


def _live(state: RunState, running: Interval | None) -> Interval | None:
    """The candidate that is not settled yet."""
    if running is not None and state.running and state.running.purpose == "candidate":
        return running
    if state.measured is not None and state.active is not None:
        return state.measured.ratio
    return None
