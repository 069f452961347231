"""Time travel: every pane shows the moment, nothing can be steered from it, and back again."""

from __future__ import annotations

from pathlib import Path

import pytest

from akg_tui.core import commands as cmd
from akg_tui.core.past_states import Past
from akg_tui.core.phases import Mode, Phase
from akg_tui.tui.screens.dialogs import Confirm
from akg_tui.tui.screens.rounds import Rounds
from akg_tui.view.controls.time_travel import TimelineRows, TimeTravel, column, event_at
from akg_tui.view.spans import plain, width

from .script import FakeHandle
from .stage import Stage, on_stage


def over() -> FakeHandle:
    handle = FakeHandle()
    handle.work()
    return handle


def seq_of(handle: FakeHandle, number: int) -> int:
    return next(m.seq for m in Past(handle.records).marks if m.round == number)


async def to_round(stage: Stage, number: int) -> None:
    await stage.press("T")
    stage.app.travel_to(seq_of(stage.handle, number))
    await stage.pull()


async def test_all_panes_go_back_together_and_one_key_is_live_again() -> None:
    handle = over()
    async with on_stage(handle) as stage:
        live = stage.text()
        await to_round(stage, 2)
        shown = stage.text()
        assert "PAST" in shown
        assert "not live" in shown
        assert "after round 2 of 9" in shown
        assert "p3 LANES = 16" in shown
        assert "best 1.86× attempt 2" in shown
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
    handle = FakeHandle()
    handle.to_phase(Phase.EVAL, settled=2)
    async with on_stage(handle) as stage:
        await stage.press("T", "left")
        before = len(handle.records)
        handle.to_phase(Phase.EDIT, settled=5)
        await stage.pull()
        assert f"event {before - 1} of {len(handle.records)}" in stage.text()
        assert "round 3/12" in stage.text()
        await stage.press("L")
        assert "round 5/12" in stage.text()


async def test_nothing_is_steered_from_the_past_and_a_card_there_asks_nothing() -> None:
    handle = FakeHandle(mode=Mode.REVIEW)
    handle.work()
    gate = handle.state.gate
    assert gate is not None
    async with on_stage(handle) as stage:
        await stage.arm()
        await stage.press("T", "left", "right")
        assert "the run waits for you: L live" in stage.text()
        assert "typing never answers this" not in stage.text()
        await stage.press("alt+y")
        stage.app.steer(cmd.AnswerGate(gate.gate, approve=True), "kept")
        await stage.pull()
        assert "this is the past" in stage.text()
        assert handle.state.gate == gate
        await stage.press("L")
        await stage.arm()
        await stage.press("alt+y")
        assert handle.state.gate is None or handle.state.gate.answer


async def test_two_rounds_stand_side_by_side_with_their_measurements() -> None:
    handle = over()
    async with on_stage(handle) as stage:
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
    async with on_stage(handle, (80, 24)) as stage:
        await stage.press("v")
        assert "- round" in stage.text()


async def test_an_undo_asks_first_and_says_what_will_happen() -> None:
    handle = FakeHandle()
    handle.to_phase(Phase.EDIT, settled=2)
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

    monkeypatch.setattr("akg_tui.store.fork.fork_run", fork)
    handle = over()
    async with on_stage(handle) as stage:
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
        assert made == [(Path(handle.path), 3)]
        assert "akg-tui resume /tasks/row_softmax/runs/forked-r3" in stage.text()


def test_playing_follows_the_run_s_clock_and_shortens_its_waits() -> None:
    handle = over()
    travel = TimeTravel(Past(handle.records))
    travel.go(1)
    travel.play(0.0)
    assert travel.speed == 4
    travel.tick(0.1)
    assert travel.cursor == 1
    travel.tick(0.2)
    assert travel.cursor == 2, "events are 0.7 s apart"
    assert travel.faster(1) == 16
    travel.tick(100.0)
    assert (travel.cursor, travel.speed) == (travel.last, 0)
    travel.play(200.0)
    assert travel.cursor == 1, "at the end it begins anew"
    travel.step(3)
    assert travel.speed == 0, "who moves by hand stops the play"


@pytest.mark.parametrize("room", [20, 78, 118, 198])
def test_the_strip_fits_and_a_click_hits_the_mark_it_points_at(room: int) -> None:
    handle = over()
    travel, strip = TimeTravel(Past(handle.records)), TimelineRows()
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
