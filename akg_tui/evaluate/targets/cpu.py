"""The CPU target: the environment that kernels run in, where they may run, what builds them.

Owns the settings that make CPU times comparable. Must never import torch,
because the zygote's environment has to be ready before torch is loaded.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import akg_tui

if TYPE_CHECKING:
    from akg_tui.evaluate.roofline import Level

PASSED_ON = ("LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH", "CXX", "CC")
"""All that a kernel's process may see of the user's environment, besides a path."""

COMPILERS = ("g++", "clang++", "c++")


def package_path() -> str:
    """Return the folder that holds the package: our processes import no other copy."""
    return str(Path(akg_tui.__file__).resolve().parent.parent)


def base_environment() -> dict[str, str]:
    """Return a scrubbed environment: no keys or tokens, but a path that finds ninja."""
    # `load_inline` calls ninja, which pip puts beside the interpreter.
    here = str(Path(sys.executable).parent)
    kept = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return {
        **kept,
        "PATH": os.pathsep.join([here, os.environ.get("PATH", os.defpath)]),
        "PYTHONPATH": package_path(),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUTF8": "1",
    }


def kernel_environment(threads: int, home: Path) -> dict[str, str]:
    """Return the environment of the zygote, which every kernel process inherits.

    Without fixed malloc thresholds page faults of temporaries, which depend on the history
    of the process, move a large elementwise kernel by a factor of three; huge pages halve
    the spread between processes near the limits of the last cache.
    """
    return {
        **base_environment(),
        "HOME": str(home),
        "TMPDIR": str(home),
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "OPENBLAS_NUM_THREADS": "1",
        "MALLOC_TRIM_THRESHOLD_": str(4 << 30),
        "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
        "MALLOC_TOP_PAD_": str(64 << 20),
        "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
    }


def processors() -> list[int]:
    """Return the CPUs that this process may use."""
    return sorted(os.sched_getaffinity(0))


def find_compiler() -> str | None:
    """Return the path of the C++ compiler that kernels are built with, or None."""
    chosen = shlex.split(os.environ.get("CXX", ""))
    for name in [chosen[0]] if chosen else COMPILERS:
        path = shutil.which(name)
        if path is not None:
            return path
    return None


def cache_folder() -> Path:
    """Return the folder where what was measured of this machine is kept."""
    return Path.home() / ".cache" / "akg_tui"


class Cpu:
    """The processors of this machine."""

    name = "cpu"
    bounds_address_space = True

    def lacking(self) -> str:
        """Return nothing: there is always one."""
        return ""

    def zygote_environment(self, threads: int, home: Path) -> dict[str, str]:
        """Return `kernel_environment`."""
        return kernel_environment(threads, home)

    def devices(self) -> tuple[str, ...]:
        """Return no device file."""
        return ()

    def readable(self) -> tuple[str, ...]:
        """Return nothing beyond what every kernel reads."""
        return ()

    def fingerprint(self, torch_version: str, threads: int) -> dict[str, str]:
        """Return machine, settings and load."""
        from akg_tui.evaluate.targets import fingerprint

        return fingerprint.describe(torch_version, threads)

    def levels(self) -> list[Level]:
        """Return caches and memory, measured once on this machine."""
        from akg_tui.evaluate import roofline
        from akg_tui.evaluate.targets import fingerprint

        sizes, machine = fingerprint.caches(), fingerprint.machine_key()
        return roofline.machine_levels(sizes, machine, cache_folder())

    def device(self) -> Host:
        """Return the host itself."""
        return Host()


class Host:
    """The CPU as a device: work is done when a call returns, and tensors are where they are."""

    name = "cpu"

    def place(self, value: object) -> object:
        """Return the value itself."""
        return value

    def synchronise(self) -> None:
        """Return at once: nothing is put off."""

    def flush_caches(self) -> None:
        """Return at once: every call has fresh inputs, which another process wrote."""

    def elapsed_ms(self, work: Callable[[], object]) -> float:
        """Return how long `work` took by the monotonic clock."""
        start = time.perf_counter_ns()
        work()
        return (time.perf_counter_ns() - start) / 1e6
