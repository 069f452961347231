"""The commands that start a run or go on with one, on screen or headless."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from akg_tui.cli.appearance import add_looks, is_served, wanted
from akg_tui.cli.run_options import (
    LIMITS,
    add_limits,
    add_sandbox,
    insist_on_sandbox,
    insist_on_times,
    positive,
    stated_policy,
)
from akg_tui.cli.usage_error import (
    EXIT_BAD_INPUT,
    EXIT_INTERRUPTED,
    EXIT_OK,
    UsageError,
    fail,
    load,
)

if TYPE_CHECKING:
    from akg_tui.core.stopping.export_guard import Channel
    from akg_tui.core.task import Agent, Policy, Task
    from akg_tui.engine.engine import Engine
    from akg_tui.store.run_folder import RunFolder
    from akg_tui.store.task_folder import TaskFolder
    from akg_tui.view.controls.preferences import Preferences

DEMO_FOLDER = Path("akg-demo")
DEMO_SAMPLE = "row_softmax"
_WATCHING = ("mode", "headless", "json", "plain")
_LOOKS = ("theme", "keymap", "lang", "ascii", "reduced_motion")


def add_running(add: Callable[..., Any]) -> None:
    """Declare `demo`, `tune` and `resume`; `add` makes one command."""
    demo = add("demo", _demo, "tune a bundled sample with the sweep agent; needs no key and no GPU")
    demo.add_argument("sample", nargs="?", default=DEMO_SAMPLE, help=f"default: {DEMO_SAMPLE}")
    demo.add_argument("--rounds", type=positive, help="stop after N rounds (default: 12)")
    _watching(demo)

    _tuning(add("tune", _tune, "tune the kernel of a task folder"))

    resume = add("resume", _resume, "go on with a run that was stopped or killed")
    resume.add_argument("run_folder", type=Path, metavar="RUN")
    _with_key(resume)
    add_limits(resume)
    _watching(resume)


def _tuning(tune: argparse.ArgumentParser) -> None:
    tune.add_argument("task", type=Path, help="a folder with task.toml")
    tune.add_argument(
        "--agent", metavar="MODEL", help="who proposes the changes: sweep, claude, or a model's id"
    )
    tune.add_argument("--base-url", metavar="U", help="a server of the Anthropic Messages API")
    tune.add_argument(
        "--edit-format",
        metavar="F",
        help="how a model changes the kernel: hashline (default), str_replace, "
        "'str_replace lines', apply_patch, 'unified diff'",
    )
    _with_key(tune)
    add_limits(tune)
    _watching(tune)


def _with_key(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--api-key-file",
        type=Path,
        metavar="F",
        help="a file that holds the model's key; else the environment's ANTHROPIC_API_KEY",
    )


def _watching(command: argparse.ArgumentParser) -> None:
    command.add_argument("--mode", choices=["auto", "review", "step"], help="supervision")
    command.add_argument("--headless", action="store_true", help="no workbench, progress lines")
    command.add_argument("--json", action="store_true", help="with --headless: JSON lines")
    add_sandbox(command)
    command.add_argument(
        "--plain",
        action="store_true",
        help="a stream of lines, for screen readers and logs; answers are typed lines",
    )
    add_looks(command)


def _demo(arguments: argparse.Namespace) -> int:
    from akg_tui.resources import sample_kernels, sample_names

    sample = arguments.sample
    if sample not in sample_names():
        raise UsageError(f"no bundled sample {sample!r}; there are: {', '.join(sample_names())}")
    folder = DEMO_FOLDER / sample
    tuning = argparse.ArgumentParser()
    _tuning(tuning)
    tune = tuning.parse_args([str(folder), "--max-rounds", str(arguments.rounds or 12)])
    for name in (*_WATCHING, *_LOOKS):
        setattr(tune, name, getattr(arguments, name))
    tune.require_sandbox = arguments.require_sandbox
    begun = os.path.exists(folder / "task.toml")  # noqa: PTH110 - False where it can't be seen
    return _tune(tune, copied_from=None if begun else sample_kernels() / sample)


def _copy(origin: Path, folder: Path) -> TaskFolder:
    import shutil

    ignored = shutil.ignore_patterns("runs", "__pycache__")
    try:
        shutil.copytree(origin, folder, dirs_exist_ok=True, ignore=ignored)
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror}") from error
    return load(folder)


def _tune(arguments: argparse.Namespace, copied_from: Path | None = None) -> int:
    """Tune the task in a folder, or in the copy of another that is made when the run begins."""
    from msgspec.structs import replace

    from akg_tui.core.model_info import policy_fault

    folder = load(copied_from or arguments.task)
    policy = _stated(arguments, folder.task.policy)
    task = replace(folder.task, policy=policy)
    if arguments.require_sandbox:
        task = replace(task, sandbox=replace(task.sandbox, require=True))
    insist_on_sandbox(arguments, task)
    _check_tools([(folder.path / name, text) for name, text in folder.tools])
    task = replace(task, agent=_stated_agent(arguments, task.agent))
    if fault := policy_fault(policy, task.agent.model):
        raise UsageError(fault)
    _check_agent(task, folder)

    def open_run() -> RunFolder:
        from akg_tui.core.phases import Mode
        from akg_tui.engine.launch import create_run

        insist_on_times(task, folder.path)
        begun = _copy(folder.path, arguments.task) if copied_from else folder
        return create_run(begun, task, Mode(arguments.mode or "auto"))

    return _watch(open_run, arguments)


def _check_agent(task: Task, folder: TaskFolder) -> None:
    """Refuse an agent that could not begin, before there is a run. Raises `UsageError`."""
    from akg_tui.core.task import SWEEP

    if task.agent.model == SWEEP:
        from akg_tui.core.plan.knobs import BadKnob, require_knobs

        try:
            require_knobs(folder.kernel.split("\n"))
        except BadKnob as error:
            raise UsageError(f"{folder.path / task.files.editable}: {error}") from error
        return
    from akg_tui.agent.models.endpoint import KeyMissing, endpoint_of

    try:
        endpoint_of(task.agent, os.environ)
    except KeyMissing as error:
        raise UsageError(str(error)) from error


def _stated_agent(arguments: argparse.Namespace, agent: Agent) -> Agent:
    """The task's agent with what the command line says; checked like the task's own."""
    from akg_tui.core.task import BadAgent, stated_agent

    given = {
        "model": ("--agent", arguments.agent or None),
        "base_url": ("--base-url", arguments.base_url),
        "edit_format": ("--edit-format", arguments.edit_format),
        "api_key_file": ("--api-key-file", _key_file(arguments) or None),
    }
    said = {name: value for name, (_, value) in given.items() if value is not None}
    try:
        return stated_agent(agent, said)
    except BadAgent as error:
        option, wrong = given.get(error.setting, ("agent", arguments.agent))
        raise UsageError(f"{option} {wrong!r}: not allowed ({error.why})") from None


def _resume(arguments: argparse.Namespace) -> int:
    def open_run() -> RunFolder:
        from akg_tui.agent.tools.offer import TASK, task_files
        from akg_tui.store.run_folder import RunFolder

        run = RunFolder.open(arguments.run_folder)
        try:
            _check_tools(task_files(run.path / TASK, run.state.task))
            if not run.state.finished:
                insist_on_times(run.state.task, run.path / TASK)
            insist_on_sandbox(arguments, run.state.task)
            _change_policy(run, arguments)
        except BaseException:
            run.close()
            raise
        return run

    return _watch(open_run, arguments)


def _change_policy(run: RunFolder, arguments: argparse.Namespace) -> None:
    """What the command line says about limits goes before what the run had, as an event."""
    import time

    from akg_tui.core import commands as cmd
    from akg_tui.core.decide import Rejected, decide
    from akg_tui.core.events import COMMAND_LINE

    if run.state.finished:
        _refuse_changes(run, arguments)
        return
    policy = _stated(arguments, run.state.task.policy)
    if policy == run.state.task.policy:
        return
    decided = decide(run.state, cmd.ChangePolicy(policy, COMMAND_LINE), time.time())
    if isinstance(decided, Rejected):
        raise UsageError(decided.why)
    for event in decided:
        run.append(event)


def _refuse_changes(run: RunFolder, arguments: argparse.Namespace) -> None:
    """Nothing of a run that is over can be changed. Raises `UsageError` where it was asked for."""
    asked = {**{f"--{name.replace('_', '-')}": name for name in LIMITS}, "--mode": "mode"}
    given = [option for option, name in asked.items() if getattr(arguments, name)]
    if not given:
        return
    state = run.state
    how = (
        f"go on in a fork of it: akg-tui fork {run.path} --round {state.settled}, then resume that"
    )
    if state.best is None:
        how = "it has no round to go on from: begin a new one with akg-tui tune"
    raise UsageError(
        f"{', '.join(given)}: the run is over ({state.finished}) and stays as it is; {how}"
        + (f" with {' '.join(given)}" if state.best is not None else "")
    )


def _check_tools(files: Sequence[tuple[Path, str]]) -> None:
    """Refuse tool definitions that cannot be used, before there is a run. Raises `UsageError`."""
    if not files:
        return
    from akg_tui.agent.tools.definitions import BadTools, definitions_with

    try:
        definitions_with(files)
    except BadTools as error:
        fail(error)


def _stated(arguments: argparse.Namespace, policy: Policy) -> Policy:
    from akg_tui.store.errors import StoreError

    try:
        return stated_policy(arguments, policy)
    except StoreError as error:
        fail(error)


def _open_engine(open_run: Callable[[], RunFolder], arguments: argparse.Namespace) -> Engine:
    """Open the run and its engine; anything a user can mend becomes a `UsageError`."""
    from akg_tui.agent.models.endpoint import KeyMissing
    from akg_tui.core import commands as cmd
    from akg_tui.core.events import COMMAND_LINE
    from akg_tui.core.phases import Mode
    from akg_tui.engine.launch import engine_for
    from akg_tui.store.errors import StoreError

    try:
        run = open_run()
    except StoreError as error:
        fail(error)
    try:
        engine = engine_for(run, _channel(arguments), key_file=_key_file(arguments))
        if arguments.mode and not run.state.finished:
            engine.send(cmd.SetMode(Mode(arguments.mode), COMMAND_LINE))
    except KeyMissing as error:
        run.close()
        raise UsageError(f"{error}; then go on with: akg-tui resume {run.path}") from error
    except StoreError as error:
        run.close()
        fail(error)
    return engine


def _channel(arguments: argparse.Namespace) -> Channel:
    return "cli" if _is_headless(arguments) else "ui"


def _is_headless(arguments: argparse.Namespace) -> bool:
    if arguments.headless or arguments.json or arguments.plain:
        return True
    return not (sys.stdout.isatty() or is_served())


def _key_file(arguments: argparse.Namespace) -> str:
    return str(arguments.api_key_file.expanduser().absolute()) if arguments.api_key_file else ""


def _watch(open_run: Callable[[], RunFolder], arguments: argparse.Namespace) -> int:
    looks = wanted(arguments)
    if arguments.plain and (arguments.json or arguments.headless):
        raise UsageError("--plain is a stream of its own: leave out --headless and --json")
    if _is_headless(arguments):
        return _watch_headless(open_run, arguments, looks)
    from akg_tui.tui.garbage_collection import hold

    hold()
    from akg_tui.tui.app import WorkbenchApp

    opened: list[Engine] = []

    async def open_handle() -> Engine:
        opened.append(_open_engine(open_run, arguments))
        return opened[0]

    code = WorkbenchApp(open_handle, wanted=looks).run()
    for engine in opened:
        if not is_served():
            print(_parting(engine))
    return EXIT_BAD_INPUT if code is None else code


def _parting(engine: Engine) -> str:
    """What is left on the terminal after the workbench."""
    if engine.state.finished:
        from akg_tui.headless import closing_lines

        return "\n".join(closing_lines(engine)).strip()
    why = f": {engine.state.api_failure}" if engine.state.api_failure else ""
    return f"the run is not over{why}; go on with: akg-tui resume {engine.path}"


def _watch_headless(
    open_run: Callable[[], RunFolder], arguments: argparse.Namespace, looks: Preferences
) -> int:
    import asyncio
    import signal

    from akg_tui.headless import ModelHeld, run_as_json, run_with_progress
    from akg_tui.plain_stream import run_plain
    from akg_tui.store.errors import StoreError

    engine = _open_engine(open_run, arguments)

    async def run() -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        try:
            if arguments.json:
                await run_as_json(engine, sys.stdout)
            elif arguments.plain:
                await run_plain(engine, sys.stdout, sys.stdin, looks)
            else:
                await run_with_progress(engine)
        finally:
            await engine.close()

    try:
        asyncio.run(run())
    except StoreError as error:
        fail(error)
    except ModelHeld as error:
        raise UsageError(f"{error}; then go on with: akg-tui resume {engine.path}") from error
    except (KeyboardInterrupt, asyncio.CancelledError):
        print(f"interrupted; go on with: akg-tui resume {engine.path}", file=sys.stderr)
        return EXIT_INTERRUPTED
    if not engine.state.ok:
        print(f"akg-tui: {' '.join(engine.state.finished.split())}", file=sys.stderr)
        return EXIT_BAD_INPUT
    return EXIT_OK
