"""Time travel: every pane shows the moment, nothing can be steered from it, and back again."""

from __future__ import annotations

from pathlib import Path

import pytest

from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.measurement import Interval, Progress
from akg_tui.core.past_states import Past
from akg_tui.core.phases import Mode, Phase
from akg_tui.tui.screens.dialogs import Confirm
from akg_tui.tui.screens.review import Review
from akg_tui.tui.screens.rounds import Rounds
from akg_tui.tui.widgets.line_view import LineView
from akg_tui.tui.widgets.painted import Rows
from akg_tui.view.controls.time_travel import PastPosition, TimelineRows, column, event_at
from akg_tui.view.spans import plain, width

from .moments import keeping, over
from .script import FakeHandle, faster
from .stage import Stage, on_stage
from .test_asking import answered
from .test_messages import heard, looks_elsewhere

WAITS = "the run waits for you:"


def seq_of(handle: FakeHandle, number: int) -> int:
    return next(m.seq for m in Past(handle.records).marks if m.round == number)


async def to_round(stage: Stage, number: int) -> None:
    await stage.press("T")
    stage.app.time_travel.action_past_go(seq_of(stage.handle, number))
    await stage.pull()


async def test_all_panes_go_back_together_and_one_key_is_live_again() -> None:
    async with on_stage(over()) as stage:
        live = stage.text()
        await to_round(stage, 2)
        shown = stage.text()
        assert "PAST" in shown
        assert "not live" in shown
        assert "after round 2 of 9" in shown
        assert "p3 LANES = 16" in shown
        assert "~1.86× seed · 0.78× eager" in shown
        assert "poly5" not in shown, "the second plan is still to come"
        assert "KEEP p2" in shown
        assert "KEEP p3" not in shown
        await stage.press("L")
        assert stage.text() == live


async def test_keys_go_by_event_and_by_round() -> None:
    handle = over()
    last = len(handle.records)
    async with on_stage(handle) as stage:
        await stage.press("T", "left")
        assert f"event {last - 1} of {last}" in stage.text()
        await stage.press("right", "right")
        assert f"event {last} of {last}" in stage.text()
        await stage.press("shift+left", "shift+left")
        assert f"event {seq_of(handle, 8)} of" in stage.text()
        await stage.press("shift+right")
        assert f"event {seq_of(handle, 9)} of" in stage.text()
        await stage.press("home")
        assert "event 1 of" in stage.text()
        await stage.press("pagedown")
        assert f"event {1 + last // 20} of" in stage.text()
        await stage.press("end")
        assert f"event {last} of" in stage.text()


async def test_the_run_goes_on_meanwhile_and_is_not_seen() -> None:
    async with on_stage(FakeHandle().to_phase(Phase.EVAL, settled=2)) as stage:
        await stage.press("T", "left")
        before = len(stage.handle.records)
        stage.handle.to_phase(Phase.EDIT, settled=5)
        await stage.pull()
        assert f"event {before - 1} of {len(stage.handle.records)}" in stage.text()
        assert "round 3/12" in stage.text()
        await stage.press("L")
        assert "round 5/12" in stage.text()


async def test_nothing_is_steered_from_the_past() -> None:
    handle = keeping()
    async with on_stage(handle, armed=True) as stage:
        await stage.press("T", "left", "right")
        assert f"{WAITS} L live" in stage.text()
        stage.app.steer(cmd.AnswerGate(1, approve=True), "kept")
        await stage.pull()
        assert "this is the past" in stage.text()
        await stage.press("L")
        await stage.arm()
        await stage.press("alt+y")
        assert answered(handle) == [cmd.AnswerGate(1, approve=True)]


async def test_two_rounds_stand_side_by_side_with_their_measurements() -> None:
    async with on_stage(over()) as stage:
        await to_round(stage, 2)
        await stage.press("v")
        assert isinstance(stage.app.screen, Rounds)
        shown = stage.text()
        assert "round 2 ✓ KEEP p2" in shown
        assert "round 7 ✓ KEEP p7" in shown
        assert "42.0 % faster" in shown
        assert '- EXP = "libm32"' in shown
        assert '+ EXP = "poly5"' in shown
        await stage.press("left", "left", "shift+left")
        assert "round 1 ✓" in stage.text()
        assert "round 5 ✗ FAIL" in stage.text()
        assert "values differ" in stage.text()
        await stage.press("z", "escape")
        assert stage.app.screen is stage.deck
    async with on_stage(stage.handle, (80, 24)) as stage:
        await stage.press("v")
        assert "- round" in stage.text()


async def test_an_undo_while_a_candidate_is_measured_is_queued_and_can_be_taken_back() -> None:
    handle = FakeHandle().to_phase(Phase.EVAL, settled=2)
    async with on_stage(handle) as stage:

        async def queued() -> None:
            await stage.press("u")
            assert "It waits until" in stage.text()
            await stage.arm()
            await stage.press("y")
            assert "queued: the KEEP is undone when the round is settled; u takes" in stage.text()
            assert "undo of attempt 2 after: " in stage.text()

        await queued()
        assert "you undo the KEEP of" in stage.text(), "in the log"
        await stage.press("u")
        assert "the KEEP of attempt 2 stays" in stage.text()
        assert handle.state.undo_queued is None
        await queued()
        handle.work(lambda state: state.phase is Phase.EDIT)
        await stage.pull()
        assert "undo of attempt" not in stage.text()
    assert handle.state.undone == (3, 2), "the KEEP of attempt 3 was built on it"


async def test_a_question_is_wrapped_anew_when_the_terminal_is_resized_under_it() -> None:
    async with on_stage(FakeHandle().to_phase(Phase.EDIT, settled=2), (62, 20)) as stage:
        await stage.press("u")
        told = "The best kernel is attempt 1 again (1.31×), and the work starts from it."
        for size in ((50, 18), (80, 24), (200, 60)):
            await stage.resize(*size)
            box = stage.app.screen.query_one("#question", Rows).region
            shown = stage.text().split("\n")[box.y : box.bottom]
            rows = [row[box.x : box.right].strip() for row in shown]
            assert told in " ".join(rows)
            assert rows[-1].startswith("y undo"), "the keys are in sight"


async def test_an_undo_asks_first_and_says_what_will_happen() -> None:
    handle = FakeHandle().to_phase(Phase.EDIT, settled=2)
    async with on_stage(handle) as stage:
        await stage.press("u")
        assert isinstance(stage.app.screen, Confirm)
        assert "The KEEP of attempt 2 (1.86× the seed) is taken back." in stage.text()
        await stage.press("escape")
        assert handle.state.undone == ()
        await stage.press("u", "y")
        assert handle.state.undone == (), "it is answered by nobody who was typing"
        await stage.press("x", "y")
        assert stage.app.screen is stage.deck
        await stage.press("u")
        await stage.arm()
        await stage.press("y")
        assert handle.state.undone == (2,)
        await stage.press("u")
        await stage.arm()
        await stage.press("y")
        assert handle.state.undone == (2, 1)
        await stage.press("u")
        assert "there is no KEEP to undo" in stage.text()


async def test_a_fork_needs_a_round_and_a_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[Path, int]] = []

    class Made:
        path = Path("/tasks/row_softmax/runs/forked-r3")
        state = FakeHandle().state

    def fork(path: Path, number: int, **_: object) -> type[Made]:
        made.append((path, number))
        return Made

    monkeypatch.setattr("akg_tui.tui.fork_actions.fork_run", fork)
    async with on_stage(over()) as stage:
        await stage.press("F")
        assert "no settled round here" in stage.text()
        await to_round(stage, 3)
        await stage.press("F")
        assert "fork at the end of round 3?" in stage.text()
        await stage.press("n")
        assert made == []
        await stage.press("F")
        await stage.arm()
        await stage.press("y")
        assert made == [(Path(stage.handle.path), 3)]
        assert "akg-tui resume /tasks/row_softmax/runs/forked-r3" in stage.text()


@pytest.mark.parametrize("room", [20, 78, 118, 198])
def test_the_strip_fits_and_a_click_hits_the_mark_it_points_at(room: int) -> None:
    handle = over()
    travel, strip = PastPosition(Past(handle.records)), TimelineRows()
    for mark in travel.past.marks:
        travel.go(mark.seq)
        rows = strip.rows(travel.moment(waits=True), room)
        assert all(width(row) <= room for row in rows)
        at = column(mark.seq, travel.last, room)
        assert plain(rows[1])[at] in "◦✓▪✗"
        assert plain(rows[2])[at] == "▴"
        hit = event_at(at, travel.last, room)
        assert column(hit, travel.last, room) == at
    assert event_at(-5, travel.last, room) == 1
    assert event_at(room + 5, travel.last, room) == travel.last


def in_plan() -> FakeHandle:
    return FakeHandle(mode=Mode.REVIEW).to_phase(Phase.PLAN, settled=0)


async def ask(stage: Stage, text: str = "How far?") -> None:
    assert stage.handle.send(cmd.AskUser(text)) is None
    await stage.pull()


async def test_a_question_of_the_past_is_not_asked_again() -> None:
    handle = in_plan()
    async with on_stage(handle) as stage:
        await ask(stage)
        assert handle.state.question is not None
        asked = len(handle.records)
        handle.send(cmd.AnswerQuestion(1, "as far as it goes"))
        handle.work()
        gated = len(handle.records)
        assert handle.state.gate is not None
        handle.send(cmd.AnswerGate(1, approve=True))
        await stage.press("T")
        for seq, told in ((asked, "question asked"), (gated, "gate opened")):
            stage.app.time_travel.action_past_go(seq)
            await stage.arm()
            await stage.arm()
            assert f"WAIT_USER  event {seq}: {told}" in stage.text()
            assert not stage.deck.card.display
            assert "the keys count in a moment" not in stage.text()
            await stage.press("alt+y")
            assert "this is the past: L goes back" in stage.text()
            assert WAITS not in stage.text()
    assert answered(handle) == [
        cmd.AnswerQuestion(1, "as far as it goes"),
        cmd.AnswerGate(1, approve=True),
    ]


async def test_a_question_of_the_agent_is_told_to_who_looks_at_the_past() -> None:
    async with on_stage(in_plan()) as stage:
        codes = heard(stage)
        await stage.press("T", "left")
        await looks_elsewhere(stage)
        assert WAITS not in stage.text()
        assert codes == []
        await ask(stage)
        assert f"{WAITS} L live" in stage.text()
        assert "How far?" in "".join(codes)
        assert codes.count("\x07") == 1
        await stage.press("L")
        await stage.arm()
        assert "How far?" in stage.text()


async def test_a_comparison_of_rounds_says_that_the_run_waits() -> None:
    handle = FakeHandle(mode=Mode.REVIEW).work()
    handle.send(cmd.AnswerGate(1, approve=True))
    handle.to_phase(Phase.EDIT, settled=1)
    async with on_stage(handle) as stage:
        await stage.press("v")
        assert isinstance(stage.app.screen, Rounds)
        assert WAITS not in stage.text()
        handle.work()
        assert handle.state.gate is not None
        await stage.pull()
        assert f"{WAITS} esc leads to it" in stage.text()
        await stage.press("right")
        assert f"{WAITS} esc leads to it" in stage.text()
        handle.send(cmd.AnswerGate(handle.state.gate.gate, approve=False))
        await stage.pull()
        assert WAITS not in stage.text()


async def test_a_review_says_that_the_run_waits_for_something_else() -> None:
    handle = keeping()
    async with on_stage(handle) as stage:
        await stage.press("r")
        assert isinstance(stage.app.screen, Review)
        handle.send(cmd.AnswerGate(1, approve=False))
        handle.to_phase(Phase.EVAL)
        await stage.pull()
        assert WAITS not in stage.text()
        handle.work()
        assert handle.state.gate is not None
        await stage.arm()
        assert f"{WAITS} esc leads to it" in stage.text()
        await stage.press("K", "D")
        assert answered(handle) == [cmd.AnswerGate(1, approve=False)]


def seq_of_event(handle: FakeHandle, kind: type, attempt: int) -> int:
    """The event of this kind that is about an attempt."""
    return next(
        r.seq
        for r in handle.records
        if isinstance(r.event, kind) and getattr(r.event, "attempt", None) == attempt
    )


def pane(stage: Stage) -> list[str]:
    shown = stage.deck.panes["eval"]
    assert isinstance(shown, LineView)
    return [plain(row) for row in shown.rows]


def funnel(rows: list[str]) -> list[str]:
    return [row for row in rows if "├" in row]


async def test_estimates_are_shown_with_their_attempt_alone_now_and_in_the_past() -> None:
    handle = FakeHandle().to_phase(Phase.EVAL, settled=3)
    async with on_stage(handle) as stage:
        await stage.press("8", "z")
        blob = handle.state.work_blob
        assert handle.send(cmd.StartEval(ev.Purpose.CANDIDATE, 4, blob)) is None
        for n in range(3):
            interval = Interval(1.0, 0.8 + n / 20, 1.2 - n / 20, 0.95)
            handle.live.report(Progress("time", n, 8, ratio=interval))
            await stage.pull()
        live = pane(stage)
        assert len(funnel(live)) == 3
        await stage.press("T")
        for kind, attempt in ((ev.EvalStarted, 2), (ev.EvalFinished, 2), (ev.EvalStarted, 4)):
            stage.app.time_travel.action_past_go(seq_of_event(handle, kind, attempt))
            await stage.pull()
            shown = pane(stage)
            assert f"attempt {attempt}" in shown[0]
            assert funnel(shown) == [], "no estimate of attempt 4 was known then"
            assert not any("5/8" in row or "2/8" in row for row in shown)
        await stage.press("L")
        assert funnel(pane(stage)) == funnel(live)
        assert handle.send(cmd.FinishEval(faster(0.91, ms=3.5))) is None
        handle.work(lambda state: state.settled == 4)
        await stage.pull()
        assert "attempt 4 was measured" in pane(stage)[0]
        assert len(funnel(pane(stage))) >= 3
        await stage.press("T", "shift+left")
        assert "attempt 3 was measured" in pane(stage)[0]
        assert funnel(pane(stage)) == []
        await stage.press("shift+right")
        assert len(funnel(pane(stage))) >= 3
