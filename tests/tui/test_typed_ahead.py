"""Keys of one burst: what follows a key that opens an input is typed there, and calls no command.

A paste, a fast typist and `tmux send-keys` send all keys before the first has had any effect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from textual.app import App
from textual.events import Paste
from textual.screen import ModalScreen
from textual.widgets import Input

from akg_tui.core import commands as cmd
from akg_tui.tui import textual_internals
from akg_tui.tui.panes.agents import AgentsPane
from akg_tui.tui.screens.command_line import CommandLine
from akg_tui.tui.screens.deck import Deck
from akg_tui.tui.screens.dialogs import AskLimits, Confirm
from akg_tui.tui.screens.new_run import Wizard
from akg_tui.tui.screens.runs import Runs

from . import errands
from .listing import listed
from .moments import at_work
from .stage import Stage, burst, on_stage
from .test_asking import asking
from .test_review import in_review, two_hunks

WORDS = "zu mq3wRTx-=Jo"
"""Most of these letters call a command on the deck, and many one on the list of runs."""


def typed(app: App[int]) -> str:
    """Return what stands on the input that has the focus."""
    assert isinstance(app.focused, Input), f"{app.focused} has the focus on {app.screen}"
    return app.focused.value


def effects(stage: Stage) -> Sequence[object]:
    """Return all that the letters in `WORDS` change as commands."""
    deck = stage.deck
    stack = [each for each in stage.app.screen_stack if not isinstance(each, ModalScreen)]
    return stack, deck.shown, deck.zoomed, deck.preset, deck.active, list(stage.handle.sent)


@pytest.mark.parametrize(
    ("before", "keys", "line"),
    [
        ("", [":"], ""), ("", ["+"], "more 20"), ("", ["P", "+"], "more 20"), ("", ["i"], ""),
        ("", ["/"], ""), ("", ["?"], ""), ("", ["ctrl+p"], ""),
        ("", ["P", "enter"], "limits rounds=12"), ("1", ["a"], ""), ("1", ["e"], "PASSES = keep"),
    ],
)  # fmt: skip
async def test_words_after_a_key_of_the_deck_are_typed_on_what_it_opens(
    before: str, keys: list[str], line: str
) -> None:
    async with on_stage(at_work(3, agent="claude")) as stage:
        await stage.press(*before)
        if before:
            stage.plan.choose("p6")
        unchanged = effects(stage)
        burst(stage.app, *keys, *WORDS)
        await stage.pilot.pause()
        assert typed(stage.app) == line + WORDS
        assert effects(stage) == unchanged


async def test_words_after_the_key_of_an_answer_are_the_answer() -> None:
    async with on_stage(asking(), armed=True) as stage:
        burst(stage.app, "alt+w", *WORDS)
        await stage.pilot.pause()
        assert typed(stage.app) == WORDS
        burst(stage.app, "enter")
        await stage.pull()
        sent = [each for each in stage.handle.sent if isinstance(each, cmd.AnswerQuestion)]
        assert [each.answer for each in sent] == [WORDS]


async def test_words_after_the_key_of_a_message_are_for_that_subagent() -> None:
    async with on_stage(errands.at_work()) as stage:
        await stage.press("7")
        stage.deck.pane("agents", AgentsPane).choose("s2")
        burst(stage.app, "m", *WORDS, "enter")
        await stage.pilot.pause()
        assert [each for each in stage.handle.sent if isinstance(each, cmd.HintSubagent)] == [
            cmd.HintSubagent("s2", WORDS)
        ]


async def test_words_after_the_key_of_a_comment_are_the_comment() -> None:
    async with on_stage(two_hunks()) as stage:
        await in_review(stage)
        burst(stage.app, "B", *"KDBxnpsw", "enter")
        await stage.arm()
        gates = [each for each in stage.handle.sent if isinstance(each, cmd.AnswerGate)]
        assert gates == [cmd.AnswerGate(1, approve=False, comment="KDBxnpsw")]


async def test_what_is_pasted_behind_the_key_stands_in_its_place_among_the_keys() -> None:
    async with on_stage(at_work(3, agent="claude")) as stage:
        burst(stage.app, "i", "a")
        stage.app.post_message(Paste(WORDS))
        burst(stage.app, "b")
        await stage.pilot.pause()
        assert typed(stage.app) == f"a{WORDS}b"


async def test_a_line_is_sent_and_the_keys_after_it_are_commands_again() -> None:
    async with on_stage(at_work(3, agent="claude")) as stage:
        burst(stage.app, *":limits rounds=20", "enter", "3", "i", *"try n", "enter", "z")
        await stage.pilot.pause()
        assert stage.handle.state.task.policy.max_rounds == 20
        assert stage.handle.state.hints == ("try n",)
        assert (stage.deck.active, stage.deck.zoomed) == ("chart", True)


async def test_a_line_that_is_left_gives_the_keys_back() -> None:
    async with on_stage(at_work(3, agent="claude")) as stage:
        burst(stage.app, ":", *WORDS, "escape", "i", *WORDS, "escape", "3")
        await stage.pilot.pause()
        assert stage.deck.active == "chart"
        assert not stage.deck.hint.display
        assert stage.app.screen is stage.deck


async def test_keys_of_the_past_behind_the_key_to_it_do_not_steer_the_run() -> None:
    async with on_stage(at_work(3, agent="claude")) as stage:
        before = list(stage.handle.sent)
        burst(stage.app, "T", "home", "right", "space")
        travel = stage.app.time_travel
        await stage.pilot.pause()
        assert travel.in_past
        assert stage.handle.sent == before, "the blank does not pause the run"


async def test_words_after_a_key_of_the_list_of_runs_are_typed_on_what_it_opens(
    folder: Path,
) -> None:
    async with listed(folder) as stage:
        await stage.at("open")
        for keys in "D/":
            burst(stage.app, keys, *WORDS)
            await stage.pilot.pause()
            assert typed(stage.app) == WORDS
            assert isinstance(stage.app.screen, Confirm if keys == "D" else Runs)
            burst(stage.app, "escape", "n", "enter", *WORDS)
            await stage.pilot.pause()
            assert isinstance(stage.app.screen, Wizard)
            assert typed(stage.app).endswith(WORDS)
            burst(stage.app, "escape", "escape")
            await stage.pilot.pause()
            assert isinstance(stage.app.screen, Runs)


async def test_what_is_read_in_a_thread_before_it_opens_gets_the_keys_too(folder: Path) -> None:
    """`n` on the list would begin a new run, and `q` would leave the program."""
    async with listed(folder) as stage:
        await stage.at("task")
        burst(stage.app, "r", *WORDS)
        await stage.until(lambda: isinstance(stage.app.screen, AskLimits))
        assert typed(stage.app) == "rounds=+20" + WORDS
        burst(stage.app, "escape", " ")
        await stage.pilot.pause()
        await stage.at("open")
        order = stage.runs.sort
        burst(stage.app, " ", "c", *"nnq", "s")
        await stage.until(lambda: stage.runs.sort != order)
        assert isinstance(stage.app.screen, Runs)
        assert len(stage.app.screen_stack) == 2


async def test_keys_behind_the_one_that_opens_a_run_are_for_the_run(folder: Path) -> None:
    """On the list `n` would begin a new run and `s` would sort."""
    async with listed(folder) as stage:
        await stage.at("task")
        order = stage.runs.sort
        burst(stage.app, "enter", "z", ":", *"nsq")
        await stage.until(lambda: isinstance(stage.app.focused, Input))
        assert typed(stage.app) == "nsq"
        screens = [type(each) for each in stage.app.screen_stack[1:]]
        assert screens == [Runs, Deck, CommandLine]
        assert stage.runs.sort == order
        await stage.press("escape")
        assert stage.app.screen.zoomed  # type: ignore[attr-defined]


async def test_what_never_opens_does_not_take_the_keyboard_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def line_opened() -> None:
        async with asyncio.timeout(30):
            while not isinstance(stage.app.focused, Input):
                await asyncio.sleep(0.001)

    async with on_stage(at_work(3, agent="claude")) as stage:
        monkeypatch.setattr(textual_internals, "LONGEST_HOLD_S", 1000.0)
        worker = stage.app.run_worker(asyncio.Event().wait(), group=textual_internals.OPENING)
        burst(stage.app, "down", ":")
        await stage.pilot.pause()
        assert not isinstance(stage.app.focused, Input)
        worker.cancel()
        await line_opened()
        await stage.press("escape")

        monkeypatch.setattr(textual_internals, "LONGEST_HOLD_S", 0.0)
        stage.app.run_worker(asyncio.Event().wait(), group=textual_internals.OPENING)
        burst(stage.app, "down", ":")
        await line_opened()
