"""Streams of events that go side by side: in whatever order they are journaled, they add up."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from akg_tui.core import events as ev
from akg_tui.core.fold import evolve
from akg_tui.core.phases import Gate, Phase
from akg_tui.core.state import RunState
from tests.core.simulated import planned

Stream = list[ev.AnyEvent]


def subagent(number: int, turns: int, *, ends: bool) -> Stream:
    """A subagent that answers a tool call of the agent: so many turns, each with a tool."""
    name, call = f"s{number}", f"call{number}"
    told: Stream = [ev.SubagentStarted(subagent=name, agent="a", phase=Phase.EDIT, call=call)]
    for turn in range(turns):
        own = f"{name}/{turn}"
        told += [
            ev.ModelReplied(
                phase=Phase.EDIT, model="m", source=name, tool_calls=1,
                input_tokens=number, output_tokens=1,
            ),
            ev.ToolCalled(call=own, tool="read_kernel", arguments={}, source=name),
            ev.ToolAnswered(call=own, tool="read_kernel", status="success", source=name),
        ]  # fmt: skip
    if ends:
        told += [
            ev.SubagentEnded(subagent=name, agent="a", status="done", calls=turns),
            ev.ToolAnswered(call=call, tool="subagent", status="success"),
        ]
    return told


PERSON: Stream = [
    ev.GateChanged(gate=Gate.PLAN, on=True),
    ev.HintGiven(text="look at the caches"),
    ev.ItemAdded(item=ev.PlannedItem("p2", "C=1", "")),
    ev.ItemPinned(item="p2", pinned=True),
]
JUDGE: Stream = [ev.TimingQueued(waits=True), ev.TimingQueued(waits=False)]


@st.composite
def streams(draw: st.DrawFn) -> list[Stream]:
    agents = [
        subagent(number, draw(st.integers(0, 4)), ends=draw(st.booleans()))
        for number in range(1, draw(st.integers(2, 4)) + 1)
    ]
    return [*agents, PERSON, JUDGE]


def folded(state: RunState, events: Stream) -> RunState:
    """The state after these events, all at one time; each step is checked on its own."""
    replies: Counter[str] = Counter()
    at_work: list[str] = []
    for event in events:
        state = evolve(state, ev.Record(state.seq + 1, state.last_at, event))
        match event:
            case ev.SubagentStarted():
                at_work.append(event.subagent)
            case ev.SubagentEnded():
                at_work.remove(event.subagent)
            case ev.ModelReplied():
                replies[event.source] += 1
        assert [one.id for one in state.subagents] == at_work
        for one in state.subagents:
            assert (one.calls, one.output_tokens) == (replies[one.id], replies[one.id])
            assert one.prompt_tokens == int(one.id[1:]) * replies[one.id]
    return state


def unordered(state: RunState) -> RunState:
    """The state without the order in which things came that do not depend on one another."""
    by_text: dict[str, Any] = {
        name: tuple(sorted(getattr(state, name), key=repr))
        for name in ("subagents", "open_calls", "recent_calls")
    }
    return replace(state, **by_text)


@given(streams(), st.randoms(use_true_random=False))
def test_streams_of_events_add_up_in_whatever_order_they_come(
    told: list[Stream], dice: Any
) -> None:
    run = planned("A=1")
    run.tell(ev.ModelReplied(phase=Phase.EDIT, model="m", tool_calls=len(told)))
    for number in range(1, len(told) - 1):
        run.tell(ev.ToolCalled(call=f"call{number}", tool="subagent", arguments={}))
    whose = [at for at, stream in enumerate(told) for _ in stream]
    dice.shuffle(whose)
    left = [iter(stream) for stream in told]
    mixed = folded(run.state, [next(left[at]) for at in whose])
    in_turn = folded(run.state, [event for stream in told for event in stream])
    assert unordered(mixed) == unordered(in_turn)
    assert mixed.item("p1") == run.state.item("p1")
    assert mixed.active == "p1"
