"""A run of an earlier version that ranked by estimates: each is marked, and no speed is claimed."""

from __future__ import annotations

import re

from akg_tui.core.fold import fold
from akg_tui.store.journal_format import inspect
from akg_tui.store.run_list import summary_of
from akg_tui.view.attempt_rows import AttemptRows, side_of
from akg_tui.view.evaluation_rows import EstimateHistory, eval_rows
from akg_tui.view.event_words import line_texts
from akg_tui.view.plan_rows import plan_view
from akg_tui.view.spans import plain
from akg_tui.view.status import header, sparkline, status
from tests.core.test_estimates import RECORDED

RATIO = re.compile(r"(?<!1\.00)×|\d x\b|faster|slower|speedup")


def test_no_figure_on_the_screen_claims_a_speed() -> None:
    records = inspect(RECORDED / "estimate_run.jsonl").records
    state = fold(records)
    shown = [
        plain(header(state, 0.0, 160)),
        plain(status(state, "", None, 0.0, 160)),
        plain(sparkline(state, 120)),
        *(plain(row) for row in AttemptRows(state, 160)),
        *(plain(row) for row in plan_view(state, 100, 40, {"p1"}).rows),
        *(plain(row) for row in eval_rows(state, EstimateHistory(), 0.0, 80, 20)),
        *map(plain, side_of(state, state.attempts[1])),
        *(line for each in records for line in line_texts(each.event, "plain", str)),
        summary_of("runs/r", state, None).line(),
    ]
    assert [line for line in shown if RATIO.search(line)] == []
    told = [line for line in shown if "8.81" in line]
    assert len(told) > 3
    assert [line for line in told if "~8.81" not in line] == []
    assert "≋1" in shown[0]
