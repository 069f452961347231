"""The attempts of a run as tables: their results, errors by kind of input, times by case, and what
the values of knobs gain; and two of them side by side.

Pure. A row is built when it is drawn, so the cost does not depend on the length of the run.
"""

from __future__ import annotations

from collections.abc import Sequence

from akg_tui.core.kernel.knobs import literal
from akg_tui.core.measurement import (
    CaseTiming,
    InputError,
    Measurement,
    Outcome,
    digits,
    nearest_errors,
)
from akg_tui.core.phases import Verdict
from akg_tui.core.plan.knob_effects import Search, ValueEffect
from akg_tui.core.sanitize import Said, one_line
from akg_tui.core.state import Attempt, Draft, RunState
from akg_tui.core.summary import ratios_of
from akg_tui.view import formatting
from akg_tui.view.glyphs import SHORT, VERDICT, spark
from akg_tui.view.language import retold, tr, tr_in
from akg_tui.view.lazy_rows import OnDemand
from akg_tui.view.spans import Line, cells, cut, fit, hang, line

# Columns in the order of importance: in a narrow pane the last ones are beyond its edge.
_HEADS = (
    ("#", 2),
    (Said("item"), 4),
    (Said("verdict"), 9),
    (Said("ratio"), 6),
    (Said("interval"), 13),
    (Said("a call"), 8),
    (Said("eager"), 7),
    (Said("error"), 5),
    (Said("roof"), 5),
    (Said("pairs"), 5),
)


class AttemptRows(OnDemand[Line]):
    """One row per attempt below a row of column heads; the reason fills the remaining columns.

    Below them is a row for each kernel that the agent wrote and that was not correct.
    `ratio` is over the incumbent of the attempt, `eager` over the reference: with `~` where it is
    a product with what was measured before, and not measured afresh. A row may be longer than
    `room`; the first `gutter` columns tell whose row it is.
    """

    def __init__(self, state: RunState, room: int) -> None:
        self._state = state
        self._undone = frozenset(state.undone)
        self._attempts = attempts = state.attempts
        self._room = room
        last = attempts[-1] if attempts else None
        least = {"#": len(str(last.number)), "item": len(last.item)} if last else {}
        if state.drafts:
            written = max(least.get("item", 0), cells(tr("written")))
            least |= {"#": max(least.get("#", 0), len(f"w{len(state.drafts)}")), "item": written}
        self._heads: list[tuple[str, int]] = []
        self._used, fits = 0, True
        for head, wide in _HEADS:
            width = max(wide, least.get(head, 0), cells(_head(head)))
            mark = head != _HEADS[-1][0]
            if fits and self._used + width + mark > room and len(self._heads) > 2:
                # The edge and its mark cut no figure: a column that is not whole begins beyond.
                width, fits = width + max(0, room - self._used), False
            self._used += width + 1
            self._heads.append((head, width))
        self.columns = self._used - 1
        self.gutter = sum(width + 1 for _, width in self._heads[:2])

    def __len__(self) -> int:
        return len(self._attempts) + len(self._state.drafts) + 1

    def attempt(self, index: int) -> Attempt | None:
        """Return the attempt of a row, the newest in row 1; None for the row of heads."""
        return self._attempts[-index] if 0 < index <= len(self._attempts) else None

    def _made(self, index: int) -> Line:
        attempt = self.attempt(index)
        if attempt is None and index:
            return self._draft(self._state.drafts[len(self._attempts) - index])
        if attempt is None:
            heads = [(_head(head), width) for head, width in self._heads]
            told = " ".join(" " * (width - cells(head)) + head for head, width in heads)
            return line((told, "faint"))
        values = _values(self._state, attempt, undone=attempt.number in self._undone)
        ratio = attempt.measurement.ratio
        return self._row(values, formatting.verdict_reason(attempt.reason, ratio))

    def _draft(self, draft: Draft) -> Line:
        glyph, role = VERDICT[Verdict.FAIL]
        values = [(f"w{draft.round}", "number"), (tr("written"), "muted"),
                  (f"{glyph} {Verdict.FAIL}", role)]  # fmt: skip
        values += [("", "muted")] * (len(self._heads) - len(values))
        return self._row(values, draft.measurement.message)

    def _row(self, values: list[tuple[str, str]], reason: str) -> Line:
        pieces: list[tuple[str, str]] = []
        for (value, role), (_, width) in zip(values, self._heads, strict=False):
            text = cut(value, width)
            pieces.append((" " * (bool(pieces) + width - cells(text)) + text, role))
        if self._room - self._used > 12:
            pieces.append((f"  {retold(reason)}", "faint"))
        return fit(tuple(pieces), max(self._room, self.columns))


def _head(name: str) -> str:
    return name if name == "#" else tr(name)


def _values(state: RunState, attempt: Attempt, *, undone: bool) -> list[tuple[str, str]]:
    found = attempt.measurement
    glyph, role = VERDICT[attempt.verdict]
    verdict = f"{glyph} {SHORT.get(attempt.verdict, attempt.verdict)}"
    if undone:
        verdict, role = f"{glyph} UNDO", "note"
    interval = found.ratio if attempt.number else None  # the seed's is over eager, not a best
    over = ratios_of(state, attempt)
    eager = over.over_eager if over else None
    told = f"{formatting.sign(over)}{formatting.ratio(eager)}" if over and eager else ""
    off = ""
    if found.max_error is not None and found.tolerance:
        off = share(found.max_error / found.tolerance)
    reached = found.memory_share
    took = "" if found.candidate_ms is None else formatting.milliseconds(found.candidate_ms)
    if found.estimate is not None:  # of a run of an earlier version
        took = formatting.estimated(found.estimate)
    named = [
        (str(attempt.number), "number"),
        (one_line(attempt.item) if attempt.number else tr("seed"), "muted"),
        (verdict, role),
    ]
    error = (off, "verdict.fail" if attempt.verdict is Verdict.FAIL else "muted")
    return [
        *named,
        (formatting.times(interval.ratio) if interval else "", role),
        (f"{interval.low:.3f}–{interval.high:.3f}" if interval else "", "muted"),
        (took, "text"),
        (told, "figure"),
        error,
        (share(reached) if reached is not None else "", "figure"),
        (str(found.clusters) if found.clusters else "", "muted"),
    ]


Cell = tuple[str, str]
"""The text of a cell, and its role."""


def _table(
    attempts: Sequence[Attempt],
    rows: Sequence[tuple[str, Sequence[Cell]]],
    *,
    head: str,
    empty: str,
    cell: int,
    room: int,
) -> list[Line]:
    """Return a table with a row per name and a column per attempt, newest first.

    `rows` are the cells of each name, one for each of `attempts`; `head` is above the names, and
    `empty` is shown instead of a table without names.
    """
    if not rows:
        return [fit(line((empty, "faint")), room)]
    heads = [(one_line(a.item) or tr("seed"), VERDICT[a.verdict][1]) for a in attempts]
    widest = max(cells(name) for name in (head, *(name for name, _ in rows)))
    wide = min(widest, max(6, room // 3, room - len(attempts) * (cell + 1)))
    made: list[Line] = []
    for name, values in ((head, heads), *rows):
        shown = cut(name, wide)
        spans = [(shown + " " * (wide - cells(shown)), "text" if made else "faint")]
        for text, role in values[: max(1, (room - wide) // (cell + 1))]:
            short = cut(text, cell)
            spans.append((" " * (cell + 1 - cells(short)) + short, role))
        made.append(fit(tuple(spans), room))
    return made


def _columns(cell: int, room: int) -> int:
    """Return the most columns of attempts that can be seen."""
    return max(1, room // (cell + 1))


def _error(error: InputError | None) -> tuple[str, str]:
    if error is None:
        return "", "faint"
    of_bound = error.share
    if of_bound is None:
        return retold(error.note) or "-", "note"
    if not error.tolerance and not error.error:
        return tr("equal"), "muted"
    return (f"✗{share(of_bound)}", "verdict.fail") if of_bound > 1 else (share(of_bound), "muted")


def share(value: float) -> str:
    """Return a share of a bound, as of an error of its tolerance, as text: ``12 %``, ``>10``."""
    if value >= 10:
        return ">10"
    return f"{value * 100:.0f} %" if value >= 0.01 else "<1 %"


_CASE_NAME = 14  # the widest name of a case beside its figures
_CASE_CELL = 7


def case_rows(found: Measurement, room: int) -> list[Line]:
    """Return a row for each case of a measurement: its ratio and its times; none without cases."""
    wide = min(_CASE_NAME, max((cells(each.name) for each in found.cases), default=0))
    return [fit(_case(each, wide), room) for each in found.cases]


def _case(case: CaseTiming, wide: int) -> Line:
    name = cut(one_line(case.name), wide)
    told = [(name + " " * (wide - cells(name) + 1), "muted")]
    ratio, role = _case_ratio(case)
    told.append((ratio, role))
    if case.slower:
        told.append((f" {tr_in('measured', 'slower')}", role))
    if case.baseline_ms is not None and case.candidate_ms is not None:
        before, after = map(formatting.milliseconds, (case.baseline_ms, case.candidate_ms))
        told.append((f" {before} → {after}", "text"))
    return line(*told)


def _case_ratio(case: CaseTiming | None) -> tuple[str, str]:
    if case is None or case.ratio is None:
        return "", "faint"
    told = formatting.times(case.ratio.ratio)
    if case.slower:
        return told, "verdict.fail"
    return told, "verdict.keep" if case.ratio.low > 1 else "muted"


def case_columns(attempts: Sequence[Attempt], room: int) -> list[Line]:
    """Return the ratios in each case: a row per case."""
    timed = [attempt for attempt in reversed(attempts) if attempt.measurement.cases]
    timed = timed[: _columns(_CASE_CELL, room)]
    found = [{each.name: each for each in a.measurement.cases} for a in timed]
    rows = [
        (one_line(name), [_case_ratio(cases.get(name)) for cases in found])
        for name in (found[0] if found else ())
    ]
    empty = tr("no attempt was timed by case")
    return _table(timed, rows, head=tr("case"), empty=empty, cell=_CASE_CELL, room=room)


_METRIC_CELL = 13


def metric_columns(names: Sequence[str], attempts: Sequence[Attempt], room: int) -> list[Line]:
    """Return the metrics that the task declares: a row per metric."""
    told = [attempt for attempt in reversed(attempts) if attempt.measurement.metrics]
    told = told[: _columns(_METRIC_CELL, room)]
    found = [{each.name: each for each in a.measurement.metrics} for a in told]
    rows = [
        (one_line(name), [(formatting.short_metric(of.get(name)), "figure") for of in found])
        for name in (names if told else ())
    ]
    empty = tr("no attempt has a metric yet")
    return _table(told, rows, head=tr("metric"), empty=empty, cell=_METRIC_CELL, room=room)


def metric_rows(found: Measurement, room: int) -> list[Line]:
    """Return a row for each metric of a measurement; none if the task declares none."""
    return [
        row
        for each in found.metrics
        for row in hang(
            retold(str(each)), room, line((f"{one_line(each.name)} ", "muted")), "figure"
        )
    ]


def error_rows(found: Measurement, room: int) -> list[Line]:
    """Return a row for each case and dtype of a measurement: the error nearest to its bound."""
    rows: list[Line] = []
    for each in nearest_errors(found.errors):
        place = " ".join(filter(None, (tr("error"), one_line(each.case), each.dtype)))
        text, role = _error(each)
        lead = line((f"{place} ", "muted"), (f"{text} ", role))
        rows += hang(retold(each.name), room, lead, "faint")
    return rows


_KNOB_VALUE = 24
_KNOB_HEADS = ((Said("tried"), 6), (Said("mean"), 7), (Said("best"), 7))


def knob_rows(found: Search, climb: Sequence[float], room: int) -> list[Line]:
    """Return a row for each value of each knob: tries, mean and best ratio over the seed; the most
    important knob first. `climb` is the best ratio after each attempt.
    """
    every = [literal(each.value) for knob in found.knobs for each in knob.values]
    wide = min(_KNOB_VALUE, max(6, room - 26), max(map(cells, every), default=0))
    told = {"number": found.tried, "many": found.settings, "at": found.best_at,
            "measured": found.measured}  # fmt: skip
    rows = [
        fit(line((tr("{number} of {many} settings tried, the best was number {at} of {measured}",
                     **told), "text")), room),
        fit(line((spark(climb, max(4, room - 8)), "chart.best"),
                 (f" {formatting.times(climb[-1])}", "figure")), room),
    ]  # fmt: skip
    heads = "".join(f"{_head(head):>{width}}" for head, width in _KNOB_HEADS)
    rows.append(fit(line((" " * (wide + 2) + heads, "faint")), room))
    top = max((each.best or 0.0 for knob in found.knobs for each in knob.values), default=0.0)
    for knob in found.knobs:
        share_of = f"{knob.importance * 100:.0f} %" if knob.importance is not None else ""
        about = tr("explains {share} of the differences", share=share_of) if share_of else ""
        rows.append(fit(line((knob.name, "strong"), (f"  {about}", "muted")), room))
        rows += [_knob_value(each, wide, room, top) for each in knob.values]
    return rows


def _knob_value(each: ValueEffect, wide: int, room: int, top: float) -> Line:
    name = cut(one_line(literal(each.value)), wide)
    lead = line((f"  {name}{' ' * (wide - cells(name))}", "text" if each.tried else "faint"))
    if not each.tried:
        return fit((*lead, (f"{tr('untried'):>{_KNOB_HEADS[0][1] + 3}}", "note")), room)
    mean, best = (formatting.times(v) if v is not None else "-" for v in (each.mean, each.best))
    leads = each.best is not None and each.best == top
    lost = f"  {VERDICT[Verdict.FAIL][0]}{each.failed}" if each.failed else ""
    tried, middle, top_column = (width for _, width in _KNOB_HEADS)
    figures = line(
        (f"{each.tried:>{tried}}", "muted"), (f"{mean:>{middle}}", "text"),
        (f"{best:>{top_column}}", "verdict.keep" if leads else "figure"), (lost, "verdict.fail"),
    )  # fmt: skip
    return fit((*lead, *figures), room)


def name_of(attempt: Attempt) -> str:
    """Return what an attempt is called in a comparison."""
    return tr("round {number}", number=attempt.round) if attempt.number else tr("the seed")


def side_of(state: RunState, attempt: Attempt) -> tuple[Line, Line, Line, Line]:
    """Return an attempt as one side of a comparison: title, ratios, measurement, times."""
    glyph, role = VERDICT[attempt.verdict]
    title = line((f"{name_of(attempt)} ", "strong"))
    if attempt.number:
        title = line(
            *title,
            (f"{glyph} {attempt.verdict} ", role),
            (f"{attempt.item} ", "accent"),
            (one_line(state.item(attempt.item).text), "text"),
        )
    measured = attempt.measurement
    ratios = ratios_of(state, attempt)
    over = line((formatting.overall(ratios) if ratios else "", "figure"))
    if measured.outcome is not Outcome.CORRECT:
        against = line((retold(measured.message), "log.error"))
    elif attempt.number and measured.ratio:
        kernel_of = tr("over {kernel}", kernel=_name(_owner(state, attempt)))
        against = line((f"{kernel_of}: ", "muted"), formatting.sure(measured.ratio))
    elif measured.estimate is not None:
        against = line((formatting.estimated(measured.estimate), "muted"))
    else:
        against = line((tr("against eager"), "muted"))
    if attempt.advanced and attempt.number in state.undone:
        against = (*against, (f"  {tr('undone')}", "note"))
    return title, over, against, line((formatting.call_times(measured), "muted"))


def _owner(state: RunState, attempt: Attempt) -> Attempt:
    """Return the attempt whose kernel `attempt` was measured against; the seed where unknown."""
    before = state.attempts[: attempt.number]
    return next((a for a in reversed(before) if a.blob == attempt.incumbent), state.attempts[0])


def _name(attempt: Attempt) -> str:
    return tr("{item}'s kernel", item=attempt.item) if attempt.number else tr("the seed")


def between(state: RunState, left: Attempt, right: Attempt) -> Line:
    """Return the ratio of `right` over `left`; () unless one was measured against the other."""
    over = None
    if right.number and _owner(state, right) is left:
        over = right.measurement.ratio
    elif left.number and _owner(state, left) is right and left.measurement.ratio:
        over = left.measurement.ratio.inverse
    if over is None:
        return ()
    bounds = f"[{digits(over.low)}, {digits(over.high)}]"
    sure = tr("{percent} % sure", percent=f"{over.confidence * 100:.3g}")
    told = tr("{kernel} over {other}", kernel=name_of(right), other=name_of(left))
    return line(
        (f"{told}: ", "strong"),
        (f"{formatting.times(over.ratio)} {bounds}", "figure"),
        (f", {sure}, {tr('measured against each other')}", "muted"),
    )
