"""The chart: every attempt as a point by its verdict, the best as a step line."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from akg_tui.core.machine import Verdict
from akg_tui.core.measurement import Interval
from akg_tui.core.state import Attempt, RunState
from akg_tui.tui.glyphs import LIVE, VERDICT
from akg_tui.tui.look import Look
from akg_tui.tui.snapshot import no_attempt
from akg_tui.tui.spans import Line
from akg_tui.tui.widgets.painted import Painted
from akg_tui.tui.widgets.plot import Plot, Point, draw

_NOTHING = Plot((), (), 0, "", "")
_LEAST_X = 8


class ChartPane(Painted[Plot], can_focus=True):
    """`unit` is what the vertical axis tells: the ratio over the seed, or milliseconds."""

    def __init__(self) -> None:
        super().__init__("chart", _NOTHING)
        self.unit = "ratio"
        self._shown: tuple[object, ...] = ()
        self._title()

    def _title(self) -> None:
        what = "× over the seed" if self.unit == "ratio" else "time a call"
        self.border_title = Content(f"3 chart: {what}")
        legend = "  ".join(f"{glyph} {v.value.lower()}" for v, (glyph, _) in VERDICT.items())
        self.border_subtitle = Content(legend)

    def cycle(self) -> None:
        """The other unit."""
        self.unit = "ms" if self.unit == "ratio" else "ratio"
        self._shown = ()
        self._title()

    def pull(self, look: Look) -> None:
        state = look.state
        running = look.progress.ratio if look.progress and state.running else None
        shown = (len(state.attempts), state.phase, state.measured, running, self.unit)
        if shown == self._shown:
            return
        self._shown = shown
        self.show(plot_of(state, running, self.unit))

    def paint(self, view: Plot, width: int, height: int) -> Sequence[Line]:
        return draw(view, width, height)


def plot_of(state: RunState, running: Interval | None, unit: str) -> Plot:
    """The chart of a run. `running` is the estimate of the evaluation under way."""
    ratio = unit == "ratio"
    value = _over_seed if ratio else _milliseconds
    points: list[Point] = []
    steps: list[tuple[int, float]] = []
    for attempt in state.attempts:
        y = value(attempt)
        if y is not None and attempt.verdict is Verdict.KEEP and attempt.number not in state.undone:
            steps.append((attempt.number, y))
        if attempt.number:
            points.append(_point(attempt, y, inverse=not ratio))
    now = _live(state, running)
    best = state.best
    if ratio and now is not None and best is not None:
        low, mid, high = (best.over_seed * v for v in (now.low, now.ratio, now.high))
        points.append(Point(state.next_attempt, mid, low, high, LIVE, "chart.live"))
    last = max(_LEAST_X, state.next_attempt)
    return Plot(tuple(points), tuple(steps), last, "×" if ratio else "", no_attempt(state))


def _live(state: RunState, running: Interval | None) -> Interval | None:
    """The candidate that is not settled yet."""
    if running is not None and state.running and state.running.purpose == "candidate":
        return running
    if state.measured is not None and state.active is not None:
        return state.measured.ratio
    return None


def _over_seed(attempt: Attempt) -> float | None:
    return attempt.over_seed


def _milliseconds(attempt: Attempt) -> float | None:
    return attempt.measurement.candidate_ms


def _point(attempt: Attempt, y: float | None, *, inverse: bool) -> Point:
    glyph, role = VERDICT[attempt.verdict]
    interval = attempt.measurement.ratio
    low = high = None
    if y is not None and interval is not None:
        low, high = y * interval.low / interval.ratio, y * interval.high / interval.ratio
        if inverse:
            low, high = y * interval.ratio / interval.high, y * interval.ratio / interval.low
    return Point(attempt.number, y, low, high, glyph, role)
