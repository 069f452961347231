"""The protections of the sandbox: names, purposes, and availability on this machine.

Tries them in a temporary process with the code that confines a kernel, so the result is valid for
an evaluation. Must never import torch.
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
from typing import NamedTuple

import msgspec
from msgspec import Struct

from akg_tui.evaluate.sandbox import confinement, namespaces, process_watch
from akg_tui.evaluate.sandbox.confinement import Tried

PROBE_S = 10.0


class Purpose(NamedTuple):
    """The effect of a protection on a kernel, as the end of a sentence about the kernel.

    Without a `vital` one `--require-sandbox` refuses; each of the others backs up a vital one.
    """

    about: str
    vital: bool = False


PROTECTIONS = {
    "landlock": Purpose("reads the system only, writes to its scratch folder only", vital=True),
    "seccomp": Purpose(
        "can't trace, mount, load modules, open sockets, or leave its process group", vital=True
    ),
    "netns": Purpose("has no network", vital=True),
    "pidns": Purpose("sees and signals no other process; all it started dies with it", vital=True),
    "no_capabilities": Purpose("has no rights of root", vital=True),
    "no_new_privs": Purpose("can't gain any, by setuid programs for instance", vital=True),
    "rlimits": Purpose("is bounded in memory, file size and open files", vital=True),
    "process_limit": Purpose("is bounded in processes and threads", vital=True),
    "hidden_memory": Purpose("can't be read or traced by others of its user"),
    "pdeathsig": Purpose("dies with the process that made it"),
    "session": Purpose("has a session and process group of its own"),
    "first_to_go": Purpose("is the first to be ended when the machine's memory is short"),
    "mountns": Purpose("has mounts of its own"),
    "read_only": Purpose("can't change modes, times and attributes of the user's files"),
    "own_proc": Purpose("sees no other process in /proc"),
    "private_folder": Purpose("writes to memory of bounded size, not to the disk"),
    "private_cache": Purpose("works on a copy of what it built, which goes with the process"),
    "landlock_scopes": Purpose("can't signal, or reach by abstract socket, what is outside"),
}
"""Every name that `confinement` reports, in the order in which they are listed."""


class Protection(Struct, frozen=True):
    """A protection by name; `why_not` is the reason if it does not hold."""

    name: str
    held: bool
    why_not: str = ""

    @property
    def vital(self) -> bool:
        """Whether `--require-sandbox` requires this protection."""
        return PROTECTIONS[self.name].vital

    @property
    def about(self) -> str:
        """The effect of the protection on a kernel."""
        return PROTECTIONS[self.name].about

    def __str__(self) -> str:
        return self.name if self.held else f"{self.name} ({self.why_not})"


def offered() -> tuple[Protection, ...]:
    """Return all protections, each with the reason if it does not hold on this machine."""
    return named(tried())


def tried() -> Tried:
    """Try every protection in a temporary process and return its report; takes milliseconds.

    Must be called while this process has a single thread, because a fork copies only one.
    """
    before = process_watch.children_of(os.getpid())
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    with tempfile.TemporaryDirectory(prefix="akg-probe-") as folder:
        for name in ("own", "cache"):
            Path(folder, name).mkdir()
        pid = os.fork()
        if pid == 0:
            _probe(folder, writing)
        os.close(writing)
        try:
            found = _read_result(reading)
        finally:
            os.close(reading)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            # This process may adopt orphans, and then has the children that the probe left.
            process_watch.end_orphans(before)
    return found


def named(found: Mapping[str, str]) -> tuple[Protection, ...]:
    """Return all protections, each with the reason in `found` if it does not hold."""
    return tuple(
        Protection(name, found.get(name) == "", found.get(name, "could not be tried"))
        for name in PROTECTIONS
    )


def missing(found: tuple[Protection, ...]) -> tuple[Protection, ...]:
    """Return the vital protections that do not hold."""
    return tuple(protection for protection in found if protection.vital and not protection.held)


def _read_result(reading: int) -> Tried:
    text = b""
    while select.select([reading], [], [], PROBE_S)[0]:
        data = os.read(reading, 1 << 16)
        if not data:
            break
        text += data
    try:
        return msgspec.json.decode(text, type=Tried)
    except msgspec.DecodeError:
        return {}


def _probe(folder: str, writing: int) -> None:
    """Fork and confine like zygote and child, and write the result; never return."""
    try:
        # The waiting process must not keep the pipe open.
        isolated = not namespaces.enter_pid_namespace(writing)
        parent = os.getpid()
        pid = namespaces.PidNamespaceForker().fork() if isolated else os.fork()
        if pid == 0:
            wanted = confinement.Confinement(
                folder=f"{folder}/own",
                covered=(f"{folder}/cache",),
                programs=confinement.SYSTEM,
                data=confinement.DATA,
                memory_bytes=4 << 30,
                own_pid_namespace=isolated,
            )
            os.write(writing, msgspec.json.encode(confinement.enter(wanted, parent=parent)))
        else:
            os.waitpid(pid, 0)
    finally:
        os._exit(0)
