"""Help and footer begin at what is looked at; the present stage and every sign are in sight."""

from __future__ import annotations

import ast
import unicodedata
from pathlib import Path

import pytest

import akg_tui
from akg_tui.core import commands as cmd
from akg_tui.core import effects as fx
from akg_tui.core.measurement import Progress
from akg_tui.core.phases import Mode, Phase
from akg_tui.tui.screens.dialogs import Help
from akg_tui.tui.widgets.line_view import LineView
from akg_tui.view.controls.command_registry import footer
from akg_tui.view.controls.help_rows import help_rows
from akg_tui.view.evaluation_rows import EstimateHistory, eval_rows
from akg_tui.view.formatting import STAGES
from akg_tui.view.glyphs import ascii_twin
from akg_tui.view.spans import plain, width

from .moments import keeping
from .script import FakeHandle
from .stage import on_stage


@pytest.mark.parametrize("room", [54, 90])
def test_a_wrapped_line_of_help_goes_on_below_its_text_not_below_the_keys(room: int) -> None:
    rows = help_rows(room)
    column = next(len(row[0][0]) for row in rows if row and row[0][1] == "key")
    wrapped = [row for row in rows if len(row) > 1 and not row[0][0].strip()]
    assert {len(row[0][0]) for row in wrapped} <= {column, 18}  # the signs have their own column
    assert len(wrapped) > 4
    assert all(width(row) <= room for row in rows)


async def test_help_begins_with_the_keys_of_what_is_looked_at() -> None:
    handle = keeping()
    handle.send(cmd.AnswerGate(1, approve=True))
    async with on_stage(handle.work()) as stage:
        for keys, group in (
            ("question_mark", "Run"), ("1 question_mark", "Plan"), ("7 question_mark", "Subagents"),
            ("r question_mark", "Review"), ("escape v question_mark", "Compare"),
            ("escape T question_mark", "Time"),
        ):  # fmt: skip
            await stage.press(*keys.split())
            assert isinstance(stage.app.screen, Help), keys
            assert plain(stage.app.screen.query_one(LineView).rows[0]) == group
            await stage.press("question_mark")
            assert not isinstance(stage.app.screen, Help), "the same key closes it"


async def test_a_question_mark_in_a_search_is_text_and_signs_are_explained() -> None:
    async with on_stage(keeping(), (120, 40)) as stage:
        await stage.press("question_mark", "a", "question_mark")
        assert isinstance(stage.app.screen, Help)
        await stage.press("escape", "ctrl+end")
        assert "the true ratio lies in it" in stage.text()
        assert "gains under 12 % are not seen" in stage.text()


async def test_the_footer_begins_with_the_keys_of_the_focused_pane() -> None:
    async with on_stage(FakeHandle().to_phase(Phase.EVAL, settled=1)) as stage:
        for pane, begins in (
            ("1", "space pause  a add  e edit  x drop"),
            ("3", "space pause  c chart unit"),
            ("4", "space pause  f follow  enter unfold"),
        ):
            await stage.press(pane)
            assert stage.text().rstrip().split("\n")[-1].strip().startswith(begins)


def test_the_footer_offers_what_can_be_done_now_the_most_used_first() -> None:
    def offered(handle: FakeHandle, pane: str = "") -> list[str]:
        return [label for _, label in footer("deck", handle.state, pane)]

    auto = FakeHandle().to_phase(Phase.PLAN)
    assert offered(auto)[:3] == ["pause", "hint", "mode"]
    assert not {"step", "undo KEEP", "review", "more"} & set(offered(auto)), "they would be refused"
    assert auto.send(cmd.Pause()) is None
    assert offered(auto)[:2] == ["go on", "step"]
    stepping = FakeHandle(mode=Mode.STEP).work()
    assert offered(stepping)[:2] == ["step", "pause"]
    asking = keeping()
    assert offered(asking, "source")[:2] == ["review", "pause"]
    assert "keep" in [label for _, label in footer("review", asking.state)]
    assert "keep" not in [label for _, label in footer("review", auto.state)]
    kept = FakeHandle().to_phase(Phase.EDIT, settled=2)
    assert "undo KEEP" in offered(kept)
    assert offered(FakeHandle().work())[0] == "more"


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("room", [12, 20, 32, 60])
def test_the_present_stage_of_an_evaluation_is_never_cut_off(stage: str, room: int) -> None:
    handle = FakeHandle().to_phase(Phase.EVAL)
    effect = fx.next_effect(handle.state, handle.now)
    assert isinstance(effect, fx.Measure)
    handle.send(cmd.StartEval(effect.purpose, effect.attempt, effect.blob))
    seen = EstimateHistory()
    seen.see(handle.state, Progress(stage, 1, 2))
    rows = [plain(row) for row in eval_rows(handle.state, seen, handle.now, room, 9)]
    assert f"▸{stage}" in rows[1]


def signs_of_the_screens() -> set[str]:
    """Every sign in a string of the floors that draw, words in other languages left out."""
    found: set[str] = set()
    root = Path(akg_tui.__file__).parent
    for path in [*root.glob("view/**/*.py"), *root.glob("tui/**/*.py")]:
        if path.name == "language.py":
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= {
                    c for c in node.value if not c.isascii() and unicodedata.category(c)[0] in "SP"
                }
    return found


def test_every_sign_has_a_twin_in_ascii() -> None:
    assert {sign for sign in signs_of_the_screens() if ascii_twin(sign) == "?"} == set()
