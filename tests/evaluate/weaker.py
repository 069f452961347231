"""`python -m tests.evaluate.weaker NAME… -- COMMAND`: a command on a kernel that offers less.

A system-call filter answers as such a kernel would: without Landlock (ENOSYS), without
namespaces (EPERM), as in many containers, or without further filters (EINVAL).
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys

from akg_tui.evaluate.sandbox import linux_syscalls as kernel
from akg_tui.evaluate.sandbox.linux_syscalls import Prctl

X86 = platform.machine() == "x86_64"
LACKING = {
    "landlock": ([444, 445, 446], errno.ENOSYS),
    "namespaces": ([272 if X86 else 97], errno.EPERM),
    "filters": ([157 if X86 else 167], errno.EINVAL),
}
OPTION = {"filters": Prctl.SET_SECCOMP}
"""What the first argument must be for a call to be lacking, if not anything."""


def lack(names: list[str]) -> None:
    """Let this process and all that it starts do without."""
    code = b""
    for name in names:
        numbers, answer = LACKING[name]
        for number in numbers:
            body = struct.pack("<HBBI", 0x06, 0, 0, 0x00050000 | answer)
            if name in OPTION:
                option = struct.pack("<HBBI", 0x15, 0, 1, OPTION[name])
                body = struct.pack("<HBBI", 0x20, 0, 0, 16) + option + body
            code += struct.pack("<HBBI", 0x20, 0, 0, 0)
            code += struct.pack("<HBBI", 0x15, 0, len(body) // 8, number) + body
    code += struct.pack("<HBBI", 0x06, 0, 0, 0x7FFF0000)
    program = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer := _kept(code)))
    assert kernel.prctl(Prctl.SET_NO_NEW_PRIVS, 1) == 0
    assert kernel.prctl(Prctl.SET_SECCOMP, 2, program) == 0
    del buffer


def _kept(code: bytes) -> ctypes.Array[ctypes.c_char]:
    return ctypes.create_string_buffer(code, len(code))


if __name__ == "__main__":
    split = sys.argv.index("--")
    lack(sys.argv[1:split])
    os.execvp(sys.argv[split + 1], sys.argv[split + 1 :])
