"""The judge's process: takes requests from the engine and answers each with a measurement.

Trusted: it never runs the code under evaluation, and is the only one with clock, seeds and
expected results. It speaks on an inherited socket, and ends when that closes.
"""

from __future__ import annotations

import select
import shutil
import socket
import sys
from collections import deque
from pathlib import Path

from akg_tui.core.measurement import Measurement, Progress
from akg_tui.evaluate import process_tree, protocol, sandbox
from akg_tui.evaluate.protocol import Begin, Cancel, Evaluate, Result, Step
from akg_tui.evaluate.targets import cpu
from akg_tui.evaluate.worker import Interrupts, Zygote


class Cancelled(Exception):
    """The engine no longer wants the evaluation under way."""


class EngineGone(Exception):
    """The engine closed its end."""


class Line:
    """The socket to the engine."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._partial = b""
        self._waiting: deque[protocol.ToJudge] = deque()
        self._current: int | None = None

    def next(self) -> protocol.ToJudge:
        """Wait for a message."""
        while not self._waiting:
            self._read()
        return self._waiting.popleft()

    def interrupts(self) -> Interrupts:
        """Return what lets any wait notice the engine."""
        return Interrupts(self._connection.fileno(), self._notice)

    def answer(self, message: protocol.ToEngine) -> None:
        """Send a message; a lost engine shows at the next read."""
        try:
            self._connection.sendall(protocol.line(message))
        except OSError as error:
            raise EngineGone from error

    def begin(self, number: int) -> None:
        """Let a cancellation of this evaluation interrupt it from now on."""
        self._current = number

    def finish(self) -> None:
        """Ignore cancellations of what is done."""
        self._current = None

    def pulse(self) -> None:
        """Notice what the engine has said, without waiting."""
        if select.select([self._connection], [], [], 0)[0]:
            self._notice()

    def _notice(self) -> None:
        self._read()
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
        self._waiting.extend(protocol.for_judge(line) for line in lines)


def main(arguments: list[str]) -> None:
    """Serve on the inherited socket whose descriptor is the first argument."""
    line = Line(socket.socket(fileno=int(arguments[0])))
    sandbox.hide_memory()
    sandbox.adopt_orphans()
    try:
        _serve(line)
    except EngineGone:
        return


def _serve(line: Line) -> None:
    begin = line.next()
    if not isinstance(begin, Begin):
        raise TypeError(f"the first message must be Begin, got {type(begin).__name__}")
    if not sandbox.die_with_parent(begin.engine):
        return
    scratch = Path(begin.scratch)
    home = scratch / "children"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True, exist_ok=True)
    environment = cpu.kernel_environment(begin.task.timing.threads, home)
    zygote = Zygote(environment, line.interrupts())
    try:
        # Only now: both processes load torch, and do so side by side.
        import torch

        from akg_tui.evaluate.evaluation import Evaluation
        from akg_tui.evaluate.nursery import Nursery
        from akg_tui.evaluate.reference import Reference
        from akg_tui.evaluate.timing import Memory

        # A second thread of ours would keep spinning beside the kernel being timed.
        torch.set_num_threads(1)
        nursery = Nursery(begin.task, scratch, zygote)
        reference = Reference(nursery, begin.reference, begin.task.files.reference)
        memory = Memory()
        while True:
            request = line.next()
            if not isinstance(request, Evaluate):
                continue
            number = request.number

            def report(progress: Progress, number: int = number) -> None:
                line.pulse()
                line.answer(Step(number, progress))

            line.begin(number)
            try:
                evaluation = Evaluation(
                    nursery,
                    reference,
                    request,
                    memory=memory,
                    report=report,
                )
                found: Measurement | None = evaluation.run()
            except Cancelled:
                found = None
            line.finish()
            line.answer(Result(number, found))
    finally:
        zygote.close()
        # Whatever the zygote could not end, because it was killed, has come to us.
        process_tree.end_orphans()
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1:])
