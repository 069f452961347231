"""Linux namespaces: processes, mounts, network, IPC and users, separate for a child.

When the first process of a pid namespace dies, the kernel kills all others in it: this ends daemons
and fork bombs. Must be called while the process has a single thread.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import NoReturn

from akg_tui.evaluate.sandbox import linux_syscalls as kernel
from akg_tui.evaluate.sandbox.linux_syscalls import Clone, Mount, Prctl

# The network and System V memory.
NETWORK_AND_IPC = Clone.NEWNET | Clone.NEWIPC


def enter_pid_namespace(*unneeded: int) -> str:
    """Continue as the first process of a new pid namespace; return "", or why this failed.

    Forks: the calling process closes the descriptors `unneeded`, waits for the new process, and
    exits with its code. The new process may then give each of its children a namespace.
    """
    fault = kernel.unshare(Clone.NEWPID)
    if fault:
        # Without that privilege a user namespace is needed, which grants it to this process.
        uid, gid = os.getuid(), os.getgid()
        fault = kernel.unshare(Clone.NEWUSER | Clone.NEWPID)
        if fault:
            return f"no pid namespace: {os.strerror(fault)}"
        map_ids(uid, gid)
    pid = os.fork()
    if pid != 0:
        for fd in unneeded:
            os.close(fd)
        wait_and_exit(pid)
    kernel.prctl(Prctl.SET_PDEATHSIG, signal.SIGKILL)
    return ""


def wait_and_exit(pid: int) -> NoReturn:
    """Wait for a child and exit with its code; a signal becomes a code, as in a shell."""
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os._exit(code if code >= 0 else 128 - code)


class PidNamespaceForker:
    """Gives each forked child a pid namespace, where that is possible."""

    def __init__(self) -> None:
        self._home = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)

    def fork(self) -> int:
        """Fork; the child is the first process of its namespace."""
        fault = kernel.unshare(Clone.NEWPID)
        if fault:
            raise OSError(fault, f"no pid namespace: {os.strerror(fault)}")
        pid = -1
        try:
            pid = os.fork()
        finally:
            if pid != 0:
                fault = kernel.setns(self._home, Clone.NEWPID)
        if pid != 0 and fault:
            raise OSError(fault, f"can't leave a child's pid namespace: {os.strerror(fault)}")
        return pid


def map_ids(uid: int, gid: int) -> None:
    """Map each id to itself in a new user namespace, so that new files belong to the user."""
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} {uid} 1"),
        ("gid_map", f"{gid} {gid} 1"),
    ):
        try:
            Path(f"/proc/self/{name}").write_text(text)
        except OSError:  # an unmapped id is only displayed as `nobody`
            return


def own_mounts() -> int:
    """Create a private copy of the mounts; return the errno."""
    fault = kernel.unshare(Clone.NEWNS)
    return fault or kernel.mount("none", "/", None, Mount.REC | Mount.PRIVATE)


def read_only(spared: tuple[str, ...]) -> int:
    """Make all mounts read-only except those at `spared`; return the errno.

    Landlock governs opening and creating files; this also keeps their owner from changing their
    modes, times and attributes.
    """
    for path in spared:
        if fault := kernel.mount(path, path, None, Mount.BIND):
            return fault
    if fault := kernel.change_mounts("/", recursive=True, read_only=True):
        return fault
    for path in spared:
        if fault := kernel.change_mounts(path, recursive=False, read_only=False):
            return fault
    return 0


def own_proc() -> int:
    """Mount a `/proc` that shows this pid namespace only; return the errno."""
    flags = Mount.NOSUID | Mount.NODEV | Mount.NOEXEC
    return kernel.mount("proc", "/proc", "proc", flags)


def own_folder(path: str, size: int, files: int) -> int:
    """Mount a tmpfs of at most `size` bytes and `files` files at `path`; return the errno."""
    flags = Mount.NOSUID | Mount.NODEV
    return kernel.mount("tmpfs", path, "tmpfs", flags, f"size={size},nr_inodes={files},mode=700")


def leave_user_namespace(*, network: bool) -> int:
    """Enter a new user namespace, with `network` also a network namespace; return the errno.

    Afterwards no resource of the machine belongs to a namespace in which this process has rights.
    """
    uid, gid = os.getuid(), os.getgid()
    # The zygote hides its memory, and a hidden process can't write its own id maps.
    kernel.prctl(Prctl.SET_DUMPABLE, 1)
    fault = kernel.unshare(Clone.NEWUSER | (NETWORK_AND_IPC if network else 0))
    if not fault:
        map_ids(uid, gid)
        return 0
    return fault if network else 0
