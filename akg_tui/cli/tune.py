"""The commands that start or resume a run, on screen or headless."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from akg_tui.cli.appearance_options import (
    add_appearance,
    is_served,
    no_screen,
    show_workbench,
    wanted,
)
from akg_tui.cli.run_options import (
    add_api,
    add_limits,
    add_max_rounds,
    add_sandbox,
    add_trust,
    note_goals,
    options_at_fault,
    positive,
    stated_limits,
)
from akg_tui.cli.usage_error import (
    EXIT_BAD_INPUT,
    EXIT_INTERRUPTED,
    EXIT_OK,
    UsageError,
    ended_by_sigterm,
    print_json,
)
from akg_tui.resources import DEMO_ROUNDS, DEMO_SAMPLE

if TYPE_CHECKING:
    from akg_tui.core.stopping.export_guard import Channel
    from akg_tui.engine.engine import Engine
    from akg_tui.store.run_folder import RunFolder

LOCKED_S = 5.0  # a command that `ctl` gives to a run at rest takes less


def add_tune(add: Callable[..., Any]) -> None:
    """Declare `demo`, `tune` and `resume`; `add` creates a command."""
    demo = add("demo", _demo, "tune a bundled sample with the sweep agent; needs no key and no GPU")
    demo.add_argument("sample", nargs="?", default=DEMO_SAMPLE, help=f"default: {DEMO_SAMPLE}")
    add_max_rounds(demo, f"default: {DEMO_ROUNDS}")
    add_watching(demo)

    tune = add("tune", _tune, "tune the kernel of a task folder")
    tune.add_argument("task", type=Path, metavar="TASK", help="a folder with task.toml")
    tune.add_argument(
        "--agent",
        metavar="MODEL",
        help="the agent that proposes changes: sweep, claude, or a model id",
    )
    tune.add_argument("--base-url", metavar="U", help="the model's server")
    add_api(tune)
    tune.add_argument(
        "--workflow",
        type=_workflow,
        metavar="W",
        help="tune, write, write_then_tune, or a phase table of the task's folder, as lean.toml "
        "(docs/workflows.md); default: the task's, or tune "
        "for sweep and write_then_tune for a model",
    )
    _with_key(tune)
    add_trust(tune)
    add_limits(tune)
    add_watching(tune)

    resume = add("resume", _resume, "continue a run: stopped, killed, or over with another limit")
    resume.add_argument("run_folder", type=Path, metavar="RUN")
    _with_key(resume)
    add_trust(resume)
    add_limits(resume)
    resume.add_argument(
        "--more-rounds",
        type=positive,
        metavar="N",
        help="N rounds more: the limit rises; a run that is over goes on",
    )
    add_watching(resume)
    resume.add_argument(
        "--foreground",
        action="store_true",
        help="with --detach: be the detached engine, for systemd and the like",
    )
    resume.add_argument(
        "--print-unit",
        action="store_true",
        help="print a systemd user unit that works on the run, and change nothing",
    )


def _workflow(text: str) -> str:
    from akg_tui.store.task_toml import is_workflow, unknown_workflow

    if not is_workflow(text):
        raise argparse.ArgumentTypeError(unknown_workflow(text))
    return text


def _with_key(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--api-key-file",
        type=Path,
        metavar="F",
        help="a file that holds the model's key; else the environment's ANTHROPIC_API_KEY, or "
        "OPENAI_API_KEY for --api chat",
    )


def add_watching(command: argparse.ArgumentParser) -> None:
    command.add_argument("--mode", choices=["auto", "review", "step"], help="supervision")
    command.add_argument(
        "--headless",
        action="store_true",
        help="print progress lines instead of showing the workbench",
    )
    command.add_argument(
        "--json",
        action="store_true",
        help="with --headless: one JSON object per line; with --detach: one",
    )
    command.add_argument(
        "--detach",
        action="store_true",
        help="work without this terminal (docs/detached.md): print the run and return",
    )
    add_sandbox(command)
    add_appearance(command)


def _demo(arguments: argparse.Namespace) -> int:
    from akg_tui.engine.run_service import Limits
    from akg_tui.resources import sample_names

    sample = arguments.sample
    if sample not in sample_names():
        raise UsageError(f"no bundled sample {sample!r}; there are: {', '.join(sample_names())}")
    limits = Limits(max_rounds=arguments.max_rounds or DEMO_ROUNDS)
    return _begin(arguments, Path(), sample=sample, limits=limits)


def _tune(arguments: argparse.Namespace) -> int:
    settings = {
        "model": arguments.agent or None,
        "base_url": arguments.base_url,
        "api": arguments.api,
        "api_key_file": _key_file(arguments) or None,
    }
    given = {name: value for name, value in settings.items() if value is not None}
    return _begin(
        arguments,
        arguments.task,
        limits=stated_limits(arguments),
        settings=given,
        workflow=arguments.workflow,
        trust=arguments.trust,
    )


def _begin(arguments: argparse.Namespace, folder: Path, **stated: Any) -> int:
    """Check a request at once; create the run when the workbench is on the screen.

    The workbench asks about a folder that is not trusted.
    """
    from akg_tui.engine.run_service import PreparedRun, RunRequest, begin, prepare
    from akg_tui.engine.trust import Untrusted

    stated |= {"mode": arguments.mode or "auto", "require_sandbox": arguments.require_sandbox}
    request = RunRequest(folder, **stated)
    prepared: PreparedRun | None = None
    with options_at_fault(arguments):
        try:
            prepared = prepare(request)
            note_goals(prepared.task)
        except Untrusted:
            if _is_headless(arguments):
                raise
    return watch(lambda: begin(prepared or prepare(request)), arguments)


def _resume(arguments: argparse.Namespace) -> int:
    if arguments.print_unit:
        return _print_unit(arguments)
    if arguments.foreground and not arguments.detach:
        raise UsageError("--foreground is of --detach: give both")

    def open_run() -> RunFolder:
        from akg_tui.engine.run_service import resume

        run = resume(
            arguments.run_folder,
            stated_limits(arguments),
            arguments.mode,
            require_sandbox=arguments.require_sandbox,
            trust=arguments.trust,
        )
        if not run.state.finished:
            note_goals(run.state.task)
        return run

    return watch(open_run, arguments)


def _open_engine(
    open_run: Callable[[], RunFolder], channel: Channel, arguments: argparse.Namespace
) -> Engine:
    from akg_tui.engine.run_service import engine_for

    with options_at_fault(arguments):
        return engine_for(open_run(), channel, key_file=_key_file(arguments))


def _is_headless(arguments: argparse.Namespace) -> bool:
    """Return whether the run has no workbench. Call before the workbench replaces stdout."""
    return bool(arguments.headless or arguments.json or arguments.detach or no_screen())


def _key_file(arguments: argparse.Namespace) -> str:
    given = getattr(arguments, "api_key_file", None)
    return str(given.expanduser().absolute()) if given else ""


def _print_unit(arguments: argparse.Namespace) -> int:
    from akg_tui.engine.detached import unit
    from akg_tui.store.run_list import check_is_run

    check_is_run(arguments.run_folder)
    print(unit(arguments.run_folder, _engine_options(arguments)), end="")
    return EXIT_OK


def _engine_options(arguments: argparse.Namespace) -> tuple[str, ...]:
    """Return the options that a detached engine needs; the others are in the run's journal."""
    key_file = _key_file(arguments)
    return ("--api-key-file", key_file) if key_file else ()


def _detach(open_run: Callable[[], RunFolder], arguments: argparse.Namespace) -> int:
    """Make or open the run as far as its settings, and leave the work to a detached engine."""
    from akg_tui.core.sanitize import one_line

    with options_at_fault(arguments), contextlib.closing(_unlocked(open_run)) as run:
        path = run.path
        if over := run.state.finished:
            how = "more rounds let it go on (see resume --help)"
            raise UsageError(f"{path}: the run is over: {one_line(over)}; {how}")
    _tell_started(path, arguments)
    return EXIT_OK


def _unlocked(open_run: Callable[[], RunFolder]) -> RunFolder:
    """Open a run; wait while a process holds its lock that does not work on it, such as `ctl`."""
    from akg_tui.engine.attach import Attached, NotAttached
    from akg_tui.store.errors import RunLocked

    until = time.monotonic() + LOCKED_S
    while True:
        try:
            return open_run()
        except RunLocked as error:
            with contextlib.suppress(NotAttached):
                Attached.to(error.folder).close()
                raise  # an engine is at work on it
            if time.monotonic() > until:
                raise
        time.sleep(0.05)


def _tell_started(path: Path, arguments: argparse.Namespace) -> None:
    from akg_tui.engine.detached import NotStarted, start

    try:
        made = start(path, _engine_options(arguments))
    except NotStarted as error:
        raise UsageError(f"{error}; the run is kept: {path}") from error
    if arguments.json:
        print_json("detached", run=made.run, pid=made.pid or None, socket=made.socket or None)
        return
    print(made.run)
    told = _told_detached(made.pid, made.run) if made.pid else "the run is over"
    print(f"akg-tui: {told}", file=sys.stderr)


def _told_detached(pid: int, run: str) -> str:
    how = f"watch it with: akg-tui attach {quote(run)}"
    return f"process {pid} works on it without this terminal; {how}"


def watch(open_run: Callable[[], RunFolder], arguments: argparse.Namespace) -> int:
    looks = wanted(arguments)
    if arguments.detach:
        if arguments.headless:
            raise UsageError("--detach shows nothing: leave out --headless")
        if getattr(arguments, "foreground", False):
            return _be_detached(open_run, arguments)
        return _detach(open_run, arguments)
    if _is_headless(arguments):
        return _watch_headless(open_run, arguments)
    opened: list[Engine] = []

    async def open_handle() -> Engine:
        opened.append(_open_engine(open_run, "ui", arguments))
        return opened[0]

    code = show_workbench(open_handle, wanted=looks)
    for engine in opened:
        if not is_served():
            print(_parting(engine))
    return code


def _parting(engine: Engine) -> str:
    """Return the text that stays on the terminal after the workbench."""
    from akg_tui.store.lock import holder

    if engine.state.finished:
        from akg_tui.headless.watched_run import closing_lines

        return "\n".join(closing_lines(engine)).strip()
    if (pid := holder(Path(engine.path))) is not None:
        return _told_detached(pid, engine.path)
    why = f": {engine.state.api_failure}" if engine.state.api_failure else ""
    return f"the run is not over{why}; go on with: akg-tui resume {quote(engine.path)}"


def _watch_headless(open_run: Callable[[], RunFolder], arguments: argparse.Namespace) -> int:
    import asyncio

    from akg_tui.headless.watched_run import ModelHeld, run_as_json, run_with_progress

    engine = _open_engine(open_run, "cli", arguments)
    leaves = False

    async def run() -> None:
        task = ended_by_sigterm()

        def leave() -> None:
            nonlocal leaves
            leaves = True
            task.cancel()

        engine.live.detach = leave
        try:
            if arguments.json:
                await run_as_json(engine, sys.stdout, left=lambda: leaves)
            else:
                await run_with_progress(engine)
        finally:
            await engine.close()

    try:
        asyncio.run(run())
    except ModelHeld as error:
        raise UsageError(
            f"{error}; then go on with: akg-tui resume {quote(engine.path)}"
        ) from error
    except (KeyboardInterrupt, asyncio.CancelledError):
        if leaves and not engine.state.finished:
            _tell_started(Path(engine.path), arguments)
            return EXIT_OK
        if not leaves:
            print(f"interrupted; go on with: akg-tui resume {quote(engine.path)}", file=sys.stderr)
            return EXIT_INTERRUPTED
    if not engine.state.ok:
        print(f"akg-tui: {' '.join(engine.state.finished.split())}", file=sys.stderr)
        return EXIT_BAD_INPUT
    return EXIT_OK


def _be_detached(open_run: Callable[[], RunFolder], arguments: argparse.Namespace) -> int:
    """Work on a run without a terminal, until it is over or SIGTERM leaves it resumable."""
    import asyncio
    import signal

    from akg_tui.engine.detached import register, withdraw
    from akg_tui.headless.watched_run import run_logged
    from akg_tui.store.errors import StoreError

    engine = _open_engine(lambda: _unlocked(open_run), "cli", arguments)
    try:
        register(Path(engine.path))
    except StoreError as error:  # the run is found below its folder all the same
        print(f"akg-tui: {error}", file=sys.stderr)

    async def run() -> None:
        ended_by_sigterm()
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, lambda: None)
        try:
            await run_logged(engine, sys.stdout)
        finally:
            with contextlib.suppress(StoreError):
                withdraw(Path(engine.path))
            await engine.close()

    try:
        asyncio.run(run())
    except (KeyboardInterrupt, asyncio.CancelledError):
        return EXIT_INTERRUPTED
    return EXIT_OK if engine.state.ok else EXIT_BAD_INPUT
