"""A hostile kernel gains nothing, ends with a verdict, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import platform
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Set
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
from msgspec.structs import replace

import akg_tui
from akg_tui.core.measurement import Outcome
from akg_tui.core.task import Sandbox
from akg_tui.evaluate import EvaluationCancelled, Judge
from akg_tui.evaluate.sandbox import process_watch
from akg_tui.evaluate.sandbox.seccomp import REFUSED
from benchmarks.judge.ordinary.lasting import KEEPS
from tests.evaluate.attacks import (
    ALONE,
    BREACHES,
    GROUPS,
    SPOILER,
    WAITS,
    WHOLE,
    Attack,
    Breach,
    source_of,
)
from tests.evaluate.kernels import PLAIN, REFERENCE, SLOW, kernel
from tests.evaluate.test_build_cache import AT_LOAD, TOO_MUCH
from tests.evaluate.test_processes import Engine, appears, tree
from tests.judging import AS_DRAWN, is_running, quick_task

pytestmark = pytest.mark.asyncio(loop_scope="module")

WEIGHTED = REFERENCE.replace(
    "    def forward(self, x):\n        return torch.softmax(x, dim=-1)",
    "    def __init__(self):\n        super().__init__()\n"
    "        self.register_buffer('w', torch.ones(256))\n\n"
    "    def forward(self, x):\n        return torch.softmax(x, dim=-1) * self.w",
)
"""A reference with a buffer, which is given to kernels; without it the result is the same."""

LIMIT_S = 60.0
"""For one verdict: well above the time limits of the task, well below for ever."""


@dataclass
class World:
    """What is around a kernel: a judge, a user's files, other processes."""

    judge: Judge
    folder: Path
    known: dict[str, object]
    held: frozenset[str]

    def digest(self) -> str:
        """Return a digest of every file outside the judge's scratch."""
        found = hashlib.sha256()
        for path in sorted(self.folder.rglob("*")):
            if "scratch" in path.parts or not path.is_file():
                continue
            found.update(f"{path} {path.stat().st_mode} {path.stat().st_mtime}".encode())
            found.update(path.read_bytes())
        return found.hexdigest()


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, object]]:
    """A home with a key, a run folder, a socket that listens, a process of the user's."""
    folder = tmp_path_factory.mktemp("world")
    for name in ("home", "task", "run/history.git", "other run/history.git"):
        (folder / name).mkdir(parents=True)
    (folder / "home/id_ed25519").write_text("the user's key")
    (folder / "task/reference.py").write_text(REFERENCE)
    (folder / "task/task.toml").write_text('op = "softmax"')
    for run in ("run", "other run"):
        (folder / run / "events.jsonl").write_text("the journal")
    shm = Path(f"/dev/shm/akg-others-{os.getpid()}")
    shm.write_text("another's")
    victim = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    abstract = f"akg-test-{os.getpid()}"
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_UNIX) as agent,
        socket.socket(socket.AF_UNIX) as hidden,
    ):
        agent.bind(str(folder / "home/agent"))
        agent.listen()
        hidden.bind("\0" + abstract)
        hidden.listen()
        yield {
            "folder": folder, "home": folder / "home", "task": folder / "task",
            "run": folder / "run", "shm": shm.name, "abstract": abstract,
            "port": tcp.getsockname()[1], "victim": victim.pid, "engine": os.getpid(),
            "package": Path(akg_tui.__file__).parent,
        }  # fmt: skip
    assert victim.poll() is None, "a kernel killed another process"
    victim.kill()
    victim.wait()
    assert shm.read_text() == "another's"
    shm.unlink()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(outside: dict[str, object]) -> AsyncIterator[World]:
    os.environ["ANTHROPIC_API_KEY"] = "sk-stolen"
    folder = Path(str(outside["folder"]))
    task = replace(
        quick_task(AS_DRAWN, call_timeout_s=1.0, build_timeout_s=20.0),
        sandbox=Sandbox(memory_gb=1.25),
    )
    arm = platform.machine() != "x86_64"
    numbers = {
        "clone": (56, 220)[arm],
        "init_module": (175, 105)[arm],
        "bpf": REFUSED["bpf"][arm],
        "perf": REFUSED["perf_event_open"][arm],
        "keyctl": REFUSED["keyctl"][arm],
        "userfaultfd": REFUSED["userfaultfd"][arm],
        "timer_create": REFUSED["timer_create"][arm],
        "mq_notify": REFUSED["mq_notify"][arm],
        "io_setup": REFUSED["io_setup"][arm],
    }
    try:
        # Whatever waits for the next kernel would hide what this one left.
        async with Judge(task, WEIGHTED, folder / "run/scratch", prefetch=False) as judge:
            # The judge opens a file of its own when it times its first call, and keeps it open.
            assert (await judge.probe(PLAIN, samples=1)).outcome is Outcome.CORRECT
            first = await judge.evaluate(kernel("raise ValueError"))
            known = outside | numbers | {"judge": judge.pid}
            yield World(judge, folder, known, frozenset(first.sandbox))
            running = {judge.pid} | tree(judge.pid or 0)
        assert not running & process_watch.parents().keys(), "a process outlives its judge"
    finally:
        del os.environ["ANTHROPIC_API_KEY"]


@pytest.fixture(autouse=True)
def nothing_changes(world: World) -> Iterator[None]:
    """Around every attack: the same judge, files and shared memory, and nothing left running."""
    pid, digest = world.judge.pid, world.digest()
    assert pid is not None
    with _nothing_left_below(pid):
        yield
        assert world.judge.pid == pid, "the judge was lost"
    assert world.digest() == digest, "a file of the user's changed"
    assert not Path("/dev/shm/akg-left").exists()


@contextlib.contextmanager
def _nothing_left_below(judge: int) -> Iterator[None]:
    descriptors = _descriptors(judge)
    yield
    assert is_running(judge)
    assert len(tree(judge)) <= 2, "a process was left behind"  # the zygote, and who stands by
    assert _descriptors(judge) == descriptors, "the judge leaks descriptors"


def _descriptors(pid: int | None) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def _with_a_wall(held: Set[str], attacks: list[Attack]) -> list[Attack]:
    """Return those that are held here: others would do as root what they only try."""
    return [each for each in attacks if not each.needs or held & {*each.needs}]


@pytest.mark.parametrize("group", GROUPS)
async def test_attacks_gain_nothing(world: World, group: str) -> None:
    attacks = [each for each in _with_a_wall(world.held, GROUPS[group]) if not each.ended]
    if not attacks:
        pytest.skip("this kernel offers no wall against any of these")
    found = await world.judge.evaluate(source_of(attacks, world.known))
    assert found.outcome is Outcome.FAILED, found
    assert "HELD" in found.message, found


@pytest.mark.parametrize("attack", ALONE, ids=lambda attack: attack.name)
async def test_an_attack_that_may_end_the_process_gains_nothing(
    world: World, attack: Attack
) -> None:
    if not _with_a_wall(world.held, [attack]):
        pytest.skip(f"this kernel offers none of: {', '.join(attack.needs)}")
    began = time.monotonic()
    found = await world.judge.evaluate(source_of([attack], world.known))
    assert time.monotonic() - began < LIMIT_S
    assert found.outcome is Outcome.FAILED, found
    told = "system call that no kernel needs" if attack.ended else "HELD"
    assert told in found.message, found


@pytest.mark.parametrize("breach", BREACHES, ids=lambda breach: breach.name)
async def test_a_breach_of_the_protocol_ends_with_a_verdict(world: World, breach: Breach) -> None:
    began = time.monotonic()
    found = await world.judge.evaluate(kernel(*breach.lines, before=breach.before))
    assert time.monotonic() - began < LIMIT_S
    assert found.outcome is Outcome.FAILED, found
    assert str(found.failure) in breach.kinds, found.message
    assert breach.says in found.message, found
    assert len(found.message) <= 400
    assert len(found.detail) <= 20_000


async def test_the_wait_for_one_that_never_stops_can_be_cancelled(world: World) -> None:
    named = 'ctypes.CDLL(None).prctl(15, b"akg-waits", 0, 0, 0)'  # PR_SET_NAME
    waiting = kernel(named, "return torch.softmax(x, dim=-1)", before=WAITS)
    withdrawn = asyncio.create_task(world.judge.evaluate(waiting))
    await appears(world.judge, "akg-waits")
    await world.judge.cancel()
    with pytest.raises(EvaluationCancelled):
        await withdrawn


NETWORK_AND_IPC = """
reading, writing = os.pipe()
helper = os.fork()
if helper == 0:
    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
    os.write(writing, b"x")
    time.sleep(1000)
os.read(reading, 1)

def elsewhere():
    own = os.sched_getaffinity(0)
    tasks = [int(t) for pid in (os.getpid(), helper) for t in os.listdir(f"/proc/{pid}/task")]
    timed = torch.get_num_threads() == 1 and len(own) == 1  # with two, a race is looked for
    return timed and [task for task in tasks if os.sched_getaffinity(task) != own]
"""


async def test_what_a_kernel_has_started_is_held_to_its_processors_too(world: World) -> None:
    lines = ("if elsewhere(): raise ValueError(elsewhere())", "return torch.softmax(x, dim=-1)")
    found = await world.judge.probe(kernel(*lines, before=NETWORK_AND_IPC), samples=1)
    assert found.outcome is Outcome.CORRECT, found
    assert found.ratio is not None


async def test_what_a_kernel_spoils_is_whole_for_the_next(world: World) -> None:
    assert (await world.judge.evaluate(kernel("return x", before=SPOILER))).failure == "wrong"
    honest = WEIGHTED.replace("class Model(", WHOLE + "\nclass ModelNew(")
    found = await world.judge.probe("import os, sys\n" + honest, samples=1)
    assert found.outcome is Outcome.CORRECT, found


async def test_an_honest_kernel_is_right_after_all_that(world: World) -> None:
    found = await world.judge.evaluate(PLAIN, SLOW)
    assert found.outcome is Outcome.CORRECT, found
    assert found.ratio is not None
    assert found.ratio.low > 1


async def test_without_namespaces_the_other_walls_hold(world: World) -> None:
    if platform.machine() not in {"x86_64", "aarch64"}:
        pytest.skip("the weaker kernel is made for other machines")
    run = world.folder / "other run"
    task = quick_task(AS_DRAWN, call_timeout_s=1000.0, build_timeout_s=20.0)
    below = (sys.executable, "-m", "tests.evaluate.weaker", "namespaces", "--")
    engine = Engine(task, WEIGHTED, run / "scratch", below=below)
    # It is built once, in a folder that is copied here.
    found = engine.judged(AT_LOAD)
    assert found.outcome is Outcome.CORRECT, found
    assert found.clusters > 1
    held = {*found.sandbox}
    assert not held & {"pidns", "netns"}
    known = world.known | {"judge": engine.judge, "engine": engine.process.pid, "run": run}
    for group in GROUPS.values():
        attacks = [each for each in _with_a_wall(held, group) if not each.ended]
        with _nothing_left_below(engine.judge):
            found = engine.judged(source_of(attacks, known))
        assert found.outcome is Outcome.FAILED, found
        assert "HELD" in found.message, found
    if "landlock" in held:  # else it would leave files on this machine
        found = engine.judged(KEEPS)
        assert found.outcome is Outcome.CORRECT, found
        assert found.clusters > 1
    found = engine.judged(TOO_MUCH)
    assert "more in its build cache than is kept" in found.message, found
    await engine.is_killed()
