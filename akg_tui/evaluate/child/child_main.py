"""The untrusted side: a forked process that loads one kernel (or the reference) and serves it.

Until a plan is loaded it runs only our code, so what it says of its sandbox can be believed.
From then on nothing can: the judge takes neither times nor verdicts from it, only bytes in
memory that the judge made.
"""

from __future__ import annotations

import importlib
import mmap
import os
import random
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

import msgspec
import torch

from akg_tui.evaluate.child import layout as layouts
from akg_tui.evaluate.child import protocol
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
from akg_tui.evaluate.processes.build_cache import CopyFailed, CoveredFolder
from akg_tui.evaluate.sandbox import confinement
from akg_tui.evaluate.sandbox.confinement import Confinement, Tried

PRELOADED = ("numpy.random", "torch.utils.cpp_extension", "torch.nn.functional")
"""What kernels commonly import: shared by all children, instead of loaded in each."""

HEAP_SHIFT_BYTES = 1 << 20

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
    "idle": IdleServer,
}


def preload(more: tuple[str, ...] = ()) -> None:
    """Import what children will need, in the zygote."""
    for name in (*PRELOADED, *more):
        importlib.import_module(name)


@dataclass(frozen=True)
class ChildSetup:
    """What the zygote gives each of its children: where it stands and what it may read."""

    parent: int
    own_pid_namespace: bool
    programs: tuple[str, ...]
    data: tuple[str, ...]
    devices: tuple[str, ...] = ()
    bounds_address_space: bool = True


def run(request: protocol.Fork, setup: ChildSetup, *, channel: int, output: int) -> NoReturn:
    """Become the child: never returns to the zygote's code."""
    status = 70
    try:
        _take_descriptors(channel, output)
        wanted = Confinement(
            folder=request.folder,
            programs=setup.programs,
            data=setup.data,
            devices=setup.devices,
            bounds_address_space=setup.bounds_address_space,
            memory_bytes=request.memory_bytes,
            cpu_seconds=request.cpu_seconds,
            own_pid_namespace=setup.own_pid_namespace,
        )
        prepared = confinement.prepare(wanted, parent=setup.parent)
        torch.set_num_threads(request.threads)
        heap_blocks = shake_heap(random.SystemRandom())
        touch_pages()
        with socket.socket(fileno=CHANNEL) as judge:
            if assignment := _await_kernel(judge, prepared.memory):
                cache = CoveredFolder(assignment.cache)
                confinement.complete(_with_folders(wanted, assignment, cache), prepared)
                os.chdir(request.folder)
                os.environ.update(assignment.environment)
                copied = not assignment.builds and not prepared.tried["private_cache"]
                status = _serve(judge, prepared.tried, lambda: cache.uncover(copied=copied))
        del heap_blocks
    finally:
        # Not sys.exit: the zygote's own frames lie above this one.
        os._exit(status)


def _with_folders(
    wanted: Confinement, assignment: protocol.Assignment, cache: CoveredFolder
) -> Confinement:
    """Return `wanted` with the places of a kernel, as far as they are its own or given to it."""
    if assignment.builds:
        return msgspec.structs.replace(wanted, writable=(assignment.cache,))
    # What is covered has no other name, and this one goes with the descriptor.
    return msgspec.structs.replace(wanted, covered=(assignment.cache,), uncovered=(cache.path,))


def shake_heap(rng: random.Random) -> list[bytearray]:
    """Return blocks that shift where everything allocated later will lie.

    All children have the zygote's heap and addresses, so a kernel's tensors would lie at
    the same offsets in every process of one side. One such place against another is worth
    some percent, and repeats would take it for the kernel's own merit.
    """
    small = [bytearray(rng.randrange(16, 4096)) for _ in range(rng.randrange(64))]
    return [*small, bytearray(rng.randrange(HEAP_SHIFT_BYTES))]


def touch_pages() -> None:
    """Have the pages at hand that loading and calling a kernel needs, whatever the kernel.

    A fork has none of its parent's code mapped, and copies what it changes of its memory, be it
    a count of references. The operators are small enough to start no thread, and the same in
    all children; nothing of the trivial kernel stays.
    """
    seed_all(0)
    values = torch.randn(2, 8)
    wide = values.double().clone()
    wide.copy_(torch.softmax(values, dim=-1)).abs().max()
    layout = layouts.lay_out([values])
    plan = protocol.Plan(
        kind="kernel",
        source=TRIVIAL_KERNEL,
        filename="trivial",
        seed=0,
        slots=2,
        arguments=layouts.lay_out([]),
        weights=layouts.lay_out([]),
        inputs=layout,
        outputs=layout,
    )
    plan = msgspec.json.decode(msgspec.json.encode(plan), type=protocol.Plan)
    names: dict[str, object] = {"__name__": "trivial"}
    exec(compile(plan.source, plan.filename, "exec"), names)
    # Bound as a kernel is, but to memory of its own.
    memory = {name: mmap.mmap(-1, 2 * layout.size) for name in ("inputs", "addresses", "state")}
    server = KernelServer(plan, memory)
    server.bind()
    made = names["ModelNew"]
    if callable(made):
        server.model = made()
        server.call(2)


def _await_kernel(channel: socket.socket, memory: int) -> protocol.Assignment | None:
    """Wait, with nothing seen of any kernel, until there is one; None if there never is.

    The judge is given our memory to read (`/proc/self/mem`): results are to be found there.
    """
    socket.send_fds(channel, [protocol.pack_reply(0, protocol.Status.OK)], [memory])
    os.close(memory)
    data, _ = protocol.receive(channel)
    return msgspec.json.decode(data, type=protocol.Assignment) if data else None


def _take_descriptors(channel: int, output: int) -> None:
    """Take the child's place: its own descriptors, and no others."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDONLY)
    # Out of the way first: the numbers given to us may be the ones we want to fill.
    channel, output, nothing = (os.dup(fd) for fd in (channel, output, nothing))
    kept = [os.dup2(nothing, 0), os.dup2(output, 1), os.dup2(output, 2)]
    kept.append(os.dup2(channel, CHANNEL, inheritable=False))
    os.closerange(len(kept), 65_536)


def _serve(channel: socket.socket, tried: Tried, uncover: Callable[[], None]) -> int:
    held = "\n".join(f"{name}\t{why}" for name, why in tried.items())
    channel.send(protocol.pack_reply(0, protocol.Status.OK, held))
    server: Server | None = None
    while True:
        data, fds = protocol.receive(channel, 5)
        if not data:
            return 0
        op, count, nonce, *draw_args = protocol.REQUEST.unpack(data[: protocol.REQUEST.size])
        status, text, value = protocol.Status.OK, "", 0
        try:
            # Serving is bounded by the judge's deadline, so nothing here needs its own.
            if op == protocol.Op.CALL and server is not None:
                server.call(count)
            elif op == protocol.Op.LOAD:
                # Only now: its process was there before all that is to be copied.
                uncover()
                plan, memory = open_plan(fds)
                server = SERVERS[plan.kind](plan, memory)
                value = server.start()
            elif op == protocol.Op.BIND and server is not None:
                server.rebind(*open_plan(fds))
            elif server is not None:
                value = server.prepare(op, count, tuple(draw_args), fds)
        except Fault as error:
            status, text = error.status, error.text
        except CopyFailed as error:
            status, text = protocol.Status.BUILD, str(error)
        except BaseException as error:  # noqa: BLE001 (a kernel may raise SystemExit)
            fault = Fault(*describe(error))
            status, text = fault.status, fault.text
        sys.stdout.flush()
        channel.send(protocol.pack_reply(nonce, status, text, value))
