"""The past of a run is the fold of its first events, wherever one looks and in which order."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from akg_tui.core import events as ev
from akg_tui.core.fold import OutOfOrder, fold
from akg_tui.core.past_states import Past
from tests.tui.script import FakeHandle


@cache
def run() -> tuple[ev.Record, ...]:
    handle = FakeHandle().work()
    return tuple(handle.records)


@given(
    st.lists(st.integers(1, len(run())), min_size=1, max_size=8),
    st.integers(1, 40),
    st.integers(1, 6),
    st.integers(0, len(run())),
)
def test_the_state_at_an_event_is_the_fold_of_the_events_up_to_it(
    jumps: list[int], every: int, most: int, at_hand: int
) -> None:
    records = run()
    past = Past(records, every=every, most=most)
    past.extend(at_hand or 1)
    for seq in jumps:
        assert past.at(seq) == fold(records[:seq])
        assert past.kept <= most
    assert past.extend() == fold(records)


def test_rounds_are_where_they_were_settled() -> None:
    past = Past(run())
    settled = [r for r in run() if isinstance(r.event, ev.Decided)]
    assert [m.seq for m in past.marks][1:] == [r.seq for r in settled]
    assert past.marks[0].round == 0
    assert past.round_at(1) is None
    last = past.marks[-1]
    assert past.round_at(last.seq) == last
    assert past.round_at(last.seq - 1) == past.marks[-2]


@given(st.integers(1, len(run())))
def test_from_round_to_round_and_back(seq: int) -> None:
    past = Past(run())
    ends = [mark.seq for mark in past.marks]
    after, before = past.next_round(seq, 1), past.next_round(seq, -1)
    assert after == next((e for e in ends if e > seq), len(run()))
    assert before == next((e for e in reversed(ends) if e < seq), 1)


def test_there_is_no_event_before_the_first_or_after_the_last() -> None:
    past = Past(run())
    for seq in (0, len(run()) + 1):
        with pytest.raises(IndexError, match="there are 1 to"):
            past.at(seq)


def test_an_event_that_breaks_the_rules_is_told_by_how_far_it_was_folded() -> None:
    past = Past([*run()[:20], run()[30]])
    with pytest.raises(OutOfOrder):
        past.extend()
    assert past.folded == 20
