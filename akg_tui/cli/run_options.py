"""Options that several commands share: limits of a run, the sandbox, and a served model.

Reads options and the file they name; what a limit means is `akg_tui.core.stopping`'s.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from akg_tui.cli.usage_error import UsageError

if TYPE_CHECKING:
    from akg_tui.core.stopping.goals import Goal
    from akg_tui.core.task import Agent, Policy, Task

# What `add_limits` declares, by the names of the arguments.
LIMITS = (
    "max_rounds",
    "max_hours",
    "max_experiments",
    "max_tokens",
    "max_cost",
    "goal",
    "policy",
)


def add_limits(command: argparse.ArgumentParser) -> None:
    """When to stop. What is not said here is the run's, and before there is one, the task's."""
    command.add_argument("--max-rounds", type=positive, metavar="N")
    command.add_argument("--max-hours", type=positive_float, metavar="H", help="of work")
    command.add_argument("--max-experiments", type=positive, metavar="N")
    command.add_argument("--max-tokens", type=positive, metavar="N")
    command.add_argument("--max-cost", type=positive_float, metavar="USD")
    command.add_argument(
        "--goal",
        action="append",
        type=_goal,
        metavar="GOAL",
        help="for example 'speedup>=2'; may be given more than once",
    )
    command.add_argument("--policy", type=Path, metavar="FILE", help="automation policy, JSON")


def add_sandbox(command: argparse.ArgumentParser) -> None:
    """What the processes that run kernels must be kept from."""
    command.add_argument(
        "--require-sandbox",
        action="store_true",
        help="refuse to start where this machine lacks a protection (see: akg-tui doctor)",
    )


def insist_on_sandbox(arguments: argparse.Namespace, task: Task) -> None:
    """Raise `UsageError` where the sandbox is required, and less than whole.

    Call it before there is a second thread or an event loop: it forks.
    """
    if not (arguments.require_sandbox or task.sandbox.require):
        return
    from akg_tui.evaluate.sandbox.protections import missing, offered

    if lost := missing(offered()):
        asked = "--require-sandbox" if arguments.require_sandbox else "sandbox.require"
        told = ", ".join(map(str, lost))
        raise UsageError(f"{asked}: this machine can't confine a kernel, it lacks {told}")


def insist_on_target(task: Task) -> None:
    """Raise `UsageError` where this machine can't run the task's kernels at all."""
    from akg_tui.evaluate.adapters import lacking

    if why := lacking(task):
        raise UsageError(why)


def insist_on_times(task: Task, path: Path) -> None:
    """Raise `UsageError` where the task's kernels can't be timed: then nothing can be tuned."""
    from akg_tui.evaluate.adapters import untimed

    insist_on_target(task)
    if why := untimed(task):
        raise UsageError(
            f"{path}: there is nothing to tune by, its kernels are {why}; "
            f"check one with: akg-tui eval {path} (times need a GPU, and target cuda)"
        )


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
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


def stated_policy(arguments: argparse.Namespace, policy: Policy) -> Policy:
    """`policy` with what the command line says; doubts are told on stderr, one a line.

    Raises `akg_tui.store.errors.StoreError` when its policy file cannot be used.
    """
    from msgspec.structs import replace

    from akg_tui.core.stopping.automation import AutomationPolicy, never_met
    from akg_tui.store.task_toml import load_policy

    if arguments.policy:
        automation, doubts = load_policy(arguments.policy)
        for doubt in doubts:
            _note(doubt)
        policy = replace(policy, automation=automation)
    said = {
        "max_experiments": arguments.max_experiments,
        "max_tokens": arguments.max_tokens,
        "max_cost_usd": arguments.max_cost,
        "goals": tuple(arguments.goal) if arguments.goal else None,
    }
    changes: dict[str, Any] = {name: value for name, value in said.items() if value is not None}
    if changes:
        automation = policy.automation or AutomationPolicy()
        policy = replace(policy, automation=replace(automation, **changes))
    for goal in never_met(policy.automation) if policy.automation else ():
        _note(goal)
    if arguments.max_rounds:
        policy = replace(policy, max_rounds=arguments.max_rounds)
    if arguments.max_hours:
        policy = replace(policy, max_hours=arguments.max_hours)
    return policy


def _note(text: str) -> None:
    from akg_tui.core.sanitize import one_line

    print(f"akg-tui: note: {one_line(text)}", file=sys.stderr)


def served_agent(model: str, base_url: str, key_file: str) -> Agent:
    """The agent of these options, checked like a task's own. Raises `UsageError`."""
    import msgspec

    from akg_tui.core.task import SWEEP, Agent, resolved_model

    if model == SWEEP:
        raise UsageError(f"--model {SWEEP}: is no served model")
    plain = {"model": resolved_model(model), "base_url": base_url, "api_key_file": key_file}
    try:
        return msgspec.convert(plain, Agent)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at `$.")
        option, wrong = (
            ("--base-url", base_url) if place.startswith("base_url") else ("--model", model)
        )
        raise UsageError(f"{option} {wrong!r}: not allowed ({what})") from None
