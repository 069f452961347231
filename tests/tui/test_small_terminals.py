"""The least terminals: what a person types and answers is in sight, and no row is lost unmarked."""

from __future__ import annotations

from pathlib import Path

import pytest

from akg_tui.tui.screens.dialogs import Reading
from akg_tui.tui.screens.new_run import Wizard
from akg_tui.view.controls.approval_rows import Card, card_rows
from akg_tui.view.spans import cells, fit, line, plain, width

from .moments import keeping
from .stage import Stage, on_stage
from .test_asking import answered, asking

LEAST = (60, 16)


def rows(stage: Stage) -> list[str]:
    return stage.text().split("\n")


@pytest.mark.parametrize(("keys", "seen"), [("i", "try lanes"), ("1a", "try lanes")])
async def test_the_line_that_is_typed_is_in_sight_beside_a_card(keys: str, seen: str) -> None:
    async with on_stage(keeping(), LEAST, armed=True) as stage:
        await stage.press(*keys, *seen)
        assert seen in stage.text()
        await stage.press("escape")
        await stage.arm()
        assert "alt+y keep   alt+n reject   alt+d see the diff" in stage.text()


async def test_a_card_leaves_room_for_the_footer_and_a_little_of_the_pane() -> None:
    async with on_stage(keeping(), LEAST, armed=True) as stage:
        told = stage.text()
        assert "reject: the seed stays the best" in told
        assert rows(stage)[-2].startswith("╰──"), "the whole frame of the card"
        assert "more: ?" in rows(stage)[-1]
        assert '- FLAGS = "-O1"' in told
        assert "always" not in told, "it is not offered where its text has no room"
        await stage.press("alt+a")
        assert answered(stage.handle) == []
        assert "no room here to say what a rule would approve" in rows(stage)[-1]


async def test_a_card_without_room_keeps_the_marked_choice_and_the_keys() -> None:
    question = asking(text="How far may errors go? " * 9, choices=("1e-5", "1e-4", "1e-3"))
    async with on_stage(question, armed=True) as stage:
        ask = stage.deck.card.shown
        for height in range(3, 12):
            told = [plain(row) for row in card_rows(Card(ask, armed=True, marked=1), 56, height)]
            assert len(told) <= height
            assert "▸ 2/3 1e-4" in told
            assert any(row.startswith("alt+y answer with this") for row in told)
            assert all(cells(row) <= 56 for row in told)


@pytest.mark.parametrize("room", range(1, 12))
def test_a_cut_line_has_one_mark(room: int) -> None:
    cut = fit(line("BLOCK=256", "  faster"), room)
    assert plain(cut).count("…") == 1
    assert width(cut) == room


async def test_a_kernel_without_rows_leads_to_its_instructions_too() -> None:
    handle = keeping()
    del handle._blobs[handle.state.work_blob]
    async with on_stage(handle, LEAST) as stage:
        await stage.press("2", "C")
        assert stage.deck.active == "asm"


async def test_a_text_to_read_loses_no_letter_under_its_scroll_bar() -> None:
    words = "0123456789" * 60
    async with on_stage(keeping(), LEAST) as stage:
        stage.app.push_screen(Reading("words", f"{words}\n" * 20))
        await stage.pull()
        view = stage.app.screen.query_one("#reading")
        inside = view.content_region
        read = "".join(
            row[inside.x : inside.right - 1].strip()
            for row in rows(stage)[inside.y : inside.bottom]
        )
        assert read in words


async def test_the_field_of_a_new_run_that_is_typed_in_is_in_sight(tmp_path: Path) -> None:
    async with on_stage(keeping(), LEAST) as stage:
        await stage.app.push_screen(Wizard(tmp_path, "auto"))
        for name in ("reference", "kernel", "task folder", "target", "DSL", "arch"):
            await stage.press("end", "x")
            typed = next(row for row in rows(stage) if row.startswith(f"│ {name}"))
            assert typed.rstrip("│ ").endswith("x")
            await stage.press("down")
        await stage.press("down", "down", "end", "x", "enter")
        assert "│ rounds       20x" in stage.text()
        assert "'cpux' is none of cpu" in stage.text()
        assert "enter checks reference and kernel" in stage.text()


async def test_what_has_no_room_in_the_dialog_of_gates_is_marked_as_cut() -> None:
    async with on_stage(keeping(), LEAST) as stage:
        await stage.press("M")
        plan, keep = (next(r for r in rows(stage) if f" {gate} " in r) for gate in ("plan", "keep"))
        assert plan.endswith("… │")
        assert keep.endswith("… │")
