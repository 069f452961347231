"""Whatever a server does on the wire, the run goes on or stops with the reason.

One test for each thing that servers are known to do, through the real SDK over a real
socket. After each, the journal opens and folds.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from akg_tui.agent.chat import ChatReply, ChatRequest, ToolSpec, UserMessage
from akg_tui.agent.models.endpoint import Endpoint
from akg_tui.agent.models.served import Served
from akg_tui.agent.models.transport import Limits
from akg_tui.core import events as ev
from akg_tui.core.sanitize import encode_said
from akg_tui.core.task import Agent
from akg_tui.engine.attach import LiveNow
from akg_tui.engine.engine import Engine
from akg_tui.engine.live import Live
from akg_tui.store.run_folder import RunFolder
from benchmarks.lab.player import Player
from benchmarks.lab.replies import (
    PING,
    HalfClose,
    Hold,
    Pings,
    Reply,
    Reset,
    Send,
    begin,
    block_events,
    call,
    events,
    message,
    refuse,
    say,
    sse,
    stream,
)
from benchmarks.lab.runs import (
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
from benchmarks.lab.server import Lab, Request
from tests.agent.faulty import SUBMIT, Faulty, played


def faulty(*replies: Reply, at: int = 2) -> Faulty:
    return Faulty(Player(directions()), *replies, at=at)


def cut(after: int, *more: Any, ends: bool = True) -> Reply:
    """A reply with a tool call that is cut off after so many of its events."""
    whole = events([call("read_kernel", {"path": "kernel.py"})])
    return Reply([Send(stream(whole[:after])), *more], ends=ends)


def reported(kind: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": "x"}}


ERRORS = [
    ("429", refuse(429, "rate_limit_error")),
    ("529", refuse(529, "overloaded_error")),
    ("500", refuse(500, "api_error")),
    ("503 without a body of the API", Reply([Send(b"busy")], 503, {"content-type": "text/plain"})),
    ("408", refuse(408, "timeout_error")),
    ("an error event", Reply([Send(sse(reported("overloaded_error")))])),
    ("an error event in the middle", Reply([Send(stream([begin(), reported("api_error")]))])),
    ("a clean end in a tool call", cut(5)),
    ("a clean end before the stop reason", cut(6)),
    ("a clean end before message_stop", cut(7)),
    ("an end that is cut", cut(5, HalfClose(), ends=False)),
    ("a reset", cut(5, Reset(), ends=False)),
    ("a reset before the first byte", Reply([Reset()], ends=False)),
    ("half an event", Reply([Send(stream(events([SUBMIT]))[:700]), HalfClose()], ends=False)),
    ("an empty stream", Reply([])),
    ("only pings, then an end", Reply([Send(PING * 5)])),
    ("an event that is no JSON", Reply([Send(b"event: message_start\ndata: {oops\n\n")])),
    ("bytes that are no text", Reply([Send(b"event: x\ndata: \xff\xfe\x00\n\n")])),
    ("a delta without its block", Reply([Send(stream([begin(), *block_events(3, SUBMIT)]))])),
    ("two replies in one", Reply([Send(stream([*events([SUBMIT])[:-1], begin("msg_2")]))])),
    ("a page of HTML", Reply([Send(b"<html>hello</html>")], 200, {"content-type": "text/html"})),
]  # fmt: skip


@pytest.mark.parametrize("at", range(0, len(ERRORS), 7))
async def test_passing_faults_are_waited_out_in_sight_and_the_run_goes_on(
    tmp_path: Path, at: int
) -> None:
    faults = [reply for _, reply in ERRORS[at : at + 7]]
    retry = brave(broken=99, total_s=9.0)
    run, lab = await played(tmp_path / "task", faulty(*faults), retry=retry)
    assert run.state.finished == "max rounds reached (1)"
    waits = of(run, ev.ApiWaiting)
    assert [wait.attempt for wait in waits] == list(range(1, len(faults) + 1))
    assert all(wait.reason and wait.seconds > 0 for wait in waits)
    assert len(of(run, ev.ToolCalled)) == 2  # a plan, an edit; nothing of a broken reply
    again = {request.raw for request in lab.requests[1 : len(faults) + 2]}
    assert len(again) == 1  # the same request, to the byte
    assert lab.refused == lab.memory.faults == []


async def test_silence_a_flood_of_pings_and_a_reply_that_never_begins_are_given_up(
    tmp_path: Path,
) -> None:
    silent = cut(5, Hold(asyncio.Event()), ends=False)
    flood = cut(4, Pings(), ends=False)
    mute = Reply([Send(PING), Hold(asyncio.Event())], ends=False)
    limits = Limits(connect_s=2.0, first_s=0.3, stall_s=0.15)
    run, _ = await played(tmp_path / "task", faulty(silent, flood, mute), limits=limits)
    waits = of(run, ev.ApiWaiting)
    assert ["no progress" in wait.reason for wait in waits] == [True] * 3
    assert [lost.input_tokens for lost in of(run, ev.ReplyLost)] == [100, 100]
    assert run.state.ok


# Without a run around it: one reply each, through the SDK over the socket.


async def asked(*replies: Reply) -> list[ChatReply]:
    left = list(replies)
    tool = ToolSpec("finish", "End.", {"type": "object", "properties": {}})
    request = ChatRequest("system", (tool,), (UserMessage("go"),))
    async with Lab(lambda _: left.pop(0)) as lab:
        model = Served(Agent(model="lab"), Endpoint("lab", lab.url, KEY), limits=QUICK)
        try:
            return [await model.complete(request, lambda text: None) for _ in replies]
        finally:
            await model.close()


async def test_the_form_of_the_bytes_changes_nothing() -> None:
    said = events([{"type": "text", "text": "größer ✔"}, SUBMIT])
    dreams = list(said)
    dreams.insert(3, {"type": "message_dream", "of": "sheep"})
    dreams.insert(5, {"type": "content_block_delta", "index": 0, "delta": {"type": "dream_delta"}})
    forms = [
        Reply([Send(stream(said), piece=1)]),
        Reply([Send(stream(said), piece=7)]),
        Reply([Send(stream(said, named=False))]),
        Reply([Send(stream(said, newline="\r\n"))]),
        Reply([Send(stream(said, newline="\r\n"), piece=3)]),
        Reply([Send(stream(dreams))]),  # events that nobody knows are passed over
    ]
    for reply in await asked(*forms):
        assert reply.text == "größer ✔"
        assert [use.arguments for use in reply.tool_uses] == [SUBMIT["input"]]


async def test_half_a_character_reaches_who_looks_on_as_text_that_can_be_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bytes] = []
    write = Live.write

    def watched(self: Live, delta: str) -> None:
        write(self, delta)
        plain = msgspec.json.encode(LiveNow.of(self), enc_hook=encode_said)
        seen.append(plain)  # as to a process that is attached

    monkeypatch.setattr(Live, "write", watched)
    data = stream(events([{"type": "text", "text": "a HALF b"}, SUBMIT]))
    broken = Reply([Send(data.replace(b"HALF", b"\\ud83d"))])
    run, _ = await played(tmp_path / "task", faulty(broken, at=1))
    assert of(run, ev.ModelReplied)[0].text == "a � b"
    assert any("a � b".encode() in each for each in seen)


@pytest.mark.parametrize(("newline", "step"), [("\n", 5), ("\r\n", 7)], ids=["LF", "CRLF"])
async def test_every_split_of_a_reply_in_two_gives_that_reply(newline: str, step: int) -> None:
    sent = [begin(), *block_events(0, call("finish", {"reason": "ü"})), *events([])[-2:]]
    data = stream(sent, newline=newline)
    assert len(data) > 271
    halves = (Reply([Send(data[:at]), Send(data[at:])]) for at in range(1, len(data), step))
    for reply in await asked(*halves):
        assert [use.arguments for use in reply.tool_uses] == [{"reason": "ü"}]
        assert reply.stop_reason


async def test_the_counts_of_every_kind_of_reply_are_read_or_estimated() -> None:
    later = events([SUBMIT], usage={"input_tokens": 1, "output_tokens": 1})
    later[-2]["usage"] = {
        "input_tokens": 70, "output_tokens": 9, "cache_read_input_tokens": 5,
        "cache_creation_input_tokens": 4, "cache_creation": {"ephemeral_5m_input_tokens": 3},
    }  # fmt: skip
    untold, counted = await asked(
        message([SUBMIT], usage=None),
        Reply([Send(stream(later))]),  # its last counts take the place of the first
    )
    assert untold.estimated
    assert untold.input_tokens > 10
    assert untold.output_tokens > 20
    assert (counted.input_tokens, counted.output_tokens, counted.estimated) == (70, 9, False)
    assert (counted.cache_read_tokens, counted.cache_write_tokens) == (5, 4)
    assert counted.cache_write_short_tokens == 3


BAD_CALLS = [
    ("max_tokens in the arguments", [call("read_kernel", '{"o": [')], "max_tokens", "cut off"),
    ("max_tokens after a whole call", [call("read_kernel", {})], "max_tokens", "cut off"),
    ("arguments that are no JSON", [call("read_kernel", '{"a": }')], None, "not valid JSON"),
    ("arguments that are a list", [call("read_kernel", "[1, 2]")], None, "not a JSON object"),
    ("a number that is none", [call("read_kernel", '{"a": NaN}')], None, "no JSON number"),
    ("a number without end", [call("read_kernel", '{"a": 1e999}')], None, "too large"),
    ("a number too long", [call("read_kernel", '{"a": %s}' % ("9" * 400))], None, "too large"),
    ("nested without end", [call("read_kernel", '{"a":' * 5_000)], None, "JSON"),
    ("nested deeply", [call("read_kernel", '{"a":' * 60 + "1" + "}" * 60)], None, "too deeply"),
    ("huge arguments", [call("read_kernel", {"a": "x" * 500_000})], None, "at most"),
    ("half a character", [call("nothing", '{"a": "\\ud800"}')], None, "no tool"),
    ("a name that is none", [call("read kernel; rm -rf", {})], None, "not a tool's name"),
    ("an unknown tool", [call("shell", {"cmd": "ls"})], None, "no tool 'shell'"),
    ("an empty id", [call("shell", {}, "")], None, "no tool"),
    ("an id twice", [call("shell", {}, "a"), call("shell", {}, "a")], None, "no tool"),
    ("a refusal with a call", [call("shell", {})], "refusal", ""),
]  # fmt: skip


async def test_calls_that_are_not_whole_are_answered_and_never_run(tmp_path: Path) -> None:
    bad = [message(blocks, stop_reason=stop) for _, blocks, stop, _ in BAD_CALLS]
    run, lab = await played(tmp_path / "task", faulty(*bad))
    assert run.state.finished == "max rounds reached (1)"
    assert lab.refused == lab.memory.faults == []
    wanted = [told for _, blocks, _, told in BAD_CALLS if told for _ in blocks]
    answers = [a for a in of(run, ev.ToolAnswered) if a.status == "error"]
    assert len(answers) == len(wanted)
    for told, answer in zip(wanted, answers, strict=True):
        assert told in answer.error_information
    assert of(run, ev.ApiWaiting) == []


async def test_a_block_of_an_unknown_kind_goes_back_as_it_came(tmp_path: Path) -> None:
    strange = {"type": "dream", "of": ["sheep", {"electric": True}]}
    run, lab = await played(tmp_path / "task", faulty(message([strange, SUBMIT]), at=1))
    said = lab.requests[1].body["messages"][1]
    assert said["role"] == "assistant"
    assert said["content"][0] == strange
    assert run.state.ok


async def test_thoughts_go_back_unchanged(tmp_path: Path) -> None:
    player = Player(directions(), thinks=True)

    def script(request: Request) -> Reply:
        reply = player(request)
        for block in player.last:
            if block["type"] == "thinking":
                lab_memory[0].thoughts[block["signature"]] = block["thinking"]
        return reply

    lab_memory: list[Any] = []
    async with Lab(script) as lab:
        lab_memory.append(lab.memory)
        agent = Agent(model="lab", base_url=lab.url, thinking="budget", thinking_tokens=2_000)
        run = create(tmp_path / "task", lab.url, rounds=4, agent=agent)
        await play(engine(run, lab.url))
    assert lab.refused == lab.memory.faults == []
    assert lab.requests[0].body["thinking"] == {"type": "enabled", "budget_tokens": 2_000}
    sent = [b for m in lab.requests[-1].body["messages"] for b in m["content"]]
    thoughts = [b for b in sent if b["type"] == "thinking"]
    assert len(thoughts) == len(lab.memory.thoughts) - 1 > 3
    assert all(set(thought) == {"type", "thinking", "signature"} for thought in thoughts)
    check_sound(run)


async def test_an_empty_reply_is_answered_with_what_is_wanted(tmp_path: Path) -> None:
    run, lab = await played(tmp_path / "task", faulty(message([]), say("   "), at=1))
    assert run.state.ok
    assert lab.refused == []
    asked = lab.requests[1].body["messages"][-1]["content"][-1]["text"]
    assert "Phase PLAN is not done" in asked


async def test_a_refusal_ends_the_visit_and_begins_a_new_conversation(tmp_path: Path) -> None:
    no = say("I would rather not.", stop_reason="refusal")
    run, lab = await played(tmp_path / "task", faulty(no))
    (failed,) = of(run, ev.VisitFailed)
    assert failed.reason == "the model refused to go on: I would rather not."
    (rebuilt,) = of(run, ev.ContextRebuilt)
    assert "refused" in rebuilt.reason
    texts = [b.get("text", "") for r in lab.requests[2:] for m in r.body["messages"] for b in m["content"]]  # fmt: skip  # noqa: E501
    assert not any("I would rather not" in text for text in texts)
    assert run.state.ok


async def test_a_full_context_window_begins_a_new_conversation(tmp_path: Path) -> None:
    full = message([call("read_kernel", {})], stop_reason="model_context_window_exceeded")
    run, _ = await played(tmp_path / "task", faulty(full))
    assert "context window" in of(run, ev.ContextRebuilt)[0].reason
    assert run.state.ok


@pytest.mark.parametrize("status", [400, 413])
async def test_a_prompt_that_is_refused_is_made_anew_from_the_plan(
    tmp_path: Path, status: int
) -> None:
    kind = {400: "invalid_request_error", 413: "request_too_large"}[status]
    run, lab = await played(tmp_path / "task", faulty(refuse(status, kind)))
    assert "refused the prompt" in of(run, ev.ContextRebuilt)[0].reason
    assert len(lab.requests[2].body["messages"]) == 1
    assert run.state.ok
    assert of(run, ev.VisitFailed) == []


STOPS = [
    (refuse(400, "invalid_request_error", "max_tokens: too large"), "takes no request.*max_tokens"),
    (refuse(401, "authentication_error", f"bad key {KEY}"), r"refused by http.*bad key \[key\]"),
    (refuse(402, "billing_error", "no credit"), "refuses to serve.*no credit"),
    (refuse(403, "permission_error"), "refused by"),
    (refuse(404, "not_found_error"), "knows no model lab"),
    (Reply([Send(b"<html>")], 200, {"content-type": "text/html"}), "6 broken replies in a row"),
    (refuse(529, "overloaded_error"), "no reply in .* tries"),
    (Reply([Send(b"moved")], 302, {"location": "http://127.0.0.1:9/"}), "302"),
]


@pytest.mark.parametrize(("reply", "why"), STOPS)
async def test_a_lasting_fault_holds_the_run_with_its_reason_and_it_can_be_resumed(
    tmp_path: Path, reply: Reply, why: str
) -> None:
    script = faulty(*[reply] * 40)
    async with Lab(script) as lab:
        run = create(tmp_path / "task", lab.url, rounds=1)
        with pytest.raises(Held, match=why):
            await play(engine(run, lab.url))
        check_sound(run)
        assert not run.state.finished
        script.left.clear()
        again = RunFolder.open(run.path)
        await play(engine(again, lab.url))
        assert again.state.finished == "max rounds reached (1)"
        check_sound(again)
        assert lab.memory.faults == []


async def test_a_cancel_closes_the_socket_at_once_and_charges_what_came(tmp_path: Path) -> None:
    talking = asyncio.Event()

    def script(request: Request) -> Reply:
        talking.set()
        return Reply([Send(stream(events([SUBMIT])[:6])), Hold(asyncio.Event())], ends=False)

    async with Lab(script) as lab:
        run = create(tmp_path / "task", lab.url)
        work: Engine = engine(run, lab.url)
        running = asyncio.create_task(work.run())
        await talking.wait()
        while not work._model.unfinished:  # type: ignore[attr-defined]
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait({running})
        async with asyncio.timeout(1.0):
            await lab.hung_up.wait()
        await work.close()
    (lost,) = of(run, ev.ReplyLost)
    assert (lost.reason, lost.input_tokens) == ("cancelled", 100)
    assert lost.output_tokens > 1
    check_sound(run)
