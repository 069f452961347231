"""What the workbench tells a person: in one row for a moment, and whole for as long as it runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from akg_tui.core.phases import Phase
from akg_tui.tui import notices
from akg_tui.tui.app import WorkbenchApp
from akg_tui.tui.notices import Notices
from akg_tui.tui.screens.dialogs import Reading
from akg_tui.tui.widgets.footer import MESSAGE_S, told_line
from akg_tui.view.spans import Line, cells, plain

from .script import FakeHandle
from .stage import on_stage

WRITTEN = f"written: /tasks/{'a-long-name/' * 12}runs/20260701-1200-row-softmax/exports/source.svg"


def at_work() -> FakeHandle:
    handle = FakeHandle()
    handle.to_phase(Phase.EVAL, settled=2)
    return handle


def read_again(app: WorkbenchApp) -> Sequence[Line]:
    """The rows of the screen with what was told."""
    assert isinstance(app.screen, Reading)
    return app.screen.view.rows


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (50, 12)])
async def test_what_was_told_is_read_again_whole(size: tuple[int, int]) -> None:
    handle = at_work()
    async with on_stage(handle, size) as stage:
        stage.app.tell_person(WRITTEN)
        stage.app.tell_person("the run goes on")
        handle.now += MESSAGE_S + 1
        await stage.pull()
        assert "the run goes on" not in stage.text()
        await stage.press("colon", *"messages", "enter")
        rows = read_again(stage.app)
        whole = "".join(plain(row).strip() for row in rows).replace(" ", "")
        assert whole.index(WRITTEN.replace(" ", "")) < whole.index("therungoeson")
        assert "the run goes on" in stage.text()
        await stage.press("escape")
        assert stage.app.screen is stage.deck


async def test_the_letters_of_a_search_and_of_a_chord_are_no_messages() -> None:
    async with on_stage(at_work()) as stage:
        await stage.press("2", "slash", *"xyzzy")
        assert "not found: xyzzy" in stage.text()
        await stage.press("escape")
        stage.app.action_chord("ctrl+x")
        stage.app.chords.pending = ""
        assert stage.app.notices.text() == ""
        await stage.press("colon", *"messages", "enter")
        assert "Nothing was told yet." in stage.text()


async def test_a_terminal_without_room_for_a_footer_tells_it_too() -> None:
    handle = at_work()
    async with on_stage(handle, (50, 12)) as stage:
        assert "50×12 is small" in stage.text()
        await stage.press("w")
        row = stage.text().split("\n")[-1]
        assert "seen from 100×30 on" in row
        handle.now += MESSAGE_S + 1
        await stage.pull()
        assert "50×12 is small" in stage.text()


async def test_the_list_of_runs_tells_again_what_it_told(tmp_path: Path) -> None:
    app = WorkbenchApp(None, browse=tmp_path)
    async with app.run_test(size=(120, 30)) as pilot:
        await app.workers.wait_for_complete()
        await pilot.pause()
        await pilot.press("c", "colon", *"messages", "enter")
        await pilot.pause()
        assert "mark two runs" in "".join(map(plain, read_again(app)))


@pytest.mark.parametrize("room", [200, 160, 120, 80, 60, 41, 20, 3])
def test_of_a_path_the_middle_is_left_out_and_a_cut_message_says_how_to_read_it(room: int) -> None:
    row = plain(told_line(WRITTEN, room))
    assert cells(row) <= room
    if cells(WRITTEN) < room:
        assert row == f" {WRITTEN}"
    if 41 <= room < cells(WRITTEN):
        assert row.startswith(" written: /tasks")
        assert row.endswith("source.svg  :messages")


def test_a_cut_message_without_a_path_loses_its_end() -> None:
    row = plain(told_line("nothing of this is a path " * 5, 60))
    assert row.startswith(" nothing of this is a path nothing")
    assert row.endswith("…  :messages")
    assert cells(row) <= 60


def test_the_newest_are_kept_and_what_is_said_again_at_once_is_one() -> None:
    kept = Notices()
    for number in range(3 * notices.MOST):
        kept.keep(f"told {number}", 10.0 * number)
        kept.keep(f"told {number}", 10.0 * number + 1)
    lines = kept.text().split("\n")
    assert len(lines) == notices.MOST
    assert lines[0].endswith(f"told {2 * notices.MOST}")
    assert lines[-1].endswith(f"told {3 * notices.MOST - 1}")
    kept.keep("told again", 10.0)
    kept.keep("told again", 30.0)
    assert kept.text().count("told again") == 2
