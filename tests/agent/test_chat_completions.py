"""A server of chat completions: the same runs and the same faults, over a real socket."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from akg_tui.agent.chat import ChatRequest, ModelFailed, PromptRefused, ToolSpec, UserMessage
from akg_tui.agent.models.endpoint import Endpoint, KeyMissing, endpoint_of
from akg_tui.agent.models.probe import findings, probe
from akg_tui.agent.models.served import Served
from akg_tui.agent.models.transport import Limits
from akg_tui.core import events as ev
from akg_tui.core.phases import Verdict
from akg_tui.core.task import Agent
from akg_tui.engine.run_service import RunFault, RunRequest, prepare
from akg_tui.store.task_toml import BadAgent, stated_agent
from benchmarks.lab.chat import (
    DONE,
    USAGE,
    ChatLab,
    ChatPlayer,
    call_chunks,
    chunk,
    chunks,
    plain,
    refuse,
    reply,
    stream,
    whole,
)
from benchmarks.lab.replies import HalfClose, Hold, Reply, Reset, Send, call
from benchmarks.lab.runs import (
    CHAT,
    KEY,
    QUICK,
    Held,
    brave,
    check_sound,
    create,
    directions,
    engine,
    of,
    play,
)
from benchmarks.lab.server import Request
from tests.agent.faulty import SUBMIT, Faulty, played
from tests.engine.runs import make_task

READ = call("read_kernel", {}, "call_r")


def faulty(*replies: Reply, at: int = 2) -> Faulty:
    return Faulty(ChatPlayer(directions()), *replies, at=at)


def served(url: str) -> Agent:
    return Agent(model="lab", base_url=url, api="chat")


async def test_a_competent_model_plans_edits_and_keeps(tmp_path: Path) -> None:
    async with ChatLab(ChatPlayer(directions())) as lab:
        run = create(tmp_path / "task", lab.url, rounds=5, agent=served(lab.url), probes=True)
        work = engine(run, lab.url)
        await play(work)
    assert run.state.finished == "max rounds reached (5)"
    assert run.state.count(Verdict.KEEP) == 2
    assert lab.refused == lab.memory.faults == []
    (probed,) = of(run, ev.EndpointProbed)
    assert probed.capabilities == CHAT
    replies = of(run, ev.ModelReplied)
    assert all(not each.estimated and each.output_tokens == 20 for each in replies)
    assert all(each.cache_read_tokens > each.input_tokens for each in replies[2:])
    asked = lab.bodies[0]
    assert (asked["max_tokens"], asked["stream"]) == (16_000, True)
    check_sound(run)


def cut(after: int, *more: Any, ends: bool = True) -> Reply:
    """A reply with a tool call that is cut off after so many of its chunks."""
    sent = chunks([call("read_kernel", {"path": "kernel.py"})], usage=None)
    return Reply([Send(stream(sent[:after], done=False)), *more], ends=ends)


FAULT = {"error": {"message": "x", "type": "server_error"}}
NAMELESS = {"tool_calls": [{"index": 0, "id": "a"}]}
FAULTS = {
    "refusals that pass": [
        refuse(429, "requests", code="rate_limit_exceeded"),
        refuse(500, "server_error"),
        Reply([Send(b"busy")], 503, {"content-type": "text/plain"}),
        refuse(408, "timeout"),
        refuse(529, "overloaded"),
        plain(200, {"error": {"message": "x", "code": 502}}),
        Reply([Send(stream([chunk({"content": "a"}), FAULT]))]),
    ],
    "replies that are cut off": [
        cut(2),
        cut(3),
        Reply([Send(stream([chunk({"content": "a"})]))]),
        cut(2, Reset(), ends=False),
        Reply([Reset()], ends=False),
        cut(2, HalfClose(), ends=False),
    ],
    "half a chunk": [
        Reply([Send(stream(chunks([SUBMIT]))[:900]), HalfClose()], ends=False),
        Reply([Send(b"data: {oops\n\n")]),
        Reply([Send(DONE)]),
        Reply([]),
    ],
    "what is no reply": [
        Reply([Send(b'data: {"object": "chat"}\n\n')]),
        Reply([Send(stream([chunk(NAMELESS, "stop")]))]),
        Reply([Send(stream([chunk({"tool_calls": 7}, "stop")]))]),
        Reply([Send(b"<html>hello</html>")], 200, {"content-type": "text/html"}),
    ],
}


@pytest.mark.parametrize("name", FAULTS)
async def test_passing_faults_are_waited_out_in_sight_and_the_run_goes_on(
    tmp_path: Path, name: str
) -> None:
    faults = FAULTS[name]
    run, lab = await played(tmp_path / "task", faulty(*faults), "chat", retry=brave(broken=9))
    assert run.state.finished == "max rounds reached (1)"
    waits = of(run, ev.ApiWaiting)
    assert [wait.attempt for wait in waits] == list(range(1, len(faults) + 1))
    assert all(wait.reason and wait.seconds > 0 for wait in waits)
    assert len(of(run, ev.ToolCalled)) == 2  # a plan, an edit; nothing of a broken reply
    assert len({request.raw for request in lab.requests[1 : len(faults) + 2]}) == 1
    assert lab.refused == lab.memory.faults == []


async def test_silence_in_the_middle_of_a_reply_ends_it_and_a_wait_asked_for_is_told(
    tmp_path: Path,
) -> None:
    silent = cut(2, Hold(asyncio.Event()), ends=False)
    busy = refuse(429, "requests", headers={"retry-after": "7200"})
    stall = Limits(connect_s=2.0, first_s=5.0, stall_s=0.15)
    run, _ = await played(tmp_path / "task", faulty(silent, busy), "chat", limits=stall)
    first, second = of(run, ev.ApiWaiting)
    assert "no progress" in first.reason
    assert second.asked_s == 7200
    assert run.state.ok


BAD_CALLS = [
    ([call("read_kernel", '{"o": [')], "length", "cut off"),
    ([call("read_kernel", '{"a": }')], None, "not valid JSON"),
    ([call("read_kernel", "[1, 2]")], None, "not a JSON object"),
    ([call("nothing", '{"a": "\\ud800"}')], None, "no tool"),
    ([call("read kernel; rm -rf", {})], None, "not a tool's name"),
    ([call("shell", {"cmd": "ls"})], None, "no tool 'shell'"),
    ([call("shell", {}, "")], None, "no tool"),
    ([call("shell", {}, "a"), call("shell", {}, "a")], None, "no tool"),
]


async def test_calls_that_are_not_whole_are_answered_and_never_run(tmp_path: Path) -> None:
    bad = [reply(blocks, finish=finish, usage=None) for blocks, finish, _ in BAD_CALLS]
    run, lab = await played(tmp_path / "task", faulty(*bad), "chat")
    assert run.state.finished == "max rounds reached (1)"
    assert lab.refused == lab.memory.faults == []
    errors = [a.error_information for a in of(run, ev.ToolAnswered) if a.status == "error"]
    wanted = [told for blocks, _, told in BAD_CALLS for _ in blocks]
    assert len(errors) == len(wanted)
    assert all(told in error for told, error in zip(wanted, errors, strict=True))


async def test_a_filtered_reply_and_a_prompt_too_long_begin_a_new_conversation(
    tmp_path: Path,
) -> None:
    filtered = reply([call("shell", {})], finish="content_filter")
    run, _ = await played(tmp_path / "a", faulty(filtered), "chat")
    assert "the model refused to go on" in of(run, ev.ContextRebuilt)[0].reason
    too_long = refuse(400, "invalid_request_error", code="context_length_exceeded")
    run, lab = await played(tmp_path / "b", faulty(too_long), "chat")
    assert "refused the prompt" in of(run, ev.ContextRebuilt)[0].reason
    assert run.state.ok
    assert lab.refused == []


async def test_a_window_that_is_full_is_told_from_a_reply_that_is_too_long() -> None:
    """It ended at fewer tokens than were allowed: only the server's window is so small."""
    most = {**USAGE, "completion_tokens": 16_000}
    full, long = await asked(
        reply([READ], finish="length"), reply([READ], finish="length", usage=most)
    )
    assert full.stop_reason == "model_context_window_exceeded"
    assert long.stop_reason == "max_tokens"
    assert full.tool_uses[0].fault
    assert long.tool_uses[0].fault


STOPS = [
    (refuse(401, "x", f"bad key {KEY}"), r"OPENAI_API_KEY .*was refused.*\[key\]"),
    (refuse(429, "insufficient_quota", code="insufficient_quota"), "refuses to serve"),
    (refuse(404, "not_found_error", "no model"), "knows no model lab"),
    (refuse(400, "BadRequestError", code=400), "takes no request of this run"),
    (Reply([Send(b"moved")], 302, {"location": "http://127.0.0.1:9/"}), "302"),
]  # fmt: skip


@pytest.mark.parametrize(("fault", "why"), STOPS)
async def test_a_lasting_fault_holds_the_run_with_its_reason(
    tmp_path: Path, fault: Reply, why: str
) -> None:
    async with ChatLab(faulty(*[fault] * 9, at=1)) as lab:
        run = create(tmp_path / "task", lab.url, rounds=1, agent=served(lab.url))
        with pytest.raises(Held, match=why):
            await play(engine(run, lab.url))
    check_sound(run)
    assert not run.state.finished


# Without a run around it: one reply, through the SDK and the socket.

TOOL = ToolSpec("look", "Look.", {"type": "object", "properties": {}})
ASK = ChatRequest("system", (TOOL,), (UserMessage("go"),))


async def asked(*replies: Reply, **lab_is: Any) -> list[Any]:
    left = list(replies)
    async with ChatLab(lambda request: left.pop(0), **lab_is) as lab:
        key = lab_is.get("key", KEY)
        model = Served(served(lab.url), Endpoint("lab", lab.url, key, "chat"), limits=QUICK)
        try:
            return [await model.complete(ASK, lambda text: None) for _ in replies]
        finally:
            await model.close()


def two_calls() -> list[dict[str, Any]]:
    calls = call("look", {"n": 1}, "a"), call("look", {"n": 2}, "b")
    return [each for index, one in enumerate(calls) for each in call_chunks(index, one)]


def numbered(*indices: Any) -> list[dict[str, Any]]:
    """Two calls in one reply, whose chunks are numbered by a server's own idea."""
    sent = two_calls()
    for each, index in zip(sent, indices, strict=True):
        made = each["choices"][0]["delta"]["tool_calls"][0]
        made.pop("index")
        if index is not None:
            made["index"] = index
    return [*sent, chunk({}, "tool_calls")]


async def test_parallel_calls_are_told_apart_however_a_server_numbers_them() -> None:
    mixed = two_calls()
    mixed[1], mixed[2] = mixed[2], mixed[1]
    sent = [
        [*mixed, chunk({}, "tool_calls")],
        numbered(0, 0, 0, 0),
        numbered(None, None, None, None),
        numbered(1, 1, 2, 2),
    ]
    for each in await asked(*(Reply([Send(stream(one))]) for one in sent)):
        assert [(use.id, use.arguments) for use in each.tool_uses] == [
            ("a", {"n": 1}),
            ("b", {"n": 2}),
        ]


async def test_the_form_of_the_bytes_changes_nothing() -> None:
    said = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "größer\u2028✔"}]
    sent = chunks([*said, call("look", {"a": "ü"}, "a")])
    forms = [
        Reply([Send(stream(sent), piece=1)]),
        Reply([Send(stream(sent, newline="\r\n"), piece=3)]),
        Reply([Send(stream(sent).replace(b"\n\n", b"\n"))]),
        Reply([Send(b": a comment\n\n" + stream(sent, done=False))]),
        Reply([Send(stream(sent[:-1], done=False)), Reset()], ends=False),  # after its reason
        whole([said[1], call("look", {"a": "ü"}, "a")]),
    ]
    for each in await asked(*forms):
        assert each.text == "größer\u2028✔"
        assert [use.arguments for use in each.tool_uses] == [{"a": "ü"}]


async def test_counts_of_a_cache_are_told_and_missing_counts_are_estimated() -> None:
    usage = {
        "prompt_tokens": 90, "completion_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 60},
    }  # fmt: skip
    told, untold = await asked(reply([READ], usage=usage), reply([READ], usage=None))
    assert (told.input_tokens, told.cache_read_tokens, told.output_tokens) == (30, 60, 7)
    assert not told.estimated
    assert untold.estimated
    assert untold.input_tokens > 10


async def test_a_server_without_a_key_is_served_and_no_organization_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-secret")
    (told,) = await asked(reply([call("look", {}, "a")]), key="")
    assert told.tool_uses[0].name == "look"


# What a server can do, and where it is.


def stubborn(*refused: str) -> Any:
    """A server that refuses these fields, and says nothing of its cache."""

    def script(request: Request) -> Reply:
        if wrong := set(refused) & set(request.body):
            return refuse(400, "invalid_request_error", f"unsupported: {', '.join(wrong)}")
        said = [call("report_number", {"number": 7})]
        return reply(said) if request.body.get("stream") else whole(said)

    return script


@pytest.mark.parametrize(
    "refused", [(), ("stream_options",), ("max_tokens", "stream_options"), ("max_tokens", "stream")]
)
async def test_fields_that_a_server_refuses_are_found_and_left_out(refused: tuple[str]) -> None:
    async with ChatLab(ChatPlayer(directions())) as lab:
        lab.on_probe = stubborn(*refused)
        can = await probe(Endpoint("m", lab.url, KEY, "chat"), limits=QUICK)
    assert can.refused == refused
    assert can.tools
    assert can.streaming is ("stream" not in refused)
    assert not can.cache_counters
    told = {line.name: line.status for line in findings(can, "chat")}
    assert set(told) == {"tools", "streaming", "usage", "cache counters"}
    from akg_tui.agent.models.chat_completions import body_of

    body = body_of(ASK, served(lab.url), can)
    assert not set(body) & set(refused)
    assert body.get("max_tokens", body.get("max_completion_tokens")) == 16_000


async def test_a_server_that_refuses_everything_says_why() -> None:
    async with ChatLab(ChatPlayer(directions())) as lab:
        lab.on_probe = lambda request: refuse(400, "invalid_request_error", "no tools here")
        with pytest.raises(PromptRefused, match="no tools here"):
            await probe(Endpoint("m", lab.url, KEY, "chat"), limits=QUICK)
        with pytest.raises(ModelFailed, match="OPENAI_API_KEY or --api-key-file was refused"):
            await probe(Endpoint("m", lab.url, "sk-wrong", "chat"), limits=QUICK)


def test_an_address_without_a_path_is_that_of_version_1() -> None:
    def at(url: str) -> str:
        return Endpoint("m", url, api="chat").base_url

    assert at("http://box:8000") == at("http://box:8000/v1/") == "http://box:8000/v1"
    assert at("http://box/v1/chat/completions") == "http://box/v1"
    assert at("http://box/openai") == "http://box/openai"
    assert at("") == "https://api.openai.com/v1"


def test_the_key_is_openais_and_only_its_own_server_needs_one() -> None:
    kept = {"OPENAI_API_KEY": "sk-o", "ANTHROPIC_API_KEY": "sk-a"}
    assert endpoint_of(Agent(model="m", api="chat"), kept).key == "sk-o"
    local = Agent(model="m", api="chat", base_url="http://127.0.0.1:1")
    assert endpoint_of(local, {}).key == ""
    with pytest.raises(KeyMissing, match="OPENAI_API_KEY"):
        endpoint_of(Agent(model="m", api="chat"), {"ANTHROPIC_API_KEY": "sk-a"})


def test_thinking_is_refused_where_it_would_do_nothing() -> None:
    with pytest.raises(BadAgent, match="thinking is set by the Messages API only"):
        stated_agent(Agent(model="m", thinking="off"), {"api": "chat"})


def test_without_the_sdk_there_is_one_line_and_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {"model": "m", "api": "chat", "base_url": "http://127.0.0.1:1"}
    request = RunRequest(make_task(tmp_path / "task"), settings=said)
    assert prepare(request).task.agent.api == "chat"
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(RunFault, match=r"pip install 'akg-tui\[openai\]'"):
        prepare(request)


def test_a_task_of_a_run_keeps_its_api_and_an_older_one_has_the_messages_api() -> None:
    import msgspec

    assert msgspec.json.decode(b'{"model": "m"}', type=Agent).api == "messages"
    assert json.loads(msgspec.json.encode(Agent(model="m", api="chat")))["api"] == "chat"
