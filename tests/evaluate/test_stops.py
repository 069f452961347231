"""A process is stopped when all its threads and all that it has started are."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from akg_tui.evaluate.sandbox import process_watch
from akg_tui.evaluate.sandbox.process_watch import ProcessWatch

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


# A process with one thread, and nothing beside it.
ALONE = """
import os
print(os.getpid(), flush=True)
while True: pass
"""


BEGINS_LATER = """
import sys, threading
def work():
    print(flush=True)
    while True: pass
print(flush=True)
sys.stdin.readline()
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""


@pytest.fixture(params=[BUSY, ALONE], ids=["with others", "alone"])
def busy(request: pytest.FixtureRequest) -> Iterator[int]:
    command = [sys.executable, "-c", request.param]
    count = 2 if request.param == BUSY else 1
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        try:
            pids = {int(process.stdout.readline()) for _ in range(count)}
            os.killpg(process.pid, signal.SIGSTOP)
            assert set(_stopped(process.pid)) == pids
            yield process.pid
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def _stopped(pid: int) -> list[int]:
    limit = time.monotonic() + DEADLINE_S
    while not (found := process_watch.stopped(pid)):
        assert time.monotonic() < limit, "it does not stop"
        os.sched_yield()
    return found


def test_a_process_that_was_stopped_is_still_until_it_is_woken(busy: int) -> None:
    with contextlib.closing(ProcessWatch(busy)) as watch:
        for _ in range(200):
            assert watch.stopped() == process_watch.stopped(busy)
            os.killpg(busy, signal.SIGCONT)
            assert not process_watch.stopped(busy)
            assert not watch.stopped()
            os.killpg(busy, signal.SIGSTOP)
            _stopped(busy)


def test_what_is_gone_stands_still() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    watch = ProcessWatch(process.pid)
    assert watch.stopped() == process_watch.stopped(process.pid) == [process.pid]


def test_a_thread_that_begins_while_it_runs_is_seen_at_the_next_stop() -> None:
    command = [sys.executable, "-c", BEGINS_LATER]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        os.killpg(process.pid, signal.SIGSTOP)
        _stopped(process.pid)
        watch = ProcessWatch(process.pid)
        with contextlib.closing(watch):
            assert watch.stopped() == [process.pid]
            os.killpg(process.pid, signal.SIGCONT)
            process.stdin.write(b"\n")
            process.stdin.flush()
            process.stdout.readline()
            # Its first thread waits for ever; the second, which works, is the one that is seen.
            assert not watch.stopped()
            os.killpg(process.pid, signal.SIGSTOP)
            _stopped(process.pid)
            assert watch.stopped() == [process.pid]
            process.kill()
            process.wait()
            assert watch.stopped() == [process.pid]
        assert not watch._files
