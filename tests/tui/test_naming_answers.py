"""Answers without alt: by ctrl+g and a letter, by name on the ``:`` line and in the palette."""

from __future__ import annotations

import pytest
from textual.events import Key
from textual.screen import ModalScreen

from akg_tui.core import commands as cmd
from akg_tui.core.phases import Mode, Phase
from akg_tui.tui import keyboard
from akg_tui.tui.screens.review import Review
from akg_tui.view.controls.command_registry import clashes

from .moments import keeping
from .script import FakeHandle
from .stage import Stage, on_stage
from .test_asking import answered, asking, pause
from .test_keymaps import mine, put_on

YES, NO = cmd.AnswerGate(1, approve=True), cmd.AnswerGate(1, approve=False)
ALWAYS = cmd.AnswerGate(1, approve=True, always=True)


async def found(stage: Stage, words: str) -> None:
    """Find a command in the palette and take it."""
    for keys in (("ctrl+p", *words), ("enter",)):
        await stage.pilot.press(*keys)
        await stage.pull()
    await stage.pull()


@pytest.mark.parametrize(("line", "answer"), [("yes", YES), ("no", NO), ("always", ALWAYS)])
async def test_the_card_is_answered_by_name(line: str, answer: cmd.Command) -> None:
    async with on_stage(keeping(), armed=True) as stage:
        await stage.command(line)
        assert answered(stage.handle) == [answer]


async def test_the_card_is_answered_from_the_palette() -> None:
    async with on_stage(keeping(), armed=True) as stage:
        await found(stage, "asked: no")
        assert answered(stage.handle) == [NO]


async def test_a_name_answers_nothing_whose_keys_did_not_count_when_its_line_was_opened() -> None:
    async with on_stage(keeping()) as stage:
        await stage.pull()
        await pause(stage, 0.4)
        await stage.press("colon", *"yes")
        await pause(stage, 5)
        await stage.press("enter")
        assert answered(stage.handle) == []
        assert "not yet" in stage.text()
        await stage.arm()
        await stage.press("G")
        await found(stage, "asked: yes")
        assert answered(stage.handle) == [], "somebody typed just before the palette"


async def test_a_name_never_hits_the_question_that_came_while_it_was_typed() -> None:
    handle = keeping()
    async with on_stage(handle, armed=True) as stage:
        await stage.press("colon", *"yes")
        assert handle.send(NO) is None
        handle.work()
        assert handle.state.gate.gate == 2
        await stage.arm()
        await stage.press("enter")
        assert answered(handle) == [NO]
        await stage.arm()
        await stage.command("yes")
        assert answered(handle) == [NO, cmd.AnswerGate(2, approve=True)]


async def test_a_line_that_was_left_answers_nothing_later() -> None:
    async with on_stage(keeping(), armed=True) as stage:
        await stage.press("colon", *"yes", "escape", "alt+y")
        assert answered(stage.handle) == [], "what was typed on it counts as typing"
        await stage.press("colon", "up", "enter", "colon", *"no", "enter")
        assert answered(stage.handle) == []


async def test_an_answer_in_words_is_begun_by_name() -> None:
    async with on_stage(asking(), armed=True) as stage:
        await stage.command("write")
        await stage.press(*"1e-4", "enter")
    assert answered(stage.handle) == [cmd.AnswerQuestion(1, "1e-4")]


@pytest.mark.parametrize(("line", "approve"), [("keep", True), ("discard", False)])
async def test_the_review_is_answered_by_name(line: str, approve: bool) -> None:
    async with on_stage(keeping()) as stage:
        await stage.press("r")
        assert isinstance(stage.app.screen, Review)
        await stage.command(line)
        assert answered(stage.handle) == []
        await stage.command("close")
        assert stage.app.screen is stage.deck
        await stage.press("r")
        await stage.arm()
        await stage.command(line)
        assert answered(stage.handle) == [cmd.AnswerGate(1, approve=approve)]
        assert stage.app.screen is stage.deck


async def test_the_review_is_sent_back_from_the_palette() -> None:
    async with on_stage(keeping("claude")) as stage:
        await stage.press("r", "c", *"no", "enter")
        await stage.arm()
        await found(stage, "review: send back")
        await stage.press("enter")
        assert answered(stage.handle) == [cmd.AnswerGate(1, approve=False, comment="no")]


@pytest.mark.parametrize(
    ("keymap", "key", "answer"), [("default", "a", ALWAYS), ("vim", "y", YES), ("emacs", "n", NO)]
)
async def test_ctrl_g_and_a_letter_answer_as_alt_and_the_letter_do(
    keymap: str, key: str, answer: cmd.Command
) -> None:
    async with on_stage(keeping()) as stage:
        stage.app.appearance.action_setting("keymap", keymap)
        await stage.press("ctrl+g", key)
        assert answered(stage.handle) == []
        assert "not yet" in stage.text()
        await stage.arm()
        await stage.press("ctrl+g", key)
    assert answered(stage.handle) == [answer]


async def test_ctrl_g_and_d_shows_the_diff_and_is_no_typing() -> None:
    async with on_stage(keeping(), armed=True) as stage:
        await stage.press("ctrl+g", "d")
        assert isinstance(stage.app.screen, Review)
        await stage.press("escape")
        await pause(stage, 0.6)
        await stage.press("ctrl+g", "s", "alt+y")
        assert answered(stage.handle) == [], "there is no other question: a key at random"


async def test_a_line_being_written_is_left_alone_by_ctrl_g_and_its_letter() -> None:
    async with on_stage(keeping()) as stage:
        await stage.press("i", *"draft")
        await stage.press("ctrl+g", "y")
        assert answered(stage.handle) == [], "the draft was typed just before"
        await stage.arm()
        await stage.press("ctrl+g", "n")
        assert (stage.deck.hint.value, stage.deck.hint.has_focus) == ("draft", True)
        assert answered(stage.handle) == [NO]
        await stage.press("ctrl+g", "x", "s")
        assert stage.deck.hint.value == "drafts", "no command has ^g x: the x is swallowed"


async def test_ctrl_g_and_its_letter_are_heard_though_they_come_in_one_burst() -> None:
    async with on_stage(keeping()) as stage:
        await stage.press("i", *"draft")
        await stage.arm()
        for key in ("ctrl+g", "y"):
            stage.app.post_message(Key(key, key if len(key) == 1 else None))
        await stage.pilot.pause()
        assert answered(stage.handle) == [YES]
        assert stage.deck.hint.value == "draft"


async def test_ctrl_g_is_forgotten_after_a_while_and_letters_are_text_again() -> None:
    async with on_stage(keeping()) as stage:
        await stage.press("i")
        await stage.arm()
        await stage.press("ctrl+g")
        await pause(stage, keyboard.CHORD_S + 0.1)
        await stage.press("y")
        assert answered(stage.handle) == []
        assert stage.deck.hint.value == "y"


async def test_ctrl_g_and_escape_approve_nothing_and_where_no_card_is_nothing_is_answered() -> None:
    async with on_stage(keeping(), armed=True) as stage:
        await stage.press("ctrl+g", "escape", "y")
        assert answered(stage.handle) == []
    async with on_stage(FakeHandle(mode=Mode.REVIEW).to_phase(Phase.EVAL)) as stage:
        await stage.press("ctrl+g", "y")
        assert "nothing waits for an answer" in stage.text()
        await stage.press("question_mark", "ctrl+g", "y", "escape")
        assert isinstance(stage.app.screen, ModalScreen), "the letter was typed into the help"


async def test_the_card_names_the_way_without_alt_where_there_is_room() -> None:
    async with on_stage(keeping(), (120, 40), armed=True) as stage:
        (row,) = (row for row in stage.text().splitlines() if "alt+y keep" in row)
        assert "or ^g, then y n a d" in row
        await stage.resize(80, 24)
        assert "alt+y keep   alt+n reject" in stage.text()
    async with on_stage(asking(choices=("1", "2")), (80, 24), armed=True) as stage:
        assert "or ^g, then y down" in stage.text()


def test_a_key_that_answers_the_card_means_nothing_else_in_the_review() -> None:
    path = mine('[keys]\n"review.next" = "alt+n"\n')
    assert put_on("mine") == [
        f"{path}:2: keys.review.next: the key alt+n is given to ask.reject and to review.next; "
        "review.next has it"
    ]
    assert clashes() == []


def test_a_key_that_begins_an_answer_is_no_other_command_s() -> None:
    mine('[keys]\n"pane.home" = "ctrl+g"\n')
    told = put_on("mine")
    assert told
    assert all("ask." in each and "pane.home" in each for each in told)
