"""The conversation over many rounds: it only grows, it is begun anew in time, it stays cheap."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.effects import Hold, in_sight
from akg_tui.core.model_info import Usage, cost_usd
from akg_tui.core.phases import Overlay, Verdict
from akg_tui.core.usage import usage_report
from akg_tui.store.run_folder import RunFolder
from benchmarks.context import figures, held, scripted
from benchmarks.lab.player import Player
from benchmarks.lab.replies import Reply, refuse
from benchmarks.lab.rules import parts
from benchmarks.lab.runs import check_sound, create, directions, engine, of, play, wrong
from benchmarks.lab.server import Lab, Request
from tests.engine.runs import Clock


def texts(request: Request) -> str:
    return "\n".join(str(block.get("text", "")) for _, block in parts(request.body))


async def test_forty_rounds_read_nearly_all_of_their_prompts_from_the_cache(
    tmp_path: Path,
) -> None:
    with mock.patch("os.fsync"):
        run, lab = await scripted(tmp_path / "task", 40, 16_000)
        found = figures(run, lab, 40)
    assert held(found, 40), found
    assert found["rebuilds"] >= 1
    assert found["largest_prompt"] < 20_000
    check_sound(run)


async def test_marks_are_four_at_most_and_the_long_lived_come_first(tmp_path: Path) -> None:
    async with Lab(Player(directions())) as lab:
        run = create(tmp_path / "task", lab.url, rounds=5, probes=True)
        work = engine(run, lab.url)
        await play(work)
    assert run.state.finished == "max rounds reached (5)"
    assert run.state.count(Verdict.KEEP) == 2
    assert 'SPEED = "C"' in work.kernel(run.state.best.blob).text
    assert of(run, ev.EndpointProbed)[0].capabilities.usage
    assert lab.refused == lab.memory.faults == []
    for request in lab.requests:
        marks = [b["cache_control"] for _, b in parts(request.body) if "cache_control" in b]
        assert 2 <= len(marks) <= 4
        assert marks[0] == {"type": "ephemeral", "ttl": "1h"}
        last = request.body["messages"][-1]["content"][-1]
        assert "cache_control" in last
    tools = [request.body["tools"] for request in lab.requests]
    assert all(each == tools[0] for each in tools)
    assert [tool["name"] for tool in tools[0]] == sorted(tool["name"] for tool in tools[0])
    systems = [request.body["system"] for request in lab.requests]
    assert all(each == systems[0] for each in systems)
    assert "The reference, reference.py" in systems[0][0]["text"]
    run.close()


async def test_turns_far_apart_are_cached_for_an_hour(tmp_path: Path) -> None:
    ticks = itertools.count(0.0, 150.0)  # each call takes 150 s, and 150 s pass between two
    async with Lab(Player(directions())) as lab:
        run = create(tmp_path / "task", lab.url, rounds=2)
        await play(engine(run, lab.url, clock=lambda: next(ticks) * 2))
    last = lab.requests[-1].body["messages"][-1]["content"][-1]
    assert last["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert lab.refused == []
    run.close()


async def test_a_new_session_goes_on_from_the_disk_alone(tmp_path: Path) -> None:
    player = Player(directions())
    async with Lab(player) as lab:
        run = create(tmp_path / "task", lab.url, rounds=4)
        work = engine(run, lab.url)
        running = asyncio.create_task(work.run())
        while run.state.settled < 2:
            await asyncio.sleep(0.001)
        running.cancel()
        await asyncio.wait({running})
        await work.close()
        seen = len(lab.requests)
        again = RunFolder.open(run.path, clock=Clock(run.state.last_at))
        await play(engine(again, lab.url))
    first = lab.requests[seen]
    assert len(first.body["messages"]) == 1
    assert "# Conclusions" in texts(first)
    assert "The kernel as it stands" in texts(first)
    assert of(again, ev.ContextRebuilt)[0].reason == "a new session"
    assert again.state.settled == 4
    assert lab.memory.faults == lab.refused == []
    # The rules and the task are the same bytes: the server's cache of them still holds.
    assert first.body["system"] == lab.requests[0].body["system"]
    check_sound(again)


async def test_a_kernel_that_was_put_back_is_named_and_not_shown_again(tmp_path: Path) -> None:
    async with Lab(Player(wrong())) as lab:
        run = create(tmp_path / "task", lab.url, rounds=2)
        await play(engine(run, lab.url))
    said = texts(lab.requests[-1])
    assert said.count("The kernel as it stands") == 1
    assert said.count("The kernel is again the one shown above") == 2
    assert not [a for a in of(run, ev.ToolAnswered) if a.status == "error"]
    run.close()


async def test_a_hint_reaches_the_model_once_even_while_it_waits(tmp_path: Path) -> None:
    player = Player(directions())
    calls = itertools.count(1)
    works = []

    def script(request: Request) -> Reply:
        number = next(calls)
        if number == 2:  # while the second request is under way
            works[0].send(cmd.Hint("mind the tail"))
            return refuse(529, "overloaded_error")
        if number == 3:
            works[0].send(cmd.Hint("and the head"))
        return player(request)

    async with Lab(script) as lab:
        run = create(tmp_path / "task", lab.url, rounds=3)
        works.append(engine(run, lab.url))
        await play(works[0])
    said = [texts(request) for request in lab.requests]
    assert "mind the tail" not in said[1]
    assert said[2].count("mind the tail") == said[-1].count("mind the tail") == 1
    assert "and the head" not in said[2]
    assert said[3].count("and the head") == said[-1].count("and the head") == 1
    assert lab.memory.faults == lab.refused == []
    run.close()


@pytest.mark.parametrize(
    ("command", "held"), [(cmd.Stop(), False), (cmd.Pause(), True)], ids=["stop", "pause"]
)
async def test_a_stop_or_a_pause_ends_the_wait_for_a_server(
    tmp_path: Path, command: cmd.Command, held: bool
) -> None:
    script: Callable[[Request], Reply] = lambda request: refuse(529, "overloaded_error")  # noqa: E731
    async with Lab(script) as lab:
        run = create(tmp_path / "task", lab.url)
        work = engine(run, lab.url)
        work._loop.retry.base_s = work._loop.retry.cap_s = 3_600.0
        running = asyncio.create_task(work.run())
        while run.state.api_wait is None:
            await asyncio.sleep(0.001)
        assert work.send(command) is None
        async with asyncio.timeout(10):
            if held:
                while "paused" not in work.live.activity:
                    await asyncio.sleep(0.001)
                running.cancel()
                await asyncio.wait({running})
            else:
                await running
                assert run.state.finished == "stopped by the user"
        await work.close()
    check_sound(run)


HANDS: list[Callable[[str], cmd.Command]] = [
    cmd.DropItem,
    lambda active: cmd.UndoKeep("not that one"),
    lambda active: cmd.ForceReplan("think of memory"),
    lambda active: cmd.ForceDiagnosis("what is wrong?"),
]


@pytest.mark.parametrize("hand", HANDS, ids=["drop", "undo", "replan", "diagnose"])
async def test_a_hand_that_cuts_off_the_wait_for_a_server_lets_the_run_go_on(
    tmp_path: Path, hand: Callable[[str], cmd.Command]
) -> None:
    player = Player(directions())
    calls = itertools.count(1)

    def script(request: Request) -> Reply:
        if next(calls) == 3:  # a plan, a kernel that was kept, and now the next one
            return refuse(529, "overloaded_error")
        return player(request)

    async with Lab(script) as lab:
        run = create(tmp_path / "task", lab.url, rounds=3)
        work = engine(run, lab.url)
        work._loop.retry.base_s = work._loop.retry.cap_s = 3_600.0
        running = asyncio.create_task(work.run())
        while run.state.api_wait is None:
            await asyncio.sleep(0.001)
        assert in_sight(run.state, run.state.last_at) == Hold(Overlay.WAIT_API)
        assert run.state.active is not None
        assert work.send(hand(run.state.active)) is None
        assert run.state.api_wait is None, "the screen shows a wait that nobody waits any more"
        async with asyncio.timeout(20):
            await running
        assert run.state.finished == "max rounds reached (3)"
        await work.close()
    check_sound(run)


async def test_usage_adds_up_by_call_round_and_item(tmp_path: Path) -> None:
    async with Lab(Player(directions()), clock=lambda: 0.0) as lab:
        run = create(tmp_path / "task", lab.url, rounds=4)
        await play(engine(run, lab.url))
    report = usage_report(run.records)
    told = [request.usage for request in lab.requests]
    assert len(report.calls) == len(told)
    for call, usage in zip(report.calls, told, strict=True):
        assert call.usage.cache_read == usage["cache_read_input_tokens"]
        written = usage["cache_creation"]
        assert call.usage.cache_write_short == written["ephemeral_5m_input_tokens"]
        assert call.usage.cache_write == written["ephemeral_1h_input_tokens"]
    replied = [r.event for r in run.records if isinstance(r.event, ev.ModelReplied)]
    assert all(event.request_id.startswith("req_") for event in replied)
    prompt = report.total.prompt_tokens
    assert (
        prompt == run.state.input_tokens == sum(t.prompt_tokens for t in report.by_round.values())
    )
    assert set(report.by_item) == {"p1", "p2", "p3", "p4"}
    share = report.total.cache_read_share
    assert share is not None
    assert 0.5 < share < 1
    assert report.total.cost_usd is None  # nobody knows what `lab` costs
    run.close()


def test_what_was_read_from_the_cache_and_written_to_it_has_its_own_price() -> None:
    million = 1_000_000
    model = "claude-opus-5-5"  # 4 in, 20 out, 8 and 5 for a write of an hour and five minutes
    assert cost_usd((Usage(model, input=million),)) == 4.0
    assert cost_usd((Usage(model, output=million),)) == 20.0
    assert cost_usd((Usage(model, cache_write=million),)) == 8.0
    assert cost_usd((Usage(model, cache_write_short=million),)) == 5.0
    assert cost_usd((Usage(model, cache_read=million),)) == 0.2
