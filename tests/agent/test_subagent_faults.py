"""Whatever a server does to a subagent, the run goes on or stops with the reason.

The faults of `test_wire_faults`, met by a child's calls: through the real SDK over a real
socket. After each the child is ended, paid for, and its conversation is on disk.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from akg_tui.agent.chat import ChatReply, ChatRequest, ToolUse
from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.phases import Phase
from akg_tui.core.usage import usage_report
from akg_tui.engine.engine import Engine
from akg_tui.store.run_folder import RunFolder
from benchmarks.lab.family import Family, is_child, prompt_of, says
from benchmarks.lab.player import Player
from benchmarks.lab.replies import (
    Block,
    Hold,
    Reply,
    Send,
    call,
    events,
    message,
    refuse,
    say,
    stream,
)
from benchmarks.lab.runs import (
    Held,
    brave,
    check_sound,
    create,
    directions,
    engine,
    of,
    play,
    wrong,
)
from benchmarks.lab.server import Lab, Request
from tests.agent.test_wire_faults import ERRORS, STOPS
from tests.engine.fake_judge import FakeJudge
from tests.engine.runs import Clock
from tests.seeds.test_seed004_subagents import parents, result_of

WHOLE = ["user", "assistant", "tools", "assistant"]

# A child's calls go the same way as its parent's, which meets all faults: here one of each kind.
PASSING = [reply for name, reply in ERRORS if name in ("429", "an error event", "half an event")]
LASTING = [STOPS[1], STOPS[-2]]
PATIENT = brave(broken=99, total_s=9.0)


def looks_then_answers(prompt: str, turn: int) -> list[Block]:
    """The child of these tests: one tool call, then its answer."""
    return says(f"answer to {prompt}") if turn else [call("read_kernel", {}, "toolu_look")]


@dataclass
class Troubled:
    """A family whose server fails at the child's second call, once for each reply given."""

    family: Family
    left: list[Reply]
    at: int = 2
    whose: Callable[[Request], bool] = is_child
    calls: int = 0

    async def __call__(self, request: Request) -> Reply:
        if self.whose(request):
            self.calls += 1
            if self.calls >= self.at and self.left:
                self.family._asked += 1
                return self.left.pop(0)
        return await self.family(request)


def troubled(*replies: Reply, prompts: Iterable[str] = ("look",), **how: Any) -> Troubled:
    return Troubled(
        Family(Player(directions()), list(prompts), looks_then_answers), list(replies), **how
    )


async def played(folder: Path, script: Any, **how: Any) -> tuple[RunFolder, Lab]:
    """A run of one round to its end; every child is ended, charged, and whole on disk."""
    async with Lab(script) as lab:
        run = create(folder / "task", lab.url, rounds=1)
        await play(engine(run, lab.url, **how))
    assert run.state.finished == "max rounds reached (1)"
    assert lab.refused == lab.memory.faults == []
    check_children(run)
    return run, lab


def check_children(run: RunFolder) -> None:
    """No child is left at work, each is charged for all it took, and the journal is sound."""
    assert run.state.subagents == run.state.open_calls == ()
    report = usage_report(run.records)
    assert report.total.prompt_tokens == run.state.input_tokens
    began = {e.subagent: e for e in of(run, ev.SubagentStarted)}
    ended = {e.subagent: e for e in of(run, ev.SubagentEnded)}
    assert set(began) == set(ended)
    for name, end in ended.items():
        took = [e for e in of(run, ev.ModelReplied) + of(run, ev.ReplyLost) if e.source == name]
        assert end.calls == sum(isinstance(e, ev.ModelReplied) for e in took)
        assert end.prompt_tokens == sum(e.prompt_tokens for e in took)
        assert end.output_tokens == sum(e.output_tokens for e in took)
        kept = trace_of(run, name)
        assert kept[0]["role"] == "user"
        replies = [line for line in kept if line["role"] == "assistant"]
        assert [line["text"] for line in replies] == [
            e.text for e in took if isinstance(e, ev.ModelReplied)
        ]
    check_sound(run)


def trace_of(run: RunFolder, subagent: str = "s1") -> list[dict[str, Any]]:
    """The conversation of a child, as it is on disk."""
    (began,) = [e for e in of(run, ev.SubagentStarted) if e.subagent == subagent]
    kept = (run.path / began.trace / "messages.jsonl").read_text()
    return [json.loads(line) for line in kept.splitlines()]


def roles(run: RunFolder) -> list[str]:
    return [line["role"] for line in trace_of(run)]


def told(lab: Lab, call_id: str = "toolu_t0") -> tuple[bool, str]:
    """What the parent was sent of the child: whether as an error, and the words."""
    block = result_of(lab, call_id)
    return bool(block.get("is_error")), str(block["content"])


async def test_passing_faults_are_waited_out_and_the_parent_gets_the_answer(tmp_path: Path) -> None:
    run, lab = await played(tmp_path, troubled(*PASSING), retry=PATIENT)
    assert [wait.attempt for wait in of(run, ev.ApiWaiting)] == [1, 2, 3]
    (ended,) = of(run, ev.SubagentEnded)
    assert (ended.status, ended.calls) == ("done", 2)
    assert [e.tool for e in of(run, ev.ToolCalled) if e.source] == ["read_kernel"]
    again = [request.raw for request in lab.requests if is_child(request)][1:]
    assert len(again) == 4
    assert len(set(again)) == 1  # the same request, to the byte
    error, words = told(lab)
    assert not error
    assert "answer to look" in words
    assert roles(run) == WHOLE


@pytest.mark.parametrize(("reply", "why"), LASTING)
async def test_a_fault_that_lasts_for_the_child_is_an_error_result_and_the_run_goes_on(
    tmp_path: Path, reply: Reply, why: str
) -> None:
    run, lab = await played(tmp_path, troubled(*[reply] * 40))
    (ended,) = of(run, ev.SubagentEnded)
    assert (ended.status, ended.calls) == ("failed", 1)
    why = why.removeprefix("takes no request.*")  # so it is told when it is the run's own
    assert re.search(why, ended.reason)
    error, words = told(lab)
    assert error
    assert re.search(f"the subagent came to no answer: .*{why}", words)
    (node,) = (run.path / "trace").glob("*-task")
    assert json.loads((node / "result.json").read_text())["output"] == "(no summary)"
    assert of(run, ev.ApiFailed) == of(run, ev.ContextRebuilt) == []
    assert roles(run) == WHOLE[:3], "what was said until then is kept"


async def test_a_fault_that_lasts_for_all_holds_the_run_and_it_can_be_resumed(
    tmp_path: Path,
) -> None:
    no = refuse(401, "authentication_error", "expired")
    script = troubled(*[no] * 3)
    begun: list[bool] = []

    def whose(request: Request) -> bool:  # from the child's first call on, everybody's
        begun.extend([True] * is_child(request))
        return bool(begun)

    script.whose = whose
    async with Lab(script) as lab:
        run = create(tmp_path / "task", lab.url, rounds=1)
        with pytest.raises(Held, match=r"refused by http.*expired"):
            await play(engine(run, lab.url))
        check_children(run)
        (ended,) = of(run, ev.SubagentEnded)
        assert ended.status == "failed"
        script.left.clear()
        again = RunFolder.open(run.path)
        await play(engine(again, lab.url))
        assert again.state.finished == "max rounds reached (1)"
        check_children(again)


async def test_what_a_child_said_when_it_refused_to_go_on_is_kept(tmp_path: Path) -> None:
    refusal = message([call("shell", {})], stop_reason="refusal")
    run, lab = await played(tmp_path, troubled(refusal))
    error, words = told(lab)
    assert error
    assert "came to no answer: the model refused to go on" in words
    assert of(run, ev.SubagentEnded)[0].status == "failed"
    assert not [e for e in of(run, ev.ToolAnswered) if e.source and e.status == "error"]
    assert roles(run) == WHOLE


@pytest.mark.parametrize("stop", ["max_tokens", "model_context_window_exceeded"])
async def test_an_answer_that_was_cut_off_is_told_as_one(tmp_path: Path, stop: str) -> None:
    run, lab = await played(tmp_path, troubled(say("half an ans", stop_reason=stop)))
    error, words = told(lab)
    assert not error
    assert "half an ans" in words
    assert "cut off here" in words
    assert of(run, ev.SubagentEnded)[0].status == "done"


async def test_a_childs_prompt_that_is_refused_spoils_nothing_of_the_parents(
    tmp_path: Path,
) -> None:
    run, lab = await played(tmp_path, troubled(refuse(413, "request_too_large")))
    error, words = told(lab)
    assert error
    assert "request_too_large" in words
    assert of(run, ev.ContextRebuilt) == of(run, ev.ApiFailed) == of(run, ev.VisitFailed) == []
    assert lab.memory.fresh == 2  # the parent's conversation and the child's, no third


async def test_a_fault_of_one_child_keeps_no_answer_of_another_back(tmp_path: Path) -> None:
    script = troubled(*[refuse(402, "billing_error", "no credit")] * 9, prompts=("one", "two"))
    script.whose = lambda request: is_child(request) and prompt_of(request) == "two"
    run, lab = await played(tmp_path, script)
    assert told(lab, "toolu_t0") == (False, told(lab, "toolu_t0")[1])
    assert "answer to one" in told(lab, "toolu_t0")[1]
    error, words = told(lab, "toolu_t1")
    assert error
    assert "no credit" in words
    assert {e.status for e in of(run, ev.SubagentEnded)} == {"done", "failed"}


@pytest.mark.parametrize("how", [cmd.Stop(), cmd.Pause()], ids=["stop", "pause"])
async def test_a_person_ends_a_childs_wait_at_once(tmp_path: Path, how: cmd.Command) -> None:
    busy = refuse(529, "overloaded_error")
    async with Lab(troubled(*[busy] * 9)) as lab:
        run = create(tmp_path / "task", lab.url, rounds=1)
        retry = brave(base_s=60.0, cap_s=60.0)
        work: Engine = engine(run, lab.url, retry=retry)
        running = asyncio.create_task(work.run())
        async with asyncio.timeout(20):
            while not of(run, ev.ApiWaiting):
                await asyncio.sleep(0.005)
            assert work.send(how) is None
            while run.state.subagents:
                await asyncio.sleep(0.005)
            if isinstance(how, cmd.Stop):
                await running
        running.cancel()
        await asyncio.wait({running})
        await work.close()
    (ended,) = of(run, ev.SubagentEnded)
    assert (ended.status, ended.reason) == ("failed", "the wait for the model's server was ended")
    if isinstance(how, cmd.Stop):
        assert run.state.finished == "stopped by the user"
    check_children(run)


async def test_a_cancel_in_the_middle_of_a_childs_reply_closes_its_socket_and_is_paid_for(
    tmp_path: Path,
) -> None:
    half = Reply([Send(stream(events(says("I begin"))[:4])), Hold(asyncio.Event())], ends=False)
    async with Lab(troubled(half)) as lab:
        run = create(tmp_path / "task", lab.url, rounds=1)
        work: Engine = engine(run, lab.url)
        running = asyncio.create_task(work.run())
        async with asyncio.timeout(20):
            while work.live.subagents.stream("s1") != "I begin":
                await asyncio.sleep(0.005)
            running.cancel()
            await asyncio.wait({running})
            await lab.hung_up.wait()
        await work.close()
    (ended,) = of(run, ev.SubagentEnded)
    (lost,) = of(run, ev.ReplyLost)
    assert (ended.status, lost.source, lost.input_tokens) == ("cancelled", "s1", 100)
    assert ended.prompt_tokens > 100
    assert roles(run) == WHOLE[:3]
    assert parents(lab)[1:] == [], "the parent is told nothing: its turn is cut off too"


class Breaking:
    """A model whose child breaks in a way that nobody foresaw."""

    name = "breaking"

    async def complete(self, request: ChatRequest, on_delta: Any) -> ChatReply:
        if request.system.startswith("You are a subagent"):
            raise ZeroDivisionError("unforeseen")
        if any(type(m).__name__ == "ToolMessage" for m in request.messages):
            return ChatReply("", (ToolUse("f", "finish", {"reason": "enough"}),))
        return ChatReply("", (ToolUse("t", "task", {"prompt": "look"}),))


async def test_a_child_that_breaks_in_an_unforeseen_way_is_ended_too(tmp_path: Path) -> None:
    from akg_tui.agent.context import Context

    run = create(tmp_path / "task", "http://127.0.0.1:9", rounds=1)
    context = Context("rules", budget=10_000)
    work = Engine(run, Breaking(), FakeJudge, clock=Clock(), context=context)
    await play(work)
    (ended,) = of(run, ev.SubagentEnded)
    assert (ended.status, ended.reason) == ("failed", "it broke: ZeroDivisionError: unforeseen")
    (answer,) = [e for e in of(run, ev.ToolAnswered) if e.tool == "task"][:1]
    assert answer.status == "error"
    assert run.state.subagents == ()


# A diagnosis is a subagent too


def diagnosing(request: Request) -> bool:
    last = request.body["messages"][0]["content"][0]["text"]
    return "Phase DIAGNOSE." in last


@pytest.mark.parametrize("kind", ["refusal", "refused prompts"])
async def test_a_diagnosis_that_never_comes_gives_way_to_the_plain_facts(
    tmp_path: Path, kind: str
) -> None:
    reply = {
        "refusal": say("no", stop_reason="refusal"),
        "refused prompts": message([call("report_diagnosis", '{"cause": ')]),
    }[kind]
    family = Family(Player(wrong()))
    family._sent = True
    script = Troubled(family, [reply] * 99, at=1, whose=diagnosing)
    async with Lab(script) as lab:
        run = create(tmp_path / "task", lab.url, rounds=4)
        await play(engine(run, lab.url))
    assert {e.status for e in of(run, ev.SubagentEnded)} <= {"failed", "done"}
    (report,) = of(run, ev.DiagnosisReported)
    assert report.source == "fallback"
    assert run.state.finished == "max rounds reached (4)"
    assert run.state.phase is Phase.DONE
    check_children(run)
