"""The fork server: a process with torch imported and no secrets, whose children run kernels.

Only the zygote kills and reaps them. Where the kernel allows, the zygote is the first process of a
pid namespace, and each child the first of a nested namespace: then no process can outlive the
process that started it. The zygote never runs untrusted code, and never an OpenMP region:
a child forked after one hangs in libgomp. When the judge ends, for any reason, its end of the
control socket closes, and the zygote kills all children and exits.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import platform
import select
import shutil
import signal
import socket
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from akg_tui.dsl import torch_headers
from akg_tui.dsl.adapters import DSLS
from akg_tui.evaluate.child import child_main, seal
from akg_tui.evaluate.protocol import child_protocol
from akg_tui.evaluate.sandbox import confinement, namespaces, process_watch, seccomp
from akg_tui.evaluate.sandbox.confinement import Confinement
from akg_tui.evaluate.sandbox.namespaces import PidNamespaceForker
from akg_tui.evaluate.targets import TARGETS, Target

OUTPUT_LIMIT = 8_192
PIPE_BYTES = 65_536


class Capture:
    """The output of a child: its last bytes, at most `OUTPUT_LIMIT`."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._kept = b""

    def drain(self) -> bool:
        """Read the available bytes; return False if the last writer has closed the pipe."""
        try:
            data = os.read(self.fd, PIPE_BYTES)
        except BlockingIOError:
            return True
        self._kept = (self._kept + data)[-OUTPUT_LIMIT:]
        return bool(data)

    def text(self) -> str:
        """Return the kept output as text, which is untrusted."""
        return self._kept.decode("utf-8", "replace")


class Zygote:
    """Serves the judge's requests until the judge ends."""

    def __init__(
        self,
        control: socket.socket,
        forker: PidNamespaceForker | None,
        target: Target,
        readable: Sequence[str],
    ) -> None:
        self._control = control
        self._forker = forker
        self._confinement = Confinement(
            folder="",
            memory_bytes=0,
            own_pid_namespace=forker is not None,
            programs=confinement.programs(),
            data=(*confinement.DATA, *target.readable(), *readable),
            devices=target.devices(),
            bounds_address_space=target.bounds_address_space,
        )
        """The confinement of all children, except for a child's folder and limits."""
        self._pid = os.getpid()
        self._captures: dict[int, Capture] = {}
        self._ending: dict[int, int] = {}
        """Children that were killed, by their pidfd."""
        self._kept: list[int] = []
        """The descriptor of the judge's that stays open until no child is left."""
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)

    def serve(self) -> None:
        """Serve requests; return when the judge has ended and no child is left."""
        while True:
            for fd, _ in self._poll.poll():
                if fd == self._control.fileno():
                    is_served = self._serve_request()
                elif fd in self._ending:
                    is_served = self._reply(self._reap(fd))
                else:
                    capture = next((c for c in self._captures.values() if c.fd == fd), None)
                    if capture is not None and not capture.drain():
                        self._poll.unregister(fd)
                    continue
                if not is_served:
                    self._end_all()
                    return

    def _serve_request(self) -> bool:
        try:
            data, fds = child_protocol.receive(self._control, 1)
        except ConnectionResetError:  # the judge ended before it read all replies
            return False
        if not data:
            return False
        request = msgspec.json.decode(data, type=child_protocol.Request)
        if isinstance(request, child_protocol.Keep):
            for fd in self._kept:
                os.close(fd)
            self._kept = fds
            return True
        if not isinstance(request, child_protocol.Fork):
            if request.number not in self._captures:
                return self._reply(
                    child_protocol.Failure(f"{request.number} is no child of the zygote")
                )
            self._kill(request.number)
            return True
        reply: child_protocol.Reply
        carried: list[int] = []
        try:
            pid = self._fork(request, fds[0])
            carried = [os.pidfd_open(pid)]
            reply = child_protocol.Forked(pid)
        except OSError as error:
            reply = child_protocol.Failure(f"a process could not be made: {error}")
        try:
            return self._reply(reply, carried)
        finally:
            for fd in [*fds, *carried]:
                os.close(fd)

    def _reply(self, reply: child_protocol.Reply, fds: Sequence[int] = ()) -> bool:
        """Send a reply to the judge; return False if the judge has ended."""
        try:
            socket.send_fds(self._control, [msgspec.json.encode(reply)], list(fds))
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True

    def _fork(self, request: child_protocol.Fork, channel: int) -> int:
        reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(writing, True)
        try:
            pid = self._forker.fork() if self._forker is not None else os.fork()
        except OSError:
            os.close(reading)
            os.close(writing)
            raise
        if pid == 0:
            wanted = msgspec.structs.replace(
                self._confinement,
                folder=request.folder,
                memory_bytes=request.memory_bytes,
            )
            parent, threads = self._pid, request.threads
            child_main.run(wanted, threads, parent=parent, channel=channel, output=writing)
        os.close(writing)
        self._captures[pid] = Capture(reading)
        self._poll.register(reading, select.POLLIN)
        return pid

    def _kill(self, pid: int) -> None:
        """Kill a child with all its descendants, without waiting for their end."""
        # A child may not have its own group yet, and the group may outlive it: kill both.
        for kill in (os.kill, os.killpg):
            try:
                kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        gone = os.pidfd_open(pid)
        self._ending[gone] = pid
        self._poll.register(gone, select.POLLIN)

    def _reap(self, gone: int) -> child_protocol.Ended:
        """Wait for a killed child; return its exit status and output."""
        pid = self._ending.pop(gone)
        self._poll.unregister(gone)
        os.close(gone)
        # The kernel reports the first process of a namespace gone after all others in it.
        _, status = os.waitpid(pid, 0)
        capture = self._captures.pop(pid)
        if self._forker is None:
            process_watch.end_orphans(self._captures)
        capture.drain()  # a pipe holds no more
        with contextlib.suppress(KeyError):  # the last writer had closed it before
            self._poll.unregister(capture.fd)
        os.close(capture.fd)
        return child_protocol.Ended(pid, status, capture.text())

    def _end_all(self) -> None:
        for pid in self._captures.keys() - self._ending.values():
            self._kill(pid)
        for gone in list(self._ending):
            self._reap(gone)
        if self._forker is None:
            process_watch.end_orphans()


def fork_zygote(
    target: str, dsl: str, home: Path, *, unneeded: socket.socket, modules: Sequence[str] = ()
) -> tuple[int, socket.socket]:
    """Fork the zygote; return its process id and the socket that controls it.

    The calling process must have a single thread and the target's environment; it keeps the
    imported modules, and `modules` besides those that every zygote loads. The zygote closes the
    socket `unneeded`. `home` is emptied, and becomes the home of all children.
    """
    on_gpu = TARGETS[target].device == "cuda"
    with _gpu_taken_for_granted() if on_gpu else contextlib.nullcontext():
        for name in (*child_main.PRELOADED, *DSLS[dsl].preloaded(target), *modules):
            importlib.import_module(name)
        # One of `modules` may have put a target in the place of another.
        for name in TARGETS[target].preloaded():
            importlib.import_module(name)
    if TARGETS[target].device:
        seal.library()
    torch_headers.use(importlib.import_module("torch.utils.cpp_extension"))
    headers = torch_headers.home()
    with contextlib.suppress(OSError):  # a rule for files needs a folder that is there
        headers.mkdir(mode=0o700, parents=True, exist_ok=True)
    if seccomp.supported():
        seccomp.encoded(platform.machine(), bool(TARGETS[target].devices()))
    gc.collect()
    # A garbage collection in a child would write to every page of torch's objects, and copy it.
    gc.freeze()
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    ours, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid != 0:
        control.close()
        return pid, ours
    try:
        ours.close()
        unneeded.close()
        os.environ |= {"HOME": str(home), "TMPDIR": str(home)}
        DSLS[dsl].prepare(target)
        # In a new session: a signal for the judge's group must not reach the zygote.
        os.setsid()
        forker = None if namespaces.enter_pid_namespace(control.fileno()) else PidNamespaceForker()
        confinement.adopt_orphans()
        confinement.hide_memory()
        control.send(b"ready")
        Zygote(control, forker, TARGETS[target], [str(headers)]).serve()
    except BaseException as error:  # noqa: BLE001 (nothing above this frame would report it)
        traceback.print_exception(error)
    finally:
        # Never returns to the judge's code, and skips the exit handlers of libraries.
        os._exit(0)


@contextlib.contextmanager
def _gpu_taken_for_granted() -> Iterator[None]:
    """Make PyTorch believe in a GPU while its modules are loaded, some of which ask for one.

    The question starts CUDA, and PyTorch refuses that to all processes that are forked later
    ("Poison fork" in its notes on multiprocessing); by NVML it breaks NVML for them.
    """
    cuda = vars(importlib.import_module("torch.cuda"))
    asks = cuda["is_available"]
    cuda["is_available"] = lambda: True
    try:
        yield
    finally:
        cuda["is_available"] = asks
