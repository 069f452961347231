"""A running evaluation as rows: its stages, the interval of its ratio over time, and the noise.

No I/O. Stores a bounded list of live estimates; the final figures are those of the journal.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from akg_tui.core.measurement import (
    STEADY_CLUSTERS,
    Interval,
    Measurement,
    Outcome,
    Progress,
    digits,
)
from akg_tui.core.phases import Phase
from akg_tui.core.sanitize import Said
from akg_tui.core.state import RunState
from akg_tui.view import formatting
from akg_tui.view.attempt_rows import case_rows, error_rows, metric_rows
from akg_tui.view.glyphs import DONE, IDLE, LIVE, bar
from akg_tui.view.language import retold, tr, tr_in
from akg_tui.view.spans import BLANK, Line, Span, cells, fit, hang, line, spread, width

_AGAINST = {
    "baseline": Said("against eager"),
    "compile": Said("against eager"),
    "max-autotune": Said("against eager"),
    "eager": Said("against eager"),
    "candidate": Said("against the best"),
    "final": Said("against the seed"),
}
KEPT = 256


class EstimateHistory:
    """The newest estimates of one evaluation, at most `KEPT`, oldest first.

    `of` holds the attempt number and the purpose of the evaluation.
    """

    def __init__(self) -> None:
        self.of: tuple[int, str] | None = None
        self.estimates: list[Interval] = []
        self.progress: Progress | None = None

    def see(self, state: RunState, progress: Progress | None) -> None:
        """Add the current estimate. Another evaluation starts a new list."""
        running = state.running
        of = (running.attempt, running.purpose) if running else None
        if of is not None and of != self.of:
            self.of, self.estimates, self.progress = of, [], None
        if of is None or progress is None:
            return
        self.progress = progress
        estimate = progress.ratio
        if estimate is not None and (not self.estimates or self.estimates[-1] != estimate):
            self.estimates.append(estimate)
            del self.estimates[:-KEPT]


def eval_rows(
    state: RunState, seen: EstimateHistory, now: float, room: int, height: int
) -> list[Line]:
    """Return the running evaluation as rows; between evaluations, the last result."""
    running = state.running
    if running is None:
        return [fit(row, room) for row in _last(state, seen, room, height)]
    what = formatting.attempt(0 if running.purpose == "baseline" else running.attempt)
    if running.purpose in ("final", "eager"):
        what = tr("the best, afresh")
    elif running.purpose == "compile":
        what = tr("torch.compile of the reference")
    elif running.purpose == "max-autotune":
        what = tr("torch.compile with max-autotune")
    head = spread(
        line((what, "strong"), (f" {tr(_AGAINST[running.purpose])}", "muted")),
        line((formatting.short_time(now - running.since), "text")),
        room,
    )
    same = seen.of == (running.attempt, running.purpose)
    rows: list[Line] = [head, *_stages(seen.progress if same else None, room)]
    if same and seen.estimates:
        rows += _estimate(seen.estimates[-1])
    if found := disturbance(state, seen.progress if same else None):
        rows += _noise(found.told(), room)
    if same and seen.estimates:
        rows += interval_rows(seen.estimates, room, height - len(rows))
    return [fit(row, room) for row in rows]


def _noise(sentences: Iterable[str], room: int) -> list[Line]:
    lead = line((f"{tr('noise')} ", "muted"))
    return [row for each in sentences for row in hang(each, room, lead, "note")]


def _stages(progress: Progress | None, room: int) -> list[Line]:
    now = progress.stage if progress else "start"
    stages = formatting.STAGES if now in formatting.STAGES else (*formatting.STAGES, now)
    at = stages.index(now)
    spans: list[Span] = []
    for number, stage in enumerate(stages):
        name = formatting.stage(stage)
        if number == at:
            spans.append((f"{LIVE}{name} ", "item.active"))
        else:
            sign, role = (DONE, "phase.done") if number < at else (IDLE, "phase.idle")
            spans.append((f"{sign}{name} ", role))
    # The present stage is never what is cut off.
    while at and width(tuple(spans)) > room:
        del spans[0]
        at -= 1
    rows = [tuple(spans)]
    part, whole = progress.filled if progress else (0, 0)
    if progress and whole:
        full, rest = bar(part, whole, max(4, min(24, room - 12)))
        rows.append(
            ((full, "progress"), (rest, "progress.rest"),
             (f" {progress.told}", "muted"))
        )  # fmt: skip
    if progress and (progress.waits_for or (progress.message and not whole)):
        role = "note" if progress.waits_for else "muted"
        rows.append(line((retold(progress.told_by_message), role)))
    return rows


def _estimate(interval: Interval) -> list[Line]:
    if formatting.too_early(interval):
        return [line((tr("too few samples to tell"), "muted"))]
    if interval.low > 1:
        word, role = tr_in("measured", "faster"), "verdict.keep"
    elif interval.high < 1:
        word, role = tr_in("measured", "slower"), "verdict.discard"
    else:
        word, role = tr("undecided"), "note"
    return [
        line(
            (formatting.times(interval.ratio), "figure"),
            (f" [{digits(interval.low)}, {digits(interval.high)}] ", "muted"),
            (word, role),
        )
    ]


def interval_rows(estimates: list[Interval], room: int, height: int) -> list[Line]:
    """Return the newest intervals as bars, the newest at the bottom, on one axis marked at 1."""
    told = [each for each in estimates if not formatting.too_early(each)]
    if height < 2 or room < 16 or not told:
        return []
    shown = told[-(height - 1) :]
    low = min(1.0, *(each.low for each in shown))
    high = max(1.0, *(each.high for each in shown))
    span = (high - low) or 0.02

    def at(value: float) -> int:
        return round((value - low) / span * (room - 1))

    rows: list[Line] = []
    one = at(1.0)
    for number, each in enumerate(shown):
        left, mid, right = at(each.low), at(each.ratio), at(each.high)
        newest = number == len(shown) - 1
        cells = [" "] * room
        cells[one] = "│"
        cells[left : right + 1] = "─" * (right + 1 - left)
        cells[left], cells[right] = "├", "┤"
        cells[mid] = "┼" if mid != one else "╋"
        rows.append((("".join(cells), "chart.live" if newest else "chart.error"),))
    axis = [" "] * room
    for value, text in ((low, digits(low)), (high, digits(high)), (1.0, "1")):
        start = min(room - len(text), max(0, at(value) - len(text) // 2))
        if all(cell == " " for cell in axis[max(0, start - 1) : start + len(text) + 1]):
            axis[start : start + len(text)] = text
    return [*rows, (("".join(axis), "chart.axis"),)]


def _last(state: RunState, seen: EstimateHistory, room: int, height: int) -> list[Line]:
    last = state.attempts[-1] if state.attempts else None
    found = state.final or state.measured or (last.measurement if last else state.baseline)
    if found is None:
        first = state.phase is Phase.INIT
        waits = tr("the baseline comes first") if first else tr("nothing measured yet")
        return [line((waits, "muted"))]
    told, of = tr("the final measurement"), "final"
    number = 0
    if state.final is None:
        if last is not None:
            settled = state.measured in (None, last.measurement)
            number = last.number if settled else state.next_attempt
        which = formatting.attempt(number)
        if state.best is None and state.tries:
            which = tr("try {number}", number=state.tries)
        told = {
            Outcome.CORRECT: tr("{which} was measured", which=which),
            Outcome.FAILED: tr("{which} failed", which=which),
            Outcome.ERROR: tr("{which} could not be measured", which=which),
        }[found.outcome]
        of = "candidate" if number else "baseline"
    rows = [line((told, "strong")), *_found(found, room)]
    rows += _noise((retold(each) for each in found.noise), room)
    for each in found.notes:
        rows += hang(retold(each), room, line((f"{tr('note')} ", "muted")), "note")
    rows += error_rows(found, room)
    attempt, purpose = seen.of or (0, "")
    same = purpose == of and (purpose == "final" or attempt == number)
    if same and seen.estimates and height - len(rows) > 2:
        rows += [BLANK, *interval_rows(seen.estimates, room, height - len(rows) - 1)]
    return rows


def _found(found: Measurement, room: int) -> list[Line]:
    if found.outcome is not Outcome.CORRECT:
        kind = retold(str(found.failure or found.outcome))
        why = hang(retold(found.message), room, (), "text")
        return [line((kind, "verdict.fail")), *why]
    rows = _estimate(found.ratio) if found.ratio else []
    figures: list[str] = []
    if found.estimate is not None:
        figures.append(formatting.estimated(found.estimate))
    if found.candidate_ms is not None:
        figures.append(tr("{time} a call", time=formatting.milliseconds(found.candidate_ms)))
    if found.clusters:
        figures.append(formatting.count(found.clusters, "pair"))
    figures.append(f"{found.elapsed_s:.1f} s")
    told = ""
    for figure in figures:  # a row breaks between two figures, not within one
        if told and cells(told) + cells(figure) + 2 > room:
            rows.append(line((f"{told},", "muted")))
            told = ""
        told = f"{told}, {figure}" if told else figure
    rows.append(line((told, "muted")))
    return [*rows, *case_rows(found, room), *metric_rows(found, room)]


_NEWEST = 20  # attempts that are searched for a timing; an attempt that fails has none


@dataclass(frozen=True)
class Disturbance:
    """The sentences of the judge, and the smallest gain that it would see (0.03 for 3 %); None
    where too few values tell: a comparison that ends early tells that of itself alone.
    """

    sentences: tuple[str, ...]
    detectable: float | None

    def told(self) -> list[str]:
        """Return the sentences in the language in use."""
        return [retold(each) for each in self.sentences]

    def badge(self, *, short: bool) -> str:
        """Return what the disturbance costs, for the header."""
        if self.detectable is None:
            return tr("noisy")
        gain = formatting.percent_of(min(self.detectable, 1.0))  # above that it is an extrapolation
        if short:
            return tr("noisy ({gain})", gain=gain)
        return tr("noisy: gains under {gain} are not seen", gain=gain)


def disturbance(state: RunState, progress: Progress | None) -> Disturbance | None:
    """Return what disturbs the machine; None while it is quiet, unknown, or the run is over."""
    if state.finished:
        return None
    newest: Progress | Measurement | None = _last_timing(state)
    if state.running is not None and progress is not None and progress.detectable is not None:
        newest = progress
    if newest is None or newest.detectable is None or not newest.noise:
        return None
    told = newest.values >= STEADY_CLUSTERS
    return Disturbance(newest.noise, newest.detectable if told else None)


def _last_timing(state: RunState) -> Measurement | None:
    tried = (attempt.measurement for attempt in reversed(state.attempts[-_NEWEST:]))
    for found in (state.final, state.measured, *tried, state.baseline):
        if found is not None and found.detectable is not None:
            return found
    return None
