"""Puts a run together: folder, model and judge become an `Engine`.

The only place that knows which model a name stands for.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from akg_tui import __version__
from akg_tui.agent.chat import ChatModel
from akg_tui.core.export_guard import Channel
from akg_tui.core.machine import Mode
from akg_tui.core.measurement import Progress
from akg_tui.core.task import Task
from akg_tui.engine.engine import Engine, Evaluator
from akg_tui.engine.reporting import reporter
from akg_tui.store.run_folder import RunFolder
from akg_tui.store.task_folder import TaskFolder


def create_run(folder: TaskFolder, task: Task, mode: Mode) -> RunFolder:
    """A new run of `task` (the folder's, with the command line's changes applied)."""
    return RunFolder.create(
        folder,
        task=task,
        mode=mode,
        agent=task.agent.model,
        version=__version__,
        clock=time.time,
        name=f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{task.op}",
    )


def engine_for(run: RunFolder, channel: Channel = "ui") -> Engine:
    """An engine for an open run, new or resumed. `channel` is where a person follows it."""
    return Engine(run, _model(run.state.task), _connector(run), reporter=reporter(channel))


def _model(task: Task) -> ChatModel:
    from akg_tui.agent.models.sweep import Sweep

    return Sweep(task.agent.seed)


def _connector(run: RunFolder) -> Callable[[Callable[[Progress], None]], Evaluator]:
    from akg_tui.evaluate import Judge

    def connect(on_progress: Callable[[Progress], None]) -> Evaluator:
        return Judge(
            run.state.task, run.reference, Path(run.path) / "scratch", on_progress=on_progress
        )

    return connect
