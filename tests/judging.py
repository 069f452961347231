"""One real judge and one zygote a DSL for all modules: starting either means loading torch.

A plug-in of pytest for all folders, so it imports no torch before a test asks for it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from akg_tui.core.kernel.kernel_files import files_of
from akg_tui.core.measurement import Measurement
from akg_tui.core.task import Correctness, Dsl, Guard, Task, Timing
from akg_tui.dsl.adapters import DSLS
from akg_tui.evaluate import Judge
from akg_tui.evaluate.protocol.engine_protocol import Begin, Evaluate, encode
from akg_tui.evaluate.sandbox.protections import offered
from akg_tui.evaluate.targets import TARGETS
from tests.evaluate.kernels import REFERENCE

if TYPE_CHECKING:
    from akg_tui.evaluate.evaluation import Evaluations
    from akg_tui.evaluate.processes.worker import Zygote


AS_DRAWN = Correctness(trials=2, values="drawn", fixed_shape=True)
"""The rules of tests that are not about inputs: a kernel is called on few."""


def quick_task(correctness: Correctness | None = None, **timing: float) -> Task:
    """Return a task that is judged in as little time as can be."""
    limits = {"budget_s": 2.0, "call_timeout_s": 2.0, "build_timeout_s": 60.0} | timing
    # What these tests are about happens after the static guard.
    guard = Guard(level="warn")
    rules = correctness or Correctness(trials=2)
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
pid, control = fork_zygote("cpu", sys.argv[3], Path(sys.argv[2]), unneeded=handover)
socket.send_fds(handover, [b"forked"], [control.fileno()])
control.close()
os.waitpid(pid, 0)
"""


class Interrupted(Exception):
    """A message has come for the judge."""


@contextlib.contextmanager
def forked_zygote(home: Path, dsl: Dsl = "cpp") -> Iterator[tuple[Zygote, socket.socket]]:
    """Yield a zygote, and the socket on which any message interrupts the waits of its judge.

    Forked by a fresh process: pytest has threads, from which none may fork.
    """
    from akg_tui.evaluate.processes.worker import Interrupts, Zygote

    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            forking = subprocess.Popen(
                [sys.executable, "-c", FORKING, str(theirs.fileno()), str(home), dsl],
                env=TARGETS["cpu"].environment(1) | DSLS[dsl].environment("cpu"),
                pass_fds=[theirs.fileno()],
            )
        _, fds, _, _ = socket.recv_fds(ours, 16, 1)
    engine, judge = socket.socketpair()

    def check() -> None:
        judge.recv(1)
        raise Interrupted

    interrupts = Interrupts(judge.fileno(), check)
    zygote = Zygote(forking.pid, socket.socket(fileno=fds[0]), interrupts)
    with engine, judge:
        try:
            yield zygote, engine
        finally:
            zygote.close()
            forking.returncode = 0  # reaped by the zygote's close


@pytest.fixture(scope="session")
def interruptible_zygote(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Zygote, socket.socket]]:
    with forked_zygote(tmp_path_factory.mktemp("zygote")) as forked:
        yield forked


@pytest.fixture(scope="session")
def zygote(interruptible_zygote: tuple[Zygote, socket.socket]) -> Zygote:
    return interruptible_zygote[0]


Evaluated = Callable[..., Measurement]

KEPT = 8
"""So many references are kept examined."""


@pytest.fixture(scope="session")
def evaluated(zygote: Zygote, tmp_path_factory: pytest.TempPathFactory) -> Evaluated:
    return evaluating(zygote, tmp_path_factory)


@pytest.fixture(scope="session")
def evaluated_in_triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Evaluated]:
    with forked_zygote(tmp_path_factory.mktemp("triton"), "triton") as (zygote, _):
        yield evaluating(zygote, tmp_path_factory)


def evaluating(zygote: Zygote, tmp_path_factory: pytest.TempPathFactory) -> Evaluated:
    """Return what evaluates a task's kernels as a judge does, in this process.

    A reference is examined once, for all tests of a module that use it.
    """
    from akg_tui.evaluate.evaluation import Evaluations

    known: dict[bytes, Evaluations] = {}

    def evaluate(task: Task, reference: str, kernel: str, **options: Any) -> Measurement:
        name, incumbent = task.files.kernel, options.pop("incumbent", None)
        lease = options.pop("lease", None)
        begin = Begin(task=task, reference=reference, engine=os.getpid(), lease=lease)
        label, report = options.pop("label", ""), options.pop("report", lambda _: None)
        terms = encode(begin)
        shared = known.pop(terms, None)
        if shared is None:
            scratch = tmp_path_factory.mktemp("judge")
            shared = Evaluations(begin, scratch, zygote, offered())
        known[terms] = shared
        if len(known) > KEPT:  # each holds descriptors of its inputs
            del known[next(iter(known))]
        request = Evaluate(
            number=1,
            kernel=files_of(kernel, name),
            incumbent=None if incumbent is None else files_of(incumbent, name),
            label=label,
            **options,
        )
        try:
            return shared.run(request, report, time.monotonic())
        finally:
            shared.clean_up(keep=False)

    return evaluate


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def judge(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Judge]:
    async with Judge(quick_task(AS_DRAWN), REFERENCE, tmp_path_factory.mktemp("judge")) as running:
        yield running
