"""The command line. Imports what a command needs inside it, so that --help stays instant."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from akg_tui import __version__
from akg_tui.file_commands import add_file_commands
from akg_tui.limits import add_limits, positive, stated_policy
from akg_tui.usage import (
    EXIT_BAD_INPUT,
    EXIT_INTERRUPTED,
    EXIT_NOT_CORRECT,
    EXIT_OK,
    UsageError,
    read_text,
)

if TYPE_CHECKING:
    from akg_tui.core.task import Policy
    from akg_tui.engine.engine import Engine
    from akg_tui.store.run_folder import RunFolder
    from akg_tui.store.task_folder import TaskFolder


DEMO_FOLDER = Path("akg-demo")
DEMO_SAMPLE = "row_softmax"


def parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    top = argparse.ArgumentParser(
        prog="akg-tui",
        description="A terminal workbench in which an agent tunes a compute kernel.",
    )
    top.add_argument("--version", action="version", version=f"akg-tui {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def add(name: str, run: Callable[[argparse.Namespace], int], about: str) -> Any:
        command = commands.add_parser(name, help=about, description=about)
        command.set_defaults(run=run)
        return command

    demo = add("demo", _demo, "tune a bundled sample with the sweep agent; needs no key and no GPU")
    demo.add_argument("sample", nargs="?", default=DEMO_SAMPLE, help=f"default: {DEMO_SAMPLE}")
    demo.add_argument("--rounds", type=positive, help="stop after N rounds (default: 12)")
    _watching(demo)

    tune = add("tune", _tune, "tune the kernel of a task folder")
    tune.add_argument("task", type=Path, help="a folder with task.toml")
    tune.add_argument("--agent", choices=["sweep"], help="who proposes the changes")
    add_limits(tune)
    _watching(tune)

    resume = add("resume", _resume, "go on with a run that was stopped or killed")
    resume.add_argument("run_folder", type=Path, metavar="RUN")
    add_limits(resume)
    _watching(resume)

    evaluate = add("eval", _eval, "verify and time a kernel once against the reference")
    evaluate.add_argument("task", type=Path, help="a folder with task.toml")
    evaluate.add_argument("--kernel", type=Path, help="another kernel file than the task's")
    evaluate.add_argument("--json", action="store_true", help="print one JSON object")

    new = add("new", _new, "make a task folder from a reference and a kernel")
    new.add_argument("folder", type=Path, metavar="DIR")
    new.add_argument("--reference", type=Path, required=True)
    new.add_argument("--kernel", type=Path, required=True)
    new.add_argument("--backend", choices=["cpu"], default="cpu")
    new.add_argument("--dsl", choices=["cpp", "torch"], default="cpp")
    new.add_argument("--arch", default="", help="free text, for the reader")

    runs = add("runs", _runs, "list the runs of a task folder, or of all below a folder")
    runs.add_argument("folder", type=Path, nargs="?", default=Path())
    runs.add_argument("--json", action="store_true")

    show = add("show", _show, "print the plan of a run, or its summary as JSON")
    show.add_argument("run_folder", type=Path, metavar="RUN")
    show.add_argument("--json", action="store_true")

    add_file_commands(add)
    return top


def _watching(command: argparse.ArgumentParser) -> None:
    command.add_argument("--mode", choices=["auto", "review", "step"], help="supervision")
    command.add_argument("--headless", action="store_true", help="no workbench, progress lines")
    command.add_argument("--json", action="store_true", help="with --headless: JSON lines")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (see the design: 0, 1, 2, 130)."""
    arguments = parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
    except UsageError as error:
        print(f"akg-tui: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader went away (`| head`); there is nobody left to tell.
        sys.stderr.close()
        return EXIT_INTERRUPTED
    return code


def _fail(error: Exception) -> NoReturn:
    raise UsageError(" ".join(str(error).split())) from error


def _load(folder: Path) -> TaskFolder:
    from akg_tui.store.task_folder import BadTask, load_task

    try:
        return load_task(folder)
    except BadTask as error:
        _fail(error)


def _demo(arguments: argparse.Namespace) -> int:
    import shutil

    from akg_tui.resources import sample_kernels, sample_names

    sample = arguments.sample
    if sample not in sample_names():
        raise UsageError(f"no bundled sample {sample!r}; there are: {', '.join(sample_names())}")
    folder = DEMO_FOLDER / sample
    try:
        if not (folder / "task.toml").exists():
            shutil.copytree(
                sample_kernels() / sample,
                folder,
                dirs_exist_ok=True,
                ignore=shutil.ignore_patterns("runs", "__pycache__"),
            )
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror}") from error
    words = ["tune", str(folder), "--max-rounds", str(arguments.rounds or 12)]
    tune = parser().parse_args(words)
    tune.mode, tune.headless, tune.json = arguments.mode, arguments.headless, arguments.json
    return _tune(tune)


def _tune(arguments: argparse.Namespace) -> int:
    from msgspec.structs import replace

    from akg_tui.agent.models.knobs import BadKnob, require_knobs
    from akg_tui.core.decide import policy_fault

    folder = _load(arguments.task)
    policy = _stated(arguments, folder.task.policy)
    task = replace(folder.task, policy=policy)
    if arguments.agent:
        task = replace(task, agent=replace(task.agent, model=arguments.agent))

    if fault := policy_fault(policy, task.agent.model):
        raise UsageError(fault)
    try:
        require_knobs(folder.kernel.split("\n"))
    except BadKnob as error:
        raise UsageError(f"{folder.path / task.files.editable}: {error}") from error

    def open_run() -> RunFolder:
        from akg_tui.core.machine import Mode
        from akg_tui.engine.launch import create_run

        return create_run(folder, task, Mode(arguments.mode or "auto"))

    return _watch(open_run, arguments)


def _resume(arguments: argparse.Namespace) -> int:
    def open_run() -> RunFolder:
        from akg_tui.store.run_folder import RunFolder

        run = RunFolder.open(arguments.run_folder)
        try:
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

    if run.state.finished:
        return
    policy = _stated(arguments, run.state.task.policy)
    if policy == run.state.task.policy:
        return
    decided = decide(run.state, cmd.ChangePolicy(policy, "command line"), time.time())
    if isinstance(decided, Rejected):
        raise UsageError(decided.why)
    for event in decided:
        run.append(event)


def _stated(arguments: argparse.Namespace, policy: Policy) -> Policy:
    from akg_tui.store.errors import StoreError

    try:
        return stated_policy(arguments, policy)
    except StoreError as error:
        _fail(error)


def _open_engine(open_run: Callable[[], RunFolder], arguments: argparse.Namespace) -> Engine:
    """Open the run and its engine; anything a user can mend becomes a `UsageError`."""
    from akg_tui.core import commands as cmd
    from akg_tui.core.machine import Mode
    from akg_tui.engine.launch import engine_for
    from akg_tui.store.errors import StoreError

    try:
        run = open_run()
    except StoreError as error:
        _fail(error)
    engine = engine_for(run)
    if run.state.finished:
        return engine
    if arguments.mode:
        engine.send(cmd.SetMode(Mode(arguments.mode)))
    return engine


def _watch(open_run: Callable[[], RunFolder], arguments: argparse.Namespace) -> int:
    headless = arguments.headless or arguments.json or not sys.stdout.isatty()
    if headless:
        return _watch_headless(open_run, arguments)
    from akg_tui.tui.app import WorkbenchApp

    opened: list[Engine] = []

    async def open_handle() -> Engine:
        opened.append(_open_engine(open_run, arguments))
        return opened[0]

    code = WorkbenchApp(open_handle).run()
    for engine in opened:
        print(_parting(engine))
    return EXIT_BAD_INPUT if code is None else code


def _parting(engine: Engine) -> str:
    """What is left on the terminal after the workbench."""
    if engine.state.finished:
        from akg_tui.headless import closing_lines

        return "\n".join(closing_lines(engine)).strip()
    return f"the run is not over; go on with: akg-tui resume {engine.path}"


def _watch_headless(open_run: Callable[[], RunFolder], arguments: argparse.Namespace) -> int:
    import asyncio
    import signal

    from akg_tui.headless import run_as_json, run_with_progress
    from akg_tui.store.errors import StoreError

    engine = _open_engine(open_run, arguments)

    async def run() -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        try:
            if arguments.json:
                await run_as_json(engine, sys.stdout)
            else:
                await run_with_progress(engine)
        finally:
            await engine.close()

    try:
        asyncio.run(run())
    except StoreError as error:
        _fail(error)
    except (KeyboardInterrupt, asyncio.CancelledError):
        print(f"interrupted; go on with: akg-tui resume {engine.path}", file=sys.stderr)
        return EXIT_INTERRUPTED
    if not engine.state.ok:
        print(f"akg-tui: {' '.join(engine.state.finished.split())}", file=sys.stderr)
        return EXIT_BAD_INPUT
    return EXIT_OK


def _eval(arguments: argparse.Namespace) -> int:
    import asyncio
    import tempfile

    from akg_tui.core.measurement import Measurement, Outcome
    from akg_tui.evaluate import Judge

    folder = _load(arguments.task)
    kernel = folder.kernel
    if arguments.kernel:
        kernel = read_text(arguments.kernel)

    async def measure(scratch: str) -> Measurement:
        judge = Judge(folder.task, folder.reference, Path(scratch), on_progress=lambda _: None)
        try:
            return await judge.evaluate(kernel, None)
        finally:
            await judge.close()

    with tempfile.TemporaryDirectory(prefix="akg-eval-") as scratch:
        measured = asyncio.run(measure(scratch))
    _print_measurement(measured, as_json=arguments.json)
    codes = {Outcome.CORRECT: EXIT_OK, Outcome.FAILED: EXIT_NOT_CORRECT}
    return codes.get(measured.outcome, EXIT_BAD_INPUT)


def _print_measurement(measured: Any, *, as_json: bool) -> None:
    import msgspec

    from akg_tui.core.decision import percent
    from akg_tui.core.plain import one_line

    if as_json:
        print(msgspec.json.encode(measured).decode())
        return
    print(
        f"{measured.outcome}: {one_line(measured.message, 300)}"
        if measured.message
        else measured.outcome
    )
    if measured.ratio:
        print(
            f"kernel {measured.candidate_ms:.4f} ms, reference {measured.baseline_ms:.4f} ms: "
            f"speedup {measured.ratio.ratio:.3f} ({percent(measured.ratio)})"
        )
    for line in measured.detail.splitlines():
        print("  " + one_line(line, 200))


def _new(arguments: argparse.Namespace) -> int:
    from akg_tui.store.errors import StoreError
    from akg_tui.store.task_folder import write_task

    try:
        write_task(
            arguments.folder,
            reference=arguments.reference,
            kernel=arguments.kernel,
            backend=arguments.backend,
            dsl=arguments.dsl,
            arch=arguments.arch,
        )
    except StoreError as error:
        _fail(error)
    print(f"made {arguments.folder}; check it with: akg-tui eval {arguments.folder}")
    return EXIT_OK


def _runs(arguments: argparse.Namespace) -> int:
    import json

    from akg_tui.store.errors import StoreError
    from akg_tui.store.run_folder import list_runs

    try:
        found = list_runs(arguments.folder)
    except StoreError as error:
        _fail(error)
    for run in found:
        if arguments.json:
            print(json.dumps(run.as_json()))
        else:
            print(run.line())
    if not found and not arguments.json:
        print(f"no run below {arguments.folder}")
    return EXIT_OK


def _show(arguments: argparse.Namespace) -> int:
    import json

    from akg_tui.core.plan_view import render_plan
    from akg_tui.core.summary import summarize
    from akg_tui.store.errors import StoreError
    from akg_tui.store.run_folder import read_state

    try:
        state = read_state(arguments.run_folder)
    except StoreError as error:
        _fail(error)
    if arguments.json:
        print(json.dumps({**summarize(state), "run": str(arguments.run_folder)}))
    else:
        print(render_plan(state), end="")
    return EXIT_OK
