"""The rules of approval: what may answer a question, and above all what may not."""

from __future__ import annotations

import asyncio
import random

import pytest
from textual.events import Key
from textual.widgets import Input

from akg_tui.core import commands as cmd
from akg_tui.core.phases import Gate, Mode, Phase
from akg_tui.tui.screens.dialogs import Reading

from .moments import keeping
from .script import FakeHandle
from .stage import Stage, on_stage

ANSWERS = (cmd.AnswerGate, cmd.AnswerQuestion)


def answered(handle: FakeHandle) -> list[cmd.Command]:
    return [command for command in handle.sent if isinstance(command, ANSWERS)]


def gated(*gates: Gate) -> FakeHandle:
    """A run that has stopped at the first of these gates."""
    handle = FakeHandle()
    for gate in gates:
        assert handle.send(cmd.SetGate(gate, on=True)) is None
    handle.work()
    return handle


def asking(**question: object) -> FakeHandle:
    """The agent asks the person something in PLAN."""
    handle = FakeHandle(mode=Mode.REVIEW).to_phase(Phase.PLAN)
    asked = cmd.AskUser(**{"text": "How far may errors go?", **question})  # type: ignore[arg-type]
    assert handle.send(asked) is None
    return handle


async def pause(stage: Stage, seconds: float) -> None:
    """Let time go by on the app's clock."""
    stage.handle.now += seconds
    await stage.pull()


async def test_a_run_that_nobody_works_on_asks_nothing_until_somebody_does() -> None:
    handle = keeping()
    handle.live.show("nobody is at work on it; go on with: akg-tui resume RUN", holds=True)
    handle.live.at_rest = True
    async with on_stage(handle, armed=True) as stage:
        assert not stage.deck.card.display
        assert "keys count in a moment" not in stage.text()
        await stage.press("alt+y")
        assert "not yet" not in stage.text()
        assert stage.text().rstrip().endswith("akg-tui resume RUN")
        await stage.press("r")
        assert "nobody is at work on it" in stage.text().split("\n")[3]
        await stage.press("escape")
        handle.live.at_rest = False
        await stage.arm()
        assert stage.deck.card.display
        await stage.press("alt+y")
    assert answered(handle)


async def test_the_card_is_docked_and_the_focus_stays_where_it_was() -> None:
    async with on_stage(FakeHandle(mode=Mode.REVIEW).to_phase(Phase.EVAL)) as stage:
        await stage.press("4")
        focused = stage.deck.focused
        stage.handle.work()
        await stage.arm()
        assert "KEEP attempt 1?" in stage.text()
        assert stage.app.screen is stage.deck, "no popup"
        assert stage.deck.focused is focused
        assert not stage.deck.card.can_focus


async def test_random_keystrokes_typed_while_a_card_appears_never_answer_it() -> None:
    """At the pace of typing, below half a second a key, with pauses before a word; also with
    escapes that a terminal joins with the next letter to the very keys that answer, and with
    the key that begins an answer.
    """
    draw = random.Random(20260701)
    plain = [*"abcdefghijklmnoprstuvwxyKDYN 0123456789.,@", "enter", "backspace", "escape"]
    keys = [*plain, "alt+y", "alt+n", "alt+w", "alt+down", "ctrl+g"]
    handle = FakeHandle(mode=Mode.REVIEW, agent="claude").to_phase(Phase.EVAL)
    refused = 0
    async with on_stage(handle, (80, 24)) as stage:
        for number in range(200):
            if number == 40:
                handle.work()
                assert handle.state.gate
            pause = draw.random() < 0.05
            gap = draw.uniform(0.6, 3.0) if pause else draw.uniform(0.01, 0.3)
            now = handle.now = handle.now + gap
            if not stage.deck.hint.has_focus:  # sent or left: the person goes on writing
                stage.deck.hint.open()
            key = draw.choice(plain if pause else keys)
            await stage.app.on_event(Key(key, key if len(key) == 1 else None))
            for _ in range(15):
                await asyncio.sleep(0)
            handle.now = now  # the script lets time go by with each event, a hint's too
            if number % 5 == 0:
                stage.app.pull_now()
            refused += "not yet" in stage.deck.footer.view[1] and key == "alt+y"
        await stage.pull()
        assert "KEEP attempt 1?" in stage.text()
    assert answered(handle) == []
    assert handle.state.hints, "the keys were heard: some of it was sent as hints"
    assert refused, "the keys that answer were among them, and were refused"


@pytest.mark.parametrize(("key", "always"), [("alt+y", False), ("alt+a", True)])
async def test_the_keys_count_half_a_second_after_the_card_was_painted_and_not_before(
    key: str, always: bool
) -> None:
    async with on_stage(keeping()) as stage:
        await stage.pull()
        await pause(stage, 0.4)
        await stage.press(key)
        assert answered(stage.handle) == []
        assert "not yet" in stage.text()
        await pause(stage, 0.6)
        await stage.press(key)
    assert answered(stage.handle) == [cmd.AnswerGate(1, approve=True, always=always)]


async def test_typing_disarms_the_keys_for_half_a_second_and_reading_does_not() -> None:
    async with on_stage(keeping(), armed=True) as stage:
        await stage.press("i", "x", "alt+y")
        assert answered(stage.handle) == []
        await stage.press("escape", "2")
        await pause(stage, 0.6)
        await stage.press("down", "pagedown", "up", "alt+y")
        assert answered(stage.handle) == [cmd.AnswerGate(1, approve=True)]


async def test_letters_and_escape_never_answer() -> None:
    async with on_stage(keeping(), armed=True) as stage:
        await stage.press(*"yYkKdDnNaA", "enter", "space", "tab", "backspace")
        await stage.press("escape", "escape")
        await stage.press("r", "escape")
        await stage.arm()
        await stage.press("escape")
        assert answered(stage.handle) == []
        assert "KEEP attempt 1?" in stage.text()


async def test_the_answer_keys_work_from_anywhere_also_from_a_line_being_written() -> None:
    async with on_stage(keeping()) as stage:
        await stage.press("i", *"draft")
        await stage.arm()
        await stage.press("alt+n")
        assert stage.deck.query_one("#hint", Input).value == "draft"
    assert answered(stage.handle) == [cmd.AnswerGate(1, approve=False)]


@pytest.mark.parametrize(
    ("gate", "who", "title", "effect", "still"),
    [
        (Gate.KEEP, "DECIDE asks, low risk: u takes it back", "KEEP attempt 1?",
         "it becomes the best, 1.31×", "no work"),
        (Gate.EDIT, "EDIT asks for the agent, some risk: new code runs",
         "RUN the edit of attempt 1?", "run in the sandbox", "not run yet"),
        (Gate.PLAN, "PLAN asks for the agent, no risk: nothing is run",
         "Go on with this plan of 6 items?", "p1 to p6", "no item is"),
    ],
)  # fmt: skip
async def test_a_card_says_who_asks_the_risk_what_would_happen_and_what_waiting_costs(
    gate: Gate, who: str, title: str, effect: str, still: str
) -> None:
    async with on_stage(gated(gate), armed=True) as stage:
        await pause(stage, 75)
        shown = stage.text()
        for text in (who, title, effect, still, "has waited 1:1"):
            assert text in shown
        assert ("+1 -1 lines." in shown) == (gate is not Gate.PLAN), "the size of the diff"
        await stage.press("alt+y")
    assert answered(stage.handle) == [cmd.AnswerGate(1, approve=True)]


async def test_a_script_can_be_read_in_full_before_it_is_allowed() -> None:
    handle = FakeHandle()
    handle.send(cmd.SetGate(Gate.SCRIPT, on=True))
    handle.to_phase(Phase.PLAN)
    script = "import os\n" + "".join(f"print({n})\n" for n in range(30)) + "# \x1b[2J[red]"
    assert handle.send(cmd.RequestScript("ab" * 32, script)) is None
    async with on_stage(handle, armed=True) as stage:
        assert "RUN this script (abababababab)?" in stage.text()
        assert "these 32 lines may run" in stage.text()
        await stage.press("alt+d")
        assert isinstance(stage.app.screen, Reading)
        await stage.press("end")
        assert "# ␛[2J[red]" in stage.text()
        await stage.press("alt+y", "y")
        assert answered(handle) == [], "nothing is answered where the card is not in sight"
        await stage.press("escape")
        await stage.arm()
        await stage.press("alt+n")
        assert "alt+n once more: reject" in stage.text()
        assert answered(handle) == [], "no way leads back from this"
        await stage.press("alt+n")
    assert answered(handle) == [cmd.AnswerGate(1, approve=False)]


async def test_a_rejected_keep_names_the_way_back_which_asks_again() -> None:
    async with on_stage(keeping(), armed=True) as stage:
        assert "reject: the seed stays the best; :remeasure p1 asks again" in stage.text()
        await stage.press("alt+n")
        assert answered(stage.handle) == [cmd.AnswerGate(1, approve=False)]
        assert "rejected; :remeasure p1 asks again" in stage.text()
        stage.handle.work(lambda state: state.settled == 1)
        await stage.command("remeasure p1")
        stage.handle.work()
        assert stage.handle.state.measured_again is not None
        assert stage.handle.state.gate is not None, "the same kernel is asked about again"


async def test_a_question_with_choices_is_answered_by_the_one_that_is_marked() -> None:
    async with on_stage(asking(choices=("1e-5", "1e-4", "1e-3"), default="1e-4")) as stage:
        await stage.arm()
        assert "▸ 2/3 1e-4" in stage.text()
        await stage.press("alt+down")
        assert "▸ 3/3 1e-3" in stage.text()
        await stage.press("alt+n")
        assert answered(stage.handle) == []
        await pause(stage, 0.6)
        await stage.press("alt+y")
    assert answered(stage.handle) == [cmd.AnswerQuestion(1, "1e-3")]


@pytest.mark.parametrize("choices", [(), ("1e-5", "1e-4")])
async def test_a_question_is_answered_in_words_on_a_line_of_its_own(
    choices: tuple[str, ...],
) -> None:
    async with on_stage(asking(choices=choices), armed=True) as stage:
        assert "alt+w write" in stage.text()
        if not choices:
            await stage.press("alt+y")
            assert answered(stage.handle) == [], "there is nothing to say yes to"
            await pause(stage, 0.6)
        await stage.press("alt+w", *"up to 1e-4", "enter")
        assert stage.handle.state.question is None
    assert answered(stage.handle) == [cmd.AnswerQuestion(1, "up to 1e-4")]


async def test_a_hint_under_way_when_a_question_comes_stays_a_hint() -> None:
    handle = FakeHandle(mode=Mode.REVIEW, agent="claude").to_phase(Phase.PLAN)
    async with on_stage(handle) as stage:
        await stage.press("i", *"try lane")
        assert stage.handle.send(cmd.AskUser("Is this right?")) is None
        await stage.pull()
        assert "Is this right?" in stage.text()
        await stage.press("s", "enter")
        assert answered(stage.handle) == []
        assert stage.handle.state.hints == ("try lanes",)


async def test_words_for_a_question_that_was_closed_meanwhile_are_not_sent_to_another() -> None:
    handle = asking(default="none", timeout_s=60.0)
    async with on_stage(handle, armed=True) as stage:
        await stage.press("alt+w", *"mine")
        handle.now += 100
        assert not handle.step(), "who writes an answer has all the time"
        assert handle.send(cmd.AnswerQuestion(1, "from another terminal")) is None
        assert handle.send(cmd.AskUser("And now?")) is None
        await stage.press("enter")
        assert [each.answer for each in answered(handle)] == ["from another terminal"]
        assert stage.deck.reply.value == "mine"
        assert "not open any more" in stage.text()


async def test_a_question_with_a_time_limit_counts_down_to_its_default() -> None:
    async with on_stage(asking(choices=("yes", "no"), default="no", timeout_s=90.0)) as stage:
        await stage.pull()
        assert "its default is taken, no" in stage.text()
        assert "no answer: in 1:" in stage.text()
        await pause(stage, 60)
        assert "no answer: in 1:" not in stage.text()
        assert " s its default is taken, no" in stage.text()


def glanced(**question: object) -> FakeHandle:
    """The agent asks in mode auto, while a screen shows the run."""
    handle = FakeHandle().to_phase(Phase.PLAN)
    asked = cmd.AskUser("How far may errors go?", watched=True, **question)  # type: ignore[arg-type]
    assert handle.send(asked) is None
    return handle


@pytest.mark.parametrize("key", ["alt+down", "alt+n", "alt+s", ""])
async def test_in_mode_auto_a_question_waits_a_little_and_any_key_of_its_card_stops_the_clock(
    key: str,
) -> None:
    handle = glanced(choices=("yes", "no"), default="no")
    async with on_stage(handle, armed=True) as stage:
        assert "How far may errors go?" in stage.text()
        assert " s its default is taken, no; any key here stops the clock" in stage.text()
        await (stage.press(key) if key else stage.pilot.click("#ask"))
        await stage.pull()
        assert "it waits until you answer; its default is no" in stage.text()
        await pause(stage, 3_600)
        assert not handle.step()
        await stage.press("alt+y")
    assert len(answered(handle)) == 1


async def test_several_asks_queue_and_are_counted() -> None:
    handle = asking(choices=("yes", "no"))
    handle.send(cmd.SetGate(Gate.SCRIPT, on=True))
    assert handle.send(cmd.RequestScript("cd" * 32, "print(1)")) is None
    async with on_stage(handle, armed=True) as stage:
        assert "1 of 2: alt+s the next" in stage.text()
        assert "How far may errors go?" in stage.text()
        await stage.press("alt+s")
        assert "RUN this script" in stage.text()
        assert "2 of 2" in stage.text()
        await stage.press("alt+y")
        assert answered(handle) == [], "another question: its keys arm anew"
        await stage.arm()
        await stage.press("alt+y")
        assert answered(handle) == [cmd.AnswerGate(1, approve=True)]
        assert "How far may errors go?" in stage.text()


async def test_an_answer_meant_for_one_question_never_hits_the_one_that_took_its_place() -> None:
    handle = keeping()
    async with on_stage(handle, armed=True) as stage:
        handle.send(cmd.AnswerGate(1, approve=False))
        handle.work()
        assert handle.state.gate
        assert handle.state.gate.gate == 2
        await stage.press("alt+y")
        assert answered(handle) == [cmd.AnswerGate(1, approve=False)]


async def test_the_card_and_its_keys_fit_at_every_size() -> None:
    long = "Shall the tolerance of the comparison be widened for this operator " * 6
    handle = asking(text=long, choices=tuple(f"choice {n} " + "x" * 90 for n in range(10)))
    async with on_stage(handle) as stage:
        for size in ((80, 24), (120, 40), (200, 60), (61, 17)):
            await stage.resize(*size)
            await stage.arm()
            assert "alt+y answer with this" in stage.text()
            assert "▸ 1/10 choice 0" in stage.text()
