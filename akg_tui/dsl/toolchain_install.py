"""Adds and removes toolchains.

A toolchain appears in one step, when all of it is there: an `add` that was killed leaves only a
folder that the next one removes. What pip has downloaded until then is in pip's cache.
"""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from akg_tui.dsl.toolchains import (
    MARK,
    TOOLCHAINS,
    Installed,
    Toolchain,
    folder,
    home,
    installed,
    program_in,
    ran,
)

_VERSION = "platform.python_version()"


class ToolchainError(Exception):
    """A toolchain could not be added or removed; the message is one line."""


def add(name: str, tell: Callable[[str], None]) -> None:
    """Install a toolchain; `tell` is given a line on each step, and pip's own words.

    Nothing happens if it is there. Raises `ToolchainError`.
    """
    toolchain = TOOLCHAINS[name]
    with _alone():
        _clear()
        if installed(name):
            tell(f"{name} is installed already, in {home(name)}")
            return
        python = _python_for(toolchain)
        building = folder() / f".building-{name}"
        try:
            _build(toolchain, python, building, tell)
            _take_away(name)
            building.rename(home(name))
        finally:
            shutil.rmtree(building, ignore_errors=True)
        tell(f"{name} is installed in {home(name)}")


def _build(toolchain: Toolchain, python: str, at: Path, tell: Callable[[str], None]) -> None:
    """Make the whole toolchain in a folder, its mark last. Raises `ToolchainError`."""
    size = f"some {toolchain.megabytes} MB follow"
    tell(f"making an environment of {python} for {toolchain.name}; {size}")
    _make_environment(python, at)
    _install(toolchain, at, tell)
    for program, text in toolchain.own.items():
        path = at / "bin" / program
        path.write_text(text)
        path.chmod(0o755)
    tell("checking its programs")
    _check(toolchain, at)
    made = str(at / "bin" / "python")
    mark = Installed(toolchain.pins, _asked(made, _VERSION), _asked(made, "sys.base_prefix"))
    (at / MARK).write_bytes(msgspec.json.encode(mark))


def remove(name: str) -> bool:
    """Remove a toolchain; return whether there was one. Raises `ToolchainError`."""
    with _alone():
        _clear()
        return _take_away(name)


def _take_away(name: str) -> bool:
    """Remove a toolchain so that a half-removed one is never found."""
    if not home(name).exists():
        return False
    old = folder() / f".old-{name}"
    home(name).rename(old)
    shutil.rmtree(old, ignore_errors=True)
    return True


def _clear() -> None:
    """Remove what an interrupted `add` or `remove` has left."""
    for left in folder().glob(".*-*"):
        shutil.rmtree(left, ignore_errors=True)


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Hold the right to change toolchains; the kernel frees it when the process dies."""
    folder().mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder() / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ToolchainError("another akg-tui is changing the toolchains now") from None
        yield


def _python_for(toolchain: Toolchain) -> str:
    """Return an interpreter that the packages exist for, this one if it is."""
    if not toolchain.pythons or sys.version_info[1] in toolchain.pythons:
        return sys.executable
    for minor in toolchain.pythons:
        found = shutil.which(f"python3.{minor}")
        # A program of that name may be a switch between versions, and have none behind it.
        if found and _asked(found, _VERSION).startswith(f"3.{minor}."):
            return found
    names = " or ".join(f"3.{minor}" for minor in sorted(toolchain.pythons))
    raise ToolchainError(
        f"{toolchain.name} exists for Python {names} alone, and there is none in PATH: install one"
    )


def _asked(python: str, what: str) -> str:
    """Return the value of an expression on sys and platform in an interpreter, or ""."""
    try:
        done = ran(python, "-I", "-c", f"import platform, sys; print({what})")
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def _make_environment(python: str, at: Path) -> None:
    done = subprocess.run(
        [python, "-I", "-m", "venv", str(at)], check=False, capture_output=True, text=True
    )
    if done.returncode:
        rows = (done.stdout + done.stderr).strip().splitlines() or ["it was killed"]
        why = next((row for row in rows if "ensurepip" in row), rows[-1])
        raise ToolchainError(f"no environment could be made by {python} -m venv: {why}")


def _install(toolchain: Toolchain, at: Path, tell: Callable[[str], None]) -> None:
    """Install the pinned packages and no others. Raises `ToolchainError`."""
    words = [str(at / "bin" / "python"), "-I", "-m", "pip", "install", "--no-input", "--no-deps"]
    words += ["--disable-pip-version-check", "--only-binary", ":all:", "--retries", "2"]
    words += ["--timeout", "20", "--no-compile", *toolchain.pins]
    said: list[str] = []
    with subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        for row in process.stdout:
            said.append(row.strip())
            tell(row.strip())
    if process.returncode:
        errors = [row for row in said if row.startswith("ERROR:")] or said[-1:]
        raise ToolchainError(f"pip did not install it: {(errors or ['it was killed'])[-1]}")


def _check(toolchain: Toolchain, at: Path) -> None:
    """Run each needed program once. Raises `ToolchainError`."""
    for program in toolchain.needed:
        path = program_in(toolchain, at, program)
        if path is None:
            raise ToolchainError(f"{toolchain.name} has no program {program}")
        try:
            done = ran(str(path), "--version")
        except (OSError, subprocess.SubprocessError) as error:
            raise ToolchainError(f"{program} does not run: {error}") from None
        if done.returncode:
            rows = (done.stderr + done.stdout).strip().splitlines() or ["no output"]
            raise ToolchainError(f"{program} does not run: {rows[-1]}")
