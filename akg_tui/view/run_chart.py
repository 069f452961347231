"""The chart of a run: each attempt as a sign with its interval as a thin bar, the best so far as a
solid staircase, eager and compile as dashed lines on shaded bands.

No I/O. The attempts are read anew when one is added; a drawing costs some operations a column.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from akg_tui.core.measurement import Interval, Measurement
from akg_tui.core.phases import Verdict
from akg_tui.core.state import Attempt, RunState
from akg_tui.core.summary import CasesOverSeed, best_of, reference_lines
from akg_tui.view import formatting
from akg_tui.view.controls.command_registry import way_to
from akg_tui.view.glyphs import FRESH, LIVE, VERDICT
from akg_tui.view.language import tr
from akg_tui.view.spans import Line, Span, cells, cut, fit, line
from akg_tui.view.status import no_attempt

UNITS = ("ratio", "tokens")
CASE = "case"  # the unit of one case's ratio over the seed
LEAST_X = 8
NOISE_OF = 20  # newest attempts from which the noise is estimated


class AttemptSeries:
    """The series of a run in one unit, of the attempts read last. `case` is that of `CASE`."""

    def __init__(self, unit: str = "ratio", case: str = "") -> None:
        self.unit, self.case = unit, case
        self.cases: tuple[str, ...] = ()  # names of the cases of the attempts read
        self._tokens = 0
        self._clear()

    def _clear(self) -> None:
        self._attempts: Sequence[Attempt] = ()
        self._series = {verdict: Series(*sign) for verdict, sign in VERDICT.items()}
        self._kept: list[tuple[int, int, float]] = []  # KEEPs: attempt number, x, y
        self._halves: list[float] = []  # half interval / ratio of each attempt that has one
        self._by_case = CasesOverSeed()

    def turn(self) -> None:
        """Take the next unit and clear the series: the next `read` takes all attempts again."""
        units = [*((unit, "") for unit in UNITS), *((CASE, name) for name in self.cases)]
        here = (self.unit, self.case)
        after = units.index(here) + 1 if here in units else 0
        self.unit, self.case = units[after % len(units)]
        self._clear()

    def has(self, verdict: Verdict) -> bool:
        """Return whether any attempt in the series has this verdict."""
        return bool(len(self._series[verdict]))

    @property
    def noise(self) -> float | None:
        """The median, over the newest attempts, of half the interval divided by the ratio."""
        return median(self._halves[-NOISE_OF:]) if self._halves else None

    def read(self, state: RunState) -> None:
        """Read the attempts of a state, unless they are those read last."""
        self._tokens = state.tokens
        if state.attempts is self._attempts:
            return
        self._clear()
        self._attempts = state.attempts
        for attempt in state.attempts:
            self._add(attempt)

    def nearest(self, x: float) -> Attempt | None:
        """Return the attempt nearest to a place of the horizontal axis; the seed is none."""
        shown = [each for each in self._attempts if each.number]
        return min(shown, key=lambda each: abs(self._x(each) - x), default=None)

    def _x(self, attempt: Attempt) -> int:
        return attempt.tokens if self.unit == "tokens" else attempt.number

    def _add(self, attempt: Attempt) -> None:
        by_case = self._by_case.read(attempt)
        if not self.cases and by_case:
            self.cases = tuple(by_case)
        if self.unit == CASE:
            interval = by_case.get(self.case)
            y = interval.ratio if interval else None
        else:
            interval, y = attempt.measurement.ratio, attempt.over_seed
        x = self._x(attempt)
        if y is not None and attempt.advanced:
            self._kept.append((attempt.number, x, y))
        if not attempt.number:
            return
        low = high = None
        if y is not None and interval is not None:
            half = (interval.high - interval.low) / 2 / interval.ratio
            self._halves.append(half)
            low, high = y * interval.low / interval.ratio, y * interval.high / interval.ratio
        self._series[attempt.verdict].add(x, y, low, high)

    def plot(self, state: RunState, running: Interval | None) -> Plot:
        """Return the plot of a state. `running` is the estimate of the running evaluation."""
        series = [*reversed(self._series.values())]  # a KEEP covers the others
        steps = [(x, y) for number, x, y in self._kept if number not in state.undone]
        now, best = _live(state, running), state.best
        tokens = self.unit == "tokens"
        next_x = max(self._tokens, 1) if tokens else state.next_attempt
        if self.unit != CASE and now is not None and best is not None:
            live = Series(LIVE, "chart.live")
            live.add(next_x, *(best.over_seed * v for v in (now.ratio, now.low, now.high)))
            series.append(live)
        fresh = self._fresh(state)
        if fresh is not None and steps:
            # The line ends at the figure that the run is quoted with.
            next_x = max(next_x, steps[-1][0] + 1)
            steps.append((next_x, fresh.ratio))
            star = Series(FRESH, "figure")
            star.add(next_x, fresh.ratio, fresh.low, fresh.high)
            series.append(star)
        empty = no_attempt(state)
        if tokens and not self._tokens:
            key = way_to("chart.cycle")
            empty = tr("this agent uses no tokens: {key} shows another unit", key=key)
        return Plot(
            tuple(series),
            () if tokens and not self._tokens else tuple(steps),
            next_x if tokens else max(LEAST_X, next_x),
            empty,
            formatting.tokens if tokens else str,
            self._references(state),
        )

    def _fresh(self, state: RunState) -> Interval | None:
        """Return the ratio over the seed of the best kernel as measured afresh."""
        best = best_of(state)
        if best is None or not best.fresh or state.final is None:
            return None
        if self.unit == CASE:
            return _ratio_of_case(state.final, self.case)
        return best.over_seed

    def _references(self, state: RunState) -> tuple[Reference, ...]:
        """Return eager and compile as lines with their bands; of one case eager alone."""
        if self.unit != CASE:
            return tuple(
                Reference(tr(name), over.ratio, over.low, over.high)
                for name, over in reference_lines(state)
            )
        seed = _ratio_of_case(state.baseline, self.case) if state.baseline else None
        eager = seed.inverse if seed else None
        return (Reference("eager", eager.ratio, eager.low, eager.high),) if eager else ()


def _ratio_of_case(found: Measurement, name: str) -> Interval | None:
    return next((each.ratio for each in found.cases if each.name == name), None)


def _live(state: RunState, running: Interval | None) -> Interval | None:
    """Return the estimate of the candidate without a verdict; None where there is none."""
    if running is not None and state.running and state.running.purpose == "candidate":
        return None if formatting.too_early(running) else running
    if state.measured is not None and state.active is not None:
        return state.measured.ratio
    return None


_LOG_FROM = 8.0
LABEL = 6  # columns of a label of the vertical axis

_YIELDING = [VERDICT[each][0] for each in (Verdict.DISCARD, Verdict.INCONCLUSIVE)]
CROWD = 3  # points of a series in one column; of more, only the lowest and highest are drawn


class Series:
    """Points of one kind, sorted by x. A point whose `y` is None is drawn on the bottom row.

    Points are added only at the end, and the bounds are stored, so that the cost of drawing
    does not grow with the series.
    """

    def __init__(self, glyph: str, role: str) -> None:
        self.glyph, self.role = glyph, role
        self.xs: list[int] = []
        self.ys: list[float] = []
        self.lows: list[float] = []
        self.highs: list[float] = []
        self.floor: list[int] = []
        self.bounds: tuple[float, float] | None = None  # of the values alone
        self.reach: tuple[float, float] | None = None  # with the error bars above 0

    def __len__(self) -> int:
        return len(self.xs) + len(self.floor)

    def add(
        self, x: int, y: float | None, low: float | None = None, high: float | None = None
    ) -> None:
        """Add a point, with the ends of its error bar if it has one."""
        if y is None:
            self.floor.append(x)
            return
        low, high = y if low is None else low, y if high is None else high
        self.xs.append(x)
        self.ys.append(y)
        self.lows.append(low)
        self.highs.append(high)
        self.bounds = _stretched(self.bounds, y, y)
        self.reach = _stretched(self.reach, low if low > 0 else y, high)


def _stretched(bounds: tuple[float, float] | None, low: float, high: float) -> tuple[float, float]:
    return (low, high) if bounds is None else (min(bounds[0], low), max(bounds[1], high))


@dataclass(frozen=True)
class Reference:
    """What the kernels are measured by, as a line across the chart, with its interval as a band."""

    name: str
    value: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Plot:
    """The data of a chart. `steps` are the points (x, y) at which the line changes, in order.

    `tell_x` formats a number of the horizontal axis.
    """

    series: tuple[Series, ...]
    steps: tuple[tuple[int, float], ...]
    last_x: int
    empty: str
    tell_x: Callable[[int], str] = str
    references: tuple[Reference, ...] = ()

    @property
    def fresh(self) -> bool:
        """Whether the best kernel is drawn as measured afresh."""
        return any(each.glyph == FRESH for each in self.series)


class Scale:
    """The mapping of values to `steps` equal steps of a height.

    Logarithmic where high / low exceeds `_LOG_FROM`.
    """

    def __init__(self, values: list[float], steps: int) -> None:
        low, high = min(values), max(values)
        if high - low < 0.02 * abs(high):
            low, high = low - 0.01 * abs(high), high + 0.01 * abs(high)
        self.log = low > 0 and high / low > _LOG_FROM
        margin = 0.06
        if self.log:
            low, high = math.log(low), math.log(high)
        self._low = low - margin * (high - low)
        self._high = high + margin * (high - low)
        self._last = steps - 1
        self._each = (steps - 1) / (self._high - self._low)

    def at(self, value: float) -> int:
        """Return the step of a value, 0 at the top; a value outside is drawn at the edge."""
        if self.log:
            if value <= 0:
                return self._last
            value = math.log(value)
        step = round((self._high - value) * self._each)
        return 0 if step < 0 else min(step, self._last)

    def ticks(self, wanted: int) -> list[float]:
        """Return about `wanted` round values inside the range."""
        if self.log:
            return log_ticks(math.exp(self._low), math.exp(self._high), wanted + 1)
        span = self._high - self._low
        rough = span / max(1, wanted)
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= rough)
        first = math.ceil(self._low / step)
        return [n * step for n in range(first, math.floor(self._high / step) + 1)]


def log_ticks(low: float, high: float, most: int) -> list[float]:
    """Return round values from `low` to `high` on a logarithmic axis, about `most` at the most."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1, 2, 5), (1, 3), (1,)):
        found = [f * 10.0**p for p in powers for f in factors if low <= f * 10.0**p <= high]
        if len(found) <= most:
            break
    return found


def inside(plot: Plot, width: int, height: int) -> tuple[int, int] | None:
    """Return the columns and rows inside of the axes; None where no chart is drawn."""
    columns, rows = width - LABEL - 1, height - 1
    return (columns, rows) if plot.steps and columns >= 8 and rows >= 3 else None


def draw(plot: Plot, width: int, height: int) -> list[Line]:
    """Return the lines of the chart in `width` columns and `height` rows."""
    room = inside(plot, width, height)
    if not plot.steps:
        return [fit(line((plot.empty, "muted")), width)]
    if room is None:
        zoom = way_to("pane.zoom")
        told = tr("too small for a chart: {key} gives it all the room", key=zoom)
        return [fit(line((told, "muted")), width)]
    columns, rows = room
    # Points without a value have the last row to themselves.
    scale = Scale(values_of(plot), 2 * (rows - any(each.floor for each in plot.series)))
    across = (columns - 1) / axis_length(plot.last_x)
    signs: Signs = [{} for _ in range(rows)]
    shaded: set[int] = set()
    for each in plot.references:
        shaded.update(range(scale.at(each.high) // 2, scale.at(each.low) // 2 + 1))
        signs[scale.at(each.value) // 2] = dict.fromkeys(range(columns), ("╌", "note"))
    # Where the attempts outnumber the columns, those not kept yield to the line and have no bars.
    crowded = sum(len(each) for each in plot.series) > columns
    under = [each for each in plot.series if crowded and each.glyph in _YIELDING]
    over = [each for each in plot.series if each not in under]
    _draw_points(signs, under, scale, across)
    _draw_bars(signs, over, scale, across)
    _draw_steps(signs, plot, scale, across)
    _draw_points(signs, over, scale, across)
    labels = _labels(plot, scale, rows)
    drawn = [
        ((labels.get(n, " " * LABEL), "chart.axis"), (_tick(labels.get(n)), "chart.axis"),
         *row_of(signs[n], columns, "chart.band" if n in shaded else ""))
        for n in range(rows)
    ]  # fmt: skip
    return [*drawn, _x_axis(plot, columns, across)]


def x_at(column: int, plot: Plot, width: int) -> float | None:
    """Return the place on the horizontal axis at a column of the chart; None beside it."""
    columns = width - LABEL - 1
    place = column - LABEL - 1
    if not plot.steps or columns < 8 or not 0 <= place < columns:
        return None
    return place * axis_length(plot.last_x) / (columns - 1)


def axis_length(last_x: int) -> int:
    """Return the largest x of the axis: `last_x` rounded up, in steps that grow with it, so that
    points keep their columns when an attempt is added.
    """
    step = 1 << max(0, last_x.bit_length() - 7)
    return max(1, -(-last_x // step) * step)


def values_of(plot: Plot) -> list[float]:
    values = [value for _, value in plot.steps]
    values += [each.value for each in plot.references if each.value > 0]
    for each in plot.series:
        values += each.bounds or ()
    low, high = min(values), max(values)
    # A very long error bar must not flatten all other points.
    reach = max(high - low, 0.1 * abs(high))
    least = max(low - reach, low / 3) if low > 0 else low - reach
    for each in plot.series:
        if each.reach:
            values += [max(least, each.reach[0]), min(high + reach, each.reach[1])]
    return values


def columns_of(xs: Sequence[int], across: float) -> Iterator[tuple[int, int, int]]:
    """Yield each column that has points, with the range of its points."""
    begin = 0
    while begin < len(xs):
        column = round(xs[begin] * across)
        end = bisect_left(xs, (column + 0.5) / across, begin + 1)
        yield column, begin, end
        begin = end


Signs = list[dict[int, Span]]  # by row and column


def _draw_points(signs: Signs, series: Sequence[Series], scale: Scale, across: float) -> None:
    for each in series:
        sign = each.glyph, each.role
        for column, _, _ in columns_of(each.floor, across):
            signs[-1][column] = sign
        for column, begin, end in columns_of(each.xs, across):
            ys = each.ys[begin:end]
            for y in ys if len(ys) <= CROWD else (min(ys), max(ys)):
                signs[scale.at(y) // 2][column] = sign


def _draw_bars(signs: Signs, series: Sequence[Series], scale: Scale, across: float) -> None:
    """Draw the error bars, to half a row; points that share a column have none."""
    for each in series:
        for column, begin, end in columns_of(each.xs, across):
            top, bottom = scale.at(each.highs[begin]), scale.at(each.lows[begin])
            if end - begin > 1 or top == bottom:
                continue
            for row in range(top // 2, bottom // 2 + 1):
                below, above = 2 * row < top, 2 * row + 1 > bottom
                signs[row][column] = "╷" if below else "╵" if above else "│", "chart.error"


def _draw_steps(signs: Signs, plot: Plot, scale: Scale, across: float) -> None:
    """Draw the best so far, from left to right and up or down where it changes."""
    changes = columns_of([x for x, _ in plot.steps], across)
    rows = {column: scale.at(plot.steps[end - 1][1]) // 2 for column, _, end in changes}
    first, here = next(iter(rows.items()))
    for column in range(first, round(plot.last_x * across) + 1):
        before, here = here, rows.get(column, here)
        if here == before:
            signs[here][column] = "━", "chart.best"
            continue
        for row in range(min(here, before) + 1, max(here, before)):
            signs[row][column] = "┃", "chart.best"
        up = here < before
        signs[before][column] = "┛" if up else "┓", "chart.best"
        signs[here][column] = "┏" if up else "┗", "chart.best"


def row_of(signs: dict[int, Span], columns: int, band: str = "") -> Line:
    """Return a row of signs, each one column wide, by their columns.

    The blanks of a band have a sign too, for where there are no colours.
    """
    blank, bare = ("░", band) if band else (" ", "text")
    spans: list[Span] = []
    text, role, done = "", bare, 0
    for column in sorted(signs):
        char, its_role = signs[column]
        if column > done:
            spans.append((text, role))
            text, role = blank * (column - done), bare
        if band:
            its_role = f"{band}|{its_role}"
        if its_role != role:
            spans.append((text, role))
            text, role = "", its_role
        text += char
        done = column + 1
    return line(*spans, (text, role), (blank * (columns - done), bare))


def _tick(label: str | None) -> str:
    if label is None:
        return "│"
    return "┤" if cells(label) <= LABEL else ""


def _labels(plot: Plot, scale: Scale, rows: int) -> dict[int, str]:
    ticks = scale.ticks(max(2, rows // 2))
    apart = min((b - a for a, b in pairwise(ticks)), default=1.0)
    digits = next((n for n in range(3) if math.isclose(round(apart, n), apart)), 3)
    form = "g" if scale.log else f".{digits}f"
    labels = {scale.at(t) // 2: f"{t:{form}}×".rjust(LABEL)[:LABEL] for t in ticks}
    named: set[int] = set()
    for each in sorted(plot.references, key=lambda each: each.value):
        name = cut(each.name, LABEL + 1)  # the longest one takes the place of its tick
        row = scale.at(each.value) // 2
        row -= row in named and row > 0  # the higher one of two in a row is named above it
        named.add(row)
        labels[row] = " " * (LABEL - cells(name)) + name
    return labels


def _x_axis(plot: Plot, columns: int, across: float) -> Line:
    step = max(1, math.ceil(plot.last_x / max(1, columns // 8)))
    if step > 10:
        power = 10 ** (len(str(step)) - 1)
        step = next(power * m for m in (1, 2, 5, 10) if power * m >= step)
    xs = range(0, plot.last_x + 1, step)
    return x_axis([(round(x * across), plot.tell_x(x)) for x in xs], LABEL, columns)


def x_axis(labels: Iterable[tuple[int, str]], left: int, columns: int) -> Line:
    """Return a horizontal axis with labels below their columns, those that find room."""
    cells = [" "] * columns
    free = 0
    for middle, label in labels:
        start = min(columns - len(label), max(free, middle - len(label) // 2))
        if start >= free:
            cells[start : start + len(label)] = label
            free = start + len(label) + 1
    return ((" " * left, "chart.axis"), ("└", "chart.axis"), ("".join(cells), "chart.axis"))
