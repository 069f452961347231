"""The roofline of a run: what the limits of its cases are, and how near its kernels come.

No I/O. Times come from the journal, limits and findings from whoever found them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from akg_tui.core.measurement import Interval
from akg_tui.core.state import Attempt, RunState
from akg_tui.core.summary import CasesOverSeed, Ratios, candidate_of, ratios_of
from akg_tui.evidence.roof import NEAR, Roof
from akg_tui.view import formatting
from akg_tui.view.glyphs import LIVE, VERDICT
from akg_tui.view.language import retold, tr
from akg_tui.view.run_chart import Scale, log_ticks, row_of, x_axis
from akg_tui.view.spans import BLANK, Line, Span, cells, cut, fit, hang, line, width

_LABEL = 7
LEAST_CHART = 6
_EAGER = "◦"
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # braille, by row and side


Times = Mapping[str, float]  # milliseconds by case; "" is a task without cases


class Kernels(NamedTuple):
    """The times of the kernels whose points are drawn, and of all attempts.

    A time is the seed's, divided by the kernel's ratio over the seed: times that were measured at
    different moments of a busy machine would rank the kernels differently than their verdicts do.
    `busy`: the machine was, when the seed was timed.
    """

    eager: Times
    best: Times
    candidate: Times
    attempts: tuple[tuple[Attempt, Times], ...]
    busy: bool = False


def kernels_of(state: RunState) -> Kernels:
    """Return the times of eager, of the best kernel and of the newest other kernel with times."""
    seed = state.baseline
    if seed is None or state.best is None:
        return Kernels({}, {}, {}, ())
    parts = [("", seed.candidate_ms, seed.ratio)]
    parts += [(case.name, case.candidate_ms, case.ratio) for case in seed.cases]
    base = {name: ms for name, ms, _ in parts if ms}
    eager = {name: base[name] * r.ratio for name, _, r in parts if name in base and r}
    by_case = CasesOverSeed()
    over = {each.number: _over_seed(ratios_of(state, each), by_case.read(each))
            for each in state.attempts}  # fmt: skip
    best = over.get(state.best.attempt, {})
    newest: Mapping[str, float] = {}
    if state.measured is not None and (whole := candidate_of(state)):
        timed = {each.name: each.ratio for each in state.measured.cases if each.ratio}
        newest = {name: best.get(name, 1.0) * ratio.ratio for name, ratio in timed.items()}
        newest = {**newest, "": whole.over_seed.ratio}
    else:
        others = (over[n] for n in reversed(over) if n and n != state.best.attempt)
        newest = next((each for each in others if each), {})

    def times(ratios: Mapping[str, float]) -> Times:
        return {name: base[name] / ratio for name, ratio in ratios.items() if name in base}

    attempts = tuple((each, times(over[each.number])) for each in state.attempts)
    return Kernels(eager, times(best), times(newest), attempts, bool(seed.noise))


def _over_seed(whole: Ratios | None, cases: Mapping[str, Interval]) -> dict[str, float]:
    ratios = {name: each.ratio for name, each in cases.items()}
    return ratios | ({"": whole.over_seed.ratio} if whole else {})


class LimitsView(NamedTuple):
    """All that the pane draws. `waits` says why there are no limits yet."""

    roofs: tuple[Roof, ...]
    kernels: Kernels
    waits: str


def limits_rows(view: LimitsView, room: int, height: int) -> list[Line]:
    """Return the chart, the table by case and the attempts, the newest first.

    Where `height` leaves no room for the chart above the table, the chart is below it.
    """
    if not view.roofs:
        return hang(view.waits, room, (), "muted")
    parts = [_table(view, room)]
    high = height - len(parts[0]) - 2
    drawn = [roof for roof in view.roofs if roof.operations and roof.bandwidth and roof.peak]
    if drawn and room >= 30:
        most = max(LEAST_CHART, height * 2 // 3)
        fits = high >= LEAST_CHART
        chart = _chart(drawn, view.kernels, room, min(high, most) if fits else most)
        parts.insert(0 if fits else 1, [*chart, _legend(room)])
    parts.append(_attempts(view, room))
    rows = [row for part in parts if part for row in (BLANK, *part)][1:]
    return [fit(row, room) for row in rows]


def _points(roof: Roof, kernels: Kernels) -> list[tuple[float, str, str]]:
    """Return time, sign and role of each kernel in a case, the most important last."""
    times = (
        (kernels.eager.get(roof.case), _EAGER, "muted"),
        (kernels.candidate.get(roof.case), LIVE, "chart.live"),
        (kernels.best.get(roof.case), VERDICT_SIGN, "verdict.keep"),
    )
    return [(time, sign, role) for time, sign, role in times if time]


VERDICT_SIGN = next(iter(VERDICT.values()))[0]


def _legend(room: int) -> Line:
    told = line(
        (f"{VERDICT_SIGN} {tr('best')}  ", "verdict.keep"),
        (f"{LIVE} {tr('candidate')}  ", "chart.live"),
        (f"{_EAGER} {tr('eager')}  ", "muted"),
        (f"⣀⠤⠒ {tr('roof')}", "chart.best"),
        (f"   {tr('down: GFLOP/s, across: operations a byte')}", "faint"),
    )
    return fit(told, room)


def _chart(roofs: Sequence[Roof], kernels: Kernels, room: int, height: int) -> list[Line]:
    """Draw roofs and points on logarithmic axes: operations a second over operations a byte."""
    columns, rows = room - _LABEL - 1, height - 1
    points = [
        (roof.intensity, roof.operations / (time * 1e-3), sign, role)
        for roof in roofs
        for time, sign, role in _points(roof, kernels)
    ]
    ridges = [roof.peak / roof.bandwidth for roof in roofs]
    xs = [*(roof.intensity for roof in roofs), *ridges]
    low, high = math.log(min(xs) / 3), math.log(max(xs) * 3)
    ys = [y for _, y, _, _ in points] + [roof.peak for roof in roofs]
    ys += [min(roof.peak, roof.bandwidth * math.exp(low)) for roof in roofs]
    scale = Scale([y / 1e9 for y in ys], 4 * rows)
    dots: list[dict[int, int]] = [{} for _ in range(rows)]
    across = (2 * columns - 1) / (high - low)

    def at(x: float) -> int:
        return round((math.log(x) - low) * across)

    for bandwidth, peak in {(roof.bandwidth, roof.peak) for roof in roofs}:
        before = -1
        for x in range(2 * columns):
            here = scale.at(min(peak, math.exp(low + x / across) * bandwidth) / 1e9)
            for y in range(here, max(before, here + 1)):  # a roof never falls
                dots[y // 4][x // 2] = dots[y // 4].get(x // 2, 0) | _DOTS[y % 4][x % 2]
            before = here
    signs: list[dict[int, Span]] = [
        {x: (chr(0x2800 + bits), "chart.best") for x, bits in row.items()} for row in dots
    ]
    for intensity, done, sign, role in points:
        signs[scale.at(done / 1e9) // 4][min(columns - 1, at(intensity) // 2)] = sign, role
    labels = {scale.at(t) // 4: f"{t:g}".rjust(_LABEL)[:_LABEL] for t in scale.ticks(rows // 2)}
    drawn: list[Line] = [
        ((labels.get(n, " " * _LABEL), "chart.axis"), ("┤" if n in labels else "│", "chart.axis"),
         *row_of(signs[n], columns))
        for n in range(rows)
    ]  # fmt: skip
    ticks = log_ticks(math.exp(low), math.exp(high), max(1, columns // 10))
    return [*drawn, x_axis([(at(x) // 2, f"{x:g}") for x in ticks], _LABEL, columns)]


def binds_words(roof: Roof) -> str:
    """Return the side of a case that binds, with its rate."""
    if roof.binds == "memory":
        return tr(
            "memory: {level} {rate} GB/s", level=roof.level, rate=f"{roof.bandwidth / 1e9:.3g}"
        )
    if roof.binds == "arithmetic":
        return tr(
            "arithmetic: {dtype} {rate} GFLOP/s", dtype=roof.dtype, rate=f"{roof.peak / 1e9:.3g}"
        )
    return tr("no rate of this machine was measured")


def _table(view: LimitsView, room: int) -> list[Line]:
    """Return by case which side binds, and which share of it the kernels reach."""
    kernels = view.kernels
    rows: list[Line] = []
    for roof in view.roofs:
        name = f"{roof.case}  " if roof.case else ""
        if roof.unknown:
            rows.append(line((name, "strong"), (retold(roof.unknown, 200), "muted")))
            continue
        told = f"{size(roof.moved_bytes)}, {count(roof.operations)}: "
        rows.append(line((name, "strong"), (told, "muted"), (binds_words(roof), "text")))
        shares = [
            (VERDICT_SIGN, tr("best"), roof.share(kernels.best.get(roof.case))),
            (LIVE, tr("candidate"), roof.share(kernels.candidate.get(roof.case))),
            (_EAGER, tr("eager"), roof.share(kernels.eager.get(roof.case))),
        ]
        known = [(sign, word, value) for sign, word, value in shares if value is not None]
        parts = [
            line((f"  {sign} {word} {formatting.percent_of(value)}", "figure"))
            for sign, word, value in known
        ]
        least = tr("at least {time} a call", time=formatting.milliseconds(roof.least_s * 1e3))
        parts.append(line((f"   {least}", "muted")))
        reached: Line = ()
        for part in parts:  # a figure is never cut off
            if reached and width(reached) + width(part) > room:
                rows.append(reached)
                reached = ()
            reached = (*reached, *part)
        rows.append(reached)
        top = max((value for _, _, value in known), default=None)
        if top is not None and top < NEAR and not kernels.busy:  # which slows a call as well
            far = tr("far from the limit: it waits, repeats work, has overhead, or takes functions "
                     "such as exp, which are not counted")  # fmt: skip
            rows += hang(far, room - 2, (("  ", "text"),), "note")
    return rows


def _attempts(view: LimitsView, room: int) -> list[Line]:
    """Return the share of the limit of each attempt, the newest first."""
    rows: list[Line] = []
    for attempt, times in reversed(view.kernels.attempts):
        shares = [
            (roof.case, share)
            for roof in view.roofs
            if (share := roof.share(times.get(roof.case))) is not None
        ]
        if not shares:
            continue
        sign, role = VERDICT[attempt.verdict]
        name = formatting.attempt(attempt.number)
        told = "  ".join(f"{case} {formatting.percent_of(share)}".strip() for case, share in shares)
        rows.append(line((f"{sign} ", role), (f"{name} ", "text"), (told, "figure")))
    if rows:
        rows.insert(0, line((tr("share of the limit that binds, by attempt"), "muted")))
    return rows


def size(amount: int) -> str:
    """Return bytes as text."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if amount >= scale:
            return f"{amount / scale:.3g} {unit}"
    return f"{amount} B"


def count(operations: int) -> str:
    """Return a number of operations as text."""
    for unit, scale in (("GFLOP", 1e9), ("MFLOP", 1e6), ("kFLOP", 1e3)):
        if operations >= scale:
            return f"{operations / scale:.3g} {unit}"
    return f"{operations} FLOP"


def title_of(view: LimitsView, room: int) -> str:
    """Return the title of the pane: the nearest limit of the best kernel, if there is one."""
    known = [
        (share, roof)
        for roof in view.roofs
        if (share := roof.share(view.kernels.best.get(roof.case))) is not None
    ]
    if not known:
        return tr("roofline")
    share, roof = max(known, key=lambda each: each[0])
    side = tr("memory") if roof.binds == "memory" else tr("arithmetic")
    told = tr(
        "roofline: the best reaches {share} of {side}",
        share=formatting.percent_of(share),
        side=side,
    )
    return cut(told, room) if cells(told) > room else told
