"""`doctor` for this machine, a model's server or a run, and `salvage`.

A check answers with one `Check` and reads only, but for scratch in the temporary folder.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from akg_tui.agent.models.endpoint import Endpoint
from akg_tui.cli.usage_error import EXIT_NOT_CORRECT, EXIT_OK, UsageError, fail
from akg_tui.store.checkup import Check, Health, bad, ok, warn


def add_health(add: Callable[..., Any]) -> None:
    """Declare `doctor` and `salvage`; `add` makes one command."""
    doctor = add("doctor", _doctor, "check this machine, or with RUN a run; changes nothing")
    doctor.add_argument("run_folder", type=Path, nargs="?", metavar="RUN")
    doctor.add_argument("--json", action="store_true", help="one JSON object a check")
    doctor.add_argument("--base-url", metavar="U", help="check the model's server at U as well")
    doctor.add_argument("--model", metavar="M", help="the model to ask for there")
    doctor.add_argument("--api-key-file", default="", metavar="F", help="a file with its key")

    salvage = add("salvage", _salvage, "make a new run of what is sound in a damaged one")
    salvage.add_argument("run_folder", type=Path, metavar="RUN")
    salvage.add_argument("--out", type=Path, required=True, metavar="DIR", help="the new run")
    salvage.add_argument("--json", action="store_true", help="print one JSON object")


def _doctor(arguments: argparse.Namespace) -> int:
    import sys

    from akg_tui.store.checkup import Health

    if arguments.run_folder:
        if arguments.base_url or arguments.model:
            raise UsageError("--base-url and --model are of the machine's check: leave RUN out")
        checks = _of_run(arguments.run_folder)
    else:
        asks = arguments.base_url is not None or arguments.model is not None
        endpoint = _endpoint(arguments) if asks else None  # told now, before anything is tried
        checks = _of_machine()
        if endpoint is not None:
            checks += check_endpoint(endpoint)
    broken = any(check.health is Health.BAD for check in checks)
    if arguments.json:
        _print_json(checks, "damaged" if broken else "sound")
    else:
        for check in checks:
            for line in _lines(check, color=sys.stdout.isatty()):
                print(line)
    return EXIT_NOT_CORRECT if broken else EXIT_OK


def _of_run(run: Path) -> list[Check]:
    from akg_tui.store.checkup import check_run
    from akg_tui.store.errors import StoreError

    try:
        return check_run(run)
    except StoreError as error:
        fail(error)


def _endpoint(arguments: argparse.Namespace) -> Endpoint:
    import os

    from akg_tui.agent.models.endpoint import KeyMissing, endpoint_of
    from akg_tui.cli.run_options import served_agent

    agent = served_agent(
        arguments.model or "claude", arguments.base_url or "", arguments.api_key_file
    )
    try:
        return endpoint_of(agent, os.environ)
    except KeyMissing as error:
        fail(error)


def _of_machine() -> list[Check]:

    return [*(check() for check in MACHINE_CHECKS), *check_sandbox()]


def _print_json(checks: list[Check], status: str) -> None:
    import json

    import msgspec

    for check in checks:
        print(json.dumps({"type": "check", **msgspec.to_builtins(check)}))
    counts = [check.health.value for check in checks]
    counted = {health: counts.count(health) for health in ("ok", "warn", "bad")}
    print(json.dumps({"type": "summary", "status": status, **counted}))


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


def _salvage(arguments: argparse.Namespace) -> int:
    import msgspec

    from akg_tui.store.errors import StoreError
    from akg_tui.store.salvage import salvage

    if not arguments.out.name:
        raise UsageError(f"--out {arguments.out}: expected the name of a new folder")
    try:
        saved = salvage(arguments.run_folder, arguments.out)
    except StoreError as error:
        fail(error)
    if arguments.json:
        print(msgspec.json.encode(saved).decode())
        return EXIT_OK
    best = "none yet" if saved.best is None else f"attempt {saved.best}"
    print(f"saved {saved.events} events, {saved.rounds} settled rounds, best: {best}")
    for line in saved.told or ("nothing was lost",):
        print(f"  {line}")
    print(f"made {saved.path}; go on with: akg-tui resume {saved.path}")
    return EXIT_OK


_PACKAGES = ("torch", "textual", "msgspec", "pygit2", "numpy", "scipy", "optuna", "rich")
_LOW_DISK, _NO_DISK = 2 << 30, 200 << 20
_SLOW_IMPORT_S = 2.0
_TRY_COMPILER = """
from akg_tui.dsl import compile_cpp
assert compile_cpp('extern "C" int answer() { return 42; }').answer() == 42
"""


def check_python() -> Check:
    told = f"{platform.python_implementation()} {platform.python_version()}, at {sys.executable}"
    if platform.system() != "Linux":
        told += f", on {platform.system()}"
        return bad("python", told, "kernels are judged in Linux processes: use Linux")
    return ok("python", told)


def check_packages() -> Check:
    """Versions as installed; nothing is imported, so torch costs no time here."""
    from importlib.metadata import PackageNotFoundError, version

    found, missing = [], []
    for name in _PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    if missing:
        return bad("packages", f"missing: {', '.join(missing)}", "pip install akg-tui")
    return ok("packages", ", ".join(found))


def check_compiler() -> Check:
    """A C++ function is compiled, loaded and called, in a process and cache of its own."""
    mend = "needed for kernels in C++: install g++ or clang++, or set CXX"
    with tempfile.TemporaryDirectory(prefix="akg-doctor-") as folder:
        begin = time.perf_counter()
        try:
            done = subprocess.run(
                [sys.executable, "-c", _TRY_COMPILER],
                env={**os.environ, "AKG_CACHE_DIR": folder},
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
        except subprocess.TimeoutExpired:
            return bad("compiler", "did not end within 60 s", mend)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it was killed"])[-1]
        return bad("compiler", f"does not work: {last}", mend)
    took = time.perf_counter() - begin
    return ok("compiler", f"{os.environ.get('CXX', 'C++')} compiles, loads and runs, {took:.1f} s")


def check_git() -> Check:
    from akg_tui.store.errors import HistoryError
    from akg_tui.store.history import History, library_version

    with tempfile.TemporaryDirectory(prefix="akg-doctor-") as folder:
        try:
            history = History.create(Path(folder) / "h.git", kernel_file="kernel.py")
            history.set_best(history.commit(history.write_blob("x"), None, "x\n", 0.0))
            return ok("git", f"{library_version()} stores and reads")
        except (HistoryError, ImportError) as error:
            return bad("git", str(error), "pip install --force-reinstall pygit2")


def check_terminal() -> Check:
    if not sys.stdout.isatty():
        return ok("terminal", "none here: commands run headless")
    size = shutil.get_terminal_size()
    term, colors = os.environ.get("TERM", ""), os.environ.get("COLORTERM", "")
    told = f"{size.columns}×{size.lines}, TERM={term or 'not set'}, COLORTERM={colors or 'not set'}"
    if term in ("", "dumb"):
        return bad("terminal", told, "set TERM, for example to xterm-256color")
    if "utf" not in (sys.stdout.encoding or "").lower():
        return bad("terminal", f"{told}, {sys.stdout.encoding}", "use a UTF-8 locale")
    if colors not in ("truecolor", "24bit"):
        return warn("terminal", told, "COLORTERM=truecolor gives all colours, if it has them")
    if size.columns < 80 or size.lines < 24:
        return warn("terminal", told, "80×24 or more shows all panes")
    return ok("terminal", told)


def check_disk() -> Check:
    here = Path.cwd()
    free = shutil.disk_usage(here).free
    told = f"{free / (1 << 30):.1f} GiB free for {here}"
    if free < _NO_DISK:
        return bad("disk", told, "make room: a run stops when the disk is full")
    if free < _LOW_DISK:
        return warn("disk", told, "make room: a run stops when the disk is full")
    return ok("disk", told)


def check_start() -> Check:
    """How long a fresh process needs for what the workbench imports."""
    begin = time.perf_counter()
    command = [sys.executable, "-c", "import akg_tui.tui.app"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    except subprocess.TimeoutExpired:
        return bad("start", "the workbench was not imported within 60 s")
    took = time.perf_counter() - begin
    if done.returncode:
        return bad("start", (done.stderr.strip().splitlines() or ["it was killed"])[-1])
    told = f"the workbench is imported in {took:.2f} s"
    if took > _SLOW_IMPORT_S:
        return warn("start", told, "a slow disk or a busy machine makes it start late")
    return ok("start", told)


def check_sandbox() -> list[Check]:
    """One line for all that holds, and one for each protection that this machine lacks."""
    from akg_tui.evaluate.sandbox.protections import offered

    found = offered()
    held = [each.name for each in found if each.held]
    checks = [ok("sandbox", f"{len(held)} of {len(found)} protections hold: {', '.join(held)}")]
    for each in found:
        if not each.held:
            vital = "--require-sandbox refuses to start without it" if each.vital else ""
            told = f"lacks {each.name} ({each.why_not}); with it a kernel {each.about}"
            checks.append(warn("sandbox", told, vital))
    return checks


MACHINE_CHECKS: list[Callable[[], Check]] = [
    check_python,
    check_packages,
    check_compiler,
    check_git,
    check_terminal,
    check_disk,
    check_start,
]


NAME = "endpoint"
_HEALTH = {"ok": Health.OK, "warn": Health.WARN, "fail": Health.BAD}


def check_endpoint(endpoint: Endpoint) -> list[Check]:
    """One check for the connection, and one for each ability when somebody answers."""
    import asyncio

    from akg_tui.agent.chat import ModelFailed
    from akg_tui.agent.models.probe import findings, probe

    try:
        can = asyncio.run(probe(endpoint))
    except ModelFailed as error:
        mend = "check --base-url, --model and the key; is the server up?"
        return [bad(NAME, endpoint.scrub(str(error)), mend)]
    told = f"{endpoint.model} at {endpoint.base_url} answers"
    return [
        ok(NAME, told),
        *(Check(found.name, _HEALTH[found.status], found.detail) for found in findings(can)),
    ]
