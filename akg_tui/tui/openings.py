"""How a run comes to be on the screen: looked at, attached to, resumed, or begun.

Each is awaited by the app, which shows what went wrong. Nothing here draws.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from akg_tui.core.measurement import Measurement, Progress
    from akg_tui.engine.engine import Engine
    from akg_tui.engine.follow import Followed
    from akg_tui.store.run_folder import RunFolder

SAMPLES = Path("akg-demo")  # where `akg-tui demo` puts its copies too


async def watched(path: Path, *, steer: bool) -> Followed:
    """A run that this process does not work on."""
    from akg_tui.engine.follow import Followed

    return await asyncio.to_thread(Followed, path, steer=steer)


async def resumed(path: Path) -> Engine:
    """A run at rest, taken up again. Raises what `RunFolder.open` raises."""
    from akg_tui.agent.tools.definitions import definitions_with
    from akg_tui.agent.tools.offer import TASK, task_files
    from akg_tui.engine.launch import engine_for
    from akg_tui.store.run_folder import RunFolder

    def taken() -> RunFolder:
        run = RunFolder.open(path)
        try:
            if files := task_files(run.path / TASK, run.state.task):
                definitions_with(files)
        except BaseException:
            run.close()
            raise
        return run

    return engine_for(await asyncio.to_thread(taken))


@dataclass(frozen=True)
class Start:
    """What a person chose to begin: a task folder, or the `sample` to make one of."""

    folder: Path
    sample: str = ""
    mode: str = "auto"
    rounds: int | None = None


async def begun(start: Start) -> Engine:
    """A new run of a task, after the checks that `akg-tui tune` makes."""
    from msgspec.structs import replace

    from akg_tui.agent.models.knobs import require_knobs
    from akg_tui.agent.tools.definitions import definitions_with
    from akg_tui.core.machine import Mode
    from akg_tui.core.prices import policy_fault
    from akg_tui.engine.launch import create_run, engine_for
    from akg_tui.store.task_folder import load_task

    def made() -> RunFolder:
        folder = sample_folder(start.sample, start.folder) if start.sample else start.folder
        loaded = load_task(folder)
        task = loaded.task
        if start.rounds is not None:
            task = replace(task, policy=replace(task.policy, max_rounds=start.rounds))
        if files := [(loaded.path / name, text) for name, text in loaded.tools]:
            definitions_with(files)
        if fault := policy_fault(task.policy, task.agent.model):
            raise ValueError(fault)
        if task.agent.model == "sweep":
            require_knobs(loaded.kernel.split("\n"))
        return create_run(loaded, task, Mode(start.mode))

    return engine_for(await asyncio.to_thread(made))


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
    """A task that a person describes, before it is a folder. All but `folder` may be wrong."""

    reference: Path
    kernel: Path
    folder: Path
    dsl: str = "cpp"
    mode: str = "auto"
    rounds: int = 20


def written(draft: Draft) -> Start:
    """Make the task folder, as `akg-tui new` does. Raises `BadTask`."""
    from akg_tui.store.task_folder import write_task

    write_task(draft.folder, reference=draft.reference, kernel=draft.kernel, dsl=draft.dsl)
    return Start(draft.folder, mode=draft.mode, rounds=draft.rounds)


async def checked(draft: Draft, tell: Callable[[Progress], None]) -> Measurement:
    """Verify and time the kernel once against the reference, in a folder that goes away.

    Raises
    ------
    akg_tui.store.errors.StoreError
        If a file cannot be used.
    ValueError
        If the kernel declares no knobs that the agent could turn.
    """
    from akg_tui.agent.models.knobs import require_knobs
    from akg_tui.evaluate import Judge
    from akg_tui.store.errors import BadTask
    from akg_tui.store.task_folder import write_task

    if draft.folder.exists() and any(draft.folder.iterdir()):
        raise BadTask(draft.folder, None, "", "has files in it, expected a new or an empty folder")
    with tempfile.TemporaryDirectory(prefix="akg-check-") as scratch:
        loaded = write_task(
            Path(scratch) / "task", reference=draft.reference, kernel=draft.kernel, dsl=draft.dsl
        )
        require_knobs(loaded.kernel.split("\n"))
        home = Path(scratch) / "scratch"
        judge = Judge(loaded.task, loaded.reference, home, on_progress=tell)
        try:
            return await judge.evaluate(loaded.kernel, None)
        finally:
            await judge.close()
