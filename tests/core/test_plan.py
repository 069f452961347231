"""What a plan must have, and a PLAN.md that fits in a context window however long the run."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.kernel.knobs import read_setting, setting_key
from akg_tui.core.measurement import Interval
from akg_tui.core.phases import ItemState, Phase
from akg_tui.core.plan.plan_document import (
    direction_of,
    folded_rows,
    is_as_rendered,
    render_plan,
    split_settled,
)
from akg_tui.core.plan.submission import least_items
from akg_tui.core.state import Item, RunState
from akg_tui.core.task import Policy
from tests.core.simulated import SimulatedRun, failed, item, planned

TOKENS = 6_000
CHARACTERS_A_TOKEN = 4


def settled(text: str) -> SimulatedRun:
    """A run in PLAN whose p1 was `text` and failed."""
    run = planned(text)
    run.tries(failed("overflow"))
    assert run.state.phase is Phase.PLAN
    return run


def answer(run: SimulatedRun, *items: ev.PlannedItem) -> str:
    refused = run.send(cmd.SubmitPlan(items))
    return refused.why if refused else ""


@pytest.mark.parametrize(
    ("earlier", "again"),
    [
        ("try A=1", "Try  a=1"),
        ("A=1 B=2", "B=2 A=1"),
        ("A=1 (with B=2)", "set B=2, A=1."),
        ('FLAGS="-O3 -fast" A=1', 'A=1 FLAGS="-O3 -fast"'),
        ("Vectorise the loads with A=1", "with A=1 vectorise the loads"),
        ("x", "X"),
        ("the same", "The  same"),
    ],
)
def test_what_was_settled_is_not_planned_again_in_other_words(earlier: str, again: str) -> None:
    assert answer(settled(earlier), item(again)) == (
        f"item 1 repeats p1, which was FAILED (overflow): {earlier!r}; revise_plan can reopen p1"
    )


def test_an_item_may_not_stand_twice_in_a_plan() -> None:
    assert "repeats another item" in answer(settled("x"), item("A=1 B=2"), item("B=2 and A=1"))


@pytest.mark.parametrize(
    ("why", "told"),
    [
        ("", "15 to 400 characters, not 0"),
        ("faster", "15 to 400 characters, not 6"),
        ("faster             yes", "not 10"),
        ("x" * 401, "not 401"),
        ("Vectorise all of the loads", "only says the text again"),
    ],
)
def test_a_rationale_has_substance(why: str, told: str) -> None:
    assert told in answer(settled("x"), item("vectorise  all of the loads", why))


def test_a_plan_has_one_item_unless_the_policy_says_otherwise() -> None:
    run = settled("x")
    state = run.state
    assert least_items(state) == 1
    thinker = replace(state.task, agent=replace(state.task.agent, model="claude"))  # type: ignore[arg-type]
    run.state = replace(state, task=thinker)
    assert least_items(run.state) == 1
    assert answer(run) == "a plan has 1 to 50 items, not 0"
    assert answer(run, item("a")) == ""

    def with_policy(policy: Policy) -> RunState:
        return replace(state, task=replace(thinker, policy=policy))

    assert least_items(with_policy(Policy(min_plan_items=2))) == 2
    assert least_items(with_policy(Policy(max_rounds=3, min_plan_items=3))) == 2


PAIRS = st.dictionaries(st.sampled_from("ABCDE"), st.integers(0, 3), min_size=1)


@given(PAIRS, st.randoms(use_true_random=False))
def test_the_order_of_pairs_does_not_matter(setting, shuffler) -> None:
    pairs = [f"{name}={value}" for name, value in setting.items()]
    key = setting_key(read_setting(" ".join(pairs)))
    shuffler.shuffle(pairs)
    assert setting_key(read_setting(", ".join(pairs) + ".")) == key


@given(st.text(max_size=60).map(lambda tail: "A=" + tail))
def test_whatever_a_text_sets_can_be_read_or_left(text: str) -> None:
    for value in read_setting(text).values():
        assert isinstance(value, int | float | str)


# PLAN.md


def history(count: int, *, text: str, kept_every: int = 10, seed: int = 0) -> RunState:
    """A state with `count` settled items, and the worst that the rules allow beside them."""
    base = settled("x").state
    chance = random.Random(seed)
    items = []
    for number in range(1, count + 1):
        kept = number % kept_every == 0
        states = [ItemState.DISCARDED, ItemState.FAILED]
        items.append(
            Item(
                f"p{number}",
                text.format(number, chance.randrange(8)),
                "because",
                ItemState.KEPT if kept else chance.choice(states),
                round=number,
                attempt=1,
                ratio=Interval(1.2345, 1.2, 1.3, 0.99),
                reason="r" * 500,
                commit="c" * 40,
            )
        )
    open_items = [Item(f"p{count + n}", "o" * 400, "w" * 400) for n in range(1, 51)]
    diagnosis = ev.DiagnosisReported(
        cause="c" * 999, avoid=("a" * 500,) * 90, directions=("d" * 500,) * 90
    )
    return replace(base, items=(*items, *open_items), settled=count, diagnosis=diagnosis)


@pytest.mark.parametrize("kept_every", [1, 10, 10_000])
@pytest.mark.parametrize(
    "text", ["BLOCK={0} (with WIDTH={1})", "direction number {0} " + "x" * 370, "LEVEL={1} {0}"]
)
def test_plan_md_fits_after_a_thousand_rounds(text: str, kept_every: int) -> None:
    state = history(1_000, text=text, kept_every=kept_every)
    plan = render_plan(state)
    assert len(plan) / CHARACTERS_A_TOKEN < TOKENS
    folded, shown = split_settled(state)
    assert len(folded) + len(shown) == 1_000
    assert shown[-1].id == "p1000"
    if kept_every < 1_000:
        assert any(i.state is ItemState.KEPT for i in shown)


def test_a_short_history_is_not_folded() -> None:
    assert "by direction" not in render_plan(history(10, text="BLOCK={0}"))


@given(st.integers(0, 300), st.integers(200, 4_000), st.integers(0, 5))
def test_folding_loses_no_item_and_keeps_its_room(count: int, room: int, seed: int) -> None:
    items = history(count, text="K{1}=1 {0}", seed=seed).items[:count]
    rows = folded_rows(items, room)
    assert sum(map(len, rows)) + len(rows) <= max(room, 400)
    assert sum(int(row.split("|")[2]) for row in rows[2:]) == count


def test_a_direction_is_the_knobs_turned_or_the_first_words() -> None:
    assert direction_of("B=1 A=2 (with C=3)") == "A B"
    assert direction_of("Vectorise the inner loop | by eight") == "vectorise the inner loop"


@settings(max_examples=50)
@given(st.data())
def test_plan_md_knows_when_somebody_wrote_in_it(data) -> None:
    plan = render_plan(history(5, text="BLOCK={0}"))
    assert is_as_rendered(plan)
    at = data.draw(st.integers(0, len(plan)))
    added = data.draw(st.text(max_size=3))
    removed = data.draw(st.integers(0, 3))
    changed = plan[:at] + added + plan[at + removed :]
    assert is_as_rendered(changed) == (changed == plan)
