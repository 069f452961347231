"""What the panes hold of a run has a bound, and an earlier moment is told as it was then."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from akg_tui.core import events as ev
from akg_tui.core.phases import Phase
from akg_tui.view import agent_rows as fleets
from akg_tui.view.agent_log import MAX_OPEN, AgentLog
from akg_tui.view.agent_rows import Agent, AgentList, agent_rows
from akg_tui.view.lazy_rows import First
from akg_tui.view.subagent_log import SubagentRecords


def _life(name: str) -> list[ev.AnyEvent]:
    """A subagent's: it begins, replies, ends, and is spoken to too late."""
    return [
        ev.SubagentStarted(subagent=name, agent="scout", phase=Phase.EDIT, call=f"c{name}"),
        ev.ModelReplied(phase=Phase.EDIT, model="m", text=f"{name} looks", source=name),
        ev.ToolCalled(call=f"{name}/a", tool="read_kernel", arguments={}, source=name),
        ev.ModelReplied(phase=Phase.EDIT, model="m", text="the main one", input_tokens=5),
        ev.SubagentEnded(subagent=name, agent="scout", status="done"),
        ev.SubagentHinted(subagent=name, text="wait"),
        ev.PhaseEntered(phase=Phase.DIAGNOSE, previous=Phase.EDIT),
        ev.VisitFailed(phase=Phase.DIAGNOSE, reason=f"after {name}"),
        ev.PhaseEntered(phase=Phase.EDIT, previous=Phase.DIAGNOSE),
    ]


EVENTS = [event for number in range(12) for event in _life(f"s{number}")]
RECORDS = [ev.Record(n, float(n), event) for n, event in enumerate(EVENTS, 1)]


def _read(agent_list: AgentList, count: int) -> list[str]:
    for _ in range(count + 1):
        agent_list.read(First(RECORDS, count))
        if agent_list.seen == count:
            return [repr(row) for row in agent_rows(agent_list, 0.0, 60)]
    raise AssertionError("it never came to the end")


@given(jumps=st.lists(st.integers(0, len(RECORDS)), min_size=1, max_size=8))
def test_the_agents_at_a_moment_are_those_of_the_events_up_to_it(jumps: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fleets, "MOST", 7)
        agent_list = AgentList()
        for count in (*jumps, len(RECORDS), *jumps):
            assert _read(agent_list, count) == _read(AgentList(), count)


def test_a_subagent_s_part_is_where_it_stands_and_none_of_its_events() -> None:
    agent = Agent("s3 scout", "", "working", 0.0, ident="s3")
    part = SubagentRecords()
    whole = [r.seq for r in part.read(RECORDS, agent)]
    assert whole == [28, 29, 30, 32, 33]
    assert [r.seq for r in part.read(First(RECORDS, 30), agent)] == [28, 29, 30]
    grown = part.read(RECORDS, replace(agent, state="done", last=32))
    assert [r.seq for r in grown] == whole
    assert isinstance(grown[1].event, ev.ModelReplied)
    assert grown[1].event.source == "", "it is told as the subagent's own"
    assert list(part.read(RECORDS, None)) == []
    other = Agent("s4 scout", "", "working", 0.0, ident="s4")
    assert [r.seq for r in part.read(RECORDS, other)] == [37, 38, 39, 41, 42]


def test_an_answer_to_a_call_of_long_ago_lacks_its_call() -> None:
    log = AgentLog(80)
    ops: dict[str, object] = {"ops": [{"op": "replace"}]}
    events: list[ev.AnyEvent] = [
        ev.ToolCalled(call=f"c{n}", tool="edit_kernel", arguments=ops) for n in range(MAX_OPEN + 1)
    ]
    events += [ev.ToolAnswered(call=c, tool="edit_kernel", status="success") for c in ("c0", "c1")]
    records = [ev.Record(n, 0.0, event) for n, event in enumerate(events, 1)]
    for count in range(0, len(records) + 100, 100):
        log.read(records[:count])
    for number in log.numbers:
        log.fold(number)
    assert [len(log.span(number)) > 1 for number in log.numbers] == [False, True]


def test_the_first_of_a_sequence_are_those_of_a_list() -> None:
    first = First(list(range(10)), 7)
    assert list(first) == list(range(7))
    assert (first[-1], first[0], len(first)) == (6, 0, 7)
    assert (first[2:], first[:99], first[5:2], first[::2]) == (
        [2, 3, 4, 5, 6],
        list(range(7)),
        [],
        [0, 2, 4, 6],
    )
    with pytest.raises(IndexError):
        first[7]
