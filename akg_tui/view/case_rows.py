"""The cases of a task as rows: those of one measurement, and attempts × cases.

Pure. A row of the table is built when it is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence

from akg_tui.core.measurement import CaseTiming, Measurement
from akg_tui.core.sanitize import one_line
from akg_tui.core.state import Attempt
from akg_tui.view import formatting
from akg_tui.view.glyphs import VERDICT
from akg_tui.view.language import tr, tr_in
from akg_tui.view.lazy_rows import OnDemand
from akg_tui.view.spans import Line, cells, cut, fit, line

_NAME = 14  # the widest name of a case beside its figures
_CELL = 7


def case_rows(found: Measurement, room: int) -> list[Line]:
    """Return a row for each case of a measurement: its ratio and its times; none without cases."""
    wide = min(_NAME, max((cells(each.name) for each in found.cases), default=0))
    return [fit(_case(each, wide), room) for each in found.cases]


def _case(case: CaseTiming, wide: int) -> Line:
    name = cut(one_line(case.name), wide)
    told = [(name + " " * (wide - cells(name) + 1), "muted")]
    ratio, role = _ratio(case)
    told.append((ratio, role))
    if case.slower:
        told.append((f" {tr_in('measured', 'slower')}", role))
    if case.baseline_ms is not None and case.candidate_ms is not None:
        before, after = map(formatting.milliseconds, (case.baseline_ms, case.candidate_ms))
        told.append((f" {before} → {after}", "text"))
    return line(*told)


def _ratio(case: CaseTiming | None) -> tuple[str, str]:
    if case is None or case.ratio is None:
        return "", "faint"
    told = formatting.times(case.ratio.ratio)
    if case.slower:
        return told, "verdict.fail"
    return told, "verdict.keep" if case.ratio.low > 1 else "muted"


class CaseRows(OnDemand[Line]):
    """A row per case, a column per attempt, newest first: the ratio in that case."""

    def __init__(self, attempts: Sequence[Attempt], room: int) -> None:
        timed = [attempt for attempt in reversed(attempts) if attempt.measurement.cases]
        names = dict.fromkeys(each.name for a in timed[:1] for each in a.measurement.cases)
        self._names = [*names]
        widest = max((cells(name) for name in names), default=0)
        self._wide = min(widest, max(6, room // 3))
        self._shown = timed[: max(1, (room - self._wide) // (_CELL + 1))]
        self._cases = [{each.name: each for each in a.measurement.cases} for a in self._shown]
        self._room = room

    def __len__(self) -> int:
        return len(self._names) + 1

    def _made(self, index: int) -> Line:
        if index == 0:
            if not self._names:
                return fit(line((tr("no attempt was timed by case"), "faint")), self._room)
            heads = [
                (one_line(attempt.item) or tr("seed"), VERDICT[attempt.verdict][1])
                for attempt in self._shown
            ]
            return self._row(tr("case"), heads, "faint")
        name = self._names[index - 1]
        return self._row(name, [_ratio(cases.get(name)) for cases in self._cases], "text")

    def _row(self, name: str, values: Sequence[tuple[str, str]], role: str) -> Line:
        head = cut(one_line(name), self._wide)
        spans = [(head + " " * max(0, self._wide - cells(head)), role)]
        for text, of in values:
            short = cut(text, _CELL)
            spans.append((" " * (_CELL + 1 - cells(short)) + short, of))
        return fit(tuple(spans), self._room)
