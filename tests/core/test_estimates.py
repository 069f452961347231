"""Runs of earlier versions: of estimates, and those that settle a shortlist."""

from __future__ import annotations

from pathlib import Path

import pytest

from akg_tui.core import events as ev
from akg_tui.core.fold import OutOfOrder, fold
from akg_tui.core.phases import ItemState, Verdict
from akg_tui.core.state import RunState
from akg_tui.core.summary import best_of, summarize
from akg_tui.core.user_commands import can_go_on
from akg_tui.store.journal_format import inspect
from tests.core.simulated import SimulatedRun

RECORDED = Path(__file__).parents[1] / "recorded"


def recorded(name: str) -> RunState:
    """The state after a recorded journal."""
    found = inspect(RECORDED / name)
    assert found.fault is None
    state = fold(found.records)
    assert state is not None
    return state


def verdicts(state: RunState) -> list[tuple[str, Verdict]]:
    return [(a.blob, a.verdict) for a in state.attempts if a.number]


def test_a_recorded_run_of_estimates_is_read_and_claims_no_speed() -> None:
    """Of version 0.1.0: the seed at 10 µs, then 8.8 µs, a failure, and 9.5 µs."""
    state = recorded("estimate_run.jsonl")
    assert [verdict for _, verdict in verdicts(state)] == [
        Verdict.SHORTLIST, Verdict.FAIL, Verdict.DISCARD,
    ]  # fmt: skip
    assert state.item("p1").state is ItemState.SHORTLISTED
    assert (state.ok, can_go_on(state), best_of(state)) == (True, False, None)
    told = summarize(state)
    assert told["best"] is told["speedup_vs_seed"] is told["seed_ms"] is None
    assert told["verdicts"]["SHORTLIST"] == 1


def test_a_recorded_run_that_settled_a_shortlist_is_read_with_its_figures() -> None:
    """Of version 0.1.0: each kernel of the shortlist was measured against the best."""
    state = recorded("settled_run.jsonl")
    assert (state.finished, can_go_on(state)) == ("the shortlist is settled", False)
    assert verdicts(state) == [
        ("k1", Verdict.KEEP), ("k2", Verdict.DISCARD), ("k3", Verdict.FAIL),
    ]  # fmt: skip
    assert [item.blob for item in state.items] == ["k1", "k2", "k3"]
    best = best_of(state)
    assert best is not None
    assert best.fresh
    assert summarize(state)["settles"]["parent"] == "estimates"


def test_only_a_new_run_takes_a_shortlist() -> None:
    run = SimulatedRun()
    run.until_agent()
    with pytest.raises(OutOfOrder):
        run.tell(ev.ShortlistTaken("estimates", 9, "h", ()))
