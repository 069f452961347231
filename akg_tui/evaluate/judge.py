"""The judge's process: takes requests from the engine and answers each with a measurement.

Trusted: it never runs the code under evaluation, and is the only one with clock, seeds and
expected results. It speaks on an inherited socket, and ends when that closes.
"""

from __future__ import annotations

import contextlib
import select
import shutil
import socket
import sys
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from akg_tui.core.measurement import FailureKind, Measurement, Outcome, Progress
from akg_tui.evaluate import engine_protocol, integrity
from akg_tui.evaluate.adapters import adapters
from akg_tui.evaluate.engine_protocol import Begin, Cancel, Evaluate, Result, Step
from akg_tui.evaluate.processes import process_tree
from akg_tui.evaluate.processes.worker import Interrupts, Zygote
from akg_tui.evaluate.sandbox import confinement, protections

if TYPE_CHECKING:
    from akg_tui.evaluate.evaluation import Evaluations


TELLING_S = 0.05
"""How far a stage has come is told no oftener."""


MOMENT_S = 0.02
"""Who wants something at once has it sooner if nothing else was begun."""


class Cancelled(Exception):
    """The engine no longer wants the evaluation under way."""


class EngineGone(Exception):
    """The engine closed its end."""


class Wanted(Exception):
    """The engine has something for the judge to do, which was making things ready."""


class Line:
    """The socket to the engine."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._partial = b""
        self._waiting: deque[engine_protocol.ToJudge] = deque()
        self._current: int | None = None
        self._idle = False

    def next(self) -> engine_protocol.ToJudge:
        """Wait for a message."""
        while not self._waiting:
            self._read()
        return self._waiting.popleft()

    def interrupts(self) -> Interrupts:
        """Return what lets any wait notice the engine."""
        return Interrupts(self._connection.fileno(), self._notice)

    def answer(self, message: engine_protocol.ToEngine) -> None:
        """Send a message; a lost engine shows at the next read."""
        try:
            self._connection.sendall(engine_protocol.line(message))
        except OSError as error:
            raise EngineGone from error

    def begin(self, number: int) -> None:
        """Let a cancellation of this evaluation interrupt it from now on."""
        self._current = number

    def finish(self) -> None:
        """Ignore cancellations of what is done."""
        self._current = None

    def is_quiet(self) -> bool:
        """Return whether nothing was said and not heard, nor is in the next moment."""
        return not self._waiting and not select.select([self._connection], [], [], MOMENT_S)[0]

    @contextlib.contextmanager
    def unless_wanted(self) -> Iterator[None]:
        """Break the block off as soon as the engine asks for anything."""
        self._idle = True
        try:
            yield
        except Wanted:
            return
        finally:
            self._idle = False

    def pulse(self) -> None:
        """Notice what the engine has said, without waiting."""
        if select.select([self._connection], [], [], 0)[0]:
            self._notice()

    def _notice(self) -> None:
        self._read()
        if self._idle and self._waiting:
            raise Wanted
        for message in self._waiting:
            if isinstance(message, Cancel) and message.number == self._current:
                raise Cancelled

    def _read(self) -> None:
        try:
            data = self._connection.recv(1 << 16)
        except ConnectionResetError as error:
            raise EngineGone from error
        if not data:
            raise EngineGone
        *lines, self._partial = (self._partial + data).split(b"\n")
        self._waiting.extend(engine_protocol.for_judge(line) for line in lines)


def main(arguments: list[str]) -> None:
    """Serve on the inherited socket whose descriptor is the first argument."""
    line = Line(socket.socket(fileno=int(arguments[0])))
    confinement.hide_memory()
    confinement.adopt_orphans()
    try:
        _serve(line)
    except EngineGone:
        return


def _refusal(begin: Begin, message: str) -> Measurement:
    """Return an error: what judges is not what it was when this process started."""
    return Measurement(
        outcome=Outcome.ERROR,
        failure=FailureKind.JUDGE,
        message=message,
        threads=begin.task.timing.threads,
    )


def _evaluate(
    line: Line,
    request: Evaluate,
    begin: Begin,
    sources: integrity.Sources,
    evaluations: Evaluations,
) -> Measurement | None:
    """Return what was found; None if it was cancelled, with no process of the candidate left.

    Else those that are left have been killed, and the caller waits for them.
    """
    started = time.monotonic()
    if request.terms != begin.sha256():
        return _refusal(begin, "the judge holds another task or reference than the run does")
    line.begin(request.number)

    told: dict[str, float] = {}

    def report(progress: Progress) -> None:
        line.pulse()
        now = time.monotonic()
        # Who reads it takes time on a CPU that the candidate is to have.
        if progress.done and now - told.get(progress.stage, 0.0) < TELLING_S:
            return
        told[progress.stage] = now
        line.answer(Step(request.number, progress))

    try:
        found = evaluations.run(request, report, started)
    except Cancelled:
        evaluations.rest(keep=False)
        return None
    finally:
        line.finish()
    changed = sources.difference()
    return _refusal(begin, changed) if changed else found


def _serve(line: Line) -> None:
    sources = integrity.Sources()
    begin = line.next()
    if not isinstance(begin, Begin):
        raise TypeError(f"the first message must be Begin, got {type(begin).__name__}")
    if not confinement.die_with_parent(begin.engine):
        return
    scratch = Path(begin.scratch)
    home = scratch / "children"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True, exist_ok=True)
    # Before there is a second thread: it forks.
    offered = protections.offered()
    target, dsl = adapters(begin.task)
    environment = target.zygote_environment(begin.task.timing.threads, home)
    environment |= dsl.environment(target.name)
    zygote = Zygote(environment, line.interrupts(), target.name, dsl.name)
    try:
        # Only now: both processes load torch, and do so side by side.
        from akg_tui.evaluate.evaluation import Evaluations

        evaluations = Evaluations(begin, scratch, zygote, offered)
        while True:
            request = line.next()
            if not isinstance(request, Evaluate):
                continue
            found = _evaluate(line, request, begin, sources, evaluations)
            if found is not None and not begin.ahead:
                evaluations.rest(keep=False)
            line.answer(Result(request.number, found))
            # After a cancellation another evaluation is less likely, and quiet is wanted.
            ahead = begin.ahead and found is not None
            if ahead:
                evaluations.expect()
            # Those that have seen a kernel were killed; they are gone before there is another.
            evaluations.rest(keep=True)
            if ahead and line.is_quiet():
                with line.unless_wanted():
                    evaluations.prepare()
    finally:
        zygote.close()
        # Whatever the zygote could not end, because it was killed, has come to us.
        process_tree.end_orphans()
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1:])
