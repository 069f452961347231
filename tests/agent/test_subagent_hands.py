"""A person's hand on one subagent: a message reaches it alone, a stop ends it alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from akg_tui.agent.tools import checks
from akg_tui.agent.tools.processes import Finished
from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.decide import Rejected, decide
from akg_tui.core.fold import evolve
from akg_tui.core.phases import Phase
from akg_tui.core.recovery import opening
from akg_tui.core.state import RunState
from akg_tui.engine.attach import Attached
from akg_tui.engine.engine import Engine
from akg_tui.engine.live import Live
from akg_tui.headless.watched_run import narrate
from akg_tui.store.run_folder import RunFolder
from benchmarks.lab.family import Family, is_child, prompt_of, says
from benchmarks.lab.player import Player
from benchmarks.lab.replies import Block, Hold, Reply, Send, call, events, stream
from benchmarks.lab.runs import check_sound, create, directions, engine, of, wrong
from benchmarks.lab.server import Lab, Request, Script

HELD = "I begin to answer"


def begun(blocks: list[Block]) -> tuple[Send, Send]:
    """A reply in two halves: what was written when the server paused, and the rest."""
    sent = events(blocks)
    return Send(stream(sent[:4])), Send(stream(sent[4:]))


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not true():
            await asyncio.sleep(0.001)


@asynccontextmanager
async def at_work(
    folder: Path, script: Script, *, rounds: int = 1
) -> AsyncIterator[tuple[RunFolder, Engine, Lab]]:
    """A run under way; at the end of the block it is played out, and its journal is sound."""
    async with Lab(script) as lab:
        run = create(folder / "task", lab.url, rounds=rounds)
        work = engine(run, lab.url)
        running = asyncio.create_task(work.run())
        try:
            yield run, work, lab
            async with asyncio.timeout(20):
                await running
        finally:
            running.cancel()
            await asyncio.wait({running})
            await work.close()
    assert lab.refused == lab.memory.faults == []
    assert run.state.ok
    assert run.state.subagents == run.state.open_calls == ()
    check_sound(run)


class Pausing:
    """A family whose subagents pause in the midst of their first reply until `go`."""

    def __init__(self, *prompts: str, first: list[Block] | None = None) -> None:
        self.family = Family(Player(directions()), prompts)
        self.go = asyncio.Event()
        self.children: list[Request] = []
        self._first = first or says(HELD)

    async def __call__(self, request: Request) -> Reply:
        if not is_child(request):
            return await self.family(request)
        self.children.append(request)
        self.family._asked += 1
        turn = sum(m["role"] == "assistant" for m in request.body["messages"])
        if turn:
            return Reply([Send(stream(events(says(f"the answer to {prompt_of(request)}"))))])
        head, rest = begun(self._first)
        return Reply([head, Hold(self.go), rest])


def writing(work: Engine, count: int = 1) -> Callable[[], bool]:
    """Whether so many subagents are in the midst of a reply."""
    return lambda: sum(one.stream.text == HELD for one in work.live.subagents.at_work) == count


def sent(request: Request) -> str:
    return json.dumps(request.body["messages"])


def result_of(lab: Lab, call_id: str) -> dict[str, Any]:
    for request in lab.requests:
        for message in request.body["messages"] if not is_child(request) else ():
            for block in message["content"]:
                if block["type"] == "tool_result" and block["tool_use_id"] == call_id:
                    return dict(block)
    raise AssertionError(f"no result of {call_id}")


async def test_a_message_goes_with_the_subagents_next_request_and_to_nobody_else(
    tmp_path: Path,
) -> None:
    script = Pausing("a", "b", first=[*says(HELD), call("read_kernel", {}, "toolu_c")])
    async with at_work(tmp_path, script, rounds=2) as (run, work, lab):
        await until(writing(work, 2))
        assert work.send(cmd.HintSubagent("s2", " look at the lanes ")) is None
        assert work.state.subagents[1].hints == ("look at the lanes",)
        script.go.set()
    told = [r for r in lab.requests if "look at the lanes" in sent(r)]
    assert [prompt_of(r) for r in told] == ["b"]
    last = told[0].body["messages"][-1]["content"][-1]["text"]
    assert last == "Message to you alone from the person who watches: look at the lanes"
    carried = {e.source: e.own_hints_told for e in of(run, ev.ModelReplied) if e.own_hints_told}
    assert carried == {"s2": 1}
    assert run.state.hints == ()


async def test_a_message_that_comes_with_the_last_reply_is_read_with_one_more(
    tmp_path: Path,
) -> None:
    script = Pausing("a")
    async with at_work(tmp_path, script) as (run, work, lab):
        await until(writing(work))
        assert work.send(cmd.HintSubagent("s1", "and the widths?")) is None
        script.go.set()
    assert len(script.children) == 2
    assert "and the widths?" in sent(script.children[1])
    (ended,) = of(run, ev.SubagentEnded)
    assert (ended.status, ended.calls) == ("done", 2)
    assert "the answer to a" in str(result_of(lab, "toolu_t0")["content"])


async def test_a_stop_ends_one_subagent_at_once_and_its_parent_is_told(tmp_path: Path) -> None:
    script = Pausing("a", "b")
    async with at_work(tmp_path, script) as (run, work, lab):
        await until(writing(work, 2))
        assert work.send(cmd.StopSubagent("s1", "it goes round in circles")) is None
        await until(lambda: len(work.live.subagents.at_work) == 1)
        assert work.live.subagents.stream("s2") == HELD, "the other one works on"
        async with asyncio.timeout(20):
            await lab.hung_up.wait()
        script.go.set()
        await until(lambda: bool(run.state.finished))
        told = [line for line in narrate(run.records) if " s1" in line]
    why = "stopped by a person: it goes round in circles"
    ended = {e.subagent: (e.status, e.reason) for e in of(run, ev.SubagentEnded)}
    assert ended == {"s1": ("cancelled", why), "s2": ("done", "")}
    result = result_of(lab, "toolu_t0")
    assert result["is_error"]
    assert f"this subagent was {why}" in str(result["content"])
    assert HELD in str(result_of(lab, "toolu_t1")["content"])
    (lost,) = of(run, ev.ReplyLost)
    assert (lost.source, lost.input_tokens) == ("s1", 100)
    assert told[-2:] == [
        "you       stop s1: it goes round in circles",
        f"subagent  s1 cancelled: {why}",
    ]


async def test_a_stop_in_the_midst_of_a_tool_call_ends_it_and_answers_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, ended = asyncio.Event(), asyncio.Event()

    async def endless_run(*command: object, **how: object) -> Finished:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError("nobody waits that long")

    monkeypatch.setattr(checks, "run_process", endless_run)
    check = call("check_python_code", {"file_path": "task/reference.py"}, "toolu_v")
    family = Family(Player(directions()), ["check it"], lambda prompt, turn: [check])
    async with at_work(tmp_path, family) as (run, work, lab):
        async with asyncio.timeout(20):
            await asked.wait()
        assert ("s1/toolu_v", "check_python_code") in work.state.open_calls
        assert work.send(cmd.StopSubagent("s1")) is None
        await until(lambda: not work.state.subagents)
        assert ended.is_set()
    answer = next(e for e in of(run, ev.ToolAnswered) if e.call == "s1/toolu_v")
    assert (answer.status, answer.source) == ("error", "s1")
    assert answer.error_information == ("interrupted: stopped by a person before the tool answered")
    assert result_of(lab, "toolu_t0")["is_error"]


async def test_a_stopped_diagnosis_gives_way_to_the_plain_facts(tmp_path: Path) -> None:
    player = Player(wrong())
    held = asyncio.Event()

    async def script(request: Request) -> Reply:
        if "Phase DIAGNOSE" in sent(request):
            player.calls += 1
            return Reply([begun(says(HELD))[0], Hold(held)], ends=False)
        return player(request)

    async with at_work(tmp_path, script, rounds=4) as (run, work, _):
        await until(writing(work))
        assert work.state.phase is Phase.DIAGNOSE
        assert work.send(cmd.StopSubagent("s1", "I know why")) is None
    (ended,) = of(run, ev.SubagentEnded)
    assert (ended.status, ended.reason) == ("cancelled", "stopped by a person: I know why")
    (reported,) = of(run, ev.DiagnosisReported)
    assert reported.source == "fallback"
    assert len(of(run, ev.SubagentStarted)) == 1, "no other diagnosis is tried in its place"
    assert run.state.settled == 4


def with_subagent(folder: Path) -> RunFolder:
    run = create(folder / "task", "http://127.0.0.1:9")
    run.append(ev.ModelReplied(phase=Phase.PLAN, model="lab", tool_calls=1))
    run.append(ev.ToolCalled(call="t", tool="task", arguments={}))
    run.append(ev.SubagentStarted(subagent="s1", agent="subagent", phase=Phase.PLAN, call="t"))
    return run


def refusal(state: RunState, command: cmd.Command) -> str:
    decided = decide(state, command, state.last_at)
    assert isinstance(decided, Rejected)
    return decided.why


def test_only_a_subagent_at_work_is_told_or_stopped_and_only_once(tmp_path: Path) -> None:
    run = with_subagent(tmp_path)
    state = run.state
    assert refusal(state, cmd.HintSubagent("s9\x1b", "x")) == (
        "the subagent s9␛ is not at work; at work are: s1"
    )
    assert refusal(state, cmd.HintSubagent("s1", "  ")) == "an empty message"
    run.append(ev.SubagentStopped(subagent="s1"))
    again = "s1 is being stopped already"
    assert refusal(run.state, cmd.StopSubagent("s1")) == again
    assert refusal(run.state, cmd.HintSubagent("s1", "wait")) == again
    run.append(ev.SubagentEnded(subagent="s1", agent="subagent", status="cancelled"))
    assert refusal(run.state, cmd.StopSubagent("s1")).endswith("none is")
    run.close()


def test_a_session_that_died_before_the_end_of_a_stopped_subagent_leaves_a_sound_run(
    tmp_path: Path,
) -> None:
    run = with_subagent(tmp_path)
    run.append(ev.SubagentStopped(subagent="s1", reason="enough"))
    for event in opening(run.state, 1, "0"):
        run.append(event)
    (ended,) = of(run, ev.SubagentEnded)
    assert ended.status == "interrupted"
    check_sound(run)


def test_a_reply_of_an_older_journal_takes_no_message_away(tmp_path: Path) -> None:
    run = with_subagent(tmp_path)
    run.append(ev.SubagentHinted(subagent="s1", text="still to come"))
    plain = ev.to_builtins(ev.ModelReplied(phase=Phase.PLAN, model="lab", source="s1"))
    del plain["own_hints_told"]
    record = ev.Record(run.state.seq + 1, run.state.last_at, msgspec.convert(plain, ev.AnyEvent))
    assert evolve(run.state, record).subagents[0].hints == ("still to come",)
    run.close()


async def test_who_is_attached_sees_and_reaches_one_subagent_too(tmp_path: Path) -> None:
    script = Pausing("a", "b")
    async with at_work(tmp_path, script) as (run, work, _):
        await until(writing(work, 2))
        attached = await asyncio.to_thread(Attached.to, run.path)
        seen = Live()

        def sees() -> bool:
            if now := attached.live():
                now.onto(seen)
            return seen.subagents.stream("s2") == HELD

        await until(sees)
        stop = cmd.StopSubagent("s2", "from afar")
        assert await asyncio.to_thread(attached.send, stop) is None
        assert await asyncio.to_thread(attached.send, stop) is not None
        await until(lambda: sees() is False)
        assert [one.id for one in seen.subagents.at_work] == ["s1"]
        attached.close()
        script.go.set()
    assert {e.subagent: e.status for e in of(run, ev.SubagentEnded)} == {
        "s1": "done",
        "s2": "cancelled",
    }
