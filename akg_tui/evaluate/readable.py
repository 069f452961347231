"""What of this machine a kernel may read: the system, Python, the compiler, and no more.

Found once, in the zygote, from where its own modules came. Homes, `/tmp`, `/run`, `/var`,
task and run folders are not in it, and of `/etc` only what the C library asks for.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from akg_tui.evaluate.dsls import DSLS
from akg_tui.evaluate.targets.cpu import package_path

SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store",
)  # fmt: skip
ETC = (
    "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ld.so.preload", "localtime", "timezone",
    "nsswitch.conf", "passwd", "group", "alternatives", "ssl/openssl.cnf", "os-release",
    "locale.alias", "mime.types",
)  # fmt: skip
DATA = (
    "/dev/urandom", "/dev/random", "/dev/zero", "/sys/devices/system",
    "/sys/kernel/mm/transparent_hugepage",
)  # fmt: skip
DEVICES = ("/dev/null", "/dev/full")
PROC_WITHOUT_OTHERS = (
    "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/loadavg", "/proc/version",
    "/proc/filesystems", "/proc/sys/vm", "/proc/sys/kernel", "/proc/self",
)  # fmt: skip
"""For a `/proc` that shows everybody: nothing in it but this process and the machine."""

_NOT_FOR_KERNELS = "_data"  # the samples' references


def programs() -> tuple[str, ...]:
    """Return the paths that hold what may be run: system, Python, packages, the compiler."""
    own = Path(package_path()).resolve()
    prefixes = [sys.prefix, sys.base_prefix, sys.exec_prefix]
    found = [*SYSTEM, *prefixes, *_toolchains(), *_library_path()]
    found += [str(entry) for entry in (own / "akg_tui").iterdir() if entry.name != _NOT_FOR_KERNELS]
    known = [*SYSTEM, *prefixes, str(own)]
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        # A package that is developed elsewhere, PyTorch itself perhaps.
        if path is None or "." in module.__name__ or module.__name__ == "akg_tui":
            continue
        home = Path(path).resolve()
        if home.name == "__init__.py":
            home = home.parent
        if not any(home.is_relative_to(parent) for parent in known):
            found.append(str(home))
    return tuple(dict.fromkeys(found))


def data() -> tuple[str, ...]:
    """Return the paths of system data."""
    return (*DATA, *(f"/etc/{name}" for name in ETC))


def _toolchains() -> list[str]:
    return [path for each in DSLS.values() for path in each.readable()]


def _library_path() -> list[str]:
    named = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    return [path for path in named if Path(path).is_absolute()]
