"""The mouse: footer, card, rows and chart; each also has its key."""

from __future__ import annotations

from pathlib import Path

from akg_tui.core import commands as cmd
from akg_tui.core.phases import Mode, Phase
from akg_tui.tui.screens.deck import Deck
from akg_tui.tui.screens.dialogs import Help
from akg_tui.view.controls.key_hits import key_at
from akg_tui.view.spans import line
from tests.engine.runs import create, engine

from .listing import listed
from .script import FakeHandle
from .stage import Stage, on_stage


def at_work() -> FakeHandle:
    return FakeHandle().to_phase(Phase.EDIT, settled=5)


def place_of(stage: Stage, text: str) -> tuple[int, int]:
    """Where a text stands on the screen."""
    for y, row in enumerate(stage.text().splitlines()):
        if text in row:
            return row.index(text), y
    raise AssertionError(f"{text!r} is not on the screen:\n{stage.text()}")


async def click(stage: Stage, text: str, *, times: int = 1) -> None:
    await stage.pilot.click(offset=place_of(stage, text), times=times)
    await stage.pull()


def test_a_key_is_hit_by_a_click_on_it_or_on_its_label_and_not_between() -> None:
    row = line((" ", "text"), ("space", "key"), (" pause  ", "key.label"), ("n", "key"), " step")
    assert key_at(row, 0) == ("", "")
    assert key_at(row, 2) == key_at(row, 8) == ("space", "pause")
    assert key_at(row, 14) == ("n", "step")
    assert key_at(row, 40) == ("", "")


async def test_a_key_of_the_footer_is_called_by_a_click() -> None:
    async with on_stage(at_work()) as stage:
        await click(stage, "space pause")
        assert stage.handle.state.paused
        stage.handle.now += 10
        await stage.pull()
        await click(stage, "more:")
        assert isinstance(stage.app.screen, Help)


async def test_the_card_is_answered_by_a_click_once_its_keys_count() -> None:
    handle = FakeHandle(mode=Mode.REVIEW).work()
    async with on_stage(handle) as stage:
        assert "alt+y keep" not in stage.text()
        await stage.arm()
        await click(stage, "alt+n reject")
        assert isinstance(handle.sent[-1], cmd.AnswerGate)
        assert not handle.sent[-1].approve


async def test_a_click_picks_an_entry_and_a_double_click_unfolds_it() -> None:
    async with on_stage(at_work()) as stage:
        await click(stage, "p2 EXP")
        assert stage.plan.picked.id == "p2"
        before = stage.text().count("a declared knob")
        await click(stage, "p2 EXP", times=2)
        assert stage.text().count("a declared knob") > before


async def test_a_double_click_on_a_frame_zooms_and_again_goes_back() -> None:
    async with on_stage(at_work()) as stage:
        await click(stage, "4 agent log", times=2)
        assert stage.deck.zoomed
        assert stage.deck.active == "log"
        await click(stage, "4 agent log", times=2)
        assert not stage.deck.zoomed


async def test_a_point_of_the_chart_leads_to_its_attempt_and_a_double_click_to_its_round() -> None:
    async with on_stage(at_work()) as stage:
        chart = stage.deck.panes["chart"]
        room = chart.content_region
        await stage.pilot.click(offset=(room.right - 2, room.y + 3))
        await stage.pull()
        assert "attempt 5 of p5: FAIL" in stage.deck.footer.told
        await stage.pilot.click(offset=(room.x + 20, room.y + 3), times=2)
        await stage.pull()
        assert stage.app.in_past
        past = stage.app.snapshot().state
        assert 0 < past.settled < 5


async def test_a_double_click_opens_a_run(tmp_path: Path) -> None:
    run = create(tmp_path / "task", rounds=1)
    work = engine(run)
    await work.run()
    await work.close()
    async with listed(tmp_path) as stage:
        await stage.shows("✓ finished")
        await stage.pilot.click(offset=(10, 2), times=2)
        await stage.until(lambda: isinstance(stage.app.screen, Deck))
