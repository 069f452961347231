"""A real run on disk, held in an agent phase: a test makes the calls in the agent's place."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from akg_tui.agent.chat import ChatReply, ChatRequest, ToolUse
from akg_tui.core.phases import Mode, Phase
from akg_tui.core.task import Agent, Files, Policy, Task
from akg_tui.engine.engine import Engine
from akg_tui.store.run_folder import RunFolder
from akg_tui.store.task_folder import load_task
from tests.engine.fake_judge import FakeJudge
from tests.engine.runs import Clock, make_task

PLAN = {
    "items": [{"text": 'SPEED = "B"', "rationale": "the figures so far point this way"}],
}


class Holding:
    """A model that plans, and then waits in phase EDIT for whoever plays its part."""

    name = "holding"

    def __init__(self, hold: Phase) -> None:
        self.arrived = asyncio.Event()
        self._hold = hold

    async def complete(self, request: ChatRequest, on_delta) -> ChatReply:
        prompt = request.messages[0].text
        if f"Phase {self._hold}." in prompt:
            self.arrived.set()
            await asyncio.Event().wait()
        return ChatReply("", (ToolUse("plan", "submit_plan", PLAN),))


@contextlib.asynccontextmanager
async def held(
    folder: Path,
    *,
    hold: Phase = Phase.EDIT,
    agent: Agent | None = None,
    tools: str = "",
    kernels: Mapping[str, str] | None = None,
) -> AsyncIterator[Engine]:
    """An engine whose run waits in `hold`; its task folder is `folder`/task.

    `kernels` are the files of a kernel in several files, by name.
    """
    make_task(folder / "task")
    for name, text in (kernels or {}).items():
        (folder / "task" / name).write_text(text)
    editable = tuple(kernels or ("kernel.py",))
    toml = f'op = "speed"\n[files]\neditable = {list(editable)}\n'
    (folder / "task" / "task.toml").write_text(toml)
    if tools:
        (folder / "task" / "tools.yaml").write_text(tools)
    files = Files(editable=editable)
    task = Task(op="speed", files=files, policy=Policy(max_rounds=3), agent=agent or Agent())
    run = RunFolder.create(
        load_task(folder / "task"),
        task=task,
        mode=Mode.AUTO,
        agent="sweep",
        version="0",
        clock=Clock(),
        name="r",
    )
    model = Holding(hold)
    engine = Engine(run, model, FakeJudge, clock=Clock(1_800_000_000.0))
    work = asyncio.create_task(engine.run())
    arrived = asyncio.create_task(model.arrived.wait())
    await asyncio.wait({work, arrived}, return_when=asyncio.FIRST_COMPLETED)
    arrived.cancel()
    if work.done():
        work.result()
        raise AssertionError(f"the run ended: {engine.state.finished}")
    try:
        yield engine
    finally:
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work
        await engine.close()


MAY_CHANGE = ("notes/", "trace/", "events.jsonl")
"""Of a run's folder: scratch of the agent, traces of its calls, and the journal, which grows."""


def files(folder: Path, run: Path) -> dict[str, str]:
    """Every file and link below `folder` with a digest, but what a tool call may change."""
    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_relative_to(run):
            inside = str(path.relative_to(run))
            if inside.startswith(MAY_CHANGE) or inside in ("notes", "trace"):
                continue
        if path.is_symlink():
            found[str(path)] = f"link to {path.readlink()}"
        elif path.is_file():
            found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            found[str(path)] = "folder" if path.is_dir() else "other"
    return found
