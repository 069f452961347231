"""A run that an MCP client drives: the official client, the real engine, a judge that is a fake.

Importing `mcp` takes a second: only processes that run one of these tests do so.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from akg_tui.agent.chat import ToolSpec
from akg_tui.agent.context import Context
from akg_tui.agent.driver import Driver
from akg_tui.agent.prompt import system_text
from akg_tui.agent.tools.registry import TASK, offered, specs_of
from akg_tui.cli.serve_mcp import outside
from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.phases import Mode, Phase, Verdict
from akg_tui.core.task import MCP, Agent, Policy, Task
from akg_tui.engine.attach import Attached
from akg_tui.engine.engine import Engine
from akg_tui.engine.run_service import RunFault, RunRequest, engine_for, prepare
from akg_tui.store.lock import holder
from akg_tui.store.run_folder import RunFolder
from akg_tui.store.run_list import find_runs, read_state
from akg_tui.store.task_folder import load_task
from benchmarks.lab.runs import of
from tests.engine.fake_judge import FakeJudge
from tests.engine.runs import Clock, make_task

if TYPE_CHECKING:
    from mcp import Client

TOKEN = "a-token-of-the-tests"
PLAN = {"items": [{"text": "use the faster form B", "rationale": "the figures point this way"}]}


class Play:
    """A client's calls on one run, and the engine that works on it."""

    def __init__(self, engine: Engine, client: Client) -> None:
        self.engine = engine
        self.client = client

    async def call(self, tool: str, **arguments: Any) -> tuple[bool, str]:
        """Whether a call failed, and all that it was told."""
        result = await self.client.call_tool(tool, arguments)
        return result.is_error, "\n".join(block.text for block in result.content)

    async def until(self, words: str) -> str:
        """Ask for the situation until it has these words."""
        told = ""
        while words not in told:
            _, told = await self.call("situation")
        return told

    async def edit(self, speed: str) -> tuple[bool, str]:
        """Set the kernel's speed by the tag of its line."""
        _, view = await self.call("read_kernel")
        found = re.search(r"^(\d+[a-z]+)\|(SPEED = .*)$", view, re.M)
        assert found
        op = {"op": "replace", "from": found[1], "to": found[1], "lines": [f'SPEED = "{speed}"']}
        return await self.call("edit_kernel", ops=[op])


def engine_of(
    folder: Path,
    *,
    mode: Mode = Mode.AUTO,
    rounds: int = 1,
    wait_s: float = 5.0,
    allow_script: bool | None = None,
) -> tuple[Engine, Driver]:
    agent = Agent(model=MCP, allow_script=allow_script)
    task = Task(op="speed", policy=Policy(max_rounds=rounds), agent=agent)
    run = RunFolder.create(
        load_task(make_task(folder)),
        task=task,
        mode=mode,
        agent=MCP,
        version="0",
        clock=Clock(),
        name="r",
    )
    driver = Driver(wait_s=wait_s)
    context = Context(system_text(task, run.reference), budget=task.agent.context_tokens)
    engine = Engine(run, driver, FakeJudge, clock=run._clock, context=context)
    driver.outside = lambda: outside(engine)
    return engine, driver


def client_of(driver: Driver, specs: Sequence[ToolSpec]) -> Client:
    """A client whose server is this driver's."""
    from mcp import Client

    from akg_tui.agent.mcp_server import server_of

    return Client(server_of(driver, specs))


@contextlib.asynccontextmanager
async def playing(folder: Path, **how: Any) -> AsyncIterator[Play]:
    engine, driver = engine_of(folder, **how)
    specs = specs_of(offered(Path(engine.path) / TASK, engine.state.task, {}))
    working = asyncio.create_task(engine.run())
    working.add_done_callback(lambda task: driver.over())
    try:
        async with asyncio.timeout(30), client_of(driver, specs) as client:
            yield Play(engine, client)
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        await engine.close()


async def test_a_client_drives_a_run_to_a_keep_under_its_phases(tmp_path: Path) -> None:
    async with playing(tmp_path / "task") as play:
        told = await play.until("Phase PLAN.")
        assert "You tune one compute kernel inside a state machine" in told
        assert "SPEED = " in told
        failed, told = await play.call("edit_kernel", ops=[])
        assert failed
        assert "edit_kernel is not allowed in phase PLAN. Allowed now: ask_user, " in told
        failed, told = await play.call("submit_plan", **PLAN)
        assert not failed
        assert told.startswith("accepted: p1\nPhase EDIT.")
        assert "Active item: p1: use the faster form B" in told
        failed, told = await play.call("submit_plan", items=7)
        assert (failed, "Phase EDIT" in told) == (True, False)
        failed, told = await play.edit("B")
        assert not failed
        assert "The run is over." in told
        failed, told = await play.call("read_kernel")
        assert failed
        assert "max rounds reached (1)" in told
        run = play.engine
        assert run.state.count(Verdict.KEEP) == 1
        asked = of(run, ev.ToolCalled)
        assert [call.tool for call in asked] == [
            "edit_kernel", "submit_plan", "submit_plan", "read_kernel", "edit_kernel",
        ]  # fmt: skip
        assert len(of(run, ev.ToolAnswered)) == len(asked) == len(of(run, ev.TurnEnded))


async def test_the_tools_are_those_of_the_phases_and_one_that_tells(tmp_path: Path) -> None:
    engine, driver = engine_of(tmp_path / "task")
    specs = specs_of(offered(Path(engine.path) / TASK, engine.state.task, {}))
    async with client_of(driver, specs) as client:
        listed = (await client.list_tools()).tools
    assert [tool.name for tool in listed] == ["situation", *(spec.name for spec in specs)]
    assert {tool.name: tool.input_schema for tool in listed}["submit_plan"] == next(
        spec.parameters for spec in specs if spec.name == "submit_plan"
    )
    assert "task" not in {tool.name for tool in listed}  # nobody here answers for a subagent
    await engine.close()


async def test_a_keep_waits_for_the_person_who_is_attached_and_the_client_is_told(
    tmp_path: Path,
) -> None:
    async with playing(tmp_path / "task", mode=Mode.REVIEW, rounds=2, wait_s=0.3) as play:
        await play.until("Phase PLAN.")
        await play.call("submit_plan", **PLAN)
        failed, told = await play.edit("B")
        assert not failed
        assert "The run waits: waiting for a review of the KEEP." in told
        failed, told = await play.call("submit_plan", **PLAN)
        assert failed
        assert "akg-tui attach" in told
        person = await asyncio.to_thread(Attached.to, Path(play.engine.path))
        gate = play.engine.state.gate
        assert gate is not None
        await asyncio.to_thread(person.send, cmd.Hint("mind the tail"))
        await asyncio.to_thread(person.send, cmd.AnswerGate(gate.gate, approve=True))
        told = await play.until("Phase PLAN.")
        assert "Last verdict: p1 KEEP" in told
        failed, told = await play.call("search_knowledge", query="vector")
        assert "Hint from the person who watches: mind the tail" in told
        assert play.engine.state.hints == ()
        person.close()


async def test_a_pause_ends_the_visit_and_everything_can_be_told_again(tmp_path: Path) -> None:
    async with playing(tmp_path / "task", wait_s=0.3) as play:
        await play.until("Phase PLAN.")
        again = await play.call("situation")
        assert again[1].startswith("Phase PLAN.")
        assert "SPEED = " not in again[1]
        _, whole = await play.call("situation", whole=True)
        assert all(words in whole for words in ("state machine", "PLAN.md", "SPEED = "))
        assert (await play.call("situation", more=1))[0]
        play.engine.send(cmd.Pause())
        await play.until("The run waits: paused")
        assert (await play.call("submit_plan", **PLAN))[0]
        play.engine.send(cmd.Unpause())
        await play.until("Phase PLAN.")
        play.engine.send(cmd.Stop())
        await play.until("The run is over.")


@contextlib.contextmanager
def held_judge(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A judge whose probes wait until they are let go."""
    let_go, begun = asyncio.Event(), asyncio.Event()
    probe = FakeJudge.probe

    async def held(self: FakeJudge, *given: Any, **how: Any) -> Any:
        begun.set()
        await let_go.wait()
        return await probe(self, *given, **how)

    monkeypatch.setattr(FakeJudge, "probe", held)
    yield begun, let_go


async def test_what_a_script_printed_is_told_when_a_person_takes_its_item(tmp_path: Path) -> None:
    async with playing(tmp_path / "task", rounds=3, allow_script=True) as play:
        await play.until("Phase PLAN.")
        await play.call("submit_plan", **PLAN)
        notes = Path(play.engine.path) / "notes"
        notes.mkdir(exist_ok=True)
        os.mkfifo(notes / "ready")
        script = {
            "script_path": "notes/a.sh",
            "content": "echo first; echo > ready; sleep 1000\n",
            "working_dir": "notes",
        }
        work = asyncio.create_task(play.call("execute_script", **script))
        await asyncio.to_thread((notes / "ready").read_text)
        assert play.engine.send(cmd.DropItem("p1")) is None
        failed, told = await work
        assert failed
        assert "cut off: a person changed the run" in told
        assert "\nfirst\n" in told
        assert "Phase PLAN." in told
        assert {c.call for c in of(play.engine, ev.ToolCalled)} == {
            a.call for a in of(play.engine, ev.ToolAnswered)
        }


async def test_an_answer_that_nobody_waited_for_is_told_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with held_judge(monkeypatch) as (begun, let_go):
        async with playing(tmp_path / "task") as play:
            await play.until("Phase PLAN.")
            await play.call("submit_plan", **PLAN)
            trying = asyncio.create_task(play.call("try_kernel", attempt=0))
            await begun.wait()
            trying.cancel()
            await asyncio.gather(trying, return_exceptions=True)
            let_go.set()
            _, told = await play.call("read_kernel")
            assert "The answer to try_kernel, which nobody waited for:\ntrial 1: " in told


@contextlib.asynccontextmanager
async def child(task: Path) -> AsyncIterator[tuple[Play, Callable[[], int]]]:
    """`akg-tui mcp TASK` as a client starts it, and a function for the server's process id."""
    from mcp import Client, StdioServerParameters

    command = ["-m", "tests.agent.fake_mcp_run", "mcp", str(task), "--max-rounds", "1"]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    started = StdioServerParameters(command=sys.executable, args=command, env=env)

    def pid() -> int:
        (run,) = find_runs(task / "runs")
        return int((run / "lock").read_text().split()[0])

    async with Client(started) as client:
        yield Play(None, client), pid  # type: ignore[arg-type]


async def test_a_client_that_only_connects_leaves_no_run_and_one_that_cannot_begin_is_told(
    tmp_path: Path,
) -> None:
    task = make_task(tmp_path / "task")
    async with asyncio.timeout(60), child(task) as (play, _):
        listed = await play.client.list_tools()
        assert "situation" in {tool.name for tool in listed.tools}
        assert not (task / "runs").exists()
        (task / "runs").write_text("in the way")
        failed, told = await play.call("situation")
        assert failed
        assert "the run cannot begin: " in told
        (task / "runs").unlink()
        await play.until("Phase PLAN.")
    assert len(list(find_runs(task / "runs"))) == 1


async def test_a_kill_of_either_side_loses_nothing(tmp_path: Path) -> None:
    task = make_task(tmp_path / "task")
    async with asyncio.timeout(60):
        with contextlib.suppress(Exception):  # the client complains of a server that is gone
            async with child(task) as (play, pid):
                await play.until("Phase PLAN.")
                _, told = await play.call("submit_plan", **PLAN)
                assert "Phase EDIT." in told
                os.kill(pid(), signal.SIGKILL)
        (run,) = find_runs(task / "runs")
        assert read_state(run).phase is Phase.EDIT
        async with child(task) as (play, _):  # the same command goes on with the same run
            told = await play.until("Phase EDIT.")
            assert "Active item: p1: use the faster form B" in told
            await play.call("read_kernel")
    # The client has left, and the server with it: the run rests, whole and free.
    assert list(find_runs(task / "runs")) == [run]
    assert holder(run) is None
    state = read_state(run)
    assert (state.phase, state.active, state.finished) == (Phase.EDIT, "p1", "")
    assert not state.open_calls


def test_no_other_command_works_on_a_run_that_a_client_drives(tmp_path: Path) -> None:
    engine, _ = engine_of(tmp_path / "task")
    asyncio.run(engine.close())
    with pytest.raises(RunFault, match="use akg-tui mcp"):
        engine_for(RunFolder.open(Path(engine.path)))
    toml = tmp_path / "task" / "task.toml"
    toml.write_text(f'op = "speed"\n[agent]\nmodel = "{MCP}"\n')
    with pytest.raises(RunFault, match="use akg-tui mcp"):
        prepare(RunRequest(tmp_path / "task"))
    assert prepare(RunRequest(tmp_path / "task", driven=True)).task.agent.model == MCP
