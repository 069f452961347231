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

from akg_tui.evaluate.sandbox import linux_syscalls as kernel

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # equal on all architectures
_VERSION = 1
_PATH_BENEATH = 1

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE = 1 << 4, 1 << 5
MAKE_DIR, MAKE_REG, MAKE_FIFO, MAKE_SYM = 1 << 7, 1 << 8, 1 << 10, 1 << 12
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_FIRST = (1 << 13) - 1  # all file-system rights of the first version
_SINCE = {2: REFER, 3: TRUNCATE, 5: IOCTL_DEV}

SYSTEM = EXECUTE | READ_FILE | READ_DIR
DATA = READ_FILE | READ_DIR
# No EXECUTE: files written here can be loaded as a library, but not executed. No sockets or
# devices either.
SCRATCH = (
    DATA | WRITE_FILE | TRUNCATE | REFER | REMOVE_DIR | REMOVE_FILE
    | MAKE_DIR | MAKE_REG | MAKE_FIFO | MAKE_SYM
)  # fmt: skip
DEVICE = READ_FILE | WRITE_FILE
CHANGED = WRITE_FILE | TRUNCATE
CONTROLLED = DEVICE | READ_DIR | IOCTL_DEV  # a device controlled by ioctl, such as a GPU
_FOR_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV

TCP = 0b11  # bind and connect
SCOPES = 0b11  # abstract sockets and signals
TCP_SINCE, SCOPES_SINCE = 4, 6
LEAST = 3
"""Before this version a read-only file could still be truncated."""

Rules = Iterable[tuple[int, Iterable[str]]]
"""Rights, each with the paths beneath which the rights are granted."""


def version() -> int:
    """Return the version of Landlock that the kernel offers, 0 if it has none."""
    try:
        return kernel.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))
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
    attribute += struct.pack("<Q", TCP) if found >= TCP_SINCE else b""
    attribute += struct.pack("<Q", SCOPES) if found >= SCOPES_SINCE else b""
    ruleset = kernel.syscall(
        CREATE_RULESET, attribute, ctypes.c_size_t(len(attribute)), ctypes.c_uint32(0)
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
    kernel.syscall(RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))


def _known(found: int) -> int:
    known = _FIRST
    for since, right in _SINCE.items():
        known |= right if found >= since else 0
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
            kernel.syscall(ADD_RULE, ctypes.c_int(ruleset), beneath, rule, ctypes.c_uint32(0))
        finally:
            os.close(fd)
