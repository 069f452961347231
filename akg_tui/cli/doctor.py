"""The commands `doctor` (this machine, a model's server, or a run) and `toolchain`.

The checks themselves are in `akg_tui.cli.machine_checks` and `akg_tui.store.checkup`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from akg_tui.cli.run_options import add_api
from akg_tui.cli.usage_error import EXIT_NOT_CORRECT, EXIT_OK, UsageError, fail, print_json, word_of

if TYPE_CHECKING:
    from akg_tui.agent.models.endpoint import Endpoint
    from akg_tui.store.checkup import Check


def add_doctor(add: Callable[..., Any]) -> None:
    """Declare `doctor`; `add` creates a command."""
    doctor = add("doctor", _doctor, "check this machine, or the run RUN; read-only")
    doctor.add_argument("run_folder", type=Path, nargs="?", metavar="RUN")
    doctor.add_argument("--json", action="store_true", help="one JSON object a check")
    doctor.add_argument("--base-url", metavar="U", help="check the model's server at U as well")
    doctor.add_argument("--model", metavar="M", help="model id at that server")
    add_api(doctor)
    doctor.add_argument("--api-key-file", default="", metavar="F", help="a file with its key")


def add_toolchain(add: Callable[..., Any]) -> None:
    """Declare the commands on toolchains; `add` creates a command."""
    for verb, run, about in (
        ("add", _add_toolchain, "install a compiler for a target that is not here"),
        ("remove", _remove_toolchain, "remove a compiler that `toolchain add` installed"),
    ):
        command = add(f"toolchain {verb}", run, about)
        known = word_of("TOOLCHAINS", "akg_tui.dsl.toolchains")
        command.add_argument("name", type=known, metavar="NAME", help="ascend or cuda")
    listed = add("toolchain list", _list_toolchains, "tell which compilers are installed")
    listed.add_argument("--json", action="store_true", help="one JSON object a toolchain")


def _doctor(arguments: argparse.Namespace) -> int:
    import sys

    import msgspec

    from akg_tui.cli.machine_checks import check_endpoint, check_machine
    from akg_tui.store.checkup import Health, check_run

    if arguments.run_folder:
        if arguments.base_url or arguments.model or arguments.api:
            told = "--base-url, --model and --api are of the machine's check: leave RUN out"
            raise UsageError(told)
        checks = check_run(arguments.run_folder)
    else:
        asks = arguments.base_url is not None or arguments.model is not None
        endpoint = _endpoint(arguments) if asks else None  # bad options fail before any check
        checks = check_machine()
        if endpoint is not None:
            checks += check_endpoint(endpoint)
    broken = any(check.health is Health.BAD for check in checks)
    if arguments.json:
        for check in checks:
            print_json("check", **msgspec.to_builtins(check))
        counts = [check.health.value for check in checks]
        counted = {health: counts.count(health) for health in ("ok", "warn", "bad")}
        print_json("summary", status="damaged" if broken else "sound", **counted)
    else:
        for check in checks:
            for line in _lines(check, color=sys.stdout.isatty()):
                print(line)
    return EXIT_NOT_CORRECT if broken else EXIT_OK


def _endpoint(arguments: argparse.Namespace) -> Endpoint:
    import os

    from akg_tui.agent.models.endpoint import KeyMissing, endpoint_of, sdk_missing
    from akg_tui.cli.run_options import served_agent

    agent = served_agent(
        arguments.model or "claude",
        arguments.base_url or "",
        arguments.api_key_file,
        arguments.api,
    )
    if why := sdk_missing(agent.api):
        raise UsageError(why)
    try:
        return endpoint_of(agent, os.environ)
    except KeyMissing as error:
        fail(error)


_MARKS = {"ok": ("✔", "32"), "warn": ("!", "33"), "bad": ("✘", "31")}


def _lines(check: Check, *, color: bool) -> list[str]:
    from akg_tui.core.sanitize import one_line

    mark, ink = _MARKS[check.health.value]
    if color:
        mark = f"\x1b[{ink}m{mark}\x1b[0m"
    lines = [f"{mark} {check.name:<11} {one_line(check.found)}"]
    if check.mend:
        lines.append(f"  {'':<11} → {one_line(check.mend)}")
    return lines


def _add_toolchain(arguments: argparse.Namespace) -> int:
    import sys

    from akg_tui.core.sanitize import one_line
    from akg_tui.dsl.toolchain_install import ToolchainError, add

    def tell(line: str) -> None:
        print(one_line(line), file=sys.stderr, flush=True)

    try:
        add(arguments.name, tell)
    except ToolchainError as error:
        fail(error)
    return EXIT_OK


def _remove_toolchain(arguments: argparse.Namespace) -> int:
    from akg_tui.dsl.toolchain_install import ToolchainError, remove

    try:
        if not remove(arguments.name):
            raise UsageError(f"the toolchain {arguments.name} is not installed")
    except ToolchainError as error:
        fail(error)
    print(f"removed {arguments.name}")
    return EXIT_OK


def _list_toolchains(arguments: argparse.Namespace) -> int:
    from akg_tui.dsl import toolchains

    for name, toolchain in toolchains.TOOLCHAINS.items():
        found = toolchains.installed(name)
        if arguments.json:
            told = {"installed": found is not None, "pins": toolchain.pins}
            if found is not None:
                told |= {"folder": str(toolchains.home(name)), "python": found.python}
            print_json("toolchain", name=name, **told)
            continue
        print(f"{name}: {toolchain.about}")
        print(f"  {toolchains.missing(name) or _installed_words(name)}")
        print(f"  {', '.join(toolchain.pins)}")
    return EXIT_OK


def _installed_words(name: str) -> str:
    from akg_tui.dsl import toolchains

    size = toolchains.size_of(name) / (1 << 30)
    return f"installed in {toolchains.home(name)}, {size:.1f} GiB"
