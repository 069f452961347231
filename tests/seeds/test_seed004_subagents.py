"""Seed 004, subagents: own context, bounded, one text back, all of it accounted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from akg_tui.agent.subagents import A_VISIT, AT_ONCE, MAX_CALLS
from akg_tui.agent.tools.registry import allowed, own_tools
from akg_tui.core import events as ev
from akg_tui.core.phases import Phase
from akg_tui.core.recovery import opening
from akg_tui.core.stopping.automation import AutomationPolicy
from akg_tui.core.usage import usage_report
from akg_tui.engine.engine import Engine
from akg_tui.headless.watched_run import narrate
from akg_tui.store.run_folder import RunFolder
from benchmarks.lab.family import Family, is_child, prompt_of, says
from benchmarks.lab.player import Player
from benchmarks.lab.replies import Block, Hold, Reply, Send, call, events, stream
from benchmarks.lab.runs import check_sound, create, directions, engine, of, play, wrong
from benchmarks.lab.server import Lab, Request

FIND = "Use a subtask to find what testing framework this project uses"
READ = "Delegate: read all .py files and summarize what each one does"
"""Prompts of the page."""


async def played(
    folder: Path, family: Family, *, rounds: int = 1, notes: Mapping[str, str] | None = None
) -> tuple[RunFolder, Lab]:
    """A whole run with this family at the server; the journal is sound after it."""
    async with Lab(family) as lab:
        run = create(folder / "task", lab.url, rounds=rounds)
        for name, text in (notes or {}).items():
            (run.path / "notes").mkdir(exist_ok=True)
            (run.path / "notes" / name).write_text(text)
        await play(engine(run, lab.url))
    assert lab.refused == lab.memory.faults == []
    assert run.state.ok
    assert run.state.subagents == run.state.open_calls == ()
    check_sound(run)
    return run, lab


def parents(lab: Lab) -> list[Request]:
    return [request for request in lab.requests if not is_child(request)]


def result_of(lab: Lab, call_id: str) -> dict[str, Any]:
    """The result of a call as the parent was sent it."""
    for request in parents(lab):
        for message in request.body["messages"]:
            for block in message["content"]:
                if block["type"] == "tool_result" and block["tool_use_id"] == call_id:
                    return dict(block)
    raise AssertionError(f"no result of {call_id}")


def names(request: Request) -> list[str]:
    return [tool["name"] for tool in request.body["tools"]]


async def test_c11_c12_a_subagent_has_its_parents_tools_but_task_and_its_prompt_alone(
    tmp_path: Path,
) -> None:
    def child(prompt: str, turn: int) -> list[Block]:
        return says("ended") if turn else [call("task", {"prompt": "deeper"}, "toolu_deep")]

    family = Family(Player(directions()), [FIND], child)
    run, lab = await played(tmp_path, family)
    own, given = names(parents(lab)[0]), names(family.children[0])
    assert "task" in own
    assert given == [name for name in own if name != "task"]
    assert len(of(run, ev.SubagentStarted)) == 1
    (answer,) = [e for e in of(run, ev.ToolAnswered) if e.source == "s1"]
    assert (answer.call, answer.status) == ("s1/toolu_deep", "error")
    assert "there is no tool 'task'" in answer.error_information
    first = family.children[0]
    assert [m["role"] for m in first.body["messages"]] == ["user"]
    assert prompt_of(first) == FIND


async def test_c13_a_subagent_makes_at_most_30_model_calls(tmp_path: Path) -> None:
    def child(prompt: str, turn: int) -> list[Block]:
        return [*says("not yet"), call("read_kernel", {}, f"toolu_c{turn}")]

    family = Family(Player(directions()), ["never end"], child)
    run, lab = await played(tmp_path, family)
    assert MAX_CALLS == 30
    assert len(family.children) == 30
    (ended,) = of(run, ev.SubagentEnded)
    assert (ended.status, ended.calls) == ("limit", 30)
    told = result_of(lab, "toolu_t0")
    assert told["is_error"]
    assert "no result in 30 turns" in str(told["content"])
    assert "(incomplete: the subagent used up its model calls" in str(told["content"])
    assert "not yet" in str(told["content"])


async def test_c14_a_tools_output_is_cut_at_50_000_characters(tmp_path: Path) -> None:
    def child(prompt: str, turn: int) -> list[Block]:
        read = call("read_file", {"file_path": "notes/a.txt"}, "toolu_r")
        return says("long") if turn else [read]

    family = Family(Player(directions()), [READ], child)
    run, _ = await played(tmp_path, family, notes={"a.txt": "x" * 400_000})
    (block,) = family.children[1].body["messages"][-1]["content"]
    assert 49_000 < str(block["content"]).count("x") <= 50_000
    (node,) = (run.path / "trace").glob("*-task/*-read_file")
    assert json.loads((node / "result.json").read_text())["output"] == "x" * 400_000


@pytest.mark.parametrize(("last", "told"), [("  pytest\n", "pytest"), ("", "(no summary)")])
async def test_c15_the_parent_gets_the_final_text_or_no_summary(
    tmp_path: Path, last: str, told: str
) -> None:
    def child(prompt: str, turn: int) -> list[Block]:
        if turn:
            return says(last) if last else []
        return [*says("I look first."), call("read_kernel", {}, "toolu_c")]

    run, lab = await played(tmp_path, Family(Player(directions()), [FIND], child))
    (node,) = (run.path / "trace").glob("*-task")
    result = json.loads((node / "result.json").read_text())
    assert result == {"status": "success", "output": told, "error_information": ""}
    content = str(result_of(lab, "toolu_t0")["content"])
    assert told in content
    assert "I look first." not in content


async def test_c16_a_subagents_history_never_enters_its_parents_messages(tmp_path: Path) -> None:
    def child(prompt: str, turn: int) -> list[Block]:
        read = call("read_file", {"file_path": "task/reference.py"}, "toolu_c")
        return says("done") if turn else [*says("SECRET THOUGHT"), read]

    run, lab = await played(tmp_path, Family(Player(directions()), ["read"], child), rounds=3)
    for request in parents(lab):
        sent = json.dumps(request.body["messages"])
        assert "SECRET THOUGHT" not in sent
        assert "def get_inputs" not in sent
    (kept,) = (run.path / "trace").glob("*-task/messages.jsonl")
    lines = [json.loads(line) for line in kept.read_text().splitlines()]
    assert [line["role"] for line in lines] == ["user", "assistant", "tools", "assistant"]
    assert lines[1]["text"] == "SECRET THOUGHT"
    assert "def get_inputs" in lines[2]["results"][0]["output"]


async def test_c17_a_subagent_works_in_the_same_files(tmp_path: Path) -> None:
    def child(prompt: str, turn: int) -> list[Block]:
        wanted = {"content": f"found by {prompt}", "file_path": f"notes/{prompt}.md"}
        return says("written") if turn else [call("write_file", wanted, "toolu_c")]

    run, _ = await played(tmp_path, Family(Player(directions()), ["one", "two"], child))
    assert (run.path / "notes" / "one.md").read_text() == "found by one"
    assert (run.path / "notes" / "two.md").read_text() == "found by two"


# Beyond the seed


async def test_subagents_of_one_reply_work_at_the_same_time_up_to_a_cap(tmp_path: Path) -> None:
    family = Family(Player(directions()), [f"task {n}" for n in range(AT_ONCE + 2)], meet=AT_ONCE)
    run, lab = await played(tmp_path, family)
    assert family.together == AT_ONCE
    started, ended = of(run, ev.SubagentStarted), of(run, ev.SubagentEnded)
    assert [e.subagent for e in started] == [f"s{n}" for n in range(1, AT_ONCE + 3)]
    assert {e.status for e in ended} == {"done"}
    for number in range(AT_ONCE + 2):
        assert f"answer to task {number}" in str(result_of(lab, f"toolu_t{number}")["content"])


async def test_other_calls_of_the_reply_keep_their_order_around_subagents(tmp_path: Path) -> None:
    first = call("write_file", {"content": "x", "file_path": "notes/first.md"}, "toolu_w")
    family = Family(Player(directions()), ["a", "b"], blocks=(first,))
    run, _ = await played(tmp_path, family)
    kinds = [
        (type(r.event).__name__, getattr(r.event, "call", ""))
        for r in run.records
        if isinstance(r.event, ev.ToolAnswered | ev.SubagentStarted)
    ]
    assert kinds[0] == ("ToolAnswered", "toolu_w")
    assert {kinds[1], kinds[2]} == {
        ("SubagentStarted", "toolu_t0"),
        ("SubagentStarted", "toolu_t1"),
    }


async def test_too_many_subagents_in_a_visit_are_refused(tmp_path: Path) -> None:
    family = Family(Player(directions()), [f"task {n}" for n in range(A_VISIT + 1)])
    run, lab = await played(tmp_path, family)
    assert len(of(run, ev.SubagentStarted)) == A_VISIT
    assert "were started in this visit" in str(result_of(lab, f"toolu_t{A_VISIT}")["content"])


STEERING: dict[str, dict[str, Any]] = {
    "ask_user": {"message": "may I?"},
    "edit_kernel": {"ops": []},
    "finish": {"reason": "bored"},
    "report_blocked": {"kind": "other", "reason": "I am a subagent and have no ideas"},
    "report_diagnosis": {"cause": "c", "directions": ["d"]},
    "submit_plan": {"items": []},
}


async def test_a_subagent_moves_nothing_on_and_asks_no_person(tmp_path: Path) -> None:
    def child(prompt: str, turn: int) -> list[Block]:
        return says("no") if turn else [call(t, given, t) for t, given in STEERING.items()]

    run, _ = await played(tmp_path, Family(Player(directions()), ["act"], child))
    answers = [e for e in of(run, ev.ToolAnswered) if e.source]
    for tool, answer in zip(STEERING, answers, strict=True):
        assert f"{tool} is not allowed to a subagent in phase PLAN" in answer.error_information
    assert not of(run, ev.QuestionAsked)
    assert not of(run, ev.BlockedReported)
    for phase in (Phase.PLAN, Phase.EDIT):
        assert not {*allowed(own_tools(), phase, subagent=True)} & {*STEERING, "task"}


async def test_what_a_subagent_takes_is_charged_to_the_run_and_told_apart(tmp_path: Path) -> None:
    def child(prompt: str, turn: int) -> list[Block]:
        return says("seen") if turn else [call("read_kernel", {}, "toolu_c")]

    run, lab = await played(tmp_path, Family(Player(directions()), ["a", "b"], child), rounds=2)
    report = usage_report(run.records)
    assert report.agents == {"s1": "subagent", "s2": "subagent"}
    assert {name: total.calls for name, total in report.by_subagent.items()} == {"s1": 2, "s2": 2}
    assert len(report.calls) == len(lab.requests)
    assert report.total.prompt_tokens == run.state.input_tokens
    for ended in of(run, ev.SubagentEnded):
        total = report.by_subagent[ended.subagent]
        assert (ended.calls, ended.prompt_tokens) == (2, total.prompt_tokens)
        assert ended.output_tokens == total.output_tokens > 0
    assert {call.source for call in report.calls} == {"", "s1", "s2"}


async def test_a_budget_that_ends_in_a_subagent_ends_the_run_for_that_reason(
    tmp_path: Path,
) -> None:
    def child(prompt: str, turn: int) -> list[Block]:
        return [call("read_kernel", {}, f"toolu_c{turn}")]

    async with Lab(Family(Player(directions()), ["spend"], child)) as lab:
        run = create(tmp_path / "task", lab.url, rounds=3)
        policy = run.state.task.policy
        tight = msgspec.structs.replace(policy, automation=AutomationPolicy(max_tokens=30_000))
        run.append(ev.PolicyChanged(policy=tight))
        await play(engine(run, lab.url))
    (ended,) = of(run, ev.SubagentEnded)
    assert ended.status == "failed"
    assert "token budget" in ended.reason
    assert "token budget" in run.state.finished
    assert run.state.tokens <= 30_000
    check_sound(run)


async def test_a_cancel_reaches_the_subagents_and_closes_their_sockets(tmp_path: Path) -> None:
    held = asyncio.Event()

    def script(request: Request) -> Reply:
        if is_child(request):
            if sum(map(is_child, lab.requests)) == 2:
                held.set()
            begun = events(says("I begin to answer"))[:4]
            return Reply([Send(stream(begun)), Hold(asyncio.Event())], ends=False)
        calls = [call("task", {"prompt": p}, f"toolu_{p}") for p in ("a", "b")]
        return Reply([Send(stream(events(calls)))])

    async with Lab(script) as lab:
        run = create(tmp_path / "task", lab.url)
        work: Engine = engine(run, lab.url)
        running = asyncio.create_task(work.run())
        async with asyncio.timeout(20):
            await held.wait()
            while not all(one.stream.text for one in work.live.subagents.at_work):
                await asyncio.sleep(0)
            assert [one.agent for one in work.live.subagents.at_work] == ["subagent"] * 2
            assert work.live.subagents.stream("s2") == "I begin to answer"
            assert work.live.stream == ""
            running.cancel()
            await asyncio.wait({running})
            await lab.hung_up.wait()
        for event in opening(run.state, 1, "0"):
            run.append(event)
        await work.close()
    assert work.live.subagents.at_work == ()
    assert [e.status for e in of(run, ev.SubagentEnded)] == ["cancelled", "cancelled"]
    lost = of(run, ev.ReplyLost)
    assert sorted(e.source for e in lost) == ["s1", "s2"]
    assert all(e.input_tokens == 100 for e in lost)
    assert run.state.open_calls == ()
    check_sound(run)


async def test_a_subagent_that_was_killed_is_ended_by_the_next_session(tmp_path: Path) -> None:
    run = create(tmp_path / "task", "http://127.0.0.1:9")
    asked = ev.ModelReplied(phase=Phase.PLAN, model="lab", tool_calls=1)
    begun = ev.SubagentStarted(subagent="s1", agent="subagent", phase=Phase.PLAN, call="t")
    spent = ev.ModelReplied(phase=Phase.PLAN, model="lab", input_tokens=7, source="s1")
    for event in (
        asked,
        ev.ToolCalled(call="t", tool="task", arguments={}),
        begun,
        spent,
        ev.ToolCalled(call="s1/r", tool="read_file", arguments={}, source="s1"),
    ):
        run.append(event)
    for event in opening(run.state, 1, "0"):
        run.append(event)
    assert run.state.subagents == run.state.open_calls == ()
    assert not run.state.turn_open
    (ended,) = of(run, ev.SubagentEnded)
    assert (ended.status, ended.calls, ended.prompt_tokens) == ("interrupted", 1, 7)
    answered = {e.call: e.source for e in of(run, ev.ToolAnswered)}
    assert answered == {"t": "", "s1/r": "s1"}
    check_sound(run)


async def test_subagents_are_told_of_in_the_progress_lines(tmp_path: Path) -> None:
    async with Lab(Family(Player(directions()), ["which flags\x1b[2J?"])) as lab:
        run = create(tmp_path / "task", lab.url, rounds=1)
        work = engine(run, lab.url)
        await play(work)
        told = [line for line in narrate(run.records) if line.startswith("subagent")]
    began, ended = told
    assert began.startswith("subagent  s1 subagent begins: which flags")
    assert "\x1b" not in began
    assert ended == "subagent  s1 done after 1 call"
    run.close()


async def test_a_diagnosis_is_a_named_subagent_with_a_fresh_context(tmp_path: Path) -> None:
    async with Lab(Player(wrong())) as lab:
        run = create(tmp_path / "task", lab.url, rounds=5)
        await play(engine(run, lab.url))
    (begun,) = of(run, ev.SubagentStarted)
    assert (begun.agent, begun.call, begun.phase) == ("diagnosis", "", Phase.DIAGNOSE)
    (ended,) = of(run, ev.SubagentEnded)
    assert (ended.subagent, ended.status) == (begun.subagent, "done")
    assert of(run, ev.DiagnosisReported)
    report = usage_report(run.records)
    assert report.agents[begun.subagent] == "diagnosis"
    assert report.by_subagent[begun.subagent].calls == ended.calls >= 1
    kept = run.path / begun.trace / "messages.jsonl"
    assert "Phase DIAGNOSE" in kept.read_text().splitlines()[0]
    assert run.state.turn_open is False
    check_sound(run)
