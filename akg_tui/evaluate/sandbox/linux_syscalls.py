"""Wrappers of Linux system calls for which Python has no functions.

Each returns 0 or the errno, and decides nothing; `syscall` raises OSError.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38

CLONE_NEWNS = 0x00020000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_NOSUID, MS_NODEV, MS_NOEXEC = 2, 4, 8
MS_BIND, MS_REC, MS_PRIVATE = 1 << 12, 1 << 14, 1 << 18
MOUNT_SETATTR = 442  # equal on all architectures
MOUNT_ATTR_RDONLY, AT_RECURSIVE, AT_FDCWD = 1, 0x8000, -100

_CAPABILITY_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


def _fault(result: int) -> int:
    return ctypes.get_errno() if result != 0 else 0


def prctl(option: int, value: object, more: object = 0) -> int:
    """Change one of this process's settings."""
    return _fault(_libc.prctl(option, value, more, 0, 0))


def unshare(flags: int) -> int:
    """Leave the namespaces in `flags` for new ones."""
    return _fault(_libc.unshare(flags))


def setns(fd: int, kind: int) -> int:
    """Enter the namespace behind a descriptor."""
    return _fault(_libc.setns(fd, kind))


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> int:
    """Mount a file system, or with MS_PRIVATE change the propagation of mounts."""
    coded = (text.encode() if text is not None else None for text in (source, target, kind))
    options = data.encode() if data is not None else None
    return _fault(_libc.mount(*coded, ctypes.c_ulong(flags), options))


def change_mounts(path: str, *, recursive: bool, read_only: bool) -> int:
    """Make a mount, or all mounts below it, read-only or writable (Linux 5.12)."""
    bits = (MOUNT_ATTR_RDONLY, 0) if read_only else (0, MOUNT_ATTR_RDONLY)
    attribute = struct.pack("<QQQQ", *bits, 0, 0)
    flags = ctypes.c_uint(AT_RECURSIVE if recursive else 0)
    size = ctypes.c_size_t(len(attribute))
    try:
        syscall(MOUNT_SETATTR, ctypes.c_int(AT_FDCWD), path.encode(), flags, attribute, size)
    except OSError as error:
        return error.errno or errno.EPERM
    return 0


def drop_capabilities() -> int:
    """Give up all capabilities."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    return _fault(_libc.capset(header, (ctypes.c_uint32 * 6)()))


def syscall(number: int, *arguments: object) -> int:
    """Make a system call that the C library does not wrap; raise OSError if it fails."""
    result = int(_libc.syscall(ctypes.c_long(number), *arguments))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
