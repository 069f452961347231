"""The checks of this machine and of a model's server that `doctor` makes.

A check returns one `Check` and reads only, except for scratch files in the temporary folder.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from akg_tui.agent.models.endpoint import Endpoint
from akg_tui.core.sanitize import one_line
from akg_tui.core.task import Task
from akg_tui.store.checkup import Check, Health, bad, ok, warn

_LOW_DISK, _NO_DISK = 2 << 30, 200 << 20
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


def check_compiler() -> Check:
    """Compile, load and call a C++ function in a separate process with a separate cache."""
    mend = "needed for kernels in C++: install g++ or clang++, or set CXX"
    begin, command = time.perf_counter(), [sys.executable, "-P", "-c", _TRY_COMPILER]
    with tempfile.TemporaryDirectory(prefix="akg-doctor-") as folder:
        env = {**os.environ, "AKG_CACHE_DIR": folder}
        try:
            done = subprocess.run(
                command, env=env, capture_output=True, text=True, check=False, timeout=60
            )
        except subprocess.TimeoutExpired:
            return bad("compiler", "did not end within 60 s", mend)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it was killed"])[-1]
        return bad("compiler", f"does not work: {last}", mend)
    took = time.perf_counter() - begin
    return ok("compiler", f"{os.environ.get('CXX', 'C++')} compiles, loads and runs, {took:.1f} s")


def check_toolchains() -> Check:
    """Tell which compilers for targets that are not here are installed."""
    from akg_tui.dsl import toolchains

    told, mend = [], []
    for name, toolchain in toolchains.TOOLCHAINS.items():
        if found := toolchains.installed(name):
            told.append(f"{name} ({toolchain.pins[0]}, Python {found.python})")
        elif toolchains.is_outdated(name):
            told.append(f"{name} (of other versions than this akg-tui pins)")
            mend.append(toolchains.missing(name))
        else:
            told.append(f"no {name}")
    if mend:
        return warn("toolchains", ", ".join(told), "; ".join(mend))
    return ok("toolchains", ", ".join(told))


def check_git() -> Check:
    from akg_tui.store.errors import HistoryError
    from akg_tui.store.history import History, library_version

    with tempfile.TemporaryDirectory(prefix="akg-doctor-") as folder:
        try:
            history = History.create(Path(folder) / "h.git", kernel_file="kernel.py")
            history.set_best(history.commit(history.write_kernel("x"), None, "x\n", 0.0))
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
    if free >= _LOW_DISK:
        return ok("disk", told)
    health = Health.BAD if free < _NO_DISK else Health.WARN
    return Check("disk", health, told, "make room: a run stops when the disk is full")


def check_sandbox() -> list[Check]:
    """Return one check for all protections in force, and one for each that this machine lacks."""
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


def check_devices() -> list[Check]:
    """Return one check for each target with a device: what is there of it, or what is missing.

    A machine without a device is sound; a device that says that it is not well is told.
    """
    from akg_tui.evaluate.targets import TARGETS

    checks = []
    for name, target in TARGETS.items():
        if not target.device:
            continue
        if why := target.lacking():
            parts = ", ".join(f"{part} {state}" for part, state in target.parts().items())
            checks.append(ok(name, f"not here: {why}" + (f" ({parts})" if parts else "")))
            continue
        known = target.device_facts()
        told = ", ".join(f"{fact} {value}" for fact, value in known.items())
        well = target.device_fault(known)
        checks.append(warn(name, told, well) if well else ok(name, told or "there"))
    return checks


def check_clock() -> Check:
    """Tell who times kernels now: runs on one device take turns."""
    from akg_tui.evaluate.targets.lease import claim, held_leases, lease_folder

    if claim(Task(op="doctor"), "") is None:
        told = f"no lease can be kept in {lease_folder()}"
        return warn(
            "clock", told, "runs at once disturb each other: set AKG_TUI_LEASES to a folder"
        )
    held = held_leases().items()
    told = ", ".join(f"{each.what} times on {name} (process {each.pid})" for name, each in held)
    return ok("clock", one_line(told) or "no run times at present")


def check_machine() -> list[Check]:
    return [
        check_python(),
        check_compiler(),
        check_toolchains(),
        *check_devices(),
        check_clock(),
        check_git(),
        check_terminal(),
        check_disk(),
        *check_sandbox(),
    ]


_HEALTH = {"ok": Health.OK, "warn": Health.WARN, "fail": Health.BAD}


def check_endpoint(endpoint: Endpoint) -> list[Check]:
    """Return one check for the connection, and one for each ability if the server answers."""
    import asyncio

    from akg_tui.agent.chat import ModelFailed
    from akg_tui.agent.models.probe import findings, probe

    try:
        can = asyncio.run(probe(endpoint))
    except ModelFailed as error:
        mend = "check --base-url, --api, --model and the key; is the server up?"
        return [bad("endpoint", endpoint.scrub(str(error)), mend)]
    told = f"{endpoint.model} at {endpoint.base_url} answers"
    return [
        ok("endpoint", told),
        *(
            Check(found.name, _HEALTH[found.status], found.detail)
            for found in findings(can, endpoint.api)
        ),
    ]
