from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.fold import evolve
from akg_tui.core.measurement import (
    CaseTiming,
    InputError,
    Interval,
    Measurement,
    Metric,
    Outcome,
    Progress,
    Roofline,
)
from akg_tui.core.phases import Phase
from akg_tui.core.state import Attempt, RunState
from akg_tui.view.agent_rows import AgentList, agent_rows
from akg_tui.view.attempt_rows import (
    AttemptRows,
    case_columns,
    error_rows,
    metric_columns,
    metric_rows,
    side_of,
)
from akg_tui.view.evaluation_rows import KEPT, EstimateHistory, eval_rows
from akg_tui.view.plan_rows import plan_view
from akg_tui.view.run_chart import UNITS, AttemptSeries, Plot, draw
from akg_tui.view.spans import Line, plain, width

from .moments import evaluating
from .script import PLANS, FakeHandle, Try, faster, wrong


def test_the_evidence_of_an_item_tells_measurement_and_verdict() -> None:
    found = msgspec.structs.replace(faster(1.31, ms=8.1), deviation=0.042, detectable=0.118)
    handle = FakeHandle(plans=[[Try("FLAGS = -O3, ~+50 %", '"-O1"  #', '"-O3"  #', found)]]).work()
    view = plan_view(handle.state, 70, 40, {"p1"})
    rows = "\n".join(plain(row) for row in view.rows)
    assert "measured 31.0 % faster (27.1 to 34.9), 95 % sure" in rows
    assert "8.1 ms → 6.18 ms a call, 8 pairs" in rows
    assert "noise pairs differ by 4.2 %" in rows
    assert "verdict faster" in rows
    assert len(view.spans["p1"]) == len(view.rows)
    assert all(width(row) <= 70 for row in view.rows)


def test_pending_items_stand_in_the_order_of_their_turn_and_a_pin_shows() -> None:
    handle = FakeHandle().to_phase(Phase.EVAL, settled=1)
    names = [item.id for item in handle.state.pending]
    assert handle.send(cmd.ReorderItems((names[-1], *names[:-1]))) is None
    assert handle.send(cmd.PinItem(names[1])) is None
    order = list(plan_view(handle.state, 60, 8).spans)
    assert order[2:] == [item.id for item in handle.state.pending]
    rows = [plain(row) for row in plan_view(handle.state, 60, 8).rows]
    assert any(row.startswith(f"◦ {names[1]} ‣ ") for row in rows)


def with_more(attempt: Attempt, **fields: object) -> Attempt:
    found = msgspec.structs.replace(attempt.measurement, **fields)
    return msgspec.structs.replace(attempt, measurement=found)


def finished() -> RunState:
    handle = FakeHandle().work()
    return handle.state


@pytest.mark.parametrize("room", [10, 34, 44, 60, 100, 200])
def test_the_table_of_attempts_fits_and_begins_with_the_newest(room: int) -> None:
    rows = AttemptRows(finished(), room)
    told = [plain(row) for row in rows]
    assert len(told) == 11
    assert all(width(row) <= max(room, rows.columns) for row in rows)
    assert (rows.columns > room) is (room < 74)
    assert told[0].split()[-3:] == ["error", "roof", "pairs"]
    assert told[1].split()[0] == "9"
    whole = [row.rstrip() for row in told]
    assert not any(row[room - 1].strip() for row in whole if room >= 34 and len(row) > room)
    assert "1.538–1.622" in told[3] or "1.533–1.627" in told[3]


def test_errors_and_metrics_tell_their_case_and_dtype() -> None:
    errors = (
        InputError("as drawn", 1e-6, 1e-5, case="wide", dtype="float32"),
        InputError("zeros", 3e-6, 1e-5, case="wide", dtype="float32"),
        InputError("as drawn", 0.0, 0.0, case="wide", dtype="int64"),
        InputError("as drawn", None, 0.0, "NaN", case="slim", dtype="float32"),
        InputError("NaN", note="not tried: no time left", case="slim"),
    )
    metrics = (Metric("Mean R", 0.5, 0.75), Metric("rows", note="not a finite number"))
    attempts = [
        with_more(attempt, errors=errors, metrics=metrics) for attempt in finished().attempts
    ]
    found = attempts[-1].measurement
    assert [plain(row) for row in error_rows(found, 60)] == [
        "error wide float32 30 % zeros", "error wide int64 equal as drawn",
        "error slim float32 NaN as drawn",
    ]  # fmt: skip
    assert [plain(row) for row in metric_rows(found, 60)] == [
        "Mean R 0.5 – 0.75", "rows not a finite number"
    ]  # fmt: skip
    rows = [plain(row) for row in metric_columns(("Mean R", "rows"), attempts, 60)]
    assert rows[0].split()[:2] == ["metric", "p9"]
    assert rows[1].split()[:3] == ["Mean", "R", "0.5–0.75"]
    assert rows[2].split()[:2] == ["rows", "-"]
    assert "no attempt has a metric yet" in plain(metric_columns(("a",), (), 60)[0])
    last = msgspec.structs.replace(finished(), attempts=tuple(attempts), final=found)
    shown = [plain(row) for row in eval_rows(last, EstimateHistory(), 0.0, 60, 20)]
    assert "Mean R 0.5 – 0.75" in shown
    assert "error wide float32 30 % zeros" in shown


def test_cases_stand_under_their_attempt_and_in_the_item_s_details() -> None:
    cases = (
        CaseTiming(
            name="short", candidate_ms=1.0, baseline_ms=2.0, ratio=Interval(2.0, 1.9, 2.1, 0.99)
        ),
        CaseTiming(
            name="long",
            candidate_ms=12.0,
            baseline_ms=10.0,
            ratio=Interval(0.83, 0.8, 0.86, 0.99),
            slower=True,
        ),
    )
    state = finished()
    attempts = tuple(with_more(attempt, cases=cases) for attempt in state.attempts)
    told = [plain(row) for row in case_columns(attempts, 60)]
    assert told[0].split()[:3] == ["case", "p9", "p8"]
    assert told[1].split()[:2] == ["short", "2.00×"]
    assert told[2].split()[:2] == ["long", "0.83×"]
    assert "no attempt was timed by case" in plain(case_columns((), 60)[0])
    state = msgspec.structs.replace(state, attempts=attempts)
    rows = "\n".join(plain(row) for row in plan_view(state, 90, 40, {"p1"}).rows)
    assert "short 2.00× 2 ms → 1 ms" in rows
    assert "long  0.83× slower 10 ms → 12 ms" in rows


def chart(state: RunState, unit: str) -> tuple[Plot, str]:
    trace = AttemptSeries(unit)
    trace.read(state)
    plot = trace.plot(state, None)
    return plot, "\n".join(plain(row) for row in draw(plot, 70, 16))


def test_the_chart_by_tokens_is_drawn_where_they_are_known() -> None:
    handle = FakeHandle().work()
    assert "c shows another unit" in chart(handle.state, "tokens")[1]
    state: RunState | None = None
    for r in handle.records:
        event = r.event
        if isinstance(event, ev.ModelReplied):
            event = msgspec.structs.replace(event, input_tokens=4_000, output_tokens=500)
        state = evolve(state, msgspec.structs.replace(r, event=event))
    assert state is not None
    plot, told = chart(state, "tokens")
    assert (told.count("✓"), told.count("▪"), told.count("✗")) == (4, 4, 1)
    assert "k" in told.splitlines()[-1]
    assert plot.last_x == 4_500 * sum(isinstance(r.event, ev.ModelReplied) for r in handle.records)


def test_a_kept_attempt_that_was_undone_leaves_the_best_line() -> None:
    state = FakeHandle().to_phase(Phase.EVAL, settled=3).state
    assert len(chart(state, "ratio")[0].steps) == 4
    undone = msgspec.structs.replace(state, undone=(3,))
    assert len(chart(undone, "ratio")[0].steps) == 3


def test_an_evaluation_tells_its_stage_and_its_interval_as_it_narrows() -> None:
    handle = evaluating(2)
    seen = EstimateHistory()
    for n in range(1, 9):
        half = 0.4 / n
        seen.see(
            handle.state, Progress("time", n, 8, ratio=Interval(1.2, 1.2 - half, 1.2 + half, 0.95))
        )
    rows = [plain(row) for row in eval_rows(handle.state, seen, handle.now, 60, 20)]
    assert rows[0].startswith("attempt 3 against the best")
    assert "✓verify ▸time" in rows[1]
    assert "8/8" in rows[2]
    assert "1.20× [1.150, 1.250] faster" in rows[3]
    bars = [row.count("─") for row in rows[4:12]]
    assert bars == sorted(bars, reverse=True)
    assert all(len(row) <= 60 for row in rows)


def test_what_two_samples_say_is_not_shown_as_a_figure() -> None:
    handle = evaluating(2)
    seen = EstimateHistory()
    wild = Progress("time", 2, 8, ratio=Interval(0.15, 1.7e-05, 1397.5, 0.95))
    seen.see(handle.state, wild)
    rows = [plain(row) for row in eval_rows(handle.state, seen, handle.now, 60, 20)]
    assert rows[3] == "too few samples to tell"
    assert not any("1397" in row or "─" in row for row in rows)
    seen.see(handle.state, Progress("time", 4, 8, ratio=Interval(1.3, 1.1, 1.5, 0.95)))
    rows = [plain(row) for row in eval_rows(handle.state, seen, handle.now, 60, 20)]
    assert "1.30× [1.100, 1.500] faster" in rows[3]
    assert sum("─" in row for row in rows) == 1
    seen.see(handle.state, Progress("time", 5, 8, ratio=Interval(1.0, 0.9, 1.1, 0.95)))
    assert "undecided" in plain(eval_rows(handle.state, seen, handle.now, 60, 20)[3])


def test_another_evaluation_begins_anew_and_a_long_one_stays_bounded() -> None:
    handle = evaluating(2)
    seen = EstimateHistory()
    for n in range(2_000):
        seen.see(handle.state, Progress("time", n, 2_000, ratio=Interval(1.0, 0.9, 1.1 + n, 0.95)))
    assert 10 < len(seen.estimates) <= KEPT
    assert seen.estimates[-1].high == 1.1 + 1_999
    assert handle.send(cmd.FinishEval(faster(1.2))) is None
    handle.to_phase(Phase.EVAL, settled=3)
    assert handle.send(cmd.StartEval(ev.Purpose.CANDIDATE, 4, handle.state.work_blob)) is None
    seen.see(handle.state, None)
    assert seen.estimates == []


def test_between_two_evaluations_the_last_ones_finding_stands() -> None:
    handle = FakeHandle().to_phase(Phase.EDIT, settled=5)
    rows = [plain(row) for row in eval_rows(handle.state, EstimateHistory(), handle.now, 60, 9)]
    assert rows[:2] == ["attempt 5 failed", "wrong"]


def test_a_diagnosis_is_a_subagent_with_its_own_figures() -> None:
    bad = [
        Try(f"{t.text} {n}", t.old, t.new, wrong("values differ"))
        for n, t in enumerate(PLANS[0][:3])
    ]
    handle = FakeHandle(plans=[bad, PLANS[0]]).work(lambda s: s.phase is Phase.DIAGNOSE)
    fleet = AgentList()
    fleet.read(handle.records)
    assert [agent.state for agent in fleet.subagents] == ["working"]
    assert fleet.main.state == "idle"
    handle.work(lambda s: s.phase is Phase.EDIT)
    fleet.read(handle.records)
    (sub,) = fleet.subagents
    assert (sub.name, sub.state, sub.replies, sub.calls) == ("diagnosis 1", "done", 1, 1)
    assert sub.line == "the exponential loses digits"
    told = [plain(row) for row in agent_rows(fleet, handle.now, 50)]
    assert told[0].startswith("▸ main  working in EDIT")
    assert told[2].startswith("✓ diagnosis 1  done")
    whole = AgentList()
    whole.read(handle.records)
    assert agent_rows(whole, handle.now, 50) == agent_rows(fleet, handle.now, 50)


def test_a_subagent_of_a_call_has_the_replies_and_calls_that_name_it() -> None:
    events: list[ev.AnyEvent] = [
        ev.SubagentStarted(
            subagent="s1", agent="\x1breader", phase=Phase.PLAN, call="c", prompt="look"
        ),
        ev.ModelReplied(phase=Phase.PLAN, model="m", text="it is in\nlanes", source="s1"),
        ev.ToolCalled(call="s1/c", tool="read_file", arguments={}, source="s1"),
        ev.ModelReplied(phase=Phase.PLAN, model="m", text="mine"),
        ev.SubagentEnded(subagent="s1", agent="reader", status="limit", reason="40 replies"),
    ]
    fleet = AgentList()
    fleet.read([ev.Record(n, float(n), event) for n, event in enumerate(events)])
    (sub,) = fleet.subagents
    assert (sub.state, sub.replies, sub.calls, sub.line) == ("failed", 1, 1, "40 replies")
    assert (sub.since, sub.ended) == (0.0, 4.0)
    assert (fleet.main.replies, fleet.main.calls, fleet.main.line) == (1, 0, "mine")
    assert "\x1b" not in "".join(plain(row) for row in agent_rows(fleet, 9.0, 60))


def test_a_failed_measurement_is_told_in_the_evaluation_pane() -> None:
    handle = evaluating(2)
    why = "the \x1b judge broke: the limit is build_timeout_s in task.toml"
    broken = Measurement(outcome=Outcome.ERROR, message=why)
    assert handle.send(cmd.FinishEval(broken)) is None
    rows = [plain(row) for row in eval_rows(handle.state, EstimateHistory(), handle.now, 40, 9)]
    assert not any("\x1b" in row for row in rows)
    assert rows[0] == "attempt 3 could not be measured"
    assert "".join(rows).endswith("in task.toml")


PLANNED = FakeHandle()
PLANNED.to_phase(Phase.EVAL, settled=6)


@given(st.sets(st.integers(1, 9)), st.sampled_from([3, 60]), st.sampled_from([34, 80]))
def test_the_rows_of_a_plan_are_those_of_its_items_one_after_the_other(
    unfolded: set[int], page: int, room: int
) -> None:
    names = {f"p{n}" for n in unfolded}
    view = plan_view(PLANNED.state, room, page, names)
    found: list[Line] = []
    for name, rows in view.spans.items():
        assert rows.start == len(found)
        found += [view.rows[n] for n in rows]
        assert f"{name} " in plain(view.rows[rows.start])
        alone = plan_view(PLANNED.state, room, page, names & {name})
        assert [alone.rows[n] for n in alone.spans[name]] == [view.rows[n] for n in rows]
    assert found == list(view.rows)
    assert len(view.rows) == len(found)


@pytest.mark.parametrize("unit", UNITS)
def test_eager_is_a_line_with_a_band_across_the_chart(unit: str) -> None:
    plot, _ = chart(FakeHandle().to_phase(Phase.EVAL, settled=3).state, unit)
    (eager,) = plot.references
    assert eager.name == "eager"
    assert eager.value == pytest.approx(1 / 0.42)
    assert eager.low < eager.value < eager.high


def test_a_chart_ends_at_the_best_as_measured_afresh() -> None:
    state = finished()
    plot, _ = chart(state, "ratio")
    assert plot.fresh
    assert plot.steps[-1][1] == state.final.ratio.ratio


def test_a_time_that_contradicts_the_ratio_beside_it_is_left_out() -> None:
    noisy = msgspec.structs.replace(faster(2.06), candidate_ms=3.35, baseline_ms=4.63)
    handle = FakeHandle(plans=[[Try("FLAGS = -O3", '"-O1"  #', '"-O3"  #', noisy)]]).work()
    rows = "\n".join(plain(row) for row in plan_view(handle.state, 70, 40, {"p1"}).rows)
    assert "106.0 % faster" in rows
    assert "3.35 ms a call, 8 pairs" in rows
    assert "4.63" not in rows


def test_a_task_with_cases_has_a_share_of_the_roofline_too() -> None:
    def reached(name: str, weight: float, share: float) -> CaseTiming:
        roof = Roofline(1 << 20, "L2", 1e11, share)
        return CaseTiming(name=name, weight=weight, roofline=roof)

    cases = reached("short", 1.0, 0.4), reached("long", 3.0, 0.1)
    attempts = tuple(with_more(each, cases=cases) for each in finished().attempts)
    state = msgspec.structs.replace(finished(), attempts=attempts)
    heads, *rows = (plain(row) for row in AttemptRows(state, 120))
    until = heads.index("roof") + len("roof")
    assert {row[:until].split()[-2] for row in rows} == {"14"}


def test_a_chart_shows_each_case_over_the_seed_after_the_other_units() -> None:
    def timed(ratio: float) -> Interval:
        return Interval(ratio, ratio * 0.99, ratio * 1.01, 0.99)

    attempts = []
    for attempt in finished().attempts:
        short = CaseTiming(name="short", ratio=timed(0.5 if attempt.number == 0 else 2.0))
        attempts.append(with_more(attempt, cases=(short, CaseTiming(name="long"))))
    state = msgspec.structs.replace(
        finished(), attempts=tuple(attempts), baseline=attempts[0].measurement, final=None
    )
    series = AttemptSeries(UNITS[-1])
    series.read(state)
    series.turn()
    assert (series.unit, series.case) == ("case", "short")
    series.read(state)
    plot = series.plot(state, None)
    heights = [y for _, y in plot.steps]
    assert heights == [2.0**kept for kept in range(len(heights))]
    assert len(heights) > 2
    (eager,) = plot.references
    assert eager.value == pytest.approx(2.0)
    series.turn()
    assert (series.unit, series.case) == ("ratio", "")


def test_the_seed_is_compared_with_no_best_kernel() -> None:
    told = [plain(row) for row in AttemptRows(finished(), 120)]
    assert told[-1].split()[:3] == ["0", "seed", "✓"]
    assert "0.42×" in told[-1]
    assert told[-1].index("0.42×") > told[0].index("a call")


def test_a_figure_that_is_not_measured_afresh_does_not_look_like_one_that_is() -> None:
    state = finished()
    assert state.best is not None
    assert state.final is not None
    rows = AttemptRows(state, 120)
    for number in range(1, len(rows)):
        attempt = rows.attempt(number)
        told = plain(side_of(state, attempt)[1])
        timed = attempt.over_seed is not None
        provisional = attempt.number not in (0, state.best.attempt) and timed
        assert ("~" in plain(rows[number])) is provisional is ("~" in told)
