"""Options that several commands share: limits of a run, the sandbox, and a served model.

Reads options and the file they name, and names the option at fault in an error. The meaning of a
limit is defined in `akg_tui.core.stopping`, the needs of a run in `akg_tui.engine.run_service`.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from akg_tui.cli.usage_error import UsageError
from akg_tui.core.stopping.limit_table import LIMITS, ROUNDS, WHOLE, Limit

if TYPE_CHECKING:
    from akg_tui.core.stopping.goals import Goal
    from akg_tui.core.task import Agent, Task
    from akg_tui.engine.run_service import Limits, RunFault


def add_limits(command: argparse.ArgumentParser) -> None:
    """Add the stop conditions. A limit not given here is the run's or, before a run, the task's."""
    for limit in LIMITS:
        _add_limit(command, limit, limit.meaning.replace("`", ""))
    command.add_argument(
        "--goal",
        action="append",
        type=_goal,
        metavar="GOAL",
        help="for example 'speedup>=2'; may be given more than once",
    )
    command.add_argument("--policy", type=Path, metavar="FILE", help="automation policy, JSON")


def add_max_rounds(command: argparse.ArgumentParser, about: str) -> None:
    """Add the limit on rounds alone."""
    _add_limit(command, ROUNDS, about)


_METAVARS = {"hours": "H", "seconds": "S", "USD": "USD"}


def _add_limit(command: argparse.ArgumentParser, limit: Limit, about: str) -> None:
    names = (limit.option, "--rounds") if limit is ROUNDS else (limit.option,)
    number = positive if limit.unit in WHOLE else positive_float
    metavar = _METAVARS.get(limit.unit, "N")
    command.add_argument(*names, dest=limit.field, type=number, metavar=metavar, help=about)


def add_sandbox(command: argparse.ArgumentParser) -> None:
    """Add the option that requires a sandbox for the processes that run kernels."""
    command.add_argument(
        "--require-sandbox",
        action="store_true",
        help="refuse to start where this machine lacks a protection (see: akg-tui doctor)",
    )


def add_trust(command: argparse.ArgumentParser) -> None:
    """Add the option that allows a folder what it does outside the sandbox."""
    command.add_argument(
        "--trust",
        action="store_true",
        help="allow what the folder's settings do outside the sandbox: servers, key files, tools "
        "(docs/sandbox.md); remembered, see akg-tui trust list",
    )


def add_api(command: argparse.ArgumentParser) -> None:
    """Add the option that names the API of a model's server."""
    command.add_argument(
        "--api",
        choices=["messages", "chat"],
        help="what that server speaks: Anthropic's Messages API (default), or chat completions",
    )


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return value


def natural(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError("must be 0 or more")
    return value


def positive_float(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError("must be above 0")
    return value


def _goal(text: str) -> Goal:
    from akg_tui.core.stopping.goals import BadGoal, read_goal

    try:
        return read_goal(text)
    except BadGoal as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def stated_limits(arguments: argparse.Namespace) -> Limits:
    """Return the limits on the command line; print doubts about its policy file on stderr.

    Raises `akg_tui.store.errors.StoreError` when the policy file cannot be used.
    """
    from akg_tui.core.stopping.automation import AutomationPolicy
    from akg_tui.engine.run_service import Limits
    from akg_tui.store.task_toml import load_policy

    automation = None
    if arguments.policy:
        automation, doubts = load_policy(arguments.policy)
        automation = automation or AutomationPolicy()  # a file with null means: no limits at all
        for doubt in doubts:
            _note(doubt)
    return Limits(
        **{limit.field: getattr(arguments, limit.field) for limit in LIMITS},
        more_rounds=getattr(arguments, "more_rounds", None),
        goals=tuple(arguments.goal) if arguments.goal else None,
        automation=automation,
    )


def note_goals(task: Task) -> None:
    """Print on stderr the goals of a run on metrics that its task does not declare."""
    from akg_tui.core.stopping.automation import never_met

    for _, why in never_met(task.policy.automation, task.metrics):
        _note(f"a goal can't be met yet: {why}")


@contextlib.contextmanager
def options_at_fault(arguments: argparse.Namespace) -> Iterator[None]:
    """Turn a `RunFault` of the block into a `UsageError` that names the option or the file."""
    from akg_tui.engine.run_service import RunFault

    try:
        yield
    except RunFault as fault:
        raise UsageError(_in_options(fault, arguments)) from fault


_AGENT_OPTIONS = {"model": "agent", "base_url": "base_url"}
_SANDBOX_OPTIONS = {"require_sandbox": "--require-sandbox", "sandbox": "sandbox.require"}


def _in_options(fault: RunFault, arguments: argparse.Namespace) -> str:
    """Return a fault of a run's request in terms of the command line."""
    if option := _AGENT_OPTIONS.get(fault.field):
        return f"--{option.replace('_', '-')}: {fault.why}"
    if option := _SANDBOX_OPTIONS.get(fault.field):
        return f"{option}: this machine can't confine a kernel, it lacks {fault.why}"
    if fault.field == "finished":
        run = quote(str(arguments.run_folder))
        return (
            f"--mode: the run is over ({fault.why}); it goes on with another limit: "
            f"akg-tui resume {run} --more-rounds N"
        )
    if fault.field == "goals":
        if arguments.goal:
            return f"--goal: {fault.why}"
        return f"{arguments.policy}: goals.{fault.about}.metric: {fault.why}"
    if fault.field == "workflow":
        return f"workflow {fault.why} (--agent, --workflow; docs/workflows.md)"
    if fault.field == "times":
        task = quote(str(fault.about))
        return (
            f"{fault.about}: there is nothing to tune by, its kernels are {fault.why}; "
            f"check one with: akg-tui eval {task} (times need a GPU, and target cuda)"
        )
    if fault.field == "estimate":
        return f"estimate: {fault.why}"
    if fault.field in ("key", "key_file") and "run_folder" in arguments:
        return f"{fault.why}; then go on with: akg-tui resume {quote(str(arguments.run_folder))}"
    named = fault.field in ("kernel", "knobs", "driver")
    return f"{fault.about}: {fault.why}" if named else fault.why


def _note(text: str) -> None:
    from akg_tui.core.sanitize import one_line

    print(f"akg-tui: note: {one_line(text)}", file=sys.stderr)


def served_agent(model: str, base_url: str, key_file: str, api: str | None = None) -> Agent:
    """Return the agent of these options, validated like a task's agent. Raises `UsageError`."""
    from akg_tui.core.task import SWEEP, Agent
    from akg_tui.store.task_toml import BadAgent, stated_agent

    if model == SWEEP:
        raise UsageError(f"--model {SWEEP}: is no served model")
    try:
        said = {"model": model, "base_url": base_url, "api_key_file": key_file}
        said |= {"api": api} if api else {}
        return stated_agent(Agent(), said)
    except BadAgent as error:
        option = "--base-url" if error.setting == "base_url" else "--model"
        raise UsageError(f"{option}: {error.why}") from None
