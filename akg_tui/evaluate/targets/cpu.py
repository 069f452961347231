"""The CPU target: kernels' environment, the CPUs they may use, and the fingerprint.

Owns the settings that make CPU times comparable, and the description of machine and software
that is kept with a measurement. Must never import torch.
"""

from __future__ import annotations

import functools
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import akg_tui
from akg_tui.dsl.compilers import find_compiler
from akg_tui.evaluate.targets.target import Target

if TYPE_CHECKING:
    from akg_tui.evaluate.targets.roofline import Level

PASSED_ON = ("LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH", "CXX", "CC")
"""The variables of the user's environment that a kernel's process inherits, besides PATH."""


def package_path() -> str:
    """Return the folder that holds the package, so that our processes import no other copy."""
    return str(Path(akg_tui.__file__).resolve().parent.parent)


def base_environment() -> dict[str, str]:
    """Return a scrubbed environment: no keys or tokens, but a path that finds ninja."""
    # `load_inline` calls ninja, which pip installs in the interpreter's folder.
    here = str(Path(sys.executable).parent)
    kept = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return {
        **kept,
        "PATH": os.pathsep.join([here, os.environ.get("PATH", os.defpath)]),
        "PYTHONPATH": package_path(),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUTF8": "1",
        # An installed torch_npu would be loaded with PyTorch, and without CANN that fails.
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
    }


def processors() -> list[int]:
    """Return the CPUs that this process may use."""
    return sorted(os.sched_getaffinity(0))


def reference_threads(device: str, threads: int) -> int:
    """Return the threads that draw inputs and expected results, while nothing else runs.

    Where kernels run on a device there are as many as this process may use, else the `threads` of
    a call: results for the CPU are computed as a kernel computes them.
    """
    if not device:
        return threads
    usable = len(processors())
    return min(usable, max(1, int(quota))) if (quota := _quota()) else usable


def judge_threads(device: str, threads: int) -> int:
    """Return the threads that compare results and seal inputs: those that a kernel leaves.

    Where a kernel runs on the host there is one. A second one would keep spinning beside it.
    """
    return max(1, reference_threads(device, threads) - threads) if device else 1


class Cpu(Target):
    """The processors of this machine."""

    name = "cpu"

    def environment(self, threads: int) -> dict[str, str]:
        """Return the environment of the judge, which every kernel process inherits.

        The heap keeps its pages: blocks of any size lie in it, and none is given back to the
        system. So a result in new memory costs no page faults, and one in memory that a kernel
        prepared gains nothing; with page faults a large elementwise kernel takes up to three times
        as long. Huge pages halve the spread between processes near the limits of the last cache.

        Threads that wait for others in a loop use up the CPU time of a reference that draws, and
        disturb what the host does for a kernel on a device: there they sleep.
        """
        return {
            **({"OMP_WAIT_POLICY": "PASSIVE"} if self.device else {}),
            **base_environment(),
            "TORCH_CPP_LOG_LEVEL": "ERROR",
            "OMP_NUM_THREADS": str(threads),
            "MKL_NUM_THREADS": str(threads),
            "OPENBLAS_NUM_THREADS": "1",
            "MALLOC_MMAP_MAX_": "0",
            "MALLOC_TRIM_THRESHOLD_": str(1 << 62),
            "MALLOC_TOP_PAD_": str(64 << 20),
            "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
        }

    def fingerprint(self, torch_version: str, threads: int) -> dict[str, str]:
        """Return the fingerprint of this machine, its settings and its present load."""
        varying = {
            "governor": _text(CPU / "cpu0/cpufreq/scaling_governor"),
            "turbo": _turbo(),
            "load": f"{os.getloadavg()[0]:.2f}",
        }
        return {
            **_lasting(),
            "torch": torch_version,
            "threads": str(threads),
            **{name: value for name, value in varying.items() if value},
        }

    def levels(self) -> list[Level]:
        """Return caches and memory, measured once on this machine."""
        from akg_tui.evaluate.targets import roofline

        folder = Path.home() / ".cache" / "akg_tui"
        return roofline.machine_levels(caches(), machine_key(), folder)


CPU = Path("/sys/devices/system/cpu")


def machine_key() -> str:
    """Return a name for this machine's hardware, kernel and limits."""
    known = _lasting()
    return "; ".join(f"{name} {known[name]}" for name in sorted(known) if name in HARDWARE)


HARDWARE = ("cpu", "cpus", "caches", "numa", "smt", "quota", "hypervisor")


@functools.cache
def caches() -> dict[str, int]:
    """Return the sizes in bytes of the data caches, nearest first."""
    found: dict[str, int] = {}
    for index in sorted((CPU / "cpu0/cache").glob("index*")):
        kind, level, size = (_text(index / name) for name in ("type", "level", "size"))
        unit = {"K": 1 << 10, "M": 1 << 20}.get(size[-1:], 0)
        if kind != "Instruction" and unit and size[:-1].isdigit():
            found[f"L{level}"] = int(size[:-1]) * unit
    return found


@functools.cache
def _lasting() -> dict[str, str]:
    sizes = ", ".join(f"{name} {size >> 10} KiB" for name, size in caches().items())
    huge_pages = _text(Path("/sys/kernel/mm/transparent_hugepage/enabled"))
    known = {
        "cpu": _of_cpuinfo("model name") or platform.processor() or platform.machine(),
        "cpus": str(len(processors())),
        "caches": sizes,
        "numa": str(len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) or ""),
        "smt": {"0": "off", "1": "on"}.get(_text(CPU / "smt/active"), ""),
        "hypervisor": "yes" if " hypervisor" in _of_cpuinfo("flags") else "",
        "quota": f"{quota:g} CPUs" if (quota := _quota()) else "",
        # The kernel puts the active setting in brackets.
        "huge pages": huge_pages.partition("[")[2].partition("]")[0],
        "memory": f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') >> 20} MiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "libc": " ".join(platform.libc_ver()),
        "python": platform.python_version(),
        "compiler": _compiler(),
    }
    return {name: value for name, value in known.items() if value}


def _compiler() -> str:
    command = find_compiler()
    if not command:
        return "none"
    path = command[0]
    try:
        version = subprocess.run(
            [path, "--version"], check=False, capture_output=True, text=True, timeout=5
        )
    except (OSError, subprocess.SubprocessError):
        return path
    return version.stdout.partition("\n")[0].strip()[:120] or path


def _turbo() -> str:
    if stopped := _text(CPU / "intel_pstate/no_turbo"):
        return "off" if stopped == "1" else "on"
    return {"0": "off", "1": "on"}.get(_text(CPU / "cpufreq/boost"), "")


def _quota() -> float:
    """Return the number of CPUs that this process's control group may use; 0: no limit is known."""
    for line in _text(Path("/proc/self/cgroup")).splitlines():
        _, controllers, path = line.split(":", 2)
        inner = path.lstrip("/")
        if not controllers:
            limit = _text(Path("/sys/fs/cgroup") / inner / "cpu.max").split()
        elif "cpu" in controllers.split(","):
            folder = Path("/sys/fs/cgroup/cpu") / inner
            limit = [_text(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period")]
        else:
            continue
        if len(limit) == 2 and limit[0].isdigit() and limit[1].isdigit():
            return int(limit[0]) / int(limit[1])
    return 0.0


def _of_cpuinfo(field: str) -> str:
    for line in _text(Path("/proc/cpuinfo")).splitlines():
        if line.startswith(field):
            return line.partition(":")[2].strip()
    return ""


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""


ADAPTER = Cpu()
