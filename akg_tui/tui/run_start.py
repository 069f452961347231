"""How a run comes to be on the screen: looked at, attached to, resumed, or begun.

Each is awaited by the app, which shows what went wrong. Nothing here draws.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from akg_tui.core.task import Agent
from akg_tui.view.language import retold, tr

if TYPE_CHECKING:
    from akg_tui.core.measurement import Measurement, Progress
    from akg_tui.core.task import Task
    from akg_tui.engine.engine import Engine
    from akg_tui.engine.follower import Followed
    from akg_tui.store.run_folder import RunFolder
    from akg_tui.store.task_folder import TaskFolder

SAMPLES = Path("akg-demo")  # where `akg-tui demo` puts its copies too


async def watched(path: Path, *, steer: bool) -> Followed:
    """A run that this process does not work on."""
    from akg_tui.engine.follower import Followed

    return await asyncio.to_thread(Followed, path, steer=steer)


async def resumed(path: Path) -> Engine:
    """A run at rest, taken up again. Raises what `RunFolder.open` raises."""
    from akg_tui.agent.tools.registry import TASK, task_files, tools_with
    from akg_tui.engine.launch import engine_for
    from akg_tui.store.run_folder import RunFolder

    def taken() -> RunFolder:
        run = RunFolder.open(path)
        try:
            if files := task_files(run.path / TASK, run.state.task):
                tools_with(files)
        except BaseException:
            run.close()
            raise
        return run

    return engine_for(await asyncio.to_thread(taken))


@dataclass(frozen=True)
class Start:
    """What a person chose to begin: a task folder, or the `sample` to make one of.

    `rounds`, `agent` and `max_cost` (USD) go before what the task says.
    """

    folder: Path
    sample: str = ""
    mode: str = "auto"
    rounds: int | None = None
    agent: Agent | None = None
    max_cost: float | None = None


class Unfit(ValueError):
    """Why a task cannot be tuned here, in words of the language spoken, and by which `field`."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(why)
        self.field = field


async def begun(start: Start) -> Engine:
    """A new run of a task, after the checks that `akg-tui tune` makes."""
    from akg_tui.agent.tools.registry import tools_with
    from akg_tui.core.phases import Mode
    from akg_tui.engine.launch import create_run, engine_for
    from akg_tui.store.task_folder import load_task

    def made() -> RunFolder:
        folder = sample_folder(start.sample, start.folder) if start.sample else start.folder
        loaded = load_task(folder)
        task = _stated(loaded.task, start)
        if files := [(loaded.path / name, text) for name, text in loaded.tools]:
            tools_with(files)
        insist(task, loaded.kernel)
        return create_run(loaded, task, Mode(start.mode))

    return engine_for(await asyncio.to_thread(made))


def _stated(task: Task, start: Start) -> Task:
    """The task with what was said when it was begun."""
    from msgspec.structs import replace

    from akg_tui.core.stopping.automation import AutomationPolicy

    policy = task.policy
    if start.rounds is not None:
        policy = replace(policy, max_rounds=start.rounds)
    if start.max_cost is not None:
        automation = policy.automation or AutomationPolicy()
        automation = replace(automation, max_cost_usd=start.max_cost)
        policy = replace(policy, automation=automation)
    return replace(task, policy=policy, agent=start.agent or task.agent)


def insist(task: Task, kernel: str) -> None:
    """Raise `Unfit` unless this machine can time the kernel and the task's agent can begin."""
    from akg_tui.agent.models.endpoint import KEY_VARIABLE, KeyMissing, endpoint_of
    from akg_tui.core.model_info import policy_fault
    from akg_tui.core.plan.knobs import BadKnob, find_knobs
    from akg_tui.core.task import SWEEP
    from akg_tui.evaluate.adapters import adapters

    target, dsl = adapters(task)
    if why := target.lacking():
        raise Unfit("backend", retold(why))
    if why := dsl.lacking(target.name):
        raise Unfit("dsl", retold(why))
    if why := dsl.untimed(target.name):
        raise Unfit("dsl", tr("there is nothing to tune by: {why}", why=retold(why)))
    agent = task.agent
    if agent.model == SWEEP:
        try:
            knobs = find_knobs(kernel.split("\n"))
        except BadKnob as error:
            raise Unfit("kernel", retold(str(error))) from error
        if not knobs:
            why = tr("sweep turns knobs and this kernel declares none, like  "
                     "BLOCK = 64  # tune: [32, 64, 128]  or let a model tune it")  # fmt: skip
            raise Unfit("kernel", why)
        return
    try:
        endpoint_of(agent, os.environ)
    except KeyMissing as error:
        none = not agent.api_key_file and not os.environ.get(KEY_VARIABLE, "").strip()
        why = tr("no key for {model}: name a file that holds it, or set {name} before you start",
                 model=agent.model, name=KEY_VARIABLE)  # fmt: skip
        raise Unfit("key", why if none else retold(str(error))) from error
    if fault := policy_fault(task.policy, agent.model):
        raise Unfit("cost", retold(fault))


def sample_folder(name: str, below: Path) -> Path:
    """A copy of a bundled sample below a folder; the one that is there already is kept."""
    from akg_tui.resources import sample

    folder = below / SAMPLES / name
    if not (folder / "task.toml").exists():
        ignore = shutil.ignore_patterns("runs", "__pycache__")
        shutil.copytree(sample(name), folder, dirs_exist_ok=True, ignore=ignore)
    return folder


@dataclass(frozen=True)
class Draft:
    """A task that a person describes, before it is a folder, and how its first run begins.

    Files and folder may be wrong.
    """

    reference: Path
    kernel: Path
    folder: Path
    backend: str = "cpu"
    dsl: str = "cpp"
    arch: str = ""
    agent: Agent = field(default_factory=Agent)
    max_cost: float | None = None
    mode: str = "auto"
    rounds: int = 20

    @property
    def start(self) -> Start:
        """The run that begins once the folder is written."""
        return Start(self.folder, mode=self.mode, rounds=self.rounds, agent=self.agent,
                     max_cost=self.max_cost)  # fmt: skip


async def written(draft: Draft) -> Start:
    """Make the task folder, as `akg-tui new` does. Raises `Unfit`."""
    await asyncio.to_thread(_task_of, draft, draft.folder)
    return draft.start


def _task_of(draft: Draft, folder: Path) -> TaskFolder:
    """The draft as a task folder, its faults told by the draft's fields. Raises `Unfit`."""
    from akg_tui.store.errors import BadTask
    from akg_tui.store.task_folder import write_task

    if draft.reference == draft.kernel:
        raise Unfit("kernel", retold("is the reference too, expected another file"))
    try:
        return write_task(
            folder, reference=draft.reference, kernel=draft.kernel, backend=draft.backend,
            dsl=draft.dsl, arch=draft.arch,
        )  # fmt: skip
    except BadTask as error:
        by_file = {draft.kernel: "kernel", draft.reference: "reference"}
        named = error.field.rpartition(".")[2]
        at = by_file.get(error.path, named if named in ("backend", "dsl", "arch") else "folder")
        line = "" if error.line is None else tr("line {line}", line=error.line)
        told = (line, error.field, retold(error.message))
        raise Unfit(at, ": ".join(part for part in told if part)) from error


async def checked(draft: Draft, tell: Callable[[Progress], None]) -> Measurement:
    """Verify and time the kernel once against the reference, in a folder that goes away.

    Raises
    ------
    Unfit
        If a file cannot be used, the machine cannot time such kernels, or the agent lacks what
        it needs: knobs, a key, a price.
    """
    from akg_tui.evaluate import Judge

    scratch = tempfile.TemporaryDirectory(prefix="akg-check-", ignore_cleanup_errors=True)

    def prepared() -> TaskFolder:
        _insist_on_room(draft.folder)
        loaded = _task_of(draft, Path(scratch.name) / "task")
        insist(_stated(loaded.task, draft.start), loaded.kernel)
        return loaded

    try:
        loaded = await asyncio.to_thread(prepared)
        home = Path(scratch.name) / "scratch"
        judge = Judge(loaded.task, loaded.reference, home, on_progress=tell)
        try:
            return await judge.evaluate(loaded.kernel, None)
        finally:
            await judge.close()
    finally:
        await asyncio.to_thread(scratch.cleanup)


def _insist_on_room(folder: Path) -> None:
    """Raise `Unfit` where no task folder can be made."""
    try:
        full = folder.exists() and any(folder.iterdir())
    except OSError as error:
        raise Unfit("folder", retold(error.strerror or str(error))) from error
    if full:
        raise Unfit("folder", retold("has files in it, expected a new or an empty folder"))
