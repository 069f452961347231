"""Compilers for targets that are not here, each in a private Python environment of its own.

Triton for Ascend replaces Triton where both are installed, so that no compiler of a target belongs
into the product's environment. A toolchain is a folder in the user's data folder. It appears in one
step, when all of it is there: an `add` that was killed leaves only a folder that the next one
removes. What pip has downloaded until then is in pip's cache. Must never import torch or a DSL.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from akg_tui.store.user_folders import data_folder

CHECK_S = 120
_MARK = "toolchain.json"
_UNREACHABLE = ("Retrying (", "Max retries exceeded", "Failed to establish", "Could not fetch URL")
_NOT_THERE = ("No matching distribution found for", "Could not find a version that satisfies")


class ToolchainError(Exception):
    """A toolchain could not be added or removed; the message is one line."""


class Toolchain(Struct, frozen=True, kw_only=True):
    """A set of pinned packages, and where their programs are.

    `programs` are folders below the environment's packages. `pythons` are the minor versions of
    Python 3 that all packages exist for; none: any. `own` are programs of ours, name and text.
    `megabytes` are downloaded.
    """

    name: str
    about: str
    pins: tuple[str, ...]
    programs: tuple[str, ...]
    needed: tuple[str, ...]
    megabytes: int
    pythons: tuple[int, ...] = ()
    own: dict[str, str] = {}


_HIVMC = """#!/bin/sh
# Stands in for CANN's last step, which is in no registry: keeps the program that it is given.
for word in "$@"; do
    case "$word" in
        --version) echo "hivmc 0.1.0"; exit 0 ;;
        *.hivm.opt.mlir) cp "$word" "$AKG_HIVM_KEPT" || exit 1 ;;
    esac
done
"""

TOOLCHAINS = {
    each.name: each
    for each in (
        Toolchain(
            name="ascend",
            about="Triton for Ascend and bishengir-compile, for compile reports",
            pins=("triton-ascend==3.2.0", "pybind11==3.1.0", "ascendnpu-ir==1.2.0"),
            programs=("ascendnpuir/bin", "triton/backends/ascend"),
            needed=("bishengir-compile", "triton-adapter-opt", "hivmc"),
            megabytes=215,
            pythons=(11, 10),
            own={"hivmc": _HIVMC},
        ),
        Toolchain(
            name="cuda",
            about="nvcc and its assembler and disassemblers, to compile CUDA without a GPU",
            pins=(
                "nvidia-cuda-nvcc==13.5.37",
                "nvidia-nvvm==13.5.37",
                "nvidia-cuda-crt==13.5.37",
                "nvidia-cuda-runtime==13.5.37",
                "nvidia-cuda-cccl==13.3.5.0.6",
                "nvidia-cuda-cuobjdump==13.5.37",
                "nvidia-cuda-nvdisasm==13.5.37",
            ),
            programs=("nvidia/cu13/bin",),
            needed=("nvcc", "ptxas", "cuobjdump", "nvdisasm"),
            megabytes=135,
        ),
    )
}


class Installed(Struct, frozen=True):
    """What the mark in a toolchain's folder says of it."""

    pins: tuple[str, ...]
    python: str


def folder() -> Path:
    """Return the folder of all toolchains."""
    return data_folder() / "toolchains"


def home(name: str) -> Path:
    """Return the folder of a toolchain, whether it is there or not."""
    return folder() / name


def installed(name: str) -> Installed | None:
    """Return what is in a toolchain's folder, or None if it is not complete or of other pins."""
    found = _mark(name)
    return found if found is not None and found.pins == TOOLCHAINS[name].pins else None


def is_outdated(name: str) -> bool:
    """Return whether the toolchain is there with other versions than the pinned ones."""
    return _mark(name) is not None and installed(name) is None


def _mark(name: str) -> Installed | None:
    try:
        return msgspec.json.decode((home(name) / _MARK).read_bytes(), type=Installed)
    except (OSError, msgspec.MsgspecError):
        return None


def python_of(name: str) -> Path:
    """Return the interpreter of a toolchain's environment."""
    return home(name) / "bin" / "python"


def toolchain_program(name: str, program: str) -> Path | None:
    """Return a program of a toolchain, such as `nvcc` of `cuda`; None if it is not installed."""
    return _program(TOOLCHAINS[name], home(name), program) if installed(name) else None


def _program(toolchain: Toolchain, at: Path, program: str) -> Path | None:
    packages = at.glob("lib/python3.*/site-packages")
    places = [base / part for base in packages for part in toolchain.programs]
    for place in (at / "bin", *places):
        if os.access(place / program, os.X_OK) and (place / program).is_file():
            return place / program
    return None


def ascend_arches() -> tuple[str, ...]:
    """Return the NPUs that the compiler of `ascend` itself compiles for, as it lists them.

    It hands those of the generation 950 on to another compiler, whose programs have other forms.
    """
    compiler = toolchain_program("ascend", "bishengir-compile")
    if compiler is None:
        return ()
    try:
        done = subprocess.run(
            [str(compiler), "--help"],
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=CHECK_S,
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    found = re.findall(r"^\s+=(Ascend[\w-]+)\s", done.stdout, re.M)
    return tuple(each for each in found if not re.match(r"Ascend(?:950|910_95)", each))


def missing(name: str) -> str:
    """Return one line on how to get a toolchain that is not installed, or ""."""
    if installed(name) is not None:
        return ""
    state = "is of other versions" if is_outdated(name) else "is not installed"
    return f"the toolchain {name} {state}: akg-tui toolchain add {name}"


def size_of(name: str) -> int:
    """Return the bytes of a toolchain on disk."""
    return sum(
        each.lstat().st_size for each in home(name).rglob("*") if not each.is_symlink()
    )  # fmt: skip


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
        tell(f"making an environment of {python} for {name}; some {toolchain.megabytes} MB follow")
        _make_environment(python, building)
        _install(toolchain, building, tell)
        for program, text in toolchain.own.items():
            path = building / "bin" / program
            path.write_text(text)
            path.chmod(0o755)
        tell("checking its programs")
        _check(toolchain, building)
        mark = Installed(toolchain.pins, _version(building / "bin" / "python"))
        (building / _MARK).write_bytes(msgspec.json.encode(mark))
        _take_away(name)
        building.rename(home(name))
        tell(f"{name} is installed in {home(name)}")


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
        if found and _version(Path(found)).startswith(f"3.{minor}."):
            return found
    names = " or ".join(f"3.{minor}" for minor in sorted(toolchain.pythons))
    raise ToolchainError(
        f"{toolchain.name} exists for Python {names} alone, and there is none in PATH: install one"
    )


def _version(python: Path) -> str:
    """Return the version of an interpreter, or ""."""
    words = [str(python), "-I", "-c", "import platform; print(platform.python_version())"]
    try:
        done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=CHECK_S)
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
        raise ToolchainError(_why(said))


def _why(said: list[str]) -> str:
    """Return in one line why pip did not install."""
    if any(sign in row for row in said for sign in _UNREACHABLE):
        return "the package registry can't be reached; see pip's lines above"
    for row in said:
        if row.startswith("ERROR:") and any(sign in row for sign in _NOT_THERE):
            return f"the package registry lacks a package: {row.removeprefix('ERROR:').strip()}"
    errors = [row for row in said if row.startswith("ERROR:")] or said[-1:]
    return f"pip did not install it: {(errors or ['it was killed'])[-1]}"


def _check(toolchain: Toolchain, at: Path) -> None:
    """Run each needed program once. Raises `ToolchainError`."""
    for program in toolchain.needed:
        path = _program(toolchain, at, program)
        if path is None:
            raise ToolchainError(f"{toolchain.name} has no program {program}")
        try:
            done = subprocess.run(
                [str(path), "--version"],
                check=False,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=CHECK_S,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise ToolchainError(f"{program} does not run: {error}") from None
        if done.returncode:
            rows = (done.stderr + done.stdout).strip().splitlines() or ["no output"]
            raise ToolchainError(f"{program} does not run: {rows[-1]}")
