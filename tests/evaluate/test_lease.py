"""Only one judge at a time may time on a device of this machine, in slices, and in turns."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from akg_tui.core.measurement import Outcome, Progress
from akg_tui.core.task import Backend, Target, Task
from akg_tui.evaluate import EvaluationCancelled, Judge
from akg_tui.evaluate.targets.lease import (
    TOLD_S,
    Claim,
    Holder,
    Lease,
    Taken,
    claim,
    held_leases,
    lease_of,
)
from tests.evaluate.kernels import PLAIN, REFERENCE, kernel
from tests.judging import AS_DRAWN, Evaluated, quick_task

HOLD = """
import sys, time
from pathlib import Path
from akg_tui.evaluate.targets.lease import Claim, Lease
with Lease(Claim(sys.argv[1], "another run"), time.sleep).held():
    print("held", flush=True)
    sys.stdin.read()
"""


@contextlib.contextmanager
def another_holds(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process holds the lease, until it ends or its input is closed."""
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"held\n"
            yield process
        finally:
            process.kill()


def free(path: Path, *, wait: object = time.sleep, share: object = lambda _: None) -> Lease:
    return Lease(Claim(str(path), "this run"), wait, share)  # type: ignore[arg-type]


def test_a_kernel_is_verified_while_another_run_times_and_its_wait_is_told_and_measured(
    evaluated: Evaluated, tmp_path: Path
) -> None:
    path = tmp_path / "timing.lock"
    stages: list[str] = []
    with another_holds(path) as other:

        def report(progress: Progress) -> None:
            stages.append("wait" if progress.waits else progress.stage)
            if progress.waits:
                assert progress.told_by_message == "waits for the clock: another run"
                other.kill()

        mine = Claim(str(path), "this run")
        task = quick_task(AS_DRAWN, budget_s=0.3)
        found = evaluated(task, REFERENCE, PLAIN, lease=mine, report=report)
    assert found.outcome is Outcome.CORRECT, found
    assert found.ratio is not None
    assert stages.index("verify") < stages.index("wait") < len(stages) - 1
    assert found.waited_s >= TOLD_S
    assert found.elapsed_s >= found.waited_s
    assert held_leases() == {}


def test_a_run_that_timed_comes_after_one_that_waits(tmp_path: Path) -> None:
    path = tmp_path / "timing.lock"

    def refused(seconds: float) -> None:
        raise InterruptedError

    first = contextlib.ExitStack()
    first.enter_context(free(path).held())

    def other_waits(seconds: float) -> None:
        first.close()
        with pytest.raises(InterruptedError), free(path, wait=refused).held():
            pass

    with free(path, wait=other_waits).held():
        pass


def test_a_lease_is_free_again_after_its_block_and_a_wait_can_be_ended(tmp_path: Path) -> None:
    path = tmp_path / "timing.lock"

    def cancelled(seconds: float) -> None:
        raise InterruptedError

    with free(path).held(), pytest.raises(InterruptedError), free(path, wait=cancelled).held():
        pass
    with free(path, wait=cancelled).held(), Lease(None, cancelled).held():
        pass
    with free(Path("/dev/null/timing.lock"), wait=cancelled).held():
        pass


def test_who_yields_neither_waits_nor_lets_others_wait(tmp_path: Path) -> None:
    path = tmp_path / "timing.lock"

    def waits(seconds: float) -> None:
        raise AssertionError

    mine = free(path, wait=waits)
    mine.yields = True
    with mine.held():
        pass
    with free(path).held(), pytest.raises(Taken), mine.held():
        pass
    with Path(f"{path}.next").open("w") as turn:  # another run waits for its turn
        fcntl.flock(turn, fcntl.LOCK_EX)
        with pytest.raises(Taken), mine.held():
            pass
    with mine.held():
        pass


async def test_an_evaluation_that_yields_is_cancelled_while_another_run_times(
    tmp_path: Path,
) -> None:
    path = tmp_path / "timing.lock"
    mine = Claim(str(path), "this run")
    task = quick_task(AS_DRAWN, budget_s=0.3)
    async with Judge(task, REFERENCE, tmp_path / "scratch", lease=mine) as judge:
        judge.yields = True
        with another_holds(path), pytest.raises(EvaluationCancelled):
            await judge.evaluate(PLAIN)
        found = await judge.evaluate(PLAIN)
    assert found.outcome is Outcome.CORRECT
    assert found.ratio is not None


def test_who_holds_a_lease_is_told_while_its_process_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AKG_TUI_LEASES", str(tmp_path))
    mine = claim(Task(op="x"), "run 7", tmp_path / "7")
    assert mine is not None
    with Lease(mine, time.sleep).held():
        holder = held_leases()["cpu"]
        assert (holder.pid, holder.what, holder.folder) == (
            os.getpid(),
            "run 7",
            str(tmp_path / "7"),
        )
        assert abs(time.time() - holder.since) < 60
    assert held_leases() == {}
    with another_holds(Path(mine.path)) as other:
        assert held_leases()["cpu"].what == "another run"
        other.kill()
        other.wait()
        assert held_leases() == {}
    Path(mine.path).write_text("not a record")
    assert held_leases() == {}
    os.mkfifo(tmp_path / "timing-x.lock")
    assert held_leases() == {}, "a pipe is not read"
    with Lease(mine, time.sleep).held():
        assert set(held_leases()) == {"cpu"}
        monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
        assert held_leases() == {}, "another user's folder is not read"


def test_each_device_has_a_lease_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AKG_TUI_LEASES", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    cpu, cuda, npu = (lease_of(Task(op="x", target=Target(backend=b))) for b in get_args(Backend))
    assert (cpu.name, cuda.name) == ("timing-cpu.lock", "timing-cuda-0.lock")
    assert npu.name == "timing-ascend-0.lock"
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "5,6")
    task = Task(op="x", target=Target(backend="ascend"))
    assert [lease_of(task, at).name for at in (0, 1)] == [
        "timing-ascend-5.lock", "timing-ascend-6.lock",
    ]  # fmt: skip
    assert claim(task, "run 7") is not None
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AKG_TUI_LEASES", "here")
    assert lease_of(task).parent == tmp_path / "here"  # a judge works in another folder
    monkeypatch.setenv("AKG_TUI_LEASES", "/dev/null/leases")
    assert claim(task, "run 7") is None
    monkeypatch.delenv("AKG_TUI_LEASES")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # TMPDIR of one session
    assert lease_of(task).parent == Path(f"/tmp/akg-tui-{os.getuid()}")


def test_where_files_cannot_be_locked_there_is_no_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AKG_TUI_LEASES", str(tmp_path))

    def refused(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refused)
    assert claim(Task(op="x"), "run 7") is None


def test_a_killed_holder_keeps_the_lease_until_who_shares_it_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "timing.lock"
    shares = []
    with free(path, share=lambda lock: shares.append(os.dup(lock))).held():
        left = path.read_bytes()
    with free(path).held():  # whoever releases it does so for all
        pass
    fcntl.flock(shares[0], fcntl.LOCK_EX)
    path.write_bytes(left + b" of a longer name" * 9)
    looks: list[float] = []

    def wait(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 3:
            os.close(shares[0])

    with free(path, wait=wait).held():
        assert msgspec.json.decode(path.read_bytes(), type=Holder).what == "this run"
    assert len(looks) == 3


def processes() -> dict[int, tuple[int, str]]:
    """The living processes, each with its parent and its start."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            if fields[0] not in "ZX":
                found[int(path.parent.name)] = int(fields[1]), fields[19]
    return found


def test_the_lease_of_a_killed_eval_is_free_when_no_kernel_of_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AKG_TUI_LEASES", str(tmp_path))
    (tmp_path / "task.toml").write_text(
        'op = "x"\n[target]\ndsl = "torch"\n[guard]\nlevel = "warn"\n'
    )
    (tmp_path / "reference.py").write_text(REFERENCE)
    (tmp_path / "kernel.py").write_text(kernel("time.sleep(0.02)", "return torch.softmax(x, -1)"))
    command = [sys.executable, "-m", "akg_tui", "eval", str(tmp_path)]
    with subprocess.Popen(command) as process:
        holder = None
        while holder is None or held_leases().get("cpu") != holder:  # stopped within a slice
            if holder is not None:
                os.kill(holder.pid, signal.SIGCONT)
            while (holder := held_leases().get("cpu")) is None:
                assert process.poll() is None
                time.sleep(0.01)
            os.kill(holder.pid, signal.SIGSTOP)
            while " T " not in Path(f"/proc/{holder.pid}/stat").read_text():
                time.sleep(0.001)
        living = processes()
        family = {holder.pid}
        for _ in range(9):
            family |= {pid for pid, (parent, _) in living.items() if parent in family}
        process.kill()
        mine, killed = free(lease_of(Task(op="x"))), time.monotonic()
        with mine.held():
            assert time.monotonic() - killed < 10
            left = {pid for pid, of in processes().items() if living.get(pid) == of}
            assert not family & left
    assert len(family) >= 4
