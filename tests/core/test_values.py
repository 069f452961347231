"""Tables, decisions, events on disk, PLAN.md and the summary."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.fold import _APPLY, OutOfOrder, evolve
from akg_tui.core.measurement import Confirmation, Interval, Measurement, Outcome
from akg_tui.core.phases import (
    ITEM_AFTER,
    ITEM_TABLE,
    WORKFLOWS,
    IllegalTransition,
    ItemState,
    Phase,
    Verdict,
)
from akg_tui.core.plan.lesson import RememberedKernel
from akg_tui.core.plan.plan_document import cell, render_plan
from akg_tui.core.sanitize import PATH_LENGTH, BadName, name_fault, one_line
from akg_tui.core.summary import summarize
from akg_tui.core.task import Files, Policy
from akg_tui.core.verdict import Decision, decide_verdict, not_proved
from tests.core.simulated import SimulatedRun, broken, failed, faster, planned, unproved


def test_every_phase_and_item_state_is_in_its_table() -> None:
    assert {phase for each in WORKFLOWS.values() for phase in each.rows} == set(Phase)
    assert set(ITEM_TABLE) == set(ItemState)
    assert set(ITEM_AFTER) == set(Verdict)
    assert set(ITEM_AFTER.values()) <= ITEM_TABLE[ItemState.ACTIVE]


def test_an_event_is_one_class_and_one_row_of_the_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tags are in the class: the journal, the clock and the engine keep no list of classes."""
    known = {kind for kind in ev.event_classes() if kind.__module__ == ev.__name__}
    assert set(get_args(ev.AnyEvent)) == known
    assert set(_APPLY) == known - {ev.RunCreated}

    class Cooled(ev.Event, frozen=True):
        by_a_person = True
        degrees: int

    monkeypatch.setitem(_APPLY, Cooled, lambda state, event, at: state)
    assert Cooled in ev.event_classes()
    assert ev.to_builtins(Cooled(degrees=40)) == {"type": "Cooled", "degrees": 40}
    run = SimulatedRun()
    run.must(cmd.Pause())
    worked = run.state.worked_s
    run.clock_off += 3600
    run.tell(Cooled(degrees=40))
    assert run.state.worked_s == worked


@given(
    low=st.floats(0.1, 5),
    up=st.floats(0, 3),
    min_gain=st.floats(0, 0.5),
)
def test_a_keep_needs_the_lower_bound_above_the_gain(low, up, min_gain) -> None:
    interval = Interval(low + up / 2, low, low + up, 0.99)
    measured = Measurement(outcome=Outcome.CORRECT, ratio=interval)
    verdict = decide_verdict(measured, min_gain).verdict
    assert (verdict is Verdict.KEEP) == (low > 1 + min_gain)
    assert verdict is not Verdict.FAIL


def test_an_incorrect_kernel_fails_however_fast_it_is() -> None:
    assert decide_verdict(failed("wrong"), 0.01).verdict is Verdict.FAIL


def test_a_gain_that_was_not_confirmed_is_no_keep() -> None:
    first = Interval(1.08, 1.03, 1.13, 0.998)
    again = Interval(1.0, 0.98, 1.02, 0.99)
    measured = Measurement(outcome=Outcome.CORRECT, ratio=first)
    assert decide_verdict(measured, 0.01).verdict is Verdict.KEEP
    agreed = msgspec.structs.replace(measured, confirmation=Confirmation(first, agrees=True))
    assert decide_verdict(agreed, 0.01).verdict is Verdict.KEEP
    refuted = msgspec.structs.replace(measured, confirmation=Confirmation(again, agrees=False))
    decision = decide_verdict(refuted, 0.01)
    assert decision.verdict is Verdict.DISCARD
    assert decision.reason == (
        "+8.0 % (+3.0 to +13.0) at first, not confirmed: measured again it was "
        "+0.0 % (-2.0 to +2.0), which reaches 0 %"
    )
    unfinished = msgspec.structs.replace(measured, confirmation=Confirmation(None, agrees=False))
    assert decide_verdict(unfinished, 0.01) == Decision(
        Verdict.DISCARD,
        "+8.0 % (+3.0 to +13.0) at first, not confirmed: no time was left to confirm it",
    )
    # An interval above 1 is not called one that reaches 1.
    strong = Confirmation(Interval(3.18, 2.64, 3.72, 0.99), agrees=False)
    reason = decide_verdict(msgspec.structs.replace(measured, confirmation=strong), 0.01).reason
    assert reason.endswith("it was +218.0 % (+164.0 to +272.0), but single calls do not show it")


@pytest.mark.parametrize(
    ("interval", "why"),
    [
        ((1.182, 0.99, 1.41), "probably faster, not proved yet: +18.2 % (-1.0 to +41.0)"),
        ((1.182, 1.05, 1.41), "faster, not confirmed yet: +18.2 % (+5.0 to +41.0)"),
        ((0.99, 0.7, 1.41), "not decided yet: -1.0 % (-30.0 to +41.0)"),
    ],
)
def test_a_spent_budget_with_a_probable_gain_is_inconclusive(
    interval: tuple[float, float, float], why: str
) -> None:
    measured = msgspec.structs.replace(
        unproved(*[0.1] * 23), ratio=Interval(*interval, confidence=0.99)
    )
    assert decide_verdict(measured, 0.01) == Decision(
        Verdict.INCONCLUSIVE, f"{why} after 23 pairs of processes; measuring again may decide it"
    )
    wrong = msgspec.structs.replace(failed("wrong"), undecided=True)
    assert decide_verdict(wrong, 0.01).verdict is Verdict.FAIL
    untimed = msgspec.structs.replace(measured, ratio=None)
    assert decide_verdict(untimed, 0.01).verdict is Verdict.DISCARD


@given(mid=st.floats(0.01, 2), half=st.floats(0.01, 1e9), excluded=st.none() | st.floats(-0.9, 1e9))
def test_every_gain_that_a_reason_calls_excluded_is_excluded(mid, half, excluded) -> None:
    ratio = Interval(mid, max(mid - half, 1e-9), mid + half, 0.99)
    measured = Measurement(outcome=Outcome.CORRECT, ratio=ratio, excluded=excluded)
    reason = decide_verdict(measured, 0.01).reason
    named = re.search(r"a gain above ([\d.]+) % is excluded at 98 %", reason)
    bound = ratio.high - 1 if excluded is None else excluded
    if named is not None:
        assert float(named[1]) / 100 >= bound - 1e-8
        assert 1 <= float(named[1]) <= 100.1
    elif ratio.low <= 1 and not reason.startswith("slower: "):
        assert bound > 1, reason
    if "slower or equal" in reason:
        assert named is not None
        assert float(named[1]) == 1


def test_a_discard_says_what_gain_is_excluded() -> None:
    wide = Measurement(
        outcome=Outcome.CORRECT,
        ratio=Interval(0.88, 0.76, 1.01, 0.99),
        detectable=0.246,
        excluded=-0.03,
    )
    assert decide_verdict(wide, 0.01).reason == (
        "0.88 ± 0.13, slower or equal: a gain above 1 % is excluded at 98 %"
    )
    near = Measurement(
        outcome=Outcome.CORRECT, ratio=Interval(1.0, 0.94, 1.06, 0.99), excluded=0.0331
    )
    assert decide_verdict(near, 0.01).reason == (
        "1.00 ± 0.06, no gain proved: a gain above 3.4 % is excluded at 98 %"
    )
    # A record without the bound has the wider interval.
    old = Measurement(outcome=Outcome.CORRECT, ratio=Interval(1.02, 0.99, 1.05, 0.99))
    assert decide_verdict(old, 0.01).reason == (
        "1.02 ± 0.03, no gain proved: a gain above 5 % is excluded at 98 %"
    )
    none = Measurement(outcome=Outcome.CORRECT, ratio=Interval(1.0, 0.1, 8.0, 0.99))
    assert decide_verdict(none, 0.01).reason == "1 (0.1 to 8), no gain proved"


def test_a_reason_says_first_that_the_machine_was_too_busy() -> None:
    busy = Measurement(
        outcome=Outcome.CORRECT,
        ratio=Interval(1.0, 0.7, 1.4, 0.99),
        undecided=True,
        detectable=0.5,
        excluded=0.3,
    )
    first = "the machine was too busy to see a gain of 10 %; "
    assert decide_verdict(busy, 0.01).reason.startswith(first + "not decided yet: ")
    assert not_proved(busy, 3).reason.startswith(first + "not proved in 3 measurements: ")
    proved = msgspec.structs.replace(busy, ratio=Interval(3.0, 1.5, 6.0, 0.99))
    assert "busy" not in decide_verdict(proved, 0.01).reason
    decided = msgspec.structs.replace(busy, undecided=False, excluded=0.04)
    assert "busy" not in decide_verdict(decided, 0.01).reason


def test_a_loss_is_called_slower_only_beyond_doubt() -> None:
    # What an equal kernel may look like at one of several looks is not called slower.
    near = Measurement(outcome=Outcome.CORRECT, ratio=Interval(0.937, 0.907, 0.968, 0.98))
    assert decide_verdict(near, 0.01).reason == (
        "0.94 ± 0.03, slower or equal: a gain above 1 % is excluded at 98 %"
    )
    far = Measurement(outcome=Outcome.CORRECT, ratio=Interval(0.5, 0.4, 0.6, 0.98))
    assert decide_verdict(far, 0.01).reason == "slower: -50.0 % (-60.0 to -40.0)"
    small = Measurement(outcome=Outcome.CORRECT, ratio=Interval(1.008, 1.004, 1.012, 0.99))
    assert decide_verdict(small, 0.01).reason == (
        "faster, but not by more than 1 % beyond doubt: +0.8 % (+0.4 to +1.2)"
    )


def test_an_error_is_nobodys_verdict() -> None:
    with pytest.raises(ValueError, match="has no verdict"):
        decide_verdict(broken(), 0.01)


def walk() -> SimulatedRun:
    texts = ("first", "second | with a bar", "third\nline \x1b[31m")
    run = planned(*texts, policy=Policy(max_rounds=3))
    for measured in (faster(2.0), failed("wrong\nvalues"), faster(1.0)):
        run.tries(measured, faster(1.95))
    return run


def test_every_event_of_a_run_survives_the_disk() -> None:
    for record in walk().records:
        raw = msgspec.json.encode(ev.to_builtins(record.event))
        assert msgspec.convert(msgspec.json.decode(raw), ev.AnyEvent) == record.event


def test_an_unknown_event_is_refused_by_name() -> None:
    with pytest.raises(msgspec.ValidationError, match="Invented"):
        msgspec.convert({"type": "Invented"}, ev.AnyEvent)


def test_a_journal_that_breaks_the_tables_is_refused() -> None:
    run = SimulatedRun()
    jump = ev.PhaseEntered(phase=Phase.DECIDE, previous=Phase.INIT)
    with pytest.raises(IllegalTransition, match="INIT cannot be followed by DECIDE"):
        evolve(run.state, ev.Record(2, 0.0, jump))
    with pytest.raises(OutOfOrder):
        evolve(run.state, ev.Record(5, 0.0, ev.Paused()))
    with pytest.raises(OutOfOrder):
        evolve(None, ev.Record(1, 0.0, ev.Paused()))


def test_plan_md_says_what_happened_in_lines_that_stay_lines() -> None:
    text = render_plan(walk().state)
    assert "| p1 | KEPT | 2.000 [1.950, 2.050] | first |" in text
    assert "| p2 | FAILED | - | second ¦ with a bar | wrong values |" in text
    assert "\x1b" not in text
    assert text.count("\n| p") == 3


@given(st.text(), st.integers(1, 200))
def test_one_line_is_one_printable_line(text, width) -> None:
    line = one_line(text, width)
    assert len(line) <= width
    assert line.isprintable()
    assert "|" not in cell(text, width)


ODD_PARTS = st.sampled_from(
    [
        "..",
        ".",
        "",
        "a",
        "kernel.py",
        "\u2025",
        "\uff0e\uff0e",
        "a\\b",
        "a\uff0fb",
        "~",
        "nul\0",
        "\ud800",
    ]
)


@given(
    st.one_of(
        st.text(max_size=60),
        st.lists(st.one_of(ODD_PARTS, st.text(max_size=9)), max_size=6).map("/".join),
        st.lists(ODD_PARTS, max_size=4).map(lambda parts: "/" + "/".join(parts)),
    )
)
def test_a_name_without_a_fault_stays_below_its_folder(name: str) -> None:
    for folders in (False, True):
        why = name_fault(name, folders=folders)
        assert why == one_line(why)
        if why:
            continue
        folder = Path("/top/run")
        place = Path(os.path.normpath(folder / name))
        assert place.is_relative_to(folder)
        assert place != folder
        assert folders or place.parent == folder
        assert len(place.relative_to(folder).parts) == name.count("/") + 1
        assert name.isprintable()
        assert name.encode()  # no lone surrogate


@pytest.mark.parametrize(
    "name", ["kernel.py", "PLAN.md.edited-3", "papers/*.md", "a..b", "..a", "漢字 ｆ.py", "n" * 255]
)
def test_the_names_that_people_give_have_no_fault(name: str) -> None:
    assert name_fault(name, folders=True) == ""


def test_a_name_as_long_as_no_file_system_takes_is_told_short() -> None:
    for name in ("n" * 10_000, "n" * 256, "/".join(["n"] * PATH_LENGTH), "\u6f22" * 86):
        assert "is too long for the name of a file" in name_fault(name, folders=True)
        assert len(name_fault(name, folders=True)) < 200


LEAVING = {
    "task.files.reference": lambda name: Files(reference=name),
    "task.files.editable": lambda name: Files(editable=("kernel.py", name)),
    "task.files.context": lambda name: Files(context=(name,)),
    "forked run_id": lambda name: ev.Forked(
        run_id=name, parent="", parent_path="", round=0, seq=1, hash="", version=""
    ),
    "salvaged run_id": lambda name: ev.RunSalvaged(run_id=name, source="", damage=""),
    "kept": lambda name: ev.PlanEdited(kept=name, sha256=""),
    "trace": lambda name: ev.SubagentStarted(subagent="s1", agent="", phase=Phase.PLAN, trace=name),
    "subagent": lambda name: ev.SubagentStarted(subagent=name, agent="", phase=Phase.PLAN),
    "path": lambda name: RememberedKernel(
        run="", attempt=1, path=name, sha256="", over_seed=Interval(1.0, 1.0, 1.0, 0.95)
    ),
}


@pytest.mark.parametrize("field", LEAVING)
@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../../x", "\x1b[31m", "x\0", "..", "a\n"])
def test_no_event_can_be_made_with_a_name_that_leaves_its_folder(field: str, name: str) -> None:
    with pytest.raises(BadName):
        LEAVING[field](name)


def test_the_summary_quotes_the_fresh_measurement_not_the_winning_sample() -> None:
    summary = summarize(walk().state)
    assert summary["speedup_vs_seed"] == 1.95
    assert summary["verdicts"] == {"KEEP": 1, "DISCARD": 1, "FAIL": 1, "INCONCLUSIVE": 0}
    assert summary["keeps"][0]["ratio"]["low"] == 1.95
    assert summary["best_commit"] == "c1"


def test_a_hint_reaches_the_next_prompt_and_is_given_once() -> None:
    run = SimulatedRun()
    run.until_agent()
    run.must(cmd.Hint("  smaller blocks "))
    assert run.state.hints == ("smaller blocks",)
    run.plan("a")
    assert run.state.hints == ()
