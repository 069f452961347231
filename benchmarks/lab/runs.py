"""Runs against the lab: a real folder, engine, SDK and socket; only the judge is a fake."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from akg_tui.agent.context import Context
from akg_tui.agent.model_calls import Retry
from akg_tui.agent.models.endpoint import Endpoint
from akg_tui.agent.models.served import Served
from akg_tui.agent.models.transport import Limits
from akg_tui.agent.prompt import system_text
from akg_tui.core import events as ev
from akg_tui.core.model_info import ANTHROPIC
from akg_tui.core.phases import Mode, WorkflowName
from akg_tui.core.task import Agent, Policy, Task
from akg_tui.engine.engine import Engine
from akg_tui.store.context_files import context_listing
from akg_tui.store.run_folder import TASK, RunFolder
from akg_tui.store.task_folder import load_task
from benchmarks.lab.player import Direction
from tests.engine.fake_judge import FakeJudge
from tests.engine.runs import Clock, make_task

KEY = "sk-lab-secret"
CHAT = replace(ANTHROPIC, cache_marks=False, thinking=False)
"""What a server of chat completions can do at most."""
QUICK = Limits(connect_s=2.0, first_s=5.0, stall_s=5.0)


def brave(**changes: Any) -> Retry:
    """Patience for tests: the same rules, waits of milliseconds, each try as long as the last."""
    ticks = itertools.count()
    settings: dict[str, Any] = {"base_s": 0.001, "cap_s": 0.004, "asked_cap_s": 0.004}
    settings["now"] = lambda: next(ticks) * 0.003
    return Retry(**{**settings, "total_s": 0.05, **changes})


def directions() -> Iterator[Direction]:
    """What to try on the fake kernel: two that help, then ever new ones that do not."""
    yield Direction("use the faster form B", '^SPEED = "A"', 'SPEED = "B"')
    yield Direction("a wider line of 3", r"^WIDTH = \d+", "WIDTH = 3")
    yield Direction("use the fastest form C", '^SPEED = "[AB]"', 'SPEED = "C"')
    for number in itertools.count(4):
        yield Direction(f"a wider line of {number}", r"^WIDTH = \d+", f"WIDTH = {number}")


def wrong() -> Iterator[Direction]:
    """Directions whose kernels are all wrong."""
    for number in itertools.count(1):
        text = f"a shortcut, number {number}"
        yield Direction(text, '^SPEED = "A".*', f'SPEED = "WRONG"; NUMBER = {number}')


def create(
    folder: Path,
    url: str,
    *,
    rounds: int = 5,
    agent: Agent | None = None,
    kernel: str = "",
    workflow: WorkflowName | None = None,
    probes: bool = False,
    context: Mapping[str, str] | None = None,
    idle_work: bool = False,
) -> RunFolder:
    """A new run whose agent is served at `url`; it knows what the server can do, or asks.

    `context` are files that it may read, by path. `idle_work` makes the times of measurements
    depend on those of the replies.
    """
    made = make_task(folder)
    for path, text in (context or {}).items():
        (made / path).parent.mkdir(parents=True, exist_ok=True)
        (made / path).write_text(text)
    if context:
        toml = f'op = "speed"\n[files]\ncontext = {list(context)}\n'
        (made / "task.toml").write_text(toml)
    if kernel:
        (made / "kernel.py").write_text(kernel)
    who = replace(agent or Agent(model="lab", base_url=url), idle_work=idle_work)
    task = Task(op="speed", policy=Policy(max_rounds=rounds), agent=who, workflow=workflow)
    run = RunFolder.create(
        load_task(made, workflow),
        task=task,
        mode=Mode.AUTO,
        agent=who.model,
        version="0",
        clock=Clock(),
        name="r",
    )
    if not probes:
        can = CHAT if who.api == "chat" else ANTHROPIC
        known = ev.EndpointProbed(base_url=url, model=who.model, capabilities=can)
        run.append(known)
    return run


def engine(
    run: RunFolder,
    url: str,
    *,
    key: str = KEY,
    retry: Retry | None = None,
    limits: Limits = QUICK,
    budget: int | None = None,
    clock: Any = None,
) -> Engine:
    """An engine for `run` whose model is at `url`."""
    agent = run.state.task.agent
    endpoint = Endpoint(agent.model, url, key, agent.api)
    extra = {"clock": clock} if clock else {}
    model = Served(agent, endpoint, limits=limits, **extra)
    rules = system_text(run.state.task, run.reference, context_listing(run.path / TASK))
    context = Context(rules, budget=budget or agent.context_tokens)

    def other(name: str) -> Served:
        there = Endpoint(name, url, key, agent.api)
        return Served(replace(agent, model=name), there, limits=limits)

    return Engine(
        run,
        model,
        FakeJudge,
        clock=run._clock,
        context=context,
        retry=retry or brave(),
        open_model=other,
    )


class Held(AssertionError):
    """The model was given up, and nobody watches."""


async def play(work: Engine, *, limit_s: float = 60.0) -> None:
    """Work until the run is over. Raises `Held` when it holds for want of a model."""
    running = asyncio.create_task(work.run())
    try:
        async with asyncio.timeout(limit_s):
            await asyncio.sleep(0)  # the new session forgets why the last one held
            while not running.done() and not work.state.api_failure:
                await asyncio.wait({running}, timeout=0.01)
        if not running.done():
            raise Held(work.state.api_failure)
        await running
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await work.close()


def of(run: RunFolder, kind: type) -> list[Any]:
    """The run's events of one kind."""
    return [record.event for record in run.records if isinstance(record.event, kind)]


def check_sound(run: RunFolder) -> None:
    """The journal opens again and folds to the same state, and the key is nowhere in it."""
    run.close()
    again = RunFolder.open(run.path, clock=Clock(run.state.last_at))
    try:
        assert again.state == run.state
        calls = {e.call for e in of(again, ev.ToolCalled)}
        assert calls == {e.call for e in of(again, ev.ToolAnswered)}
    finally:
        again.close()
    for path in run.path.rglob("*"):
        if path.is_file():
            assert KEY.encode() not in path.read_bytes(), path
