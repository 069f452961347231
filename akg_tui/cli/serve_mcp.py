"""`mcp`: a run whose agent is a client of the Model Context Protocol, such as a coding agent.

Standard output belongs to the protocol; what a person reads goes to standard error.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from akg_tui.cli.run_options import (
    add_limits,
    add_sandbox,
    add_trust,
    note_goals,
    options_at_fault,
    stated_limits,
)
from akg_tui.cli.usage_error import EXIT_INTERRUPTED, EXIT_OK, UsageError

if TYPE_CHECKING:
    import asyncio

    from akg_tui.core.task import Task
    from akg_tui.engine.engine import Engine
    from akg_tui.store.run_folder import RunFolder


def add_mcp(add: Callable[..., Any]) -> None:
    """Declare `mcp`; `add` creates a command."""
    mcp = add("mcp", _mcp, "let any MCP client drive a run, under the same phases (docs/mcp.md)")
    mcp.add_argument(
        "run_folder",
        type=Path,
        metavar="TASK|RUN",
        help="a run to go on with; or a task: its newest open run of this kind, else a new one",
    )
    mcp.add_argument("--new", action="store_true", help="of a task: begin a new run in any case")
    mcp.add_argument("--mode", choices=["auto", "review", "step"], help="supervision")
    add_trust(mcp)
    add_limits(mcp)
    add_sandbox(mcp)


def _mcp(arguments: argparse.Namespace) -> int:
    import asyncio
    from importlib.util import find_spec

    if find_spec("mcp") is None:
        raise UsageError("mcp needs the package mcp: pip install 'akg-tui[mcp]'")
    if arguments.max_tokens or arguments.max_cost_usd:
        what = "--max-tokens, --max-cost: a client's tokens are not known here"
        raise UsageError(f"{what}; use --max-rounds, --max-experiments or --max-hours")
    with options_at_fault(arguments):
        session = _opened(arguments)
    try:
        asyncio.run(_serve(session))
    except (KeyboardInterrupt, asyncio.CancelledError):
        if session.engine is not None:
            _say(f"interrupted; go on with: akg-tui mcp {quote(session.engine.path)}")
        return EXIT_INTERRUPTED
    return EXIT_OK


class _Session:
    """A run and the client that drives it.

    `folder` has the task's tool files. `opened` returns the run; a run that is `new` is made by
    the client's first call. `on_break` is called when the engine breaks; `close` then raises its
    error.
    """

    def __init__(
        self, folder: Path, task: Task, opened: Callable[[], RunFolder], *, new: bool
    ) -> None:
        from akg_tui.agent.driver import Driver

        self.folder = folder
        self.task = task
        self.new = new
        self.driver = Driver()
        self.engine: Engine | None = None
        self._opened = opened
        self._working: asyncio.Task[None] | None = None
        self.on_break: Callable[[], object] = lambda: None

    def begin(self) -> str:
        """Set the engine to work, unless it is; return why it cannot work, or ""."""
        import asyncio

        from akg_tui.engine.run_service import RunFault, engine_for
        from akg_tui.store.errors import StoreError

        if self.engine is not None:
            return ""
        try:
            engine = engine_for(self._opened(), "cli", driver=self.driver)
        except (RunFault, StoreError) as error:
            return f"the run cannot begin: {error}"
        self.engine = engine
        self.driver.outside = lambda: outside(engine)
        _say(f"run: {engine.path}")
        _say(f"watch and approve: akg-tui attach {quote(engine.path)}")
        self._working = asyncio.create_task(engine.run())
        self._working.add_done_callback(self._worked)
        return ""

    def _worked(self, working: asyncio.Task[None]) -> None:
        self.driver.over()  # the calls of a run that is over are still answered
        if not working.cancelled() and working.exception() is not None:
            self.on_break()

    async def close(self) -> None:
        """End the work, which leaves a resumable run. Raises the error of an engine that broke."""
        import asyncio

        if self.engine is None or self._working is None:
            return
        broken = self._working.exception() if self._working.done() else None
        self._working.cancel()
        await asyncio.gather(self._working, return_exceptions=True)
        await self.engine.close()
        if broken is not None:
            raise broken


def _opened(arguments: argparse.Namespace) -> _Session:
    """Return a session on the run that is named, on the task's newest open one, or on a new one.

    A new run is checked here, and made when the client's first call comes: many clients connect to
    all their servers whenever they start.
    """
    from akg_tui.core.model_info import policy_fault
    from akg_tui.core.task import MCP
    from akg_tui.engine.run_service import RunRequest, begin, check_target, prepare, resume
    from akg_tui.store.filesystem import is_file
    from akg_tui.store.run_folder import TASK

    folder: Path = arguments.run_folder
    limits = stated_limits(arguments)
    is_run = is_file(folder / "events.jsonl")
    if is_run and arguments.new:
        raise UsageError(f"{folder}: --new begins a run of a task, and this is a run")
    run = folder if is_run else None if arguments.new else _newest_open(folder)
    if run is not None:
        arguments.run_folder = run
        opened = resume(
            run,
            limits,
            arguments.mode,
            require_sandbox=arguments.require_sandbox,
            trust=arguments.trust,
        )
        if fault := policy_fault(opened.state.task.policy, MCP):
            opened.close()
            raise UsageError(f"{run}: {fault}")
        note_goals(opened.state.task)
        return _Session(run / TASK, opened.state.task, lambda: opened, new=False)
    request = RunRequest(
        folder,
        mode=arguments.mode or "auto",
        limits=limits,
        require_sandbox=arguments.require_sandbox,
        driven=True,
        trust=arguments.trust,
    )
    prepared = prepare(request)
    check_target(prepared.task, folder)
    note_goals(prepared.task)
    return _Session(folder, prepared.task, lambda: begin(prepared), new=True)


def _newest_open(task: Path) -> Path | None:
    """Return the newest run of a task that a client has driven and that is not over, or None."""
    from akg_tui.core.task import MCP
    from akg_tui.store.filesystem import is_file
    from akg_tui.store.run_list import list_runs, read_state

    if not is_file(task / "task.toml"):
        raise UsageError(f"{task} is no run (events.jsonl) and no task (task.toml)")
    runs = list_runs(task / "runs") if (task / "runs").is_dir() else []
    for run in reversed(runs):
        if not run.damaged and not run.finished and read_state(Path(run.path)).agent == MCP:
            return Path(run.path)
    return None


async def _serve(session: _Session) -> None:
    """Serve the client of a session until the client leaves or the engine breaks."""
    import asyncio
    import signal

    from akg_tui.agent.mcp_server import serve_stdio, server_of
    from akg_tui.agent.tools.registry import offered, specs_of, told_of

    known = offered(session.folder, session.task, {})
    told = specs_of(told_of(known, session.task))
    server = server_of(session.driver, told, session.begin)
    serving = asyncio.create_task(serve_stdio(server))
    session.on_break = serving.cancel
    if session.new:
        _say("ready: a new run begins with the client's first call")
    else:
        session.begin()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, serving.cancel)
    try:
        await serving
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        await session.close()


def outside(engine: Engine) -> str:
    """Return what a client is told of the run while no visit of its agent is open."""
    from akg_tui.headless.watched_run import closing_lines

    state, live = engine.state, engine.live
    if state.finished:
        return "\n".join(["The run is over.", *closing_lines(engine)])
    if live.holds and live.activity:
        how = f"A person answers in the workbench: akg-tui attach {quote(engine.path)}"
        return f"The run waits: {live.activity}. {how}. Call situation to wait on."
    now = f": {live.progress.stage}" if live.progress else ""
    doing = "it prepares your visit" if state.row.agent else live.activity or "it begins"
    return (
        f"Phase {state.phase}: the harness is at work ({doing}{now}), and no tool but situation is "
        "allowed now. Call situation to wait on."
    )


def _say(text: str) -> None:
    print(f"akg-tui: {text}", file=sys.stderr, flush=True)
