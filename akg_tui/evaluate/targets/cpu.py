"""The CPU target: the environment that kernels run in, where they may run, what builds them.

Owns the settings that make CPU times comparable. Must never import torch,
because the zygote's environment has to be ready before torch is loaded.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

import akg_tui

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
