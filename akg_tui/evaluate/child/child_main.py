"""The main function of a forked child, which loads one kernel (or the reference) and serves it.

Until a plan is loaded it runs only our code, so its report on the sandbox can be trusted.
Afterwards the judge trusts nothing from it: it takes no times and no verdicts from a child.
"""

from __future__ import annotations

import mmap
import os
import random
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from typing import NoReturn

import msgspec
import torch

from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.dsl.interpretation import CONFIGURATIONS
from akg_tui.evaluate.child.device_server import (
    DeviceIdleServer,
    DeviceKernelServer,
    DeviceReferenceServer,
)
from akg_tui.evaluate.child.faults import Fault, describe
from akg_tui.evaluate.child.input_generator import ReferenceServer
from akg_tui.evaluate.child.kernel_server import (
    CHANNEL,
    IdleServer,
    KernelServer,
    Server,
    open_plan,
    seed_all,
)
from akg_tui.evaluate.child.task_functions import CheckServer, MetricsServer
from akg_tui.evaluate.protocol import child_protocol
from akg_tui.evaluate.protocol import tensor_layout as layouts
from akg_tui.evaluate.sandbox import confinement
from akg_tui.evaluate.sandbox.build_cache import CopyFailed, CoveredFolder
from akg_tui.evaluate.sandbox.confinement import Confinement, Tried

PRELOADED = ("numpy.random", "torch.utils.cpp_extension", "torch.nn.functional")
"""Modules that kernels commonly import: loaded once in the zygote, shared by all children."""

HEAP_SHIFT_BYTES = 1 << 20
FDS_MOST = 8
"""The most descriptors of a request."""

TRIVIAL_KERNEL = """
import torch
import torch.nn.functional as F


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)
        self.state_dict()

    def forward(self, x):
        return F.relu(x.clone())
"""

SERVERS: dict[str, type[Server]] = {
    "kernel": KernelServer,
    "reference": ReferenceServer,
    "metrics": MetricsServer,
    "check": CheckServer,
    "idle": IdleServer,
}
DEVICE_SERVERS: dict[str, type[Server]] = {
    "kernel": DeviceKernelServer,
    "reference": DeviceReferenceServer,
    "idle": DeviceIdleServer,
}


def run(wanted: Confinement, threads: int, *, parent: int, channel: int, output: int) -> NoReturn:
    """Run the child until it exits; never return to the zygote's code."""
    status = 70
    try:
        _take_descriptors(channel, output)
        prepared = confinement.prepare(wanted, parent=parent)
        torch.set_num_threads(threads)
        heap_blocks = shake_heap(random.SystemRandom())
        touch_pages()
        with socket.socket(fileno=CHANNEL) as judge:
            if assignment := _await_kernel(judge, prepared.memory):
                cache, builds = CoveredFolder(assignment.cache), assignment.builds
                whole = msgspec.structs.replace(
                    wanted,
                    writable=(assignment.cache,) if builds else (),
                    covered=() if builds else (assignment.cache,),
                    # The covered folder has no other path; this path ends with the descriptor.
                    uncovered=() if builds else (cache.path,),
                )
                confinement.complete(whole, prepared)
                os.chdir(wanted.folder)
                os.environ.update(assignment.environment)
                tempfile.tempdir = None  # a module that the zygote loaded may have looked it up
                copied = not builds and not prepared.tried["private_cache"]
                status = _serve(judge, prepared.tried, lambda: cache.uncover(copied=copied))
        del heap_blocks
    finally:
        # Not sys.exit: the zygote's own frames lie above this one.
        os._exit(status)


def shake_heap(rng: random.Random) -> list[bytearray]:
    """Return blocks of random size that shift the addresses of all later allocations.

    All children inherit the zygote's heap, so a kernel's tensors would have equal offsets in
    every process of one side. An offset changes times by some percent, which repeated measurements
    would attribute to the kernel.
    """
    small = [bytearray(rng.randrange(16, 4096)) for _ in range(rng.randrange(64))]
    return [*small, bytearray(rng.randrange(HEAP_SHIFT_BYTES))]


def touch_pages() -> None:
    """Touch the pages that loading and calling any kernel needs.

    A fork maps its parent's code on first use, and copies each page that it changes, even for a
    reference count. The operators are too small to start a thread, and equal in all children;
    nothing of the trivial kernel stays in memory.
    """
    seed_all(0, devices=False)
    values = torch.randn(2, 8)
    wide = values.double().clone()
    wide.copy_(torch.softmax(values, dim=-1)).abs().max()
    layout = layouts.lay_out([values])
    plan = child_protocol.Plan(
        kind="kernel",
        files=KernelFiles({"trivial": TRIVIAL_KERNEL}),
        seed=0,
        arguments=layouts.lay_out([]),
        weights=layouts.lay_out([]),
        inputs=layout,
        outputs=layout,
    )
    plan = msgspec.json.decode(msgspec.json.encode(plan), type=child_protocol.Plan)
    names: dict[str, object] = {"__name__": "trivial"}
    exec(compile(plan.files.text, plan.filename, "exec"), names)
    # Bound like a kernel, but to separate memory.
    memory = {name: mmap.mmap(-1, 2 * layout.size) for name in ("inputs", "addresses", "state")}
    server = KernelServer(plan, memory)
    server.bind()
    made = names["ModelNew"]
    if callable(made):
        server.model = made()
        for _ in range(2):
            server.call()


def _await_kernel(channel: socket.socket, memory: int) -> child_protocol.Assignment | None:
    """Wait for the assignment to a kernel; None if the judge closes the channel.

    First send the judge a descriptor of this process's memory (`/proc/self/mem`), by which it reads
    results.
    """
    socket.send_fds(channel, [child_protocol.pack_reply(0, child_protocol.Status.OK)], [memory])
    os.close(memory)
    data, _ = child_protocol.receive(channel)
    return msgspec.json.decode(data, type=child_protocol.Assignment) if data else None


def _reply(
    fault: Fault, server: Server | None, told: str = ""
) -> tuple[child_protocol.Status, str, int]:
    """Return status, text and value of the reply that tells of a fault."""
    names = server.plan.files.names if server else ()
    text = fault.what + told + child_protocol.SEPARATOR + fault.detail
    return fault.status, text, child_protocol.pack_place(names, fault.place)


def _take_descriptors(channel: int, output: int) -> None:
    """Keep only the child's own descriptors: 0 to 2 and `CHANNEL`."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDONLY)
    # Duplicated first, because the given numbers may equal the numbers to be filled.
    channel, output, nothing = (os.dup(fd) for fd in (channel, output, nothing))
    kept = [os.dup2(nothing, 0), os.dup2(output, 1), os.dup2(output, 2)]
    kept.append(os.dup2(channel, CHANNEL, inheritable=False))
    os.closerange(len(kept), 65_536)


def _serve(channel: socket.socket, tried: Tried, uncover: Callable[[], None]) -> int:
    held = "\n".join(f"{name}\t{why}" for name, why in tried.items())
    channel.send(child_protocol.pack_reply(0, child_protocol.Status.OK, held))
    server: Server | None = None
    call, unpack = int(child_protocol.Op.CALL), child_protocol.REQUEST.unpack
    while True:
        data, fds = child_protocol.receive(channel, FDS_MOST, child_protocol.REQUEST.size)
        if not data:
            return 0
        op, count, nonce, *draw_args = unpack(data)
        status, text, value = child_protocol.Status.OK, "", 0
        try:
            # No time limit here: the judge has a deadline for every request.
            if op == call and server is not None:
                CONFIGURATIONS.number = count
                server.call()
                value = CONFIGURATIONS.most
                if CONFIGURATIONS.taken:
                    text = CONFIGURATIONS.told()
            elif op == child_protocol.Op.WAKE and server is not None:
                server.wake()
            elif op == child_protocol.Op.LOAD:
                # Not earlier: the builder may have written the files after this process forked.
                uncover()
                plan, memory = open_plan(fds)
                servers = DEVICE_SERVERS if plan.device else SERVERS
                server = servers[plan.kind](plan, memory)
                value = server.start()
            elif op == child_protocol.Op.BIND and server is not None:
                server.rebind(*open_plan(fds))
            elif server is not None:
                value = server.prepare(op, count, tuple(draw_args), fds)
        except Fault as error:
            told = CONFIGURATIONS.told() if op == call else ""
            told = told and f" {told}"
            status, text, value = _reply(error, server, told)
        except CopyFailed as error:
            status, text = child_protocol.Status.BUILD, str(error)
        except BaseException as error:  # noqa: BLE001 (a kernel may raise SystemExit)
            status, text, value = _reply(describe(error), server)
        sys.stdout.flush()
        channel.send(child_protocol.pack_reply(nonce, status, text, value))
