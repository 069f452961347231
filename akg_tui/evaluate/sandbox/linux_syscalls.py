"""Wrappers of Linux system calls for which Python has no functions.

Each returns 0 or the errno, and decides nothing; `syscall` raises OSError.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from enum import IntEnum, IntFlag


class Prctl(IntEnum):
    """Options of prctl(2), linux/prctl.h."""

    SET_PDEATHSIG = 1
    SET_DUMPABLE = 4
    SET_SECCOMP = 22
    SET_CHILD_SUBREAPER = 36
    SET_NO_NEW_PRIVS = 38
    SCHED_CORE = 62


class Clone(IntFlag):
    """Flags of clone(2) and unshare(2), linux/sched.h."""

    NEWTIME = 0x00000080
    PARENT = 0x00008000
    NEWNS = 0x00020000
    NEWCGROUP = 0x02000000
    NEWUTS = 0x04000000
    NEWIPC = 0x08000000
    NEWUSER = 0x10000000
    NEWPID = 0x20000000
    NEWNET = 0x40000000
    ANY_NAMESPACE = NEWTIME | NEWNS | NEWCGROUP | NEWUTS | NEWIPC | NEWUSER | NEWPID | NEWNET


class Mount(IntFlag):
    """Flags of mount(2), linux/mount.h."""

    NOSUID = 1 << 1
    NODEV = 1 << 2
    NOEXEC = 1 << 3
    BIND = 1 << 12
    REC = 1 << 14
    PRIVATE = 1 << 18


class Call(IntEnum):
    """System calls without a wrapper in C; their numbers are equal on all architectures."""

    MOUNT_SETATTR = 442
    LANDLOCK_CREATE_RULESET = 444
    LANDLOCK_ADD_RULE = 445
    LANDLOCK_RESTRICT_SELF = 446


class At(IntEnum):
    """Words of the calls that take a folder and a path, linux/fcntl.h."""

    FDCWD = -100
    RECURSIVE = 0x8000


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
    """Mount a file system, or with `Mount.PRIVATE` change the propagation of mounts."""
    coded = (text.encode() if text is not None else None for text in (source, target, kind))
    options = data.encode() if data is not None else None
    return _fault(_libc.mount(*coded, ctypes.c_ulong(flags), options))


def change_mounts(path: str, *, recursive: bool, read_only: bool) -> int:
    """Make a mount, or all mounts below it, read-only or writable (Linux 5.12)."""
    bits = (1, 0) if read_only else (0, 1)  # MOUNT_ATTR_RDONLY set, or cleared
    attribute = struct.pack("<QQQQ", *bits, 0, 0)
    flags = ctypes.c_uint(At.RECURSIVE if recursive else 0)
    size = ctypes.c_size_t(len(attribute))
    try:
        syscall(Call.MOUNT_SETATTR, ctypes.c_int(At.FDCWD), path.encode(), flags, attribute, size)
    except OSError as error:
        return error.errno or errno.EPERM
    return 0


def drop_capabilities() -> int:
    """Give up all capabilities."""
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3
    return _fault(_libc.capset(header, (ctypes.c_uint32 * 6)()))


def syscall(number: int, *arguments: object) -> int:
    """Make a system call that the C library does not wrap; raise OSError if it fails."""
    result = int(_libc.syscall(ctypes.c_long(number), *arguments))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
