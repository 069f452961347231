"""Puts a run together: folder, model and judge become an `Engine`.

The only place that knows which model a name stands for.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from akg_tui import __version__
from akg_tui.agent.chat import ChatModel
from akg_tui.agent.context import Context, RunBrief, VisitBrief
from akg_tui.agent.prompt import system_text
from akg_tui.agent.tools.run_access import Host
from akg_tui.core.measurement import Progress
from akg_tui.core.phases import Mode
from akg_tui.core.stopping.export_guard import Channel
from akg_tui.core.task import SWEEP, Task
from akg_tui.engine.engine import Engine, Evaluator
from akg_tui.engine.run_report import compile_report, reporter
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


def engine_for(run: RunFolder, channel: Channel = "ui", *, key_file: str = "") -> Engine:
    """An engine for an open run, new or resumed. `channel` is where a person follows it.

    `key_file` goes before the key file that the run's task names. Raises
    `akg_tui.agent.models.endpoint.KeyMissing` when the run's model needs a key and there is
    none.
    """
    task = run.state.task
    if key_file:
        task = replace(task, agent=replace(task.agent, api_key_file=key_file))
    return Engine(
        run,
        _model(task),
        _connector(run),
        context=_context(task, run),
        reporter=reporter(channel),
    )


def _model(task: Task) -> ChatModel:
    if task.agent.model == SWEEP:
        from akg_tui.agent.models.sweep import Sweep

        return Sweep(task.agent.seed)
    from akg_tui.agent.models.claude import Claude
    from akg_tui.agent.models.endpoint import endpoint_of

    return Claude(task.agent, endpoint_of(task.agent, os.environ))


def _context(task: Task, run: RunFolder) -> Context:
    searches = task.agent.model == SWEEP
    brief = VisitBrief() if searches else RunBrief(system_text(task, run.reference))
    host = Host(tools={"compile_report": compile_report(Path(run.path))})
    return Context(brief, budget=task.agent.context_tokens, host=host)


def _connector(run: RunFolder) -> Callable[[Callable[[Progress], None]], Evaluator]:
    from akg_tui.evaluate import Judge

    def connect(on_progress: Callable[[Progress], None]) -> Evaluator:
        return Judge(
            run.state.task, run.reference, Path(run.path) / "scratch", on_progress=on_progress
        )

    return connect
