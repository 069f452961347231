"""The judge's hold on the zygote and on each child: requests, deadlines, the clock.

Every wait watches four things at once: the answer, the child's death, the engine (which may
cancel or vanish), and the deadline. A child is stopped whenever it has nothing to do, so
threads that it left behind can neither finish late nor disturb the other side.
"""

from __future__ import annotations

import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path

import msgspec

from akg_tui.core.measurement import FailureKind
from akg_tui.evaluate import process_tree, wire
from akg_tui.evaluate.faults import SEPARATOR
from akg_tui.evaluate.plaintext import clean, one_line
from akg_tui.evaluate.wire import Op, Status

FAILURES = {
    Status.BUILD: FailureKind.BUILD,
    Status.CALL: FailureKind.CALL,
    Status.WRONG: FailureKind.WRONG,
    Status.TOOLCHAIN: FailureKind.TOOLCHAIN,
    Status.REFERENCE: FailureKind.REFERENCE,
}

ZYGOTE_START_S = 120.0
LAST_BREATH_S = 0.5


class ChildFailed(Exception):
    """The code in a child failed; `detail` is cleaned but came from that code."""

    def __init__(self, kind: FailureKind, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.detail = detail


class ZygoteLost(Exception):
    """The fork server is gone or refused; the judge can't go on."""


class Interrupts:
    """The engine's end of things, watched during every wait."""

    def __init__(self, fd: int, check: Callable[[], None]) -> None:
        self.fd = fd
        self.check = check
        """Reads what the engine said; raises if it cancelled or is gone."""


class Zygote:
    """The fork server, as the judge sees it."""

    def __init__(self, environment: dict[str, str], interrupts: Interrupts) -> None:
        self.interrupts = interrupts
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            # A session of its own: an interrupt typed in the terminal is the engine's to act on.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "akg_tui.evaluate.zygote", str(theirs.fileno())],
                env=environment,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._ready = False

    def fork(self, request: wire.Fork) -> Worker:
        """Return a new child, sandboxed but with no code loaded yet."""
        self._await_ready()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            socket.send_fds(self._control, [msgspec.json.encode(request)], [theirs.fileno()])
        reply = self._reply()
        if not isinstance(reply, wire.Forked):
            ours.close()
            raise ZygoteLost(f"the fork server answered {reply}")
        return Worker(reply.pid, ours, self)

    def end(self, pid: int) -> wire.Ended:
        """Kill a child with all that it started; return how it ended and what it printed."""
        try:
            self._control.send(msgspec.json.encode(wire.End(pid)))
        except OSError as error:
            raise ZygoteLost(f"the fork server is gone: {error}") from error
        reply = self._reply()
        if not isinstance(reply, wire.Ended):
            raise ZygoteLost(f"the fork server answered {reply}")
        return reply

    def close(self) -> None:
        """Let it kill what is left and end."""
        self._control.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _await_ready(self) -> None:
        if self._ready:
            return
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self.interrupts.fd, select.POLLIN)
        limit = time.monotonic() + ZYGOTE_START_S
        while not self._ready:
            left = limit - time.monotonic()
            for fd, _ in poll.poll(max(left, 0) * 1000):
                if fd == self.interrupts.fd:
                    self.interrupts.check()
                elif wire.receive(self._control)[0] == b"ready":
                    self._ready = True
                else:
                    raise ZygoteLost("the fork server ended while it started")
            if left <= 0:
                raise ZygoteLost(f"the fork server did not start within {ZYGOTE_START_S:.0f} s")

    def _reply(self) -> wire.Forked | wire.Ended | wire.Failure:
        # Not interruptible: its answers take milliseconds, and must not be mixed up.
        data, _ = wire.receive(self._control)
        if not data:
            raise ZygoteLost("the fork server is gone")
        return msgspec.json.decode(data, type=wire.Forked | wire.Ended | wire.Failure)


class Worker:
    """One child."""

    def __init__(self, pid: int, channel: socket.socket, zygote: Zygote) -> None:
        self.pid = pid
        self.sandbox: tuple[str, ...] = ()
        self._channel = channel
        self._zygote = zygote
        # The zygote reaps only on our word, so until then the number can't be another's.
        self._pidfd = os.pidfd_open(pid)
        self._poll = select.poll()
        self._poll.register(channel, select.POLLIN)
        self._poll.register(self._pidfd, select.POLLIN)
        self._poll.register(zygote.interrupts.fd, select.POLLIN)
        self._nonce = 0
        self._doing = "starting"
        self._ended = False

    def greet(self, deadline_s: float) -> None:
        """Wait for the child to say which protections hold; it still runs our code only."""
        self._await_answer(deadline_s, "starting")
        _, text, _ = self._read()
        self.sandbox = tuple(text.split())
        self.freeze()

    def send(
        self,
        op: Op,
        *,
        count: int = 0,
        seed: int = 0,
        item: int = 0,
        wanted: int = 0,
        fds: tuple[int, ...] = (),
    ) -> None:
        """Wake the child and ask it for something."""
        self._nonce = secrets.randbits(64)
        message = wire.REQUEST.pack(op, count, self._nonce, seed, item, wanted)
        os.killpg(self.pid, signal.SIGCONT)
        try:
            socket.send_fds(self._channel, [message], list(fds))
        except OSError as error:
            raise self._died("waiting") from error

    def answer(
        self, deadline_s: float, doing: str, *, compiling_s: float = 0.0, stop: bool = True
    ) -> int:
        """Wait for the answer, stop the child, and return the answer's value.

        While the child has processes of its own (a compiler), it may take `compiling_s`
        instead, and `deadline_s` begins anew when they are done.

        Raises
        ------
        ChildFailed
            It answered that its code failed, ended, answered out of turn, or took too long.
        """
        self._await_answer(deadline_s, doing, compiling_s=compiling_s)
        status, text, value = self._read()
        if stop:
            self.freeze()
        if status != Status.OK:
            self._raise(status, text)
        return value

    def timed_call(self, count: int, deadline_s: float) -> int:
        """Return the nanoseconds from waking the child to its answer, on our clock."""
        self._nonce = secrets.randbits(64)
        message = wire.REQUEST.pack(Op.CALL, count, self._nonce, 0, 0, 0)
        start = time.perf_counter_ns()
        try:
            os.killpg(self.pid, signal.SIGCONT)
            self._channel.send(message)
        except OSError as error:
            raise self._died("being called") from error
        self._await_answer(deadline_s, "being called")
        taken = time.perf_counter_ns() - start
        self.freeze()
        status, text, _ = self._read()
        if status != Status.OK:
            self._raise(status, text)
        return taken

    def freeze(self) -> None:
        """Stop the child and whatever shares its process group."""
        os.killpg(self.pid, signal.SIGSTOP)

    def await_stop(self) -> None:
        """Return when every thread of the child stands still, so its results can't change."""
        while not process_tree.is_stopped(self.pid):
            os.sched_yield()

    def pin(self, cpus: Collection[int]) -> None:
        """Confine the child, all its threads and those that they will make, to these CPUs."""
        for thread in Path(f"/proc/{self.pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), cpus)

    def preemptions(self) -> int:
        """Return how often the kernel has taken the CPU from the child's first thread."""
        try:
            text = Path(f"/proc/{self.pid}/status").read_text("utf-8", "replace")
        except OSError:
            return 0
        counted = [line for line in text.splitlines() if line.startswith("nonvoluntary_ctxt")]
        return int(counted[0].split()[1]) if counted else 0

    def end(self) -> wire.Ended:
        """Kill the child; return how it ended and what it printed."""
        ended = self._zygote.end(self.pid)
        self._ended = True
        os.close(self._pidfd)
        self._channel.close()
        return ended

    @property
    def ended(self) -> bool:
        """Whether `end` has been called."""
        return self._ended

    def _await_answer(self, deadline_s: float, doing: str, *, compiling_s: float = 0.0) -> None:
        self._doing = doing
        start = time.monotonic()
        limit = start + deadline_s
        last = start + max(deadline_s, compiling_s)
        # With no compiler to look out for, one wait is enough: it stays off the timed path.
        step = 0.1 if compiling_s else deadline_s
        while True:
            now = time.monotonic()
            if now >= limit:
                raise self._timed_out(doing, limit - start)
            ready = {fd for fd, _ in self._poll.poll(min(step, limit - now) * 1000 + 1)}
            if self._channel.fileno() in ready:
                return
            if self._zygote.interrupts.fd in ready:
                self._zygote.interrupts.check()
            if self._pidfd in ready:
                raise self._died(doing)
            if compiling_s and process_tree.children_of(self.pid):
                limit = min(time.monotonic() + deadline_s, last)

    def _read(self) -> tuple[int, str, int]:
        data, _ = wire.receive(self._channel)
        if len(data) < wire.REPLY.size:
            raise self._died(self._doing)
        nonce, status, length, value = wire.REPLY.unpack(data[: wire.REPLY.size])
        if nonce != self._nonce:
            raise ChildFailed(FailureKind.CRASH, "the process answered what it was not asked")
        text = data[wire.REPLY.size :][: min(length, wire.TEXT_LIMIT)]
        return status, text.decode("utf-8", "replace"), value

    def _raise(self, status: int, text: str) -> None:
        kind = FAILURES.get(Status(status)) if status in list(Status) else None
        if kind is None:
            raise ChildFailed(FailureKind.CRASH, "the process sent an answer that has no meaning")
        line, _, detail = text.partition(SEPARATOR)
        printed = self.end().output
        raise ChildFailed(kind, one_line(line), _joined(detail, printed))

    def _timed_out(self, doing: str, seconds: float) -> ChildFailed:
        printed = self.end().output
        message = f"no answer after {seconds:.3g} s of {doing}"
        return ChildFailed(FailureKind.TIMEOUT, message, _joined("", printed))

    def _died(self, doing: str) -> ChildFailed:
        # Its channel closes a moment before it is dead; or else it lives on without one.
        alive = not select.select([self._pidfd], [], [], LAST_BREATH_S)[0]
        ended = self.end()
        if alive:
            how = "closed its channel"
        elif os.WIFSIGNALED(ended.status):
            how = f"was killed by {signal.Signals(os.WTERMSIG(ended.status)).name}"
        else:
            how = f"ended with exit code {os.waitstatus_to_exitcode(ended.status)}"
        message = f"the process {how} while {doing}"
        return ChildFailed(FailureKind.CRASH, message, _joined("", ended.output))


def _joined(detail: str, printed: str) -> str:
    """Return an error's detail and what the child printed, cleaned."""
    parts = [clean(detail.strip())]
    if printed.strip():
        parts.append("printed:\n" + clean(printed.strip(), 4096))
    return "\n".join(part for part in parts if part)
