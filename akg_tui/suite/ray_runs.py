"""Runs of a suite on a Ray cluster: one actor a run, with the resources that its task needs.

Ray places the actors, starts a lost one again on another node, and calls it again. This
module says what the call does: it gets the run from the keeper (an actor on the suite's machine,
which has what came back so far), resumes the run, and sends back each new part. No other module but
`ray_fleet` imports Ray.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from akg_tui.agent.models.endpoint import KEY_VARIABLES
from akg_tui.core.sanitize import strip_to_line
from akg_tui.core.task import SWEEP, Act, Task
from akg_tui.engine.run_service import engine_for, is_own_server, resume
from akg_tui.store.errors import RunLocked
from akg_tui.store.lock import RunLock
from akg_tui.store.run_folder import RunFolder
from akg_tui.suite.ray_fleet import join, state_folder
from akg_tui.suite.run_copy import Sender, received, take_in
from akg_tui.suite.suite_record import Entry, SuiteAtWork
from akg_tui.suite.suite_run import (
    News,
    Outside,
    Refused,
    Tell,
    faults_sorted,
    open_run,
    run_to_end,
)
from akg_tui.suite.task_list import Resources

if TYPE_CHECKING:
    from akg_tui.core.state import RunState

SEND_S = 0.5
RESTARTS = 5
"""How often Ray starts the actor of a run again after its node or process was lost."""

LOOK_S = 1.0
"""The time between two looks where a run is."""

LOCKED_S = 60.0


class Keeper:
    """Keeps the copies of the runs, on the machine that has the suite's folder.

    Each call of a run's actor begins with `open`, which gives it the copy and a number; what comes
    with an older number is refused: it is from an actor that was given up.
    """

    def __init__(self) -> None:
        self._locks: dict[str, RunLock] = {}
        self._numbers: dict[str, int] = {}
        self._places: dict[str, tuple[str, str]] = {}
        self._open: set[str] = set()

    def open(self, run: str, node: str, host: str) -> tuple[int, bytes]:
        """Return the number of this call and the copy of the run so far."""
        if run not in self._locks:
            self._locks[run] = RunLock.acquire(Path(run))
        number = self._numbers[run] = self._numbers.get(run, 0) + 1
        self._places[run] = node, host
        self._open.add(run)
        return number, msgspec.msgpack.encode(Sender(Path(run), whole=True).parcel())

    def take(self, run: str, number: int, parcel: bytes) -> bool:
        """Add what came; return False if another call has taken the run over."""
        if run not in self._open or number != self._numbers[run]:
            return False
        take_in(Path(run), received(parcel))
        return True

    def place(self, run: str) -> tuple[int, str, str]:
        """Return how often the run was begun or resumed, its node now, and that one's host."""
        return self._numbers.get(run, 0), *self._places.get(run, ("", ""))

    def close(self, run: str) -> None:
        """Release the lock of a run, and take no more of it."""
        if lock := self._locks.pop(run, None):
            lock.release()
        self._open.discard(run)


class RunActor:
    """One run at work on a node of the cluster.

    It has no coroutine of its own: Ray would run it on a thread, and a judge ends with the thread
    that has started it.
    """

    def __init__(self, secrets: Mapping[str, str]) -> None:
        os.environ.update(secrets)

    def work(self, run: str, keeper: Any, allowed: frozenset[Act]) -> tuple[str, str]:
        """Bring a run to its end; return `over`, `refused` or `outside`, and why.

        `allowed` is what the user of the suite's machine allows the run.
        """
        import ray

        return asyncio.run(worked(run, keeper, ray.get_runtime_context().get_node_id(), allowed))


async def worked(
    run: str, keeper: Any, node: str, allowed: frozenset[Act] = frozenset()
) -> tuple[str, str]:
    """Resume a run from the keeper's copy, and send back what is new; see `RunActor.work`."""
    number, copy = await keeper.open.remote(run, node, platform.node())
    with tempfile.TemporaryDirectory(prefix="akg-suite-") as scratch:
        here = Path(scratch) / Path(run).name
        take_in(here, received(copy))
        done = asyncio.Event()
        sending = asyncio.create_task(
            _send(Sender(here, whole=False), partial(keeper.take.remote, run, number), done)
        )
        try:
            with faults_sorted():
                engine = engine_for(resume(here, allowed=allowed), "cli")
            work = asyncio.create_task(run_to_end(engine))
            sending.add_done_callback(lambda _: work.cancel())  # what is not kept is in vain
            await work
        except Refused as refused:
            return "refused", str(refused)
        except Outside as outside:
            return "outside", str(outside)
        finally:
            done.set()
            await sending
    return "over", ""


async def _send(
    sender: Sender, take: Callable[[bytes], Awaitable[bool]], done: asyncio.Event
) -> None:
    """Send what is new every `SEND_S` seconds, and what is left when the work is done."""
    last = False
    while not last:
        last = done.is_set()
        parcel = sender.parcel()
        if not parcel.empty and not await take(msgspec.msgpack.encode(parcel)):
            os._exit(1)  # another call has taken the run over: this one must not go on
        if not last:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SEND_S):
                    await done.wait()


class RayCluster:
    """A cluster that this process has joined, for the runs of one suite."""

    def __init__(self, address: str) -> None:
        """Join the cluster at an address (`ray_fleet.join`). Raises `FleetFault`."""
        self._ray = ray = join(address, state_folder())
        here = ray.get_runtime_context().get_node_id()
        on_this_machine = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            here, soft=False
        )
        keeper = ray.remote(Keeper).options(num_cpus=0, scheduling_strategy=on_this_machine)
        self._keeper = keeper.remote()

    def close(self) -> None:
        """Leave the cluster; its actors of this suite end."""
        self._ray.shutdown()

    async def work(self, suite: SuiteAtWork, entry: Entry, tell: Tell) -> RunState:
        """Run an entry on the cluster. Raises `Refused` or `Outside`."""
        with faults_sorted():
            task, allowed = await _begun(suite, entry)
        run = str(suite.run_folder(entry).absolute())
        may_have_keys = task.agent.model != SWEEP and is_own_server(task.agent, allowed)
        keys = KEY_VARIABLES.values() if may_have_keys else ()
        secrets = {name: os.environ[name] for name in keys if name in os.environ}
        actor = (
            self._ray.remote(RunActor)
            .options(
                max_restarts=RESTARTS,
                max_task_retries=-1,  # a lost node takes many, before Ray knows that it is lost
                **options_of(task, entry.source.needs),
            )
            .remote(secrets)
        )
        tell(News(entry=entry, state="queued", what="on the cluster"))
        try:
            outcome, why = await self._watched(
                actor.work.remote(run, self._keeper, allowed), suite, entry, tell
            )
        except self._ray.exceptions.RayError as error:
            why = strip_to_line(str(getattr(error, "cause", None) or error), 200)
            raise Outside(f"lost on the cluster: {why}") from error
        finally:
            with contextlib.suppress(self._ray.exceptions.RayError):  # the cluster itself is gone
                self._ray.kill(actor)
                await self._keeper.close.remote(run)
        if outcome == "refused":
            raise Refused(why)
        if outcome == "outside":
            raise Outside(why)
        with faults_sorted():
            folder = RunFolder.open(Path(run))  # makes work tree, refs and PLAN.md of what came
            folder.close()
        return folder.state

    async def _watched(
        self, call: Any, suite: SuiteAtWork, entry: Entry, tell: Tell
    ) -> tuple[str, str]:
        """Wait for a call; tell when it begins on a node."""
        run = str(suite.run_folder(entry).absolute())
        waiting = asyncio.ensure_future(_awaited(call))
        seen, *_ = await self._keeper.place.remote(run)
        first = seen
        try:
            while not waiting.done():
                await asyncio.wait({waiting}, timeout=LOOK_S)
                number, node, host = await self._keeper.place.remote(run)
                if number > seen:
                    suite.note_host(entry, host)
                    again = "again, " if seen > first else ""
                    seen = number
                    tell(News(entry=entry, state="running", what=f"{again}on node {node[:8]}"))
            return waiting.result()
        finally:
            waiting.cancel()


async def _begun(suite: SuiteAtWork, entry: Entry) -> tuple[Task, frozenset[Act]]:
    """Begin a run, or find it begun; return its task, and what the user allows it.

    The keeper of a suite that was killed holds its runs until Ray has noticed, some seconds later.
    """
    until = time.monotonic() + LOCKED_S
    while True:
        try:
            folder = open_run(suite, entry, here=False)
        except RunLocked:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(LOOK_S)
        else:
            folder.close()
            return folder.state.task, folder.allowed


async def _awaited(call: Any) -> tuple[str, str]:
    found: tuple[str, str] = await call
    return found


def options_of(task: Task, needs: Resources) -> dict[str, Any]:
    """Return what an actor of the task's run asks Ray for.

    Without a word of the manifest: a CPU for each thread of the kernel, and one device. Ray has
    GPUs as a count of their own, and Ascend's NPUs as the resource "NPU".
    """
    gpus = float(task.target.backend == "cuda")
    options: dict[str, Any] = {
        "num_cpus": task.timing.threads if needs.num_cpus is None else needs.num_cpus,
        "num_gpus": gpus if needs.num_gpus is None else needs.num_gpus,
    }
    npus = {"NPU": 1.0} if task.target.backend == "ascend" else {}
    if resources := npus | needs.resources:
        options["resources"] = resources
    if needs.labels:
        options["label_selector"] = needs.labels
    return options
