"""Compilers for targets that are not here, each in a private Python environment of its own.

Triton for Ascend replaces Triton where both are installed, so that no compiler of a target belongs
into the product's environment. A toolchain is a folder in the user's data folder, which has a mark
when all of it is there. Must never import torch or a DSL.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import msgspec
from msgspec import Struct

from akg_tui.store.user_files.user_folders import data_folder

CHECK_S = 120
MARK = "toolchain.json"


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


_LISTED = Path(__file__).with_suffix(".toml").read_bytes()
TOOLCHAINS = {
    each.name: each
    for each in msgspec.toml.decode(_LISTED, type=dict[str, list[Toolchain]])["toolchain"]
}
"""The toolchains by name."""


class Installed(Struct, frozen=True):
    """What the mark in a toolchain's folder says of it; `prefix` is the folder of its Python."""

    pins: tuple[str, ...]
    python: str
    prefix: str


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
        return msgspec.json.decode((home(name) / MARK).read_bytes(), type=Installed)
    except (OSError, msgspec.MsgspecError):
        return None


def places(name: str) -> tuple[str, ...]:
    """Return the folders that a toolchain's programs need: its own, and its Python's."""
    found = installed(name)
    return () if found is None else (str(home(name).resolve()), found.prefix)


def toolchain_program(name: str, program: str) -> Path | None:
    """Return a program of a toolchain, such as `nvcc` of `cuda`; None if it is not installed."""
    return program_in(TOOLCHAINS[name], home(name), program) if installed(name) else None


def program_in(toolchain: Toolchain, at: Path, program: str) -> Path | None:
    """Return a program of a toolchain in this folder, None if it is not there."""
    packages = at.glob("lib/python3.*/site-packages")
    places = [base / part for base in packages for part in toolchain.programs]
    for place in (at / "bin", *places):
        if os.access(place / program, os.X_OK) and (place / program).is_file():
            return place / program
    return None


def ran(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a program for at most `CHECK_S`; return what it printed. Raises as subprocess.run."""
    return subprocess.run(
        words, check=False, capture_output=True, text=True, errors="replace", timeout=CHECK_S
    )


def ascend_arches() -> tuple[str, ...]:
    """Return the NPUs that the compiler of `ascend` itself compiles for, as it lists them.

    It hands those of the generation 950 on to another compiler, whose programs have other forms.
    """
    compiler = toolchain_program("ascend", "bishengir-compile")
    if compiler is None:
        return ()
    try:
        said = ran(str(compiler), "--help").stdout
    except (OSError, subprocess.SubprocessError):
        return ()
    found = re.findall(r"^\s+=(Ascend[\w-]+)\s", said, re.M)
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
