"""Landlock: file-system rules that the Linux kernel enforces on a thread and its descendants.

Written against the kernel's interface (Documentation/userspace-api/landlock.rst), because published
bindings stop at old versions of it, and a child must import nothing more.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Iterable
from enum import IntEnum, IntFlag

from akg_tui.evaluate.sandbox import linux_syscalls as kernel
from akg_tui.evaluate.sandbox.linux_syscalls import Call


class Access(IntFlag):
    """Rights on files and folders, linux/landlock.h."""

    EXECUTE = 1 << 0
    WRITE_FILE = 1 << 1
    READ_FILE = 1 << 2
    READ_DIR = 1 << 3
    REMOVE_DIR = 1 << 4
    REMOVE_FILE = 1 << 5
    MAKE_CHAR = 1 << 6
    MAKE_DIR = 1 << 7
    MAKE_REG = 1 << 8
    MAKE_SOCK = 1 << 9
    MAKE_FIFO = 1 << 10
    MAKE_BLOCK = 1 << 11
    MAKE_SYM = 1 << 12
    REFER = 1 << 13
    TRUNCATE = 1 << 14
    IOCTL_DEV = 1 << 15
    FIRST = REFER - 1
    """All rights of the first version."""


class Since(IntEnum):
    """The version of Landlock in which something came."""

    REFER = 2
    TRUNCATE = 3
    """Before, a read-only file could still be cut short."""
    TCP = 4
    IOCTL_DEV = 5
    SCOPES = 6


_VERSION_ASKED = 1  # LANDLOCK_CREATE_RULESET_VERSION
_PATH_BENEATH = 1

_SINCE = {
    Since.REFER: Access.REFER,
    Since.TRUNCATE: Access.TRUNCATE,
    Since.IOCTL_DEV: Access.IOCTL_DEV,
}

DATA = Access.READ_FILE | Access.READ_DIR
SYSTEM = DATA | Access.EXECUTE
# No EXECUTE: files written here can be loaded as a library, but not executed. No sockets or
# devices either.
SCRATCH = (
    DATA | Access.WRITE_FILE | Access.TRUNCATE | Access.REFER
    | Access.REMOVE_DIR | Access.REMOVE_FILE
    | Access.MAKE_DIR | Access.MAKE_REG | Access.MAKE_FIFO | Access.MAKE_SYM
)  # fmt: skip
DEVICE = Access.READ_FILE | Access.WRITE_FILE
CHANGED = Access.WRITE_FILE | Access.TRUNCATE
# A device controlled by ioctl, such as a GPU.
CONTROLLED = DEVICE | Access.READ_DIR | Access.IOCTL_DEV
_FOR_FILES = DEVICE | Access.EXECUTE | Access.TRUNCATE | Access.IOCTL_DEV

TCP = 0b11  # bind and connect
SCOPES = 0b11  # abstract sockets and signals

Rules = Iterable[tuple[Access, Iterable[str]]]
"""Rights, each with the paths beneath which the rights are granted."""


def version() -> int:
    """Return the version of Landlock that the kernel offers, 0 if it has none."""
    try:
        return kernel.syscall(
            Call.LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION_ASKED)
        )
    except OSError:
        return 0


def begin(rules: Rules, found: int) -> int:
    """Return a descriptor of a ruleset that is not in force yet.

    Each rule grants rights beneath paths; paths that do not exist are omitted. `found` is the
    result of `version`. TCP, signals to processes outside, and abstract sockets are forbidden if
    that version supports it.

    Raises
    ------
    OSError
        The kernel refused.
    """
    attribute = struct.pack("<Q", _known(found))
    attribute += struct.pack("<Q", TCP) if found >= Since.TCP else b""
    attribute += struct.pack("<Q", SCOPES) if found >= Since.SCOPES else b""
    ruleset = kernel.syscall(
        Call.LANDLOCK_CREATE_RULESET, attribute, ctypes.c_size_t(len(attribute)), ctypes.c_uint32(0)
    )
    try:
        _add(ruleset, rules, found)
    except BaseException:
        os.close(ruleset)
        raise
    return ruleset


def restrict(ruleset: int, rules: Rules, found: int) -> None:
    """Enforce a ruleset, with `rules` added to it, on this thread.

    Raises
    ------
    OSError
        The kernel refused; nothing is restricted then.
    """
    _add(ruleset, rules, found)
    kernel.syscall(Call.LANDLOCK_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))


def _known(found: int) -> Access:
    known = Access.FIRST
    for since, right in _SINCE.items():
        if found >= since:
            known |= right
    return known


def _add(ruleset: int, rules: Rules, found: int) -> None:
    known = _known(found)
    for wanted, path in ((rights & known, path) for rights, paths in rules for path in paths):
        try:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            is_folder = stat.S_ISDIR(os.fstat(fd).st_mode)
            rule = struct.pack("<Qi", wanted if is_folder else wanted & _FOR_FILES, fd)
            beneath = ctypes.c_int(_PATH_BENEATH)
            kernel.syscall(
                *(Call.LANDLOCK_ADD_RULE, ctypes.c_int(ruleset), beneath, rule, ctypes.c_uint32(0))
            )
        finally:
            os.close(fd)
