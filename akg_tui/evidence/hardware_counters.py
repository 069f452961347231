"""Hardware counters of this process by perf_event_open(2), where the kernel allows them.

Must be opened before the sandbox is entered, which forbids the call. Counts user code only.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Mapping
from pathlib import Path

from akg_tui.evaluate.sandbox import linux_syscalls as kernel

_CALL = {"x86_64": 298, "aarch64": 241}
_HARDWARE, _CACHE = 0, 3
_LAST_LEVEL_READ_MISS = 2 | (0 << 8) | (1 << 16)
WANTED = {
    "cycles": (_HARDWARE, 0),
    "instructions": (_HARDWARE, 1),
    "LLC misses": (_CACHE, _LAST_LEVEL_READ_MISS),
}
"""The type and the number of each counter, as in linux/perf_event.h."""

_SIZE = 112  # PERF_ATTR_SIZE_VER5
_INHERIT, _NO_KERNEL, _NO_HYPERVISOR = 1 << 1, 1 << 5, 1 << 6
_TIMES = 3  # PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_FORMAT_TOTAL_TIME_RUNNING
_READ = struct.Struct("<QQQ")
PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")


class Opened:
    """The counters that could be opened, and why the others could not."""

    def __init__(self, wanted: Mapping[str, tuple[int, int]] = WANTED) -> None:
        self._fds: dict[str, int] = {}
        self.missing = ""
        for name, (kind, number) in wanted.items():
            try:
                self._fds[name] = _open(kind, number)
            except OSError as error:
                self.missing = self.missing or _why(error)

    def read(self) -> dict[str, float]:
        """Return the counts so far; a counter that shared its register is scaled up."""
        found = {}
        for name, fd in self._fds.items():
            count, enabled, running = _READ.unpack(os.read(fd, _READ.size))
            found[name] = count * (enabled / running) if running else 0.0
        return found


def _open(kind: int, number: int) -> int:
    call = _CALL.get(platform.machine())
    if call is None:
        raise OSError(errno.ENOSYS, "unknown machine")
    flags = _INHERIT | _NO_KERNEL | _NO_HYPERVISOR
    attribute = struct.pack("<IIQQQQQ", kind, _SIZE, number, 0, 0, _TIMES, flags)
    buffer = ctypes.create_string_buffer(attribute.ljust(_SIZE, b"\0"), _SIZE)
    minus_one = ctypes.c_int(-1)
    return kernel.syscall(call, buffer, ctypes.c_int(0), minus_one, minus_one, ctypes.c_ulong(8))


def _why(error: OSError) -> str:
    if error.errno in (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP):
        return "this machine offers no hardware counters (a virtual machine often hides them)"
    if error.errno in (errno.EACCES, errno.EPERM):
        try:
            level = PARANOID.read_text().strip()
        except OSError:
            level = "unknown"
        return (
            f"perf_event_open is not allowed (kernel.perf_event_paranoid is {level}; 2 allows it)"
        )
    return f"perf_event_open: {error.strerror}"
