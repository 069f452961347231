"""The judge's process: answers each request of the engine with a measurement.

Trusted: the judge never runs code under evaluation, and only the judge has the clock, the seeds
and the expected results. It serves an inherited socket and exits when the socket closes.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import shutil
import socket
import sys
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from akg_tui.core.measurement import Measurement, Progress, RaceOutcome
from akg_tui.evaluate.child.zygote import fork_zygote
from akg_tui.evaluate.evaluation import Evaluations
from akg_tui.evaluate.processes.worker import Interrupts, Zygote
from akg_tui.evaluate.protocol import engine_protocol
from akg_tui.evaluate.protocol.engine_protocol import (
    Begin,
    Cancel,
    Evaluate,
    Race,
    Raced,
    Result,
    Step,
)
from akg_tui.evaluate.sandbox import confinement, process_watch, protections
from akg_tui.evaluate.targets.lease import Taken

CHILDREN = Path("children")
"""The folder of the children's files, in the judge's current folder."""

PROGRESS_INTERVAL_S = 0.05
"""The least time between two progress messages of one stage."""

IDLE_GRACE_S = 0.02
"""The time that the judge waits for another request before it begins to prefetch."""


class Cancelled(Exception):
    """The engine cancelled the running evaluation."""


class GivenUp(Cancelled):
    """The engine gave the running evaluation up after these seconds, and wants what is known."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class EngineGone(Exception):
    """The engine closed its end."""


class RequestArrived(Exception):
    """A request came while the judge was prefetching."""


class EngineChannel:
    """The socket to the engine."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._partial = b""
        self._waiting: deque[engine_protocol.ToJudge] = deque()
        self.current: int | None = None
        """The evaluation whose cancellation raises `Cancelled`."""
        self._idle = False
        self.interrupts = Interrupts(connection.fileno(), self._check_messages)
        """The hook with which every wait checks for messages of the engine."""

    def next(self) -> engine_protocol.ToJudge:
        """Wait for a message."""
        while not self._waiting:
            self._read()
        return self._waiting.popleft()

    def answer(self, message: engine_protocol.ToEngine) -> None:
        """Send a message; the next read raises `EngineGone` if the engine has ended."""
        try:
            self._connection.sendall(engine_protocol.encode(message))
        except OSError as error:
            raise EngineGone from error

    def is_idle(self) -> bool:
        """Return whether no message waits, and none arrives within `IDLE_GRACE_S`."""
        return not self._waiting and not select.select([self._connection], [], [], IDLE_GRACE_S)[0]

    @contextlib.contextmanager
    def until_request(self) -> Iterator[None]:
        """End the block as soon as a message of the engine arrives."""
        self._idle = True
        try:
            yield
        except RequestArrived:
            return
        finally:
            self._idle = False

    def begin(self, number: int) -> None:
        """Raise `Cancelled` on a cancellation of this evaluation, waiting or received later."""
        self.current = number
        self._notice()

    def _check_messages(self) -> None:
        self._read()
        self._notice()

    def _notice(self) -> None:
        if self._idle and self._waiting:
            raise RequestArrived
        for message in self._waiting:
            if isinstance(message, Cancel) and message.number == self.current:
                self.current = None  # once: nothing ends the clean-up that follows
                raise GivenUp(message.given_up_s) if message.given_up_s else Cancelled

    def _read(self) -> None:
        try:
            data = self._connection.recv(1 << 16)
        except ConnectionResetError as error:
            raise EngineGone from error
        if not data:
            raise EngineGone
        *lines, self._partial = (self._partial + data).split(b"\n")
        self._waiting.extend(engine_protocol.decode_for_judge(line) for line in lines)


def main(arguments: list[str]) -> None:
    """Serve on the inherited socket: its descriptor, the target and the DSL are the arguments.

    Further arguments are modules that the zygote loads.

    The zygote is forked before the judge has read anything, so that it holds no secret; both
    share the memory of the imported modules.
    """
    connection = socket.socket(fileno=int(arguments[0]))
    target, dsl, *modules = arguments[1:]
    process, control = fork_zygote(
        target, dsl, CHILDREN.absolute(), unneeded=connection, modules=modules
    )
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    confinement.hide_memory()
    confinement.adopt_orphans()
    channel = EngineChannel(connection)
    with contextlib.suppress(EngineGone):
        _serve(channel, Zygote(process, control, channel.interrupts))
    # Unloading torch takes half a second, for which whoever ended the judge would wait.
    os._exit(0)


def _evaluate(
    channel: EngineChannel,
    request: Evaluate | Race,
    evaluations: Evaluations,
) -> Measurement | RaceOutcome | None:
    """Return the measurement, or the outcome of a race; None if it was cancelled.

    After a cancellation no process of the candidate is left; otherwise the processes have been
    killed, and the caller waits until they are gone.
    """
    started = time.monotonic()
    races = isinstance(request, Race)
    sent_at: dict[str, float] = {}
    waits = False

    def report(progress: Progress) -> None:
        nonlocal waits
        channel.interrupts.check_within()
        now = time.monotonic()
        # The engine's work on a message takes CPU time from the candidate.
        soon = now - sent_at.get(progress.stage, 0.0) < PROGRESS_INTERVAL_S
        if progress.done and soon and progress.waits == waits:
            return
        sent_at[progress.stage], waits = now, progress.waits
        channel.answer(Step(request.number, progress))

    try:
        channel.begin(request.number)
        found: Measurement | RaceOutcome
        if isinstance(request, Race):
            found = evaluations.race(request, report)
        else:
            found = evaluations.run(request, report, started)
    except (Cancelled, Taken) as cancelled:
        known: Measurement | RaceOutcome | None = None
        if isinstance(cancelled, GivenUp) and races:
            known = RaceOutcome(message=f"it took longer than {cancelled.seconds:g} s")
        elif isinstance(cancelled, GivenUp):
            known = evaluations.given_up(cancelled.seconds)
        evaluations.clean_up(keep=False)
        return known
    finally:
        channel.current = None
    return found


def _serve(channel: EngineChannel, zygote: Zygote) -> None:
    try:
        begin = channel.next()
        if not isinstance(begin, Begin):
            raise TypeError(f"the first message must be Begin, got {type(begin).__name__}")
        if not confinement.die_with_parent(begin.engine):
            return
        # Before a second thread exists, because `offered` forks.
        offered = protections.offered()
        evaluations = Evaluations(begin, Path.cwd(), zygote, offered)
        while True:
            request = channel.next()
            if not isinstance(request, Evaluate | Race):
                continue
            found = _evaluate(channel, request, evaluations)
            if found is not None and not begin.prefetch:
                evaluations.clean_up(keep=False)
            if isinstance(request, Race):
                outcome = found if isinstance(found, RaceOutcome) else None
                channel.answer(Raced(request.number, outcome))
            else:
                measured = found if isinstance(found, Measurement) else None
                channel.answer(Result(request.number, measured))
            # After a cancellation another evaluation is less likely, so nothing is prefetched.
            prefetch = begin.prefetch and found is not None
            if prefetch:
                # A spare for the next kernel, while the children of the last kernel end.
                evaluations.pool.fork_spares(1)
            # Children that have seen a kernel are gone before another kernel is loaded.
            evaluations.clean_up(keep=True)
            if prefetch and channel.is_idle():
                with channel.until_request():
                    evaluations.prepare()
    finally:
        zygote.close()
        # If the zygote was killed, this process has adopted its children.
        process_watch.end_orphans()
        shutil.rmtree(CHILDREN, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1:])
