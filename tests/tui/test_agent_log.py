from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from akg_tui.core import events as ev
from akg_tui.core.measurement import FailureKind, Measurement, Outcome
from akg_tui.core.phases import Phase
from akg_tui.tui.panes.log import unsaid
from akg_tui.view.agent_log import MAX_ENTRIES, MAX_TEXT_LINES, AgentLog
from akg_tui.view.spans import plain, width

from .script import FakeHandle


def told(log: AgentLog) -> list[str]:
    return [plain(row) for row in log.rows]


def log_of(handle: FakeHandle, room: int) -> AgentLog:
    log = AgentLog(room)
    log.read(handle.records)
    return log


def test_a_tool_call_and_its_answer_are_one_line() -> None:
    log = log_of(FakeHandle().to_phase(Phase.EVAL), 80)
    rows = told(log)
    assert "› submit_plan ok" in rows
    assert "› edit_kernel +1 -1 FLAGS = -O3 ok" in rows


def test_an_unfolded_call_tells_its_arguments_and_its_answer() -> None:
    log = log_of(FakeHandle().to_phase(Phase.EVAL), 80)
    row = told(log).index("› edit_kernel +1 -1 FLAGS = -O3 ok")
    number = log.at(row)
    assert number is not None
    before = told(log)
    log.fold(number)
    rows = told(log)
    assert rows[row] == "▾ edit_kernel success"
    assert '      "op": "replace"' in rows
    assert [rows[n] for n in log.span(number)][-1] == "  ok"
    log.fold(number)
    assert told(log) == before


@pytest.mark.parametrize("room", [120, 44, 30])
def test_the_caret_of_a_compilers_excerpt_stays_below_its_place_at_every_width(room: int) -> None:
    source = "   12 |     float sum = first + missing_name + second + third + fourth_term_of_it;"
    caret = "      |" + " " * (source.index("missing") - 7) + "^~~~~~~~~~~~"
    detail = f"kernel.cpp:12:25: error: 'missing_name' was not declared\n{source}\n{caret}"
    failed = Measurement(
        outcome=Outcome.FAILED, failure=FailureKind.BUILD, message="m", detail=detail
    )
    event = ev.EvalFinished(purpose=ev.Purpose.CANDIDATE, attempt=1, measurement=failed)
    log = AgentLog(room)
    log.read([ev.Record(1, 0.0, event)])
    rows = told(log)
    below = next(n for n, row in enumerate(rows) if "^~" in row)
    at = rows[below].index("^")
    assert rows[below - 1][at:].startswith("missing"[: room - at])
    assert all(len(row) <= room for row in rows)


def test_every_row_belongs_to_one_entry_whatever_is_unfolded_and_dropped() -> None:
    log = AgentLog(40)
    records: list[ev.Record] = []
    for number in range(2 * MAX_ENTRIES + 50):
        text = "\n".join(f"{number} {n}" for n in range(9))
        records.append(
            ev.Record(number, 0.0, ev.ModelReplied(phase=Phase.PLAN, model="m", text=text))
        )
        if number % 500 == 3:
            log.read(records)
            log.fold(log.numbers[-1])
    log.read(records)
    assert len(log.numbers) <= 2 * MAX_ENTRIES
    assert log.dropped_rows > 0
    rows = told(log)
    for number in log.numbers:
        span = log.span(number)
        assert log.at(span.start) == log.at(span.stop - 1) == number
        assert rows[span.start].endswith(f"{number} 0")
    assert sum(len(log.span(n)) for n in log.numbers) == len(rows)


def test_turning_the_pages_stops_at_each_reply() -> None:
    handle = FakeHandle().work()
    log = log_of(handle, 80)
    number: int | None = -1
    replies = 0
    while (number := log.turn(number, 1)) is not None:
        replies += 1
    assert replies == sum(isinstance(r.event, ev.ModelReplied) for r in handle.records)


def test_a_refused_call_tells_why() -> None:
    handle = FakeHandle().to_phase(Phase.PLAN)
    handle.tell(ev.ToolCalled(call="x", tool="edit_kernel", arguments={}))
    handle.tell(
        ev.ToolAnswered(
            call="x", tool="edit_kernel", status="error", error_information="not in PLAN\nmore"
        )
    )
    log = log_of(handle, 80)
    assert told(log)[-2:] == ["› edit_kernel refused", "  not in PLAN"]


def test_every_verdict_is_told_with_its_sign() -> None:
    log = log_of(FakeHandle().work(), 120)
    rows = "\n".join(told(log))
    assert "✓ KEEP p1 faster: +31.0 % (+27.1 to +34.9)" in rows
    assert "▪ DISCARD p4 slower" in rows
    assert "✗ FAIL p5 values differ" in rows
    assert "the run is over" in rows


STORY = FakeHandle().work().records


@given(st.lists(st.integers(0, len(STORY)), max_size=8))
def test_wherever_a_reader_jumps_the_log_is_that_of_the_records_up_to_there(
    jumps: list[int],
) -> None:
    jumped, whole = AgentLog(50), AgentLog(50)
    for end in (*jumps, len(STORY), *jumps, 20):
        jumped.read(STORY[:end])
    whole.read(STORY[:20])
    assert told(jumped) == told(whole)


def test_another_width_wraps_what_was_read_before() -> None:
    log = log_of(FakeHandle().work(), 100)
    assert log.resize(30)
    assert all(width(row) <= 30 for row in log.rows)
    assert not log.resize(30)


def test_far_behind_the_story_skips_to_the_newest_and_counts_what_it_left_out() -> None:
    handle = FakeHandle()
    for number in range(3 * MAX_ENTRIES):
        handle.records.append(ev.Record(number + 3, 0.0, ev.HintGiven(text=f"hint {number}")))
    log = log_of(handle, 40)
    assert len(log.rows) == MAX_ENTRIES
    assert log.skipped == len(handle.records) - MAX_ENTRIES
    assert told(log)[-1] == f"you hint {3 * MAX_ENTRIES - 1}"


def test_a_long_reply_is_cut_and_says_so() -> None:
    handle = FakeHandle()
    text = "\n".join(f"line {n}" for n in range(MAX_TEXT_LINES + 5))
    handle.tell(ev.ModelReplied(phase=Phase.PLAN, model="m", text=text))
    log = log_of(handle, 60)
    assert told(log)[-1] == "(60 more lines: enter unfolds)"
    log.fold(log.numbers[-1])
    assert told(log)[-1] == "(5 more lines: in the journal)"
    assert "line 40" in told(log)
    log.fold(log.numbers[-1])
    assert "line 40" not in told(log)


def test_streamed_text_is_not_told_twice() -> None:
    assert unsaid("one two", "one ") == "two"
    assert unsaid("two three", "one two") == "two three"
    assert unsaid("x" * 300 + "new", "y" * 300 + "x" * 250) == "new"
    assert unsaid("fresh", "") == "fresh"


def test_a_question_is_not_told_as_done_before_its_answer() -> None:
    events: list[ev.AnyEvent] = [
        ev.ToolCalled(call="c", tool="ask_user", arguments={"message": "which?"}),
        ev.QuestionAsked(question=1, text="which?", phase=Phase.PLAN),
        ev.ToolAnswered(call="c", tool="ask_user", status="success", output="question 1 waits"),
        ev.QuestionAnswered(question=1, answer="the first", source="user"),
    ]
    log = AgentLog(80)
    log.read([ev.Record(n, 0.0, event) for n, event in enumerate(events)])
    assert [row for row in told(log) if "ask_user" in row] == ["› ask_user asked"]


def test_what_a_subagent_says_and_does_carries_its_name() -> None:
    events: list[ev.AnyEvent] = [
        ev.SubagentStarted(subagent="s1", agent="reader", phase=Phase.PLAN, prompt="look at x"),
        ev.ModelReplied(phase=Phase.PLAN, model="m", text="it is in lanes", source="s1"),
        ev.ToolCalled(call="s1/c", tool="read_file", arguments={}, source="s1"),
        ev.ToolAnswered(call="s1/c", tool="read_file", status="success", source="s1"),
        ev.SubagentEnded(subagent="s1", agent="reader", status="limit", reason="40 replies"),
        ev.ModelReplied(phase=Phase.PLAN, model="m", text="mine"),
    ]
    log = AgentLog(80)
    log.read([ev.Record(n, 0.0, event) for n, event in enumerate(events)])
    assert told(log) == [
        "s1 reader begins: look at x",
        "s1 it is in lanes",
        "› s1 read_file ok",
        "s1 at its limit: 40 replies",
        "mine",
    ]
