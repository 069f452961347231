"""The log of one subagent: live, over, and in the past; a message to it, and its end."""

from __future__ import annotations

from textual.widgets import Input

from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.phases import Phase
from akg_tui.tui.panes.agents import AgentsPane
from akg_tui.tui.panes.subagent import SubagentPane
from akg_tui.tui.screens.command_line import offers
from akg_tui.tui.screens.dialogs import Confirm
from akg_tui.view.controls import command_registry
from akg_tui.view.controls.command_registry import within
from akg_tui.view.spans import cells, plain

from .errands import FOUND, SOURCE, at_work, begin, ends, says, uses
from .script import FakeHandle
from .stage import Stage, on_stage


def subagent(stage: Stage) -> SubagentPane:
    return stage.deck.pane("subagent", SubagentPane)


async def pick(stage: Stage, agent: str, *keys: str) -> None:
    """Pick a subagent in the list, and press `keys` there."""
    await stage.press("7")
    stage.deck.pane("agents", AgentsPane).choose(agent)
    await stage.press(*keys)


async def write(stage: Stage, text: str) -> None:
    """Write on the line that is open, and send it."""
    assert isinstance(stage.app.focused, Input)
    stage.app.focused.value = text
    await stage.press("enter")


async def test_enter_shows_the_picked_subagent_and_escape_leads_back() -> None:
    handle = at_work()
    async with on_stage(handle, (200, 60)) as stage:
        await stage.press("7", "down", "down", "enter")
        text = stage.text()
        assert subagent(stage).key == "s2"
        assert "s2 subagent  working" in text
        assert "asked Read the loops of row_softmax" in text
        assert "read_file task/reference.py 1 60 ok" in text
        assert "verify_kernel …" in text
        assert "p1 FLAGS = -O3" in text, "the deck is still there"
        await stage.press("space")
        assert handle.state.paused, "and keeps its keys"
        await stage.press("escape")
        assert stage.deck.active == "agents"


async def test_the_newest_at_work_is_shown_and_stays_until_another_is_asked_for() -> None:
    handle = at_work()
    async with on_stage(handle) as stage:
        await stage.press("o")
        assert subagent(stage).key == "s3"
        begin(handle, "s4", "a later errand", call="c4")
        await stage.pull()
        assert subagent(stage).key == "s3"
        await stage.press("less_than_sign")
        assert "asked Read the loops" in stage.text()
        await stage.press("less_than_sign", "less_than_sign")
        assert subagent(stage).key == "s1"
        assert "that was the first subagent" in stage.text()
        await stage.press("greater_than_sign", "4", "o")
        assert subagent(stage).key == "s2"


async def test_in_a_small_terminal_it_is_a_pane_like_others() -> None:
    async with on_stage(at_work(), (80, 24)) as stage:
        await pick(stage, "s2", "enter")
        for columns, rows in ((80, 24), (60, 16), (50, 12)):
            await stage.resize(columns, rows)
            assert subagent(stage).size.width >= columns - 2
            await stage.press("2", "o")
            assert "asked Read the loops" in plain(subagent(stage).rows[0])
            assert all(cells(row) <= columns for row in stage.text().split("\n"))


async def test_what_a_subagent_writes_is_seen_at_once_and_told_once() -> None:
    handle = at_work()
    async with on_stage(handle) as stage:
        await stage.press("o", "z")
        assert "so I read" in stage.text()
        handle.live.subagents.write("s3", " the file")
        handle.live.show("another thing")
        await stage.pull()
        assert "so I read the file" in stage.text()
        says(handle, "s3", "The shapes are in the reference, so I read the file", calls=1)
        handle.live.subagents.write("s3", "Next I count.")
        await stage.pull()
        text = stage.text()
        assert text.count("so I read the file") == 1
        assert text.count("Next I count.") == 1


async def test_a_finished_subagent_stays_and_is_read_from_its_beginning() -> None:
    async with on_stage(at_work()) as stage:
        await pick(stage, "s2", "enter", "z")
        assert subagent(stage).follow
        says(stage.handle, "s2", "Nothing else. " * 300)
        ends(stage.handle, "s2")
        await stage.pull()
        assert "done  3 turns" in stage.text()
        await pick(stage, "s1", "enter")
        await pick(stage, "s2", "enter")
        assert subagent(stage).top == 0
        assert not subagent(stage).follow
        assert "asked Read the loops" in stage.text()


async def test_a_cut_answer_says_where_the_rest_is_and_escape_lets_go_of_what_is_picked() -> None:
    handle = at_work()
    uses(handle, "s2", "read_kernel", SOURCE * 3)
    async with on_stage(handle) as stage:
        await pick(stage, "s2", "enter", "up", "enter")
        told = " ".join(plain(row).strip() for row in subagent(stage).rows)
        assert "(cut here: trace/000902-task/messages.jsonl has the rest)" in told
        await stage.press("escape")
        assert stage.deck.active == "subagent"


async def test_a_message_goes_to_the_subagent_that_is_looked_at() -> None:
    async with on_stage(at_work()) as stage:
        await pick(stage, "s2", "enter", "m")
        await write(stage, "only the sum")
        assert stage.handle.sent[-1] == cmd.HintSubagent("s2", "only the sum")
        assert stage.app.focused is subagent(stage)
        text = stage.text()
        assert "you only the sum" in text
        assert "1 message unread" in text
        says(stage.handle, "s2", "I look at the sum alone.")
        await stage.pull()
        assert "unread" not in stage.text()


async def test_words_to_a_subagent_that_has_ended_are_kept() -> None:
    async with on_stage(at_work()) as stage:
        await pick(stage, "s2", "m", *"too late")
        ends(stage.handle, "s2")
        await stage.press("enter")
        assert not any(isinstance(each, cmd.HintSubagent) for each in stage.handle.sent)
        assert stage.deck.prompt.value == "too late"
        assert isinstance(stage.app.focused, Input)
        assert "the subagent s2 is not at work; at work are: s3" in stage.text()


async def test_a_stop_is_asked_first_and_reaches_that_one_alone() -> None:
    handle = at_work()
    async with on_stage(handle) as stage:
        await pick(stage, "s2", "x")
        assert isinstance(stage.app.screen, Confirm)
        assert "stop s2 subagent?" in stage.text()
        assert "is told that a person stopped it" in stage.text()
        await stage.press("n")
        assert [each.stopped for each in handle.state.subagents] == [False, False]
        await stage.press("x")
        handle.now += 1
        await stage.press("y")
        assert handle.sent[-1] == cmd.StopSubagent("s2")
        ends(handle, "s2", status="cancelled", reason="stopped by a person")
        await stage.press("enter", "z")
        assert "s2 subagent  stopped" in stage.text()
        assert "cancelled after 2 calls: stopped by a person" in stage.text()


async def test_one_that_is_over_is_neither_told_nor_stopped() -> None:
    async with on_stage(at_work()) as stage:
        await pick(stage, "s1", "m")
        assert "s1 subagent is done: nobody is there to read" in stage.text()
        stage.handle.now += 10
        await stage.press("x")
        assert "there is nothing to stop" in stage.text()
        assert not isinstance(stage.app.screen, Confirm)


async def test_in_the_past_it_shows_what_was_and_steers_nothing() -> None:
    handle = at_work()
    before = next(
        r.seq for r in handle.records
        if isinstance(r.event, ev.ModelReplied) and r.event.source == "s2"
    )  # fmt: skip
    async with on_stage(handle) as stage:
        await pick(stage, "s2", "enter", "z")
        live = stage.text()
        await stage.press("T")
        stage.app.time_travel.action_past_go(before)
        await stage.pull()
        assert "The loops first" in stage.text()
        assert FOUND.split("\n")[0] not in stage.text()
        stage.app.time_travel.action_past_go(before - 20)
        await stage.pull()
        assert "this subagent has not begun at the moment" in stage.text()
        await stage.press("L")
        stage.deck.panes[stage.deck.active].focus()
        await stage.pull()
        assert FOUND.split("\n")[0] in stage.text()
        assert live.split("\n")[5][60:] == stage.text().split("\n")[5][60:]
        await stage.press("T")
        stage.deck.action_subagent("message")
        await write(stage, "no")
        assert not any(isinstance(each, cmd.HintSubagent) for each in handle.sent)


async def test_a_diagnosis_is_shown_with_what_its_visit_came_to() -> None:
    handle = FakeHandle().to_phase(Phase.PLAN, settled=6)
    handle.send(cmd.ForceDiagnosis("why?"))
    handle.to_phase(Phase.DIAGNOSE)
    begin(handle, "s1", "3 failures in a row")
    says(handle, "s1", "All of them changed the sum.")
    async with on_stage(handle) as stage:
        await stage.press("o")
        assert "diagnosis 1  working" in stage.text()
        assert "All of them changed the sum." in stage.text()
        await stage.press("x")
        assert "The diagnosis is made from the plain facts instead." in stage.text()
        await stage.press("escape")
        handle.tell(
            ev.DiagnosisReported(cause="the sum loses digits", avoid=(), directions=("sum twice",))
        )
        ends(handle, "s1")
        await stage.pull()
        assert "diagnosis the sum loses digits" in stage.text()
        assert "diagnosis 1  done" in stage.text()


async def test_a_run_of_before_subagents_had_names_shows_its_diagnosis_too() -> None:
    handle = FakeHandle().to_phase(Phase.PLAN, settled=6)
    handle.send(cmd.ForceDiagnosis("why?"))
    handle.work(lambda s: s.phase is Phase.PLAN and s.diagnosis is not None)
    async with on_stage(handle) as stage:
        await stage.press("o")
        assert "Each of them changed the exponential" in stage.text()


async def test_without_subagents_the_keys_say_so() -> None:
    async with on_stage(FakeHandle()) as stage:
        await stage.press("o")
        assert "no subagent has begun yet" in stage.text()
        await stage.press("7", "down", "enter")
        assert stage.deck.active == "log", "the main agent's own log"


async def test_a_click_picks_an_agent_and_a_double_click_opens_its_log() -> None:
    async with on_stage(at_work(), (200, 60)) as stage:
        await stage.pilot.click("#agents", offset=(8, 3))
        await stage.pull()
        assert stage.deck.shared.picked == "s3"
        assert stage.deck.active == "agents"
        await stage.pilot.click("#agents", offset=(8, 4), times=2)
        await stage.pull()
        assert stage.deck.active == "subagent"


async def test_nothing_hostile_leaks_out_and_nothing_shifts() -> None:
    evil = "\x1b[31m[bold]red[/bold]\x1b]0;owned\x07\u202ereversed 中文字\x00 end"
    handle = at_work()
    begin(handle, "s4", evil, call="c904")
    says(handle, "s4", evil, calls=1)
    uses(handle, "s4", "read\x1b_file", evil, path=evil)
    handle.live.subagents.write("s4", evil)
    async with on_stage(handle) as stage:
        await stage.press("o")
        for size in ((120, 40), (80, 24)):
            await stage.resize(*size)
            text = stage.text()
            assert "[bold]red[/bold]" in text
            assert "中文字" in text
            assert not any(c in text for c in "\x1b\x07\x00\u202e")
            assert {cells(row) for row in text.split("\n")} == {size[0]}


async def test_every_command_of_the_subagents_runs_is_found_and_has_its_key() -> None:
    async with on_stage(at_work()) as stage:
        own = within("deck")
        assert own
        offered = {offer.command.id for offer in offers(stage.app)}
        for place_of_focus in ("7", "o"):
            await stage.press(place_of_focus)
            bound = stage.app.screen.active_bindings
            for command in own:
                assert command.id in offered
                for key in command.keys_now:
                    assert bound[key].binding.action.endswith(command.action), command.id
        await stage.press("escape")
        for command in (*own, *(c for c in command_registry.at("deck") if c.group == "Subagents")):
            stage.deck.action_pane("agents")
            assert await stage.app.carry_out(command), command.id
            await stage.pull()
            assert stage.app._exception is None
            if stage.app.screen is not stage.deck or isinstance(stage.app.focused, Input):
                await stage.press("escape")
            assert stage.app.screen is stage.deck
