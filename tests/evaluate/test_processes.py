"""Nothing outlives its evaluation: not a hang, not a cancellation, not the engine's death."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from akg_tui.core.kernel.kernel_files import files_of
from akg_tui.core.measurement import FailureKind, Measurement, Outcome, Progress, RaceOutcome
from akg_tui.core.task import Task
from akg_tui.evaluate import EvaluationCancelled, Judge
from akg_tui.evaluate import judge as judge_process
from akg_tui.evaluate.evaluation import Evaluations, stages_reached
from akg_tui.evaluate.judge_client import _stopping
from akg_tui.evaluate.processes import worker
from akg_tui.evaluate.processes.worker import Zygote
from akg_tui.evaluate.protocol import engine_protocol
from akg_tui.evaluate.protocol.engine_protocol import Begin, Cancel, Evaluate, Race, Step
from akg_tui.evaluate.sandbox import process_watch
from akg_tui.evaluate.sandbox.process_watch import ResourceLimits
from akg_tui.evaluate.sandbox.protections import offered
from akg_tui.evaluate.timing import TimingResult
from tests.evaluate.kernels import PLAIN, REFERENCE, kernel
from tests.judging import Evaluated, quick_task

DEADLINE_S = 30.0

DAEMON = """
def leave_daemon(name):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            ctypes.CDLL(None).prctl(15, name.encode(), 0, 0, 0)  # PR_SET_NAME
            while True:
                time.sleep(1000)
        os._exit(0)
"""


def hanging(name: str) -> str:
    """Return a kernel that detaches a process called `name`, and hangs."""
    return kernel(f"leave_daemon({name!r})", "time.sleep(1000)", before=DAEMON)


def tree(root: int) -> set[int]:
    """Return all descendants of a process."""
    parents = process_watch.parents()
    found = {root}
    while more := {p for p, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {root}


def await_end(pids: set[int]) -> None:
    """Return when all of these processes are gone; fail after a while."""
    for pid in pids:
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            assert select.select([fd], [], [], DEADLINE_S)[0], f"process {pid} lives on"
        finally:
            os.close(fd)


async def appears(root: int | Judge, name: str) -> int:
    """Return the id of the process called `name` below `root`, when it is there."""
    limit = time.monotonic() + DEADLINE_S
    while time.monotonic() < limit:
        above = root.pid if isinstance(root, Judge) else root
        for pid in tree(above) if above is not None else ():
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/comm").read_text().strip() == name:
                    return pid
        await asyncio.sleep(0.02)
    raise AssertionError(f"no process {name} appeared")


@pytest.fixture(scope="module")
def shared(zygote: Zygote, tmp_path_factory: pytest.TempPathFactory) -> Evaluations:
    begin = Begin(task=quick_task(), reference=REFERENCE, engine=os.getpid())
    return Evaluations(begin, tmp_path_factory.mktemp("judge"), zygote, offered())


def test_an_evaluation_that_was_given_up_tells_the_stages_that_it_reached() -> None:
    timing = TimingResult()
    told = stages_reached("verify", 31.2, 5, timing, 300)
    assert told == "built in 31 s, correct on 5 inputs, given up in verification after 300 s"
    timing.candidate_ms, timing.baseline_ms, timing.samples = 4.3, 1290.0, 2
    told = stages_reached("time", 31.2, 14, timing, 300)
    assert told == (
        "built in 31 s, correct on 14 inputs, about 300x by 2 calls, given up in timing after 300 s"
    )


@pytest.mark.parametrize(
    ("stage", "steps", "told"),
    [
        ("reference", 0, r"given up in the reference"),
        ("build", 0, r"given up in the build"),
        ("verify", 2, r"(built in \d+ s, )?correct on 2 inputs, given up in verification"),
        (
            "time",
            2,
            r"(built in \d+ s, )?correct on \d+ inputs, about [\d.]+x by \d+ calls, "
            r"given up in timing",
        ),
    ],
)
def test_a_time_out_in_each_stage_returns_what_was_reached(
    shared: Evaluations, stage: str, steps: int, told: str
) -> None:
    request = Evaluate(number=1, kernel=files_of(PLAIN, "kernel.py"), label="")

    def report(progress: Progress) -> None:
        if progress.stage == stage and progress.done >= steps:
            raise judge_process.GivenUp(300.0)

    with pytest.raises(judge_process.GivenUp):
        shared.run(request, report, time.monotonic())
    found = shared.given_up(300.0)
    shared.clean_up(keep=False)
    assert re.fullmatch(f"{told} after 300 s", found.message), found.message
    correct = stage == "time"
    assert found.outcome is (Outcome.CORRECT if correct else Outcome.FAILED)
    assert found.failure is (None if correct else FailureKind.TIMEOUT)
    assert (found.candidate_ms is not None) == correct


class Messages:
    """What an engine sent to a judge in this process, which answers it with what `does` returns."""

    def __init__(self, does: Callable[[Messages, Callable[[Progress], None]], RaceOutcome]) -> None:
        self.engine, theirs = socket.socketpair()
        self.engine.setblocking(False)
        self.channel, self._does, self.ended = judge_process.EngineChannel(theirs), does, 0

    def race(self, _: Race, report: Callable[[Progress], None]) -> RaceOutcome:
        return self._does(self, report)

    def clean_up(self, *, keep: bool) -> None:
        assert not keep
        self.engine.send(engine_protocol.encode(Cancel(1)))
        self.channel.interrupts.check_within(DEADLINE_S)
        self.ended += 1

    def answered(self) -> object:
        race = Race(number=1, kernels=(), within_s=1.0, label="")
        return judge_process._evaluate(self.channel, race, cast("Any", self))


def test_a_second_cancellation_does_not_end_the_clean_up_after_the_first() -> None:
    def is_cancelled(messages: Messages, report: Callable[[Progress], None]) -> RaceOutcome:
        messages.engine.send(engine_protocol.encode(Cancel(1)))
        report(Progress("time"))
        raise AssertionError

    messages = Messages(is_cancelled)
    assert messages.answered() is None
    assert messages.ended == 1


def test_a_wait_for_others_and_its_end_are_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge_process, "PROGRESS_INTERVAL_S", 1e12)

    def waits(_: Messages, report: Callable[[Progress], None]) -> RaceOutcome:
        for who in ("", "run 7", "", ""):
            report(Progress("time", 1, 2, waits_for=who))
        return RaceOutcome()

    messages = Messages(waits)
    assert messages.answered() == RaceOutcome()
    told = [
        engine_protocol.decode_for_engine(line) for line in messages.engine.recv(9_999).splitlines()
    ]
    assert [each.progress.waits_for for each in told if isinstance(each, Step)] == ["run 7", ""]


async def test_waits_for_others_extend_a_limit_also_those_that_are_not_told() -> None:
    async with asyncio.timeout(DEADLINE_S) as limit:
        until = limit.when()
        assert until is not None
        told = _stopping(limit, lambda _: None)
        told(Progress("time", waited_s=0.5))
        assert limit.when() == until + 0.5
        told(Progress("time", waits_for="run 7", waited_s=0.5))
        assert limit.when() is None
        told(Progress("time", waited_s=7.5))
        assert limit.when() == until + 7.5


def test_what_was_given_up_before_it_began_is_not_told_with_the_figures_of_the_last(
    shared: Evaluations,
) -> None:
    kernel = files_of("import torch", "kernel.py")
    request = Evaluate(number=1, kernel=kernel, label="", timed=False)
    shared.run(request, lambda _: None, time.monotonic())
    shared.clean_up(keep=False)
    messages = Messages(lambda *_: RaceOutcome())
    messages.engine.send(engine_protocol.encode(Cancel(1, 3.0)))
    messages.channel._read()
    found = judge_process._evaluate(messages.channel, request, shared)
    assert isinstance(found, Measurement)
    assert (found.failure, found.message) == (FailureKind.TIMEOUT, "given up after 3 s")


async def test_one_judge_survives_hangs_cancellations_and_its_own_death(tmp_path: Path) -> None:
    task = quick_task(call_timeout_s=1.0, build_timeout_s=2.0)
    async with Judge(task, REFERENCE, tmp_path / "scratch") as judge:
        first = judge.pid
        # Cancelled before it is ready: request and cancellation wait while it imports torch.
        withdrawn = asyncio.create_task(judge.evaluate(hanging("akg-daemon-0")))
        while judge._current is None:
            await asyncio.sleep(0)
        await judge.cancel()
        with pytest.raises(EvaluationCancelled):
            await withdrawn
        assert judge.pid == first
        assert first is not None
        found = await judge.evaluate(kernel("return x", before="time.sleep(1000)"))
        assert (found.outcome, found.failure) == (Outcome.FAILED, FailureKind.TIMEOUT), found
        assert "no answer after 2 s of loading; the limit is build_timeout_s" in found.message

        # A hang, with a process that has left its group and session.
        timed_out = asyncio.create_task(judge.evaluate(hanging("akg-daemon-1")))
        daemon = await appears(judge, "akg-daemon-1")
        assert (await timed_out).failure is FailureKind.TIMEOUT
        assert daemon not in process_watch.parents()

        # The task that awaits is cancelled: children gone, the same judge goes on.
        cancelled = asyncio.create_task(judge.evaluate(hanging("akg-daemon-2")))
        daemon = await appears(judge, "akg-daemon-2")
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert daemon not in process_watch.parents()
        assert judge.pid == first

        # So it is while kernels are built that come next.
        leaves = f"{DAEMON}leave_daemon('akg-daemon-6')\ntime.sleep(1000)"
        following = kernel("return x", before=leaves)
        cancelled = asyncio.create_task(judge.probe(f"{PLAIN}# one\n", ahead=[following]))
        daemon = await appears(judge, "akg-daemon-6")
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert daemon not in process_watch.parents()
        assert judge.pid == first

        # Given up after its time: told with the stage, and nothing is left of it.
        found = await judge.probe(hanging("akg-daemon-5"), limit_s=0.5)
        assert (found.outcome, found.failure) == (Outcome.FAILED, FailureKind.TIMEOUT)
        assert re.fullmatch(r"given up in the (reference|build) after 0.5 s", found.message)
        assert judge.pid == first

        # Cancelled from elsewhere.
        withdrawn = asyncio.create_task(judge.evaluate(hanging("akg-daemon-3")))
        daemon = await appears(judge, "akg-daemon-3")
        await judge.cancel()
        with pytest.raises(EvaluationCancelled):
            await withdrawn
        assert daemon not in process_watch.parents()
        assert len(process_watch.children_of(first)) == 1
        assert len(tree(first)) <= 2  # the zygote, and who stands by for it

        # The judge is killed: told, nothing left, and the next evaluation gets a new one.
        lost = asyncio.create_task(judge.evaluate(hanging("akg-daemon-5")))
        daemon = await appears(judge, "akg-daemon-5")
        running = tree(first)
        assert daemon in running
        os.kill(first, signal.SIGKILL)
        found = await lost
        assert (found.outcome, found.failure) == (Outcome.ERROR, FailureKind.JUDGE), found
        await asyncio.to_thread(await_end, running)
        # The task that awaits is cancelled before a judge is ready: nobody waits for the import.
        cancelled = asyncio.create_task(judge.evaluate(hanging("akg-daemon-0")))
        while judge._current is None:
            await asyncio.sleep(0)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert not judge._ready
        second = judge.pid
        assert second not in {None, first}
        assert second is not None
        found = await judge.probe(PLAIN, timed=False)
        assert found.outcome is Outcome.CORRECT, found
        assert judge.pid == second

        # The zygote is killed: told, and its orphans end with the judge.
        orphaned = asyncio.create_task(judge.evaluate(hanging("akg-daemon-4")))
        daemon = await appears(judge, "akg-daemon-4")
        running = {second} | tree(second)
        os.kill(process_watch.children_of(second)[0], signal.SIGKILL)
        found = await orphaned
        assert (found.outcome, found.failure) == (Outcome.ERROR, FailureKind.JUDGE), found
        await asyncio.to_thread(await_end, running)
        assert daemon not in process_watch.parents()


ENGINE = """
import asyncio, sys
from pathlib import Path
import msgspec
from akg_tui.core.task import Task
from akg_tui.evaluate import Judge

async def main():
    task, reference, scratch = msgspec.json.decode(sys.stdin.buffer.readline())
    task = msgspec.convert(task, Task)
    async with Judge(task, reference, Path(scratch), prefetch=False) as judge:
        print(judge.pid, flush=True)
        while line := await asyncio.to_thread(sys.stdin.buffer.readline):
            found = await judge.probe(msgspec.json.decode(line), samples=1)
            print(msgspec.json.encode(found).decode(), flush=True)

asyncio.run(main())
"""


class Engine:
    """An engine in a process of its own, whose judge looks at one kernel after the other."""

    def __init__(
        self, task: Task, reference: str, scratch: Path, *, below: Sequence[str] = ()
    ) -> None:
        self.process = subprocess.Popen(
            [*below, sys.executable, "-c", ENGINE],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.send((task, reference, str(scratch)))
        self.judge = int(self.answer())

    def send(self, what: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(msgspec.json.encode(what) + b"\n")
        self.process.stdin.flush()

    def answer(self) -> bytes:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def judged(self, kernel: str) -> Measurement:
        self.send(kernel)
        return msgspec.json.decode(self.answer(), type=Measurement)

    async def is_killed(self) -> None:
        """Kill it while a kernel hangs that has left a daemon; fail if a process is left."""
        self.send(hanging("akg-daemon-6"))
        daemon = await appears(self.process.pid, "akg-daemon-6")
        running = tree(self.process.pid)
        assert {daemon, self.judge} < running
        assert len(running) >= 4  # judge, zygote, kernel, daemon
        self.process.kill()
        self.process.communicate()
        await asyncio.to_thread(await_end, running)


async def test_a_killed_engine_leaves_no_process(tmp_path: Path) -> None:
    await Engine(quick_task(call_timeout_s=1000.0), REFERENCE, tmp_path / "s").is_killed()


async def test_a_judge_that_can_not_be_started_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    judge = Judge(quick_task(), REFERENCE, tmp_path / "file" / "scratch")
    await judge.prepare()
    found = await judge.evaluate(PLAIN)
    assert (found.outcome, found.failure) == (Outcome.ERROR, FailureKind.JUDGE), found
    assert "can't be started" in found.message
    await judge.close()


def disk_with(monkeypatch: pytest.MonkeyPatch, free: int, files: int = 1000) -> None:
    # Free space of a real disk moves with all that runs on the machine.
    left = types.SimpleNamespace(f_bavail=free, f_frsize=1, f_favail=files)
    monkeypatch.setattr(os, "statvfs", lambda _: left)


@pytest.fixture
def idle_process() -> Iterator[int]:
    """Return the id of a process without children; that of the tests has the warm judges'."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process.pid
        process.communicate(b"\n")


def test_a_process_is_ended_before_the_disk_is_full_whoever_filled_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, idle_process: int
) -> None:
    limits = ResourceLimits(64 << 30, (tmp_path,))
    disk_with(monkeypatch, 10 << 30)
    limits.begin(idle_process)
    disk_with(monkeypatch, 3 << 30)
    assert limits.excess() == ""
    disk_with(monkeypatch, 1 << 30)
    assert limits.excess().endswith("the disk lost 9.0 GiB and is nearly full")


def test_a_process_is_ended_when_it_makes_more_files_than_a_build_cache_may_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, idle_process: int
) -> None:
    monkeypatch.setattr(process_watch, "DISK_FILES", 8)
    limits = ResourceLimits(64 << 30, (tmp_path,))
    disk_with(monkeypatch, 10 << 30, files=1000)
    limits.begin(idle_process)
    for number in range(9):
        (tmp_path / str(number)).touch()
    assert limits.excess() == ""  # nothing is counted while the disk has room for as many
    disk_with(monkeypatch, 10 << 30, files=990)
    assert limits.excess() == "the process was ended: it made 9 files, more than 8"
    # Another program's files are not the kernel's.
    (tmp_path / "0").unlink()
    assert limits.excess() == ""


def test_a_kernel_whose_calls_all_end_just_in_time_does_not_hold_the_judge(
    evaluated: Evaluated,
) -> None:
    task = quick_task(verify_timeout_s=0.5)
    found = evaluated(task, REFERENCE, kernel("time.sleep(0.3)", "return torch.softmax(x, -1)"))
    assert (found.outcome, found.failure) == (Outcome.FAILED, FailureKind.TIMEOUT), found
    assert found.message.startswith("the calls of the verification took ")
    assert "the limit of all is 0.5 s, which is verify_timeout_s under [timing]" in found.message
    # On a busy machine each call waits for a CPU.
    ample = quick_task(verify_timeout_s=10.0)
    found = evaluated(ample, REFERENCE, kernel("return torch.softmax(x, -1)"), timed=False)
    assert found.outcome is Outcome.CORRECT, found


def test_the_wait_for_a_cpu_is_no_part_of_the_time_of_a_call(
    evaluated: Evaluated, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = quick_task(call_timeout_s=0.5)
    late = kernel("time.sleep(1.0)", "return x")
    # A machine without other work, whatever runs beside this test.
    monkeypatch.setattr(process_watch.ProcessWatch, "cpu_wait_ns", lambda _: 0)
    monkeypatch.setattr(worker, "PUNCTUAL_S", 1000.0)
    found = evaluated(task, REFERENCE, late)
    assert (found.outcome, found.failure) == (Outcome.FAILED, FailureKind.TIMEOUT), found

    # A busy machine, as the judge sees it: the child waits for a CPU most of the time.
    monkeypatch.setattr(
        process_watch.ProcessWatch, "cpu_wait_ns", lambda _: int(time.monotonic_ns() * 0.9)
    )
    found = evaluated(task, REFERENCE, late)
    assert (found.outcome, found.failure) == (Outcome.FAILED, FailureKind.WRONG), found
    found = evaluated(task, REFERENCE, kernel("time.sleep(1000)", "return x"))
    assert (found.outcome, found.failure) == (Outcome.FAILED, FailureKind.TIMEOUT), found
    assert found.message == "no answer after 0.5 s of being called"
