"""What a server can do is found by asking it, and a run uses what was found."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from akg_tui.agent.chat import ModelFailed, ModelUnusable, ServerBusy
from akg_tui.agent.models.endpoint import Endpoint, KeyMissing, endpoint_of
from akg_tui.agent.models.probe import count, findings, probe
from akg_tui.agent.models.transport import Limits
from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.model_info import ANTHROPIC, Capabilities
from akg_tui.core.task import Agent
from akg_tui.store.run_list import summarize_run
from benchmarks.lab.player import Player
from benchmarks.lab.replies import Reply, Send, call, message, refuse, say
from benchmarks.lab.runs import KEY, Held, create, directions, engine, of, play
from benchmarks.lab.server import Lab, Request, able
from tests.fresh_interpreter import printed

LIMITS = Limits(connect_s=2.0, first_s=2.0, stall_s=2.0)


def unused(request: Request) -> Reply:
    raise AssertionError("only probes are asked")


async def found(on_probe: Callable[[Request], Reply], **lab_is: Any) -> Capabilities:
    async with Lab(unused) as lab:
        lab.on_probe = on_probe
        for name, value in lab_is.items():
            setattr(lab, name, value)
        return await probe(Endpoint("m", lab.url, KEY), limits=LIMITS)


async def test_a_server_that_can_do_all_is_found_to() -> None:
    assert await found(able) == ANTHROPIC
    assert {line.status for line in findings(ANTHROPIC)} == {"ok"}


def plainest(request: Request) -> Reply:
    """A server that knows nothing but the old, plain request."""
    body = request.body
    marked = any("cache_control" in block for block in body["system"])
    if marked or "thinking" in body:
        return refuse(400, "invalid_request_error", "extra inputs are not permitted")
    return message([call("report_number", {"number": 7})], usage=None)


async def test_what_a_server_refuses_it_lacks() -> None:
    can = await found(plainest)
    assert can == Capabilities(
        tools=True, streaming=True, usage=False, cache_marks=False, cache_counters=False,
        thinking=False,
    )  # fmt: skip
    told = {line.name: line.status for line in findings(can)}
    assert told["tools"] == "ok"
    assert set(told.values()) == {"ok", "warn"}


async def test_a_parameter_that_is_taken_and_ignored_is_no_ability() -> None:
    can = await found(lambda request: message([call("report_number", {"number": 7})]))
    assert can.cache_marks
    assert not can.cache_counters
    assert not can.thinking


@pytest.mark.parametrize(
    ("reply", "kind", "why"),
    [
        (refuse(401, "authentication_error"), ModelUnusable, "refused by"),
        (refuse(404, "not_found_error"), ModelUnusable, "knows no model m"),
        (refuse(529, "overloaded_error"), ServerBusy, "529"),
        (Reply([Send(b"<html>")], headers={"content-type": "text/html"}), ServerBusy, "text/html"),
        (Reply([Send(b"{}")], headers={"content-type": "application/json"}), ServerBusy, "whole"),
    ],
)
async def test_a_server_that_gives_no_answer_is_an_error(
    reply: Reply, kind: type[ModelFailed], why: str
) -> None:
    with pytest.raises(kind, match=why):
        await found(lambda request: reply)


PROXIES = [
    ("socks5://user:pass-word@127.0.0.1:9", "[Ss]ocks"),
    ("socks://user:pass-word@127.0.0.1:9", "scheme for proxy URL"),
]


@pytest.mark.parametrize(("proxy", "why"), PROXIES)
async def test_a_proxy_that_cannot_be_used_is_told_in_one_line_and_holds_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proxy: str, why: str
) -> None:
    monkeypatch.setitem(sys.modules, "socksio", None)  # as where it is not installed
    monkeypatch.setenv("ALL_PROXY", proxy)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    url = "http://model.example"  # a server on this machine is asked without a proxy
    with pytest.raises(ModelUnusable, match=why) as told:
        await probe(Endpoint("m", url, KEY), limits=LIMITS)
    line = str(told.value)
    assert "ALL_PROXY" in line
    assert "\n" not in line
    assert "pass-word" not in line
    assert KEY not in line
    run = create(tmp_path / "task", url)
    with pytest.raises(Held, match=why):
        await play(engine(run, url))
    run.close()


async def test_a_run_sends_only_what_the_server_takes_and_asks_it_once(tmp_path: Path) -> None:
    async with Lab(Player(directions())) as lab:
        lab.on_probe = plainest
        agent = Agent(model="lab", base_url=lab.url, thinking="adaptive")
        run = create(tmp_path / "task", lab.url, rounds=2, agent=agent, probes=True)
        await play(engine(run, lab.url))
    assert len(of(run, ev.EndpointProbed)) == 1
    assert len(lab.probes) == 3
    for request in lab.requests:
        assert set(request.body) == {
            "model", "max_tokens", "tools", "system", "messages", "stream"
        }  # fmt: skip
        assert b"cache_control" not in request.raw
    assert run.state.ok


def test_the_keys_place_and_the_address_decide_whether_it_is_sent(tmp_path: Path) -> None:
    kept = {"ANTHROPIC_API_KEY": "sk-env"}
    (tmp_path / "key").write_text("sk-file\n")
    own = Agent(model="m", base_url="http://gpu-box:8000")
    assert endpoint_of(Agent(model="m"), kept).key == "sk-env"
    assert endpoint_of(Agent(model="m", base_url="https://other.example"), kept).key == "sk-env"
    assert endpoint_of(Agent(model="m", base_url="http://127.0.0.1:1"), kept).key == "sk-env"
    assert endpoint_of(own, kept).key == ""  # never in clear text to another machine
    filed = Agent(model="m", base_url=own.base_url, api_key_file=str(tmp_path / "key"))
    assert endpoint_of(filed, kept).key == "sk-file"
    with pytest.raises(KeyMissing, match="ANTHROPIC_API_KEY"):
        endpoint_of(Agent(model="m"), {})
    endpoint = endpoint_of(filed, {})
    assert "sk-file" not in repr(endpoint)
    assert endpoint.scrub("bad sk-file\x1b[31m") == "bad [key]␛[31m"


def test_the_sdk_is_imported_only_for_a_served_model() -> None:
    code = (
        "import sys, akg_tui.cli, akg_tui.engine.run_service, akg_tui.agent.models.served,"
        " akg_tui.agent.models.probe, akg_tui.agent.models.endpoint, akg_tui.agent.driver,"
        " akg_tui.cli.serve_mcp;"
        "names = 'anthropic', 'openai', 'httpx2', 'pydantic', 'mcp', 'mcp_types', 'uvicorn';"
        "print([name for name in names if name in sys.modules])"
    )
    assert printed(code) == "[]\n"


@pytest.mark.parametrize(
    ("key", "on_probe", "why"),
    [
        ("sk-other", able, "the key"),
        (KEY, lambda request: refuse(404, "not_found_error"), "knows no model lab"),
        (KEY, lambda request: say("7"), "calls no tools"),
    ],
)
async def test_nothing_is_measured_for_a_model_that_cannot_be_used(
    tmp_path: Path, key: str, on_probe: Callable[[Request], Reply], why: str
) -> None:
    async with Lab(unused) as lab:
        lab.on_probe = on_probe
        run = create(tmp_path / "task", lab.url, probes=True)
        with pytest.raises(Held, match=why):
            await play(engine(run, lab.url, key=key))
    assert of(run, ev.EvalStarted) == []
    told = summarize_run(run.path)
    assert (told.status, told.broke) == ("stopped", "")
    assert why in told.stopped
    assert why in told.line()


@pytest.mark.parametrize("hand", [cmd.Unpause(), cmd.Stop()], ids=["goes on", "stops"])
async def test_a_run_whose_model_cannot_be_used_waits_for_a_person(
    tmp_path: Path, hand: cmd.Command
) -> None:
    async with Lab(Player(directions())) as lab:
        lab.on_probe = lambda request: refuse(404, "not_found_error")
        run = create(tmp_path / "task", lab.url, rounds=2, probes=True)
        work = engine(run, lab.url)
        running = asyncio.create_task(work.run())
        async with asyncio.timeout(30):
            while not work.state.api_failure:
                await asyncio.sleep(0.01)
            lab.on_probe = able  # the server came back
            assert work.send(hand) is None
            await running
        await work.close()
    if isinstance(hand, cmd.Stop):
        assert run.state.finished == "stopped by the user"
        assert of(run, ev.EvalStarted) == []
    else:
        assert run.state.settled == 2
        assert run.state.capabilities == ANTHROPIC


async def test_a_server_that_is_only_busy_holds_up_no_baseline(tmp_path: Path) -> None:
    async with Lab(Player(directions())) as lab:
        asked = 0

        def at_first(request: Request) -> Reply:
            nonlocal asked
            asked += 1
            return refuse(529, "overloaded_error") if asked == 1 else able(request)

        lab.on_probe = at_first
        run = create(tmp_path / "task", lab.url, rounds=1, probes=True)
        await play(engine(run, lab.url))
    assert run.state.settled == 1
    kinds = [type(record.event) for record in run.records]
    assert kinds.index(ev.EvalStarted) < kinds.index(ev.EndpointProbed)


async def test_a_count_of_tokens_tells_whether_key_and_model_are_known() -> None:
    async with Lab(unused) as lab:
        lab.count_tokens = 9
        await count(Endpoint("m", lab.url, KEY), LIMITS)
        lab.count_tokens = None
        with pytest.raises(ModelUnusable, match="knows no model m"):
            await count(Endpoint("m", lab.url, KEY), LIMITS)
