"""How long a server is waited for: pure figures, no server and no real clock."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from akg_tui.agent.chat import ChatReply, ChatRequest, ModelUnusable, ServerBusy
from akg_tui.agent.model_calls import Retry
from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.effects import Hold, RunAgent, in_sight
from akg_tui.core.phases import Overlay, Phase
from akg_tui.headless.watched_run import narrate
from akg_tui.view.spans import plain
from akg_tui.view.status import status
from tests.agent.test_sweep import TextRun


def test_waits_grow_twofold_to_their_cap_and_differ_by_a_quarter_at_most() -> None:
    calm = Retry(jitter=lambda attempt: 0.5)
    assert [calm.wait_for(n, None) for n in (1, 2, 3, 6, 7, 8, 99)] == [
        2.0, 4.0, 8.0, 64.0, 120.0, 120.0, 120.0,
    ]  # fmt: skip
    assert Retry(jitter=lambda attempt: 0.0).wait_for(1, None) == 1.5
    assert Retry(jitter=lambda attempt: 1.0).wait_for(1, None) == 2.5
    assert [Retry().wait_for(n, None) for n in range(1, 9)] == [
        Retry().wait_for(n, None) for n in range(1, 9)
    ]


def test_what_a_server_asks_for_is_granted_up_to_a_cap_and_never_shortens_a_wait() -> None:
    calm = Retry(jitter=lambda attempt: 0.5)
    assert calm.wait_for(1, 30.0) == 30.0
    assert calm.wait_for(1, 7_200.0) == 300.0
    assert calm.wait_for(5, 0.0) == 32.0


class Stalling:
    """A model whose server says nothing until each try is given up."""

    name = "stalling"

    def __init__(self, takes_s: float) -> None:
        self.takes_s = takes_s
        self.now = 0.0
        self.tries = 0

    async def complete(self, request: ChatRequest, on_delta: Callable[[str], None]) -> ChatReply:
        self.tries += 1
        self.now += self.takes_s
        raise ServerBusy("no progress for 10 min")

    async def rest(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize("takes_s", [0.0, 600.0, 5_400.0])
async def test_a_server_is_borne_for_two_hours_however_long_each_of_its_tries_takes(
    takes_s: float,
) -> None:
    run, model = TextRun(), Stalling(takes_s)
    run.until_agent()
    retry = Retry(rest=model.rest, now=lambda: model.now)
    request = ChatRequest("", (), (), "")
    with pytest.raises(ModelUnusable, match=r"no reply in \d+ tries over [23]\.\d h"):
        await retry.ask(run, model, lambda: request, lambda text: None, lambda: run.now)
    # From the first failure, and over by one try and one wait at most.
    assert 7_200 <= model.now - takes_s <= 7_200 + takes_s + 150


def test_a_wait_and_a_failure_hold_the_phase_in_sight_and_a_new_session_ends_both() -> None:
    run = TextRun()
    run.until_agent()
    assert run.state.phase is Phase.PLAN
    run.send(cmd.Observe(ev.ApiWaiting(reason="529 overloaded", attempt=3, seconds=8.0)))
    assert in_sight(run.state, run.now) == Hold(Overlay.WAIT_API)
    assert run.next() == RunAgent(Phase.PLAN), "a wait ends with its visit, it holds no other"
    told = plain(status(run.state, "", None, run.now, 118))
    assert told == "WAIT_API: try 4 in 8 s: 529 overloaded"
    assert narrate(run.records[-1:]) == ["WAIT_API: try 4 in 8 s: 529 overloaded"]
    run.send(cmd.Observe(ev.ApiFailed(reason="the key was refused")))
    told = plain(status(run.state, "", None, run.now, 118))
    assert told == "WAIT_API: the key was refused; space tries again"
    assert run.state.api_wait is None
    assert run.next() == Hold(Overlay.WAIT_API)
    assert run.send(cmd.Unpause()) is None
    assert run.next() == RunAgent(Phase.PLAN)
    run.send(cmd.Observe(ev.ApiFailed(reason="again")))
    run.send(cmd.Observe(ev.SessionOpened(pid=1, version="0", resumed=True)))
    assert run.next() == RunAgent(Phase.PLAN)
