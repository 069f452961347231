"""One real judge for each module: starting one means loading torch."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from akg_tui.core.task import Correctness, Guard, Task, Timing
from akg_tui.evaluate import Judge
from akg_tui.evaluate.processes.worker import Interrupts, Zygote
from akg_tui.evaluate.targets import TARGETS
from tests.evaluate.kernels import REFERENCE


def quick_task(**timing: float) -> Task:
    """Return a task that is judged in as little time as can be."""
    limits = {"budget_s": 2.0, "call_timeout_s": 2.0, "build_timeout_s": 60.0} | timing
    # What these tests are about happens after the static guard.
    guard = Guard(level="warn")
    rules = Correctness(trials=2)
    return Task(op="softmax", correctness=rules, guard=guard, timing=Timing(**limits))


def is_running(pid: int) -> bool:
    """Say whether there is such a process, and it has not ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


FORKING = """
import os, socket, sys
from pathlib import Path
from akg_tui.evaluate.child.zygote import fork_zygote
handover = socket.socket(fileno=int(sys.argv[1]))
pid, control = fork_zygote("cpu", "cpp", Path(sys.argv[2]), unneeded=handover)
socket.send_fds(handover, [b"forked"], [control.fileno()])
control.close()
os.waitpid(pid, 0)
"""


@contextlib.contextmanager
def forked_zygote(home: Path, interrupts: Interrupts) -> Iterator[Zygote]:
    """Yield a zygote forked by a fresh process: pytest has threads, from which none may fork."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            forking = subprocess.Popen(
                [sys.executable, "-c", FORKING, str(theirs.fileno()), str(home)],
                env=TARGETS["cpu"].environment(1),
                pass_fds=[theirs.fileno()],
            )
        _, fds, _, _ = socket.recv_fds(ours, 16, 1)
    zygote = Zygote(forking.pid, socket.socket(fileno=fds[0]), interrupts)
    try:
        yield zygote
    finally:
        zygote.close()
        forking.returncode = 0  # reaped by the zygote's close


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def judge(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Judge]:
    folder: Path = tmp_path_factory.mktemp("judge")
    async with Judge(quick_task(), REFERENCE, folder) as running:
        yield running
