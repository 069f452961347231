"""Takes a freshly forked process's powers away before it sees untrusted code.

Runs in the child only, once, while it has a single thread. What did not take hold (a kernel
without user namespaces, say) is left out of the returned words, and so is visible in every
measurement.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_CLONE_NEWIPC = 0x08000000
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_CAPABILITY_VERSION_3 = 0x20080522

FILE_BYTES = 512 << 20
OPEN_FILES = 1024
PROCESSES = 512

_libc = ctypes.CDLL(None, use_errno=True)


class _CapabilityHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


def die_with_parent(parent: int) -> bool:
    """Have the kernel kill this process when `parent` dies; False if it is dead already."""
    held = _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    return held and os.getppid() == parent


def adopt_orphans() -> bool:
    """Make this process the parent of any descendant whose own parent dies."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def hide_memory() -> bool:
    """Keep other processes of this user from reading or tracing this one's memory."""
    return _prctl(_PR_SET_DUMPABLE, 0)


def enter(*, parent: int, memory_bytes: int) -> tuple[str, ...]:
    """Give up what a kernel does not need; return the protections that took hold.

    `memory_bytes` bounds the private data of this process. File-system and system-call
    filters belong at the end of this list, after the namespaces they would forbid.
    """
    held: list[str] = []
    if die_with_parent(parent):
        held.append("pdeathsig")
    os.setsid()
    held.append("session")
    held += _isolate()
    if _limit(memory_bytes):
        held.append("rlimits")
    if _drop_capabilities():
        held.append("no_capabilities")
    if _prctl(_PR_SET_NO_NEW_PRIVS, 1):
        held.append("no_new_privs")
    if hide_memory():
        held.append("hidden_memory")
    return tuple(held)


def _isolate() -> list[str]:
    """Leave the network, and the user namespace where the kernel allows it."""
    uid, gid = os.getuid(), os.getgid()
    # The zygote hides its memory, and a hidden process may not write its own id maps.
    _prctl(_PR_SET_DUMPABLE, 1)
    if _libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET | _CLONE_NEWIPC) == 0:
        # The same ids inside as outside: files that kernels make stay the user's.
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{uid} {uid} 1"),
            ("gid_map", f"{gid} {gid} 1"),
        ):
            try:
                Path(f"/proc/self/{name}").write_text(text)
            except OSError:  # an unmapped id only shows as `nobody`
                break
        return ["userns", "netns"]
    if _libc.unshare(_CLONE_NEWNET | _CLONE_NEWIPC) == 0:
        return ["netns"]
    return []


def _limit(memory_bytes: int) -> bool:
    limits = [
        (resource.RLIMIT_DATA, memory_bytes),
        (resource.RLIMIT_FSIZE, FILE_BYTES),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_CORE, 0),
    ]
    # Root is exempt from this count; for others it is theirs alone inside a namespace.
    if os.getuid() != 0:
        limits.append((resource.RLIMIT_NPROC, PROCESSES))
    for which, wanted in limits:
        _, hard = resource.getrlimit(which)
        value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        try:
            resource.setrlimit(which, (value, value))
        except (OSError, ValueError):
            return False
    return True


def _drop_capabilities() -> bool:
    header = _CapabilityHeader(_CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    return bool(_libc.capset(ctypes.byref(header), nothing) == 0)


def _prctl(option: int, value: int) -> bool:
    return bool(_libc.prctl(option, value, 0, 0, 0) == 0)
