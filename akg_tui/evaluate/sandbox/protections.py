"""Which protections this machine's kernel offers to the processes that run kernels.

Finds out by trying, in a throwaway process, with the very code that confines a kernel: so
the answer is what an evaluation will get. Never imports torch.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from akg_tui.evaluate.processes import process_tree
from akg_tui.evaluate.sandbox import confinement, namespaces

TRIAL_S = 10.0

ABOUT = {
    "landlock": "reads the system only, writes to its scratch folder only",
    "seccomp": "can't trace, mount, load modules, open sockets, or leave its process group",
    "netns": "has no network",
    "pidns": "sees and signals no other process; all it started dies with it",
    "no_capabilities": "has no rights of root",
    "no_new_privs": "can't gain any, by setuid programs for instance",
    "rlimits": "is bounded in memory, file size and open files",
    "process_limit": "is bounded in processes and threads",
    "hidden_memory": "can't be read or traced by others of its user",
    "pdeathsig": "dies with the process that made it",
    "session": "has a session and process group of its own",
    "first_to_go": "is the first to be ended when the machine's memory is short",
    "mountns": "has mounts of its own",
    "read_only": "can't change modes, times and attributes of the user's files",
    "own_proc": "sees no other process in /proc",
    "private_folder": "writes to memory of bounded size, not to the disk",
    "private_cache": "works on a copy of what it built, which goes with the process",
    "landlock_scopes": "can't signal, or reach by abstract socket, what is outside",
}
"""Every protection, and what a kernel then can or can't do."""

VITAL = (
    "landlock", "seccomp", "netns", "pidns", "no_capabilities", "no_new_privs", "rlimits",
    "process_limit",
)  # fmt: skip
"""Without these `--require-sandbox` refuses; each of the others backs up one of them."""


class Protection(Struct, frozen=True):
    """A protection by name; `why_not` says why it does not hold."""

    name: str
    held: bool
    why_not: str = ""

    @property
    def vital(self) -> bool:
        """Whether `--require-sandbox` insists on it."""
        return self.name in VITAL

    @property
    def about(self) -> str:
        """What it keeps a kernel from."""
        return ABOUT[self.name]

    def __str__(self) -> str:
        return self.name if self.held else f"{self.name} ({self.why_not})"


def offered() -> tuple[Protection, ...]:
    """Try every protection in a throwaway process and return what held; takes milliseconds.

    Must be called while this process has a single thread, as after a fork only that goes on.
    """
    before = process_tree.children_of(os.getpid())
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    with tempfile.TemporaryDirectory(prefix="akg-probe-") as folder:
        for name in ("own", "cache"):
            Path(folder, name).mkdir()
        pid = os.fork()
        if pid == 0:
            _try_out(folder, writing)
        os.close(writing)
        try:
            found = _heard(reading)
        finally:
            os.close(reading)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            # Killed before it had seen its own child end, which is ours then if we adopt orphans.
            process_tree.end_orphans(before)
    return named(found)


def named(tried: Mapping[str, str]) -> tuple[Protection, ...]:
    """Return all protections, as far as `tried` says that they hold."""
    return tuple(
        Protection(name, tried.get(name) == "", tried.get(name, "could not be tried"))
        for name in ABOUT
    )


def missing(found: tuple[Protection, ...]) -> tuple[Protection, ...]:
    """Return the vital protections that do not hold."""
    return tuple(protection for protection in found if protection.vital and not protection.held)


def _heard(reading: int) -> dict[str, str]:
    text = b""
    while select.select([reading], [], [], TRIAL_S)[0]:
        data = os.read(reading, 1 << 16)
        if not data:
            break
        text += data
    try:
        return msgspec.json.decode(text, type=dict[str, str])
    except msgspec.DecodeError:
        return {}


def _try_out(folder: str, writing: int) -> None:
    """Play zygote and child in one go; never returns."""
    try:
        # Whoever is left standing by must not hold the pipe open.
        apart = not namespaces.keep_apart(writing)
        parent = os.getpid()
        pid = namespaces.OwnProcesses().fork() if apart else os.fork()
        if pid == 0:
            wanted = confinement.Confinement(
                folder=f"{folder}/own",
                covered=(f"{folder}/cache",),
                programs=confinement.SYSTEM,
                data=confinement.data(),
                memory_bytes=4 << 30,
                own_processes=apart,
            )
            tried = confinement.enter(wanted, parent=parent)
            os.write(writing, msgspec.json.encode(tried))
        else:
            os.waitpid(pid, 0)
    finally:
        os._exit(0)
