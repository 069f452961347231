"""A process that runs while it should stand still is told by its clock, whatever woke it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from akg_tui.evaluate import process_tree
from akg_tui.evaluate.patience import worked_ns
from akg_tui.evaluate.stillness import ALLOWED_NS, RUNS, Stillness

DEADLINE_S = 30.0

# A process with a thread and a helper of its own, all at work.
BUSY = """
import os, threading
def work():
    while True: pass
helper = os.fork()
os.write(1, b"%d\\n" % os.getpid())
threading.Thread(target=work, daemon=True).start()
work()
"""


@pytest.fixture
def busy() -> Iterator[int]:
    command = [sys.executable, "-c", BUSY]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        try:
            pids = {int(process.stdout.readline()) for _ in range(2)}
            os.killpg(process.pid, signal.SIGSTOP)
            assert set(_stopped(process.pid)) == pids
            yield process.pid
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def _stopped(pid: int) -> list[int]:
    limit = time.monotonic() + DEADLINE_S
    while not (found := process_tree.stopped(pid)):
        assert time.monotonic() < limit, "it does not stop"
        os.sched_yield()
    return found


def _works(pid: int, for_ns: int) -> None:
    before, limit = worked_ns(pid) or 0, time.monotonic() + DEADLINE_S
    while (worked_ns(pid) or 0) - before < for_ns:
        assert time.monotonic() < limit, "it does not work"
        os.sched_yield()


def test_a_process_that_was_stopped_is_still_until_it_is_woken(busy: int) -> None:
    stillness = Stillness()
    for _ in range(200):
        stillness.begin(process_tree.stopped(busy))
        assert not stillness.broken()
        os.killpg(busy, signal.SIGCONT)
        assert not process_tree.stopped(busy)
        os.killpg(busy, signal.SIGSTOP)
        _stopped(busy)


def test_whichever_process_runs_in_its_stops_it_is_told_though_it_was_stopped_again(
    busy: int,
) -> None:
    for woken in process_tree.stopped(busy):
        stillness, found = Stillness(), []
        for _ in range(RUNS):
            stillness.begin(process_tree.stopped(busy))
            os.kill(woken, signal.SIGCONT)
            _works(woken, 2 * ALLOWED_NS)
            os.kill(woken, signal.SIGSTOP)
            _stopped(busy)
            found.append(stillness.broken())
        assert found == [False] * (RUNS - 1) + [True]


def test_what_is_gone_stands_still() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    stillness = Stillness()
    stillness.begin([process.pid])
    assert not stillness.broken()
    assert process_tree.stopped(process.pid) == [process.pid]
