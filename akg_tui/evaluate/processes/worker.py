"""The judge's side of the zygote and of each child: requests, deadlines, the clock.

Every wait watches four things: the answer, the child's death, the engine (which may cancel or
end), and the deadline. A child is stopped whenever it has no request, so threads that it left
running can neither finish late nor disturb the other side.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import signal
import socket
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

import msgspec

from akg_tui.core.measurement import FailureKind
from akg_tui.core.sanitize import strip_escapes, strip_to_line, trimmed
from akg_tui.evaluate.processes.shared_memory import SharedMemory, shared_memory_of
from akg_tui.evaluate.protocol import child_protocol
from akg_tui.evaluate.protocol.child_protocol import (
    SEPARATOR,
    Checked,
    Op,
    Plan,
    Status,
    Variation,
)
from akg_tui.evaluate.reference_fault import Fault, FaultKind
from akg_tui.evaluate.sandbox import process_watch
from akg_tui.evaluate.sandbox.process_watch import ProcessWatch, ResourceLimits

FAILURES: dict[int, FailureKind] = {
    status: FailureKind[status.name] for status in Status if status is not Status.OK
}

ZYGOTE_START_S = 120.0
EXIT_WAIT_S = 0.5
DELAYED = 4
"""How many times its time limit an answer may take on a busy machine."""

PUNCTUAL_S = 0.05
"""A wait of the judge that ends later than this after its time counts as a pause of the machine."""

SPUN_S = 0.05
"""The seconds for which the judge waits for a device in a loop; then it sleeps between looks."""

STOP_SPIN_S = 0.0001
STOP_LIMIT_S = 2.0
"""For a stop the judge waits in a loop, then with longer and longer naps, up to a limit. It takes
microseconds, but on a busy machine each thread first waits for a CPU."""


FAULTS = {FailureKind.TIMEOUT: FaultKind.SLOW}
"""The kind of a fault that follows from the kind of a failure."""


class EvaluationFailure(Exception):
    """An evaluation ended early; `detail` is cleaned but may come from untrusted code.

    `fault` says what was wrong and where, for what depends on it; `message` is only shown.
    """

    def __init__(
        self, kind: FailureKind, message: str, detail: str = "", fault: Fault | None = None
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.detail = detail
        self.fault = fault or Fault(reason=message, kind=FAULTS.get(kind, FaultKind.OTHER))

    def saying(self, message: str) -> Self:
        """Return the same failure with another message."""
        return type(self)(self.kind, message, self.detail, self.fault)


class ChildFailed(EvaluationFailure):
    """The code in a child failed."""


class ZygoteLost(Exception):
    """The fork server has ended or refused a request; the judge can't continue."""


@dataclass(frozen=True)
class Interrupts:
    """The engine's socket, watched during every wait."""

    fd: int
    check: Callable[[], None]
    """Reads the engine's messages; raises if the engine cancelled or is gone."""

    def check_within(self, seconds: float = 0.0) -> None:
        """Call `check` if a message of the engine waits, or arrives within `seconds`."""
        if select.select([self.fd], [], [], seconds)[0]:
            self.check()


class TimedCall(NamedTuple):
    """The seconds from continuing a child to its answer, and those spent waiting for a CPU.

    Counted are the waits of the child's main thread and of the judge, stops included. `value` is
    what the child answered.
    """

    seconds: float
    waited_s: float
    value: int = 0


class Zygote:
    """The judge's side of the fork server, a child process of the judge."""

    def __init__(self, pid: int, control: socket.socket, interrupts: Interrupts) -> None:
        self.interrupts = interrupts
        self._pid = pid
        self._control = control
        self._ready = False
        self._requested: deque[tuple[socket.socket, Path]] = deque()
        self._spare_workers: deque[Worker] = deque()
        self._ending: set[int] = set()
        self._ended_children: dict[int, child_protocol.Ended] = {}

    def request_child(self, request: child_protocol.Fork) -> None:
        """Request a child, without waiting for it."""
        self._await_ready()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._send(request, theirs.fileno())
        self._requested.append((ours, Path(request.folder)))

    def take(self) -> Worker:
        """Return the child of the oldest request, once it is forked."""
        while not self._spare_workers:
            self._receive()
        return self._spare_workers.popleft()

    @property
    def spares(self) -> Sequence[Worker]:
        """The children that were forked and not taken."""
        while self._requested and select.select([self._control], [], [], 0)[0]:
            self._receive()
        return self._spare_workers

    @property
    def spare_count(self) -> int:
        """The number of children that were requested and not taken, forked or not."""
        return len(self._requested) + len(self._spare_workers)

    def end(self, number: int) -> child_protocol.Ended:
        """Kill a child with all its descendants; return its exit status and output."""
        self._send(child_protocol.End(number))
        while number not in self._ended_children:
            self._receive()
        return self._ended_children.pop(number)

    def release(self, number: int) -> None:
        """Kill a child with all its descendants, without waiting for its end."""
        self._send(child_protocol.End(number))
        self._ending.add(number)

    def keep_open(self, descriptor: int) -> None:
        """Have the zygote keep a duplicate of a descriptor in place of the one before."""
        self._send(child_protocol.Keep(), descriptor)

    def wait_idle(self) -> None:
        """Wait until all released children are gone and all requested ones are forked."""
        while self._requested:
            self._receive()
        self.await_gone()

    def await_gone(self) -> None:
        """Wait until all released children are gone."""
        while self._ending - self._ended_children.keys():
            self._receive()
        for number in self._ending:
            del self._ended_children[number]
        self._ending.clear()

    def _send(self, request: child_protocol.Request, *fds: int) -> None:
        try:
            socket.send_fds(self._control, [msgspec.json.encode(request)], fds)
        except OSError as error:
            raise ZygoteLost(f"the fork server is gone: {error}") from error

    def _receive(self) -> None:
        """Receive one reply. Forks are answered in the order of their requests."""
        # Not interruptible: replies take milliseconds, and none may be lost.
        data, fds = child_protocol.receive(self._control, 1)
        if not data:
            raise ZygoteLost("the fork server is gone")
        reply = msgspec.json.decode(data, type=child_protocol.Reply)
        if isinstance(reply, child_protocol.Ended):
            self._ended_children[reply.number] = reply
        elif isinstance(reply, child_protocol.Forked):
            channel, folder = self._requested.popleft()
            self._spare_workers.append(Worker(reply.number, fds[0], channel, folder, self))
        else:
            raise ZygoteLost(f"the fork server answered {reply}")

    def close(self) -> None:
        """End the zygote, which first kills its children."""
        self._control.close()
        for channel, _ in self._requested:
            channel.close()
        pidfd = os.pidfd_open(self._pid)
        if not select.select([pidfd], [], [], 10.0)[0]:
            os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(pidfd)

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
                elif child_protocol.receive(self._control)[0] == b"ready":
                    self._ready = True
                else:
                    raise ZygoteLost("the fork server ended while it started")
            if left <= 0:
                raise ZygoteLost(f"the fork server did not start within {ZYGOTE_START_S:.0f} s")


class Worker:
    """One child, to which `folder` belongs."""

    def __init__(
        self, number: int, pidfd: int, channel: socket.socket, folder: Path, zygote: Zygote
    ) -> None:
        # The zygote reaps only on request, so until then no other process has this id.
        self.pid = process_watch.pid_of(pidfd)
        self.folder = folder
        self.protections: dict[str, str] = {}
        """Each protection with the reason why it does not hold, or ""; set once confined."""
        self.ended = False
        """Whether this child was killed."""
        self._number = number
        self._channel = channel
        self._zygote = zygote
        self._limits: ResourceLimits | None = None
        self._pidfd = pidfd
        self._poll = select.poll()
        self._poll.register(channel, select.POLLIN)
        self._poll.register(self._pidfd, select.POLLIN)
        self._poll.register(zygote.interrupts.fd, select.POLLIN)
        self._nonce = 0
        self._activity = "starting"
        self._memory = -1
        self._files: tuple[str, ...] = ()
        """The names of the plan's files."""
        self.told = ""
        """What the child said with its last answer."""
        self._watch = ProcessWatch(self.pid)
        self._oom_kills = _oom_kills()

    def await_prepared(self, deadline_s: float) -> None:
        """Wait until the child is prepared and waits for a kernel."""
        if self._memory < 0:
            self._await_answer(deadline_s, "starting")
            data, fds = child_protocol.receive(self._channel, 1)
            if not data or not fds:
                raise self._died(self._activity)
            self._memory = fds[0]

    def assign(self, assignment: child_protocol.Assignment, limits: ResourceLimits) -> None:
        """Send the child its folders, without waiting; `await_confined` must follow."""
        self._limits = limits
        try:
            self._channel.send(msgspec.json.encode(assignment))
        except OSError as error:
            raise self._died("starting") from error

    def await_confined(self, deadline_s: float) -> None:
        """Wait for the child's list of protections; it still runs our code only."""
        self.await_prepared(deadline_s)
        self._await_answer(deadline_s, "starting")
        _, text, _ = self._read()
        self.protections = dict(line.split("\t", 1) for line in text.splitlines())
        if self._limits is not None:
            self._limits.begin(self.pid)
        self.freeze()

    @property
    def sandbox(self) -> tuple[str, ...]:
        """The protections that hold."""
        return tuple(name for name, why in self.protections.items() if not why)

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
        """Continue the child and send it a request."""
        message = self._request(op, count, seed, item, wanted)
        self._continue(message, "waiting", fds)

    def send_content(
        self, op: Op, content: Plan | Variation | Checked, *blocks: SharedMemory, seed: int = 0
    ) -> None:
        """Send a request with its content, and the memory that a plan needs."""
        if isinstance(content, Plan):
            self._files = content.files.names
        with contextlib.closing(shared_memory_of(msgspec.json.encode(content))) as blob:
            self.send(op, seed=seed, fds=(blob.fd, *(block.fd for block in blocks)))

    def answer(
        self, deadline_s: float, activity: str, *, compile_s: float = 0.0, stop: bool = True
    ) -> int:
        """Wait for the answer, stop the child, and return the answer's value.

        While the child has child processes (a compiler), it may take `compile_s` seconds
        instead, and `deadline_s` starts again when these have ended.

        Raises
        ------
        ChildFailed
            The child reported a failure of its code, ended, answered out of turn, or took too long.
        """
        self._await_answer(deadline_s, activity, compile_s=compile_s)
        return self._value(stop=stop)

    def wake(self, deadline_s: float, meanwhile: Callable[[], None]) -> None:
        """Have a child of ours run the code around a call once; then it waits, and is not stopped.

        `meanwhile` is called while the child runs.
        """
        self.send(Op.WAKE)
        meanwhile()
        self.answer(deadline_s, "waking", stop=False)

    def stop(self) -> None:
        """Stop the child, and wait until it is stopped."""
        self.freeze()
        self.await_stop()

    def timed_call(self, deadline_s: float, *, op: Op = Op.CALL, seed: int = 0) -> TimedCall:
        """Call the kernel once, on the judge's clock; the child is stopped at its answer."""
        message = self._request(op, seed=seed)
        waited_ns = self._watch.cpu_wait_ns() + process_watch.own_cpu_wait_ns()
        start = time.perf_counter_ns()
        self._continue(message, "being called")
        self._await_answer(deadline_s, "being called")
        taken_ns = time.perf_counter_ns() - start
        # At once: what the child does from now on is beside the clock.
        value = self._value()
        self.await_stop()
        waited_ns = self._watch.cpu_wait_ns() + process_watch.own_cpu_wait_ns() - waited_ns
        return TimedCall(taken_ns / 1e9, waited_ns / 1e9, value)

    def queued_call(
        self,
        queue_s: float,
        deadline_s: float,
        *,
        release: Callable[[], None],
        done: Callable[[], bool],
    ) -> TimedCall | None:
        """Have a device call the kernel once, on the judge's clock; stop the child afterwards.

        The child queues the call. Then `release` starts it and the clock, and the clock ends as
        soon as `done` is true: no work of the host is measured. Return None, and no time, if the
        child had not queued the call within `queue_s`, because it waited for the device. The value
        is 1 if the child was told to wait for its device before the call was done.

        Raises
        ------
        ChildFailed
            As `answer`; the device failed, or took longer than `deadline_s`.
        """
        self._continue(self._request(Op.QUEUE), "being called")
        answered = queued = False
        try:
            answered = self._is_answered_within(queue_s)
            queued = answered and self._value(stop=False) == 1
        finally:
            # In any case, or the device would wait on.
            # A device may have threads of the host that serve it.
            waited_ns = self._watch.all_cpu_wait_ns() + process_watch.own_cpu_wait_ns()
            start = time.perf_counter_ns()
            release()
        if not queued:
            if not answered:
                self._await_answer(deadline_s, "being called")
                self._value(stop=False)
            self.stop()
            return None
        asked = self._await_device(done, start, deadline_s)
        taken_ns = time.perf_counter_ns() - start
        waited_ns = self._watch.all_cpu_wait_ns() + process_watch.own_cpu_wait_ns() - waited_ns
        if not asked:
            self._continue(self._request(Op.SETTLE), "being called")
        self._await_answer(deadline_s, "being called")
        self._value()
        self.await_stop()
        return TimedCall(taken_ns / 1e9, waited_ns / 1e9, int(asked))

    def _await_device(self, done: Callable[[], bool], start_ns: int, deadline_s: float) -> bool:
        """Wait until `done` is true; return whether the child was told to wait for its device.

        A device that failed does nothing more, which only its process is told.
        """
        asked_at = start_ns + int(SPUN_S * 1e9)
        stop, asked = start_ns + int(deadline_s * 1e9), False
        while not done():
            now = time.perf_counter_ns()
            if now < asked_at:
                continue
            if not asked:
                asked = True
                self._continue(self._request(Op.SETTLE), "being called")
            time.sleep(5e-5)
            if self._is_answered_within(0) and not done():
                self._value()
                raise self._killed("the device ended a call without its digests")
            if now > stop:
                raise self._killed(_no_answer(deadline_s, "being called"), FailureKind.TIMEOUT)
        return asked

    def cpu_wait_s(self) -> float:
        """Return the seconds that the child's main thread has waited for a CPU so far."""
        return self._watch.cpu_wait_ns() / 1e9

    def freeze(self) -> None:
        """Stop the child and its process group."""
        os.killpg(self.pid, signal.SIGSTOP)

    def await_stop(self) -> list[int]:
        """Wait until every thread of the child is stopped, so that its results can't change.

        Return the ids of the child and its descendants.

        Raises
        ------
        ChildFailed
            The child does not stop. Time is counted in waits of the judge, so that a pause of the
            whole machine does not count.
        """
        start = time.monotonic()
        slept_s = 0.0
        while not (stopped := self._watch.stopped()):
            asked_s = time.monotonic() - start
            if asked_s < STOP_SPIN_S:
                os.sched_yield()
                continue
            if slept_s > STOP_LIMIT_S:
                raise self._killed("the process did not stand still when it was stopped")
            # The child may need the judge's CPU, which a yield does not give away.
            nap_s = min(asked_s, 0.005)
            slept_s += nap_s
            self._zygote.interrupts.check_within(nap_s)
        return stopped

    def copy_out(self, address: int, into: memoryview) -> None:
        """Fill `into` from `address` in the memory of the child, which must be stopped.

        Raises
        ------
        ChildFailed
            The address can't be read.
        """
        done = 0
        while done < len(into):
            try:
                read = os.preadv(self._memory, [into[done:]], address + done)
            except (OSError, OverflowError) as error:
                what = "a result lies where there is nothing to be read"
                raise ChildFailed(FailureKind.WRONG, what) from error
            if not read:
                raise self._died("its results were read")
            done += read

    def pin(self, cpus: Collection[int]) -> None:
        """Stop the child; pin it and its descendants, future ones included, to these CPUs."""
        self.freeze()
        for process in self.await_stop():
            for thread in process_watch.threads(process):
                with contextlib.suppress(ProcessLookupError):  # the process has ended
                    os.sched_setaffinity(int(thread), cpus)

    def spread(self, cpus: Sequence[int]) -> None:
        """Pin the threads that the child keeps: the main one to one CPU, the others to the rest.

        A lone thread stays free, because those that it starts in a call would share its CPU.
        """
        others = [int(each) for each in process_watch.threads(self.pid) if int(each) != self.pid]
        if not others or len(cpus) < 2:
            return
        for thread, own in [(self.pid, cpus[:1]), *((each, cpus[1:]) for each in others)]:
            with contextlib.suppress(ProcessLookupError):  # the thread has ended
                os.sched_setaffinity(thread, own)

    def end(self) -> child_protocol.Ended:
        """Kill the child; return its exit status and output."""
        ended = self._zygote.end(self._number)
        self._close()
        return ended

    def release(self) -> None:
        """Kill the child; `Zygote.await_gone` waits until it is gone."""
        self._zygote.release(self._number)
        self._close()

    def _close(self) -> None:
        self.ended = True
        os.close(self._pidfd)
        self._channel.close()
        self._watch.close()
        if self._memory >= 0:
            os.close(self._memory)
            self._memory = -1

    @property
    def is_alive(self) -> bool:
        """Whether the child process has not ended yet, and was not killed."""
        return not self.ended and not select.select([self._pidfd], [], [], 0)[0]

    def _request(
        self, op: Op, count: int = 0, seed: int = 0, item: int = 0, wanted: int = 0
    ) -> bytes:
        """Return a request with a new nonce; raise ChildFailed if the child has ended."""
        if self.ended:
            raise ChildFailed(FailureKind.CRASH, "the process has ended")
        self._nonce = secrets.randbits(64)
        return child_protocol.REQUEST.pack(op, count, self._nonce, seed, item, wanted)

    def _is_answered_within(self, seconds: float) -> bool:
        """Return whether an answer came; raise ChildFailed if the child died."""
        stop = time.monotonic() + seconds
        while True:
            left = stop - time.monotonic()
            ready = {fd for fd, _ in self._poll.poll(max(left, 0) * 1000)}
            if self._channel.fileno() in ready:
                return True
            if self._zygote.interrupts.fd in ready:
                self._zygote.interrupts.check()
            if self._pidfd in ready:
                raise self._died("being called")
            if left <= 0:
                return False

    def _continue(self, message: bytes, activity: str, fds: Sequence[int] = ()) -> None:
        try:
            if fds:
                socket.send_fds(self._channel, [message], fds)
            else:
                self._channel.send(message)
            os.killpg(self.pid, signal.SIGCONT)
        except OSError as error:
            raise self._died(activity) from error

    def _await_answer(self, deadline_s: float, activity: str, *, compile_s: float = 0.0) -> None:
        self._activity = activity
        start = time.monotonic()
        limit = start + deadline_s
        last = start + max(deadline_s, compile_s)
        # Rarely, so that the checks do not disturb timed calls.
        step = 0.1 if compile_s else 0.25
        # Of the time limit, neither the child's wait for a CPU nor a pause of the judge is a part.
        waited_ns, paused_s, delay_s = -1, 0.0, 0.0
        while True:
            now = time.monotonic()
            if now >= limit + delay_s:
                queued_s = (self._watch.cpu_wait_ns() - waited_ns) / 1e9 if waited_ns >= 0 else 0.0
                delay_s = min(queued_s + paused_s, (DELAYED - 1) * deadline_s)
                if now >= limit + delay_s:
                    raise self._out_of_time(limit - start, activity)
            wait_s = min(step, limit + delay_s - now)
            ready = {fd for fd, _ in self._poll.poll(wait_s * 1000 + 1)}
            if self._channel.fileno() in ready:
                return
            if self._zygote.interrupts.fd in ready:
                self._zygote.interrupts.check()
            if self._pidfd in ready:
                raise self._died(activity)
            if not ready and self._limits and (excess := self._limits.excess()):
                raise self._over_limit(excess)
            paused_s += max(0.0, time.monotonic() - now - wait_s - PUNCTUAL_S)
            if waited_ns < 0:
                # After the first wait: a short call is not disturbed by it.
                waited_ns = self._watch.cpu_wait_ns()
            if compile_s and process_watch.descendants(self.pid):
                limit = min(time.monotonic() + deadline_s, last)

    def _out_of_time(self, seconds: float, activity: str) -> ChildFailed:
        """Kill the child; return its failure: a limit that it exceeds, else its time."""
        if self._limits and (excess := self._limits.excess()):
            return self._over_limit(excess)
        below = len(process_watch.descendants(self.pid))
        return self._killed(_no_answer(seconds, activity, below), FailureKind.TIMEOUT)

    def _over_limit(self, excess: str) -> ChildFailed:
        """Kill the child; return its failure, which names the limit that it exceeds."""
        failed = self._killed(excess)
        if self._limits and self._limits.is_memory_exceeded:
            failed.fault = Fault(reason=excess, kind=FaultKind.MEMORY)
        return failed

    def _read(self) -> tuple[int, str, int]:
        try:
            data, _ = child_protocol.receive(self._channel)
        except OSError:  # the child died without reading a message
            data = b""
        if len(data) < child_protocol.REPLY.size:
            raise self._died(self._activity)
        nonce, status, length, value = child_protocol.REPLY.unpack(
            data[: child_protocol.REPLY.size]
        )
        if nonce != self._nonce:
            raise ChildFailed(FailureKind.CRASH, "the process answered what it was not asked")
        text = data[child_protocol.REPLY.size :][: min(length, child_protocol.TEXT_LIMIT)]
        return status, text.decode("utf-8", "replace"), value

    def _value(self, *, stop: bool = True) -> int:
        """Stop the child and return the value of its answer; raise ChildFailed if it failed."""
        if stop:
            self.freeze()
        status, text, value = self._read()
        if status == Status.OK:
            self.told = text and f" {strip_to_line(text)}"
            return value
        kind = FAILURES.get(status)
        if kind is None:
            raise ChildFailed(FailureKind.CRASH, "the process sent an answer that has no meaning")
        line, _, detail = text.partition(SEPARATOR)
        place = child_protocol.unpack_place(self._files, value)
        fault = Fault.at(place, strip_to_line(line))
        raise ChildFailed(kind, fault.located(), _joined(detail, self.end().output), fault)

    def _killed(self, message: str, kind: FailureKind = FailureKind.CRASH) -> ChildFailed:
        """Kill the child; return its failure, with its output."""
        return ChildFailed(kind, message, _joined("", self.end().output))

    def _killed_for_memory(self, status: int) -> bool:
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        return killed and _oom_kills() > self._oom_kills

    def _died(self, activity: str) -> ChildFailed:
        # A dying child's channel closes before its death, unless the untrusted code closed it.
        alive = not select.select([self._pidfd], [], [], EXIT_WAIT_S)[0]
        ended = self.end()
        kind = FaultKind.OTHER
        if alive:
            how = "closed its channel"
        elif os.WIFSIGNALED(ended.status) and os.WTERMSIG(ended.status) == signal.SIGSYS:
            how = "was ended by the sandbox: it made a system call that no kernel needs"
        elif self._killed_for_memory(ended.status):
            limit = f"{self._limits.memory_bytes / (1 << 30):.1f}" if self._limits else "no"
            how = f"was killed for memory (limit {limit} GiB)"
            kind = FaultKind.MEMORY
        elif os.WIFSIGNALED(ended.status):
            number = os.WTERMSIG(ended.status)
            how = f"was killed by {_named(number)}"
            kind = FaultKind.SEGFAULT if number == signal.SIGSEGV else kind
        else:
            how = f"ended with exit code {os.waitstatus_to_exitcode(ended.status)}"
        message = f"the process {how} while {activity}"
        fault = Fault(reason=message, kind=kind)
        return ChildFailed(FailureKind.CRASH, message, _joined("", ended.output), fault)


def _no_answer(seconds: float, activity: str, processes: int = 0) -> str:
    passed = f"no answer after {round(seconds, 1):g} s of {activity}"
    # Else a compiler that needs longer looks like a kernel that hangs.
    return f"{passed}; child processes at that time: {processes}" if processes else passed


OOM_KILLS = Path("/proc/vmstat")


def _oom_kills() -> int:
    """Return how many processes the kernel has killed for want of memory, in any cgroup."""
    with contextlib.suppress(OSError, ValueError):
        for line in OOM_KILLS.read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


def _named(number: int) -> str:
    """Return a signal's name, or its number for a real-time signal, which has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _joined(detail: str, printed: str) -> str:
    """Return an error's detail and the child's output, cleaned."""
    parts = [strip_escapes(trimmed(detail))]
    if printed.strip():
        parts.append("printed:\n" + strip_escapes(trimmed(printed), 4096))
    return "\n".join(part for part in parts if part)
