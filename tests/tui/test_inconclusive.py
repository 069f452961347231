"""What the screens say of a gain that was not proved, and of a kernel that is measured again."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.phases import Verdict
from akg_tui.view.attempt_rows import AttemptRows
from akg_tui.view.event_words import line_texts
from akg_tui.view.glyphs import VERDICT, ascii_twin
from akg_tui.view.plan_rows import plan_view
from akg_tui.view.run_chart import AttemptSeries
from akg_tui.view.spans import Line, plain, width
from akg_tui.view.status import header
from tests.core.simulated import SimulatedRun, faster, planned, unproved


def shown(rows: Iterable[Line]) -> str:
    return "\n".join(plain(row) for row in rows)


def waiting() -> SimulatedRun:
    """The first item waits for another measurement, the second is active."""
    run = planned("BLOCK = 64", "BLOCK = 32")
    run.tries(unproved(*[0.1] * 23))
    return run


def test_a_waiting_item_says_so_with_its_interval() -> None:
    state = waiting().state
    wide = shown(plan_view(state, 200, 40).rows)
    assert "≃ p1 BLOCK = 64  probably faster, not proved yet: +18.0 % (-1.0 to +41.0)" in wide
    assert "1.18× [0.990, 1.410] INCONCL" in wide
    narrow = plan_view(state, 34, 40).rows
    assert "1.18× INCONCL probably" in shown(narrow)
    assert all(width(row) <= 34 for row in narrow)
    told = shown(plan_view(state, 100, 40, {"p1"}).rows)
    assert "state INCONCLUSIVE in round 1" in told
    assert "the harness measures the same kernel again when its turn comes" in told


def test_an_unfolded_item_shows_its_last_measurement_and_who_makes_the_next_kernel() -> None:
    run = waiting()
    run.must(cmd.AddItem("BLOCK = 16", before="p1"))
    run.tries(faster(2.0))
    told = shown(plan_view(run.state, 100, 40, {"p1"}).rows)
    assert "the best kernel changed since: the agent makes a new one" in told
    again = waiting()
    again.tries(faster(1.0), faster(1.3))
    told = shown(plan_view(again.state, 100, 40, {"p1"}).rows)
    assert "attempt 3, commit c3" in told


def test_a_discarded_item_that_a_person_wants_measured_again_is_not_called_inconclusive() -> None:
    run = planned("BLOCK = 64", "BLOCK = 32")
    run.tries(faster(1.0, half=0.1))
    run.must(cmd.Remeasure("p1"))
    rows = shown(plan_view(run.state, 150, 40).rows)
    assert "◦ p1 ‣ BLOCK = 64  1.00 ± 0.10, no gain proved" in rows
    demanded = next(r.event for r in run.records if isinstance(r.event, ev.MeasurementDemanded))
    assert [line.split() for line in line_texts(demanded, "log", str)] == [
        ["you", "measure", "p1", "again", "(attempt", "1)"]
    ]


def test_evidence_too_noisy_for_any_gain_names_none() -> None:
    run = planned("BLOCK = 64", "BLOCK = 32")
    run.tries(replace(faster(1.0, half=0.1), deviation=0.9, detectable=45765952.294))
    told = shown(plan_view(run.state, 100, 40, {"p1"}).rows)
    assert "noise pairs differ by 90.0 %" in told
    assert "would" not in told


def test_attempts_counts_and_chart_show_the_verdict_only_where_there_is_one() -> None:
    state = waiting().state
    assert "1   p1 ≃ INCONCL  1.18×   0.990–1.410" in shown(AttemptRows(state, 100))
    series = AttemptSeries()
    series.read(state)
    assert series.has(Verdict.INCONCLUSIVE)
    assert "≃1" in plain(header(state, 0.0, 160))
    plain_run = planned("a", "b")
    plain_run.tries(faster(1.0))
    series = AttemptSeries()
    series.read(plain_run.state)
    assert not series.has(Verdict.INCONCLUSIVE)
    assert "≃" not in plain(header(plain_run.state, 0.0, 160))


def test_every_verdict_has_a_sign_of_its_own_also_in_ascii_beside_its_word() -> None:
    signs = {verdict: glyph for verdict, (glyph, _) in VERDICT.items()}
    assert set(signs) == set(Verdict)
    assert len({*signs.values()}) == len({ascii_twin(sign) for sign in signs.values()}) == 5
