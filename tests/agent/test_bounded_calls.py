"""Whatever a server answers, a run does not ask and pay it without end.

Real folders, engine, SDK and socket; a server counts what it is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.stopping.automation import AutomationPolicy
from akg_tui.store.run_folder import RunFolder
from benchmarks.lab.family import Family, is_child
from benchmarks.lab.player import Player
from benchmarks.lab.replies import Block, Reply, Reset, Send, begin, call, message, refuse, stream
from benchmarks.lab.rules import parts
from benchmarks.lab.runs import check_sound, create, directions, engine, of, play, wrong
from benchmarks.lab.server import Lab, Request

TOO_MANY = 60


def carries_a_result(request: Request) -> bool:
    return any(block.get("type") == "tool_result" for _, block in parts(request.body))


def diagnosing(request: Request) -> bool:
    return "Phase DIAGNOSE." in str(request.body["messages"][0]["content"][0]["text"])


class Counting:
    """Answers by `script`, and ends the run when it is asked too often."""

    def __init__(self, script: Callable[[Request], Any]) -> None:
        self.script = script
        self.asked = 0
        self.stop: Callable[[], object] = lambda: None

    async def __call__(self, request: Request) -> Reply:
        self.asked += 1
        if self.asked > TOO_MANY:
            self.stop()
            return refuse(401, "authentication_error", "asked without end")
        answer = self.script(request)
        return answer if isinstance(answer, Reply) else await answer  # type: ignore[no-any-return]


async def played(
    folder: Path,
    script: Callable[[Request], Any],
    *,
    rounds: int = 1,
    policy: AutomationPolicy | None = None,
    during: Callable[[Any], None] = lambda work: None,
) -> tuple[RunFolder, Counting]:
    counting = Counting(script)
    async with Lab(counting) as lab:
        run = create(folder / "task", lab.url, rounds=rounds)
        if policy is not None:
            said = replace(run.state.task.policy, automation=policy)
            run.append(ev.PolicyChanged(policy=said))
        work = engine(run, lab.url)
        counting.stop = lambda: work.send(cmd.Stop("asked without end"))
        during(work)
        await play(work)
    assert counting.asked <= TOO_MANY, "the server was asked without end"
    return run, counting


async def test_a_server_that_takes_no_tool_result_is_asked_in_three_visits_and_no_more(
    tmp_path: Path,
) -> None:
    def script(request: Request) -> Reply:
        if carries_a_result(request):
            return refuse(400, "invalid_request_error", "roles must alternate")
        return message([call("read_kernel", {})], usage=request.usage)

    run, counting = await played(tmp_path, script)
    assert run.state.finished.startswith("the agent made no progress in 3 visits")
    assert "roles must alternate" in run.state.finished
    assert len(of(run, ev.VisitFailed)) == 3
    assert counting.asked == 6
    check_sound(run)


async def test_a_diagnosis_whose_second_request_is_refused_gives_way_to_the_plain_facts(
    tmp_path: Path,
) -> None:
    player = Player(wrong())

    def script(request: Request) -> Reply:
        if not diagnosing(request):
            return player(request)
        if carries_a_result(request):
            return refuse(413, "request_too_large")
        return message([call("read_kernel", {})], usage=request.usage)

    run, _ = await played(tmp_path, script, rounds=4)
    (report,) = of(run, ev.DiagnosisReported)
    assert report.source == "fallback"
    assert len(of(run, ev.VisitFailed)) == run.state.task.policy.diagnosis_attempts
    assert run.state.finished == "max rounds reached (4)"
    check_sound(run)


async def test_a_conversation_of_an_earlier_visit_that_is_refused_costs_no_visit(
    tmp_path: Path,
) -> None:
    player = Player(directions())

    def script(request: Request) -> Reply:
        if carries_a_result(request):
            return refuse(400, "invalid_request_error", "no tool results")
        return player(request)

    run, _ = await played(tmp_path, script, rounds=2)
    assert run.state.finished == "max rounds reached (2)"
    assert of(run, ev.VisitFailed) == []
    assert of(run, ev.ContextRebuilt)


def reads(prompt: str, turn: int) -> list[Block]:
    """A child that never comes to an answer."""
    return [call("read_kernel", {}, f"toolu_look{turn}")]


def dear(family: Family) -> Callable[[Request], Any]:
    """The family, each of whose replies to a child costs a hundred times the one before."""

    async def script(request: Request) -> Reply:
        if is_child(request):
            family._asked += 1
            taken = {"input_tokens": 100 ** len(family.children), "output_tokens": 1}
            family.children.append(request)
            blocks = reads("", len(family.children))
            return message(blocks, message_id=f"msg_{family._asked}", usage=taken)
        return await family(request)

    return script


async def test_a_subagent_whose_replies_grow_is_stopped_by_the_budget_that_it_passed(
    tmp_path: Path,
) -> None:
    family = Family(Player(directions()), ["look"], reads)
    run, _ = await played(tmp_path, dear(family), policy=AutomationPolicy(max_tokens=50_000))
    assert len(family.children) == 4, "the fourth passed the limit, which the third had not"
    refused = of(run, ev.CallRefused) + [e for e in of(run, ev.SubagentEnded) if e.reason]
    assert f"token budget reached ({run.state.tokens}/50000)" in refused[-1].reason
    assert run.state.finished == f"token budget reached ({run.state.tokens}/50000)"
    check_sound(run)


async def test_a_limit_lowered_while_a_subagent_works_stops_its_next_call(tmp_path: Path) -> None:
    family = Family(Player(directions()), ["look"], reads)
    work: list[Any] = []

    def script(request: Request) -> Any:
        if is_child(request) and len(family.children) == 3:
            (one,) = work
            lower = replace(
                one.state.task.policy, automation=AutomationPolicy(max_tokens=one.state.tokens - 1)
            )
            assert one.send(cmd.ChangePolicy(lower)) is None
        return family(request)

    run, _ = await played(tmp_path, script, during=work.append)
    assert len(family.children) == 4
    assert run.state.finished.startswith("token budget reached (")
    check_sound(run)


@pytest.mark.parametrize("whose", ["a subagent", "a diagnosis"])
async def test_a_lost_reply_that_passes_the_budget_is_not_asked_for_again(
    tmp_path: Path, whose: str
) -> None:
    player = Player(wrong() if whose == "a diagnosis" else directions())
    family = Family(player, ["look"], reads)
    family._sent = whose == "a diagnosis"
    lost: list[Request] = []
    half = stream([begin(usage={"input_tokens": 10**6, "output_tokens": 1})])

    def script(request: Request) -> Any:
        if diagnosing(request) or is_child(request):
            lost.append(request)
            return Reply([Send(half), Reset()], ends=False)
        return family(request)

    run, _ = await played(tmp_path, script, rounds=9, policy=AutomationPolicy(max_tokens=500_000))
    assert len(lost) == 1
    assert run.state.finished == f"token budget reached ({run.state.tokens}/500000)"
    assert run.state.subagents == ()
    check_sound(run)
