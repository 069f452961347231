"""The untrusted side: a forked process that loads one kernel (or the reference) and serves it.

Until a plan is loaded it runs only our code, so what it says of its sandbox can be believed.
From then on nothing can: the judge takes neither times nor verdicts from it, only bytes in
memory that the judge made.
"""

from __future__ import annotations

import importlib
import os
import random
import signal
import socket
import sys
from typing import NoReturn

import torch

from akg_tui.evaluate import sandbox, wire
from akg_tui.evaluate.drawing import ReferenceServer
from akg_tui.evaluate.faults import Fault, describe
from akg_tui.evaluate.serving import IdleServer, KernelServer, Server, open_plan

PRELOADED = ("numpy.random", "torch.utils.cpp_extension", "torch.nn.functional")
"""What kernels commonly import: shared by all children, instead of loaded in each."""

CHANNEL = 3
HEAP_SHIFT_BYTES = 1 << 20

SERVERS: dict[str, type[Server]] = {
    "kernel": KernelServer,
    "reference": ReferenceServer,
    "idle": IdleServer,
}


def preload() -> None:
    """Import what children will need, in the zygote."""
    for name in PRELOADED:
        importlib.import_module(name)


def run(request: wire.Fork, *, channel: int, output: int, parent: int) -> NoReturn:
    """Become the child: never returns to the zygote's code."""
    status = 70
    try:
        _settle(request, channel, output)
        held = sandbox.enter(parent=parent, memory_bytes=request.memory_bytes)
        kept = shake_heap(random.SystemRandom())
        status = _serve(socket.socket(fileno=CHANNEL), held)
        del kept
    finally:
        # Not sys.exit: the zygote's own frames lie above this one.
        os._exit(status)


def shake_heap(dice: random.Random) -> list[bytearray]:
    """Return blocks that shift where everything allocated later will lie.

    All children have the zygote's heap and addresses, so a kernel's tensors would lie at
    the same offsets in every process of one side. One such place against another is worth
    some percent, and repeats would take it for the kernel's own merit.
    """
    small = [bytearray(dice.randrange(16, 4096)) for _ in range(dice.randrange(64))]
    return [*small, bytearray(dice.randrange(HEAP_SHIFT_BYTES))]


def _settle(request: wire.Fork, channel: int, output: int) -> None:
    """Take the child's place: its folder, its environment, and no descriptor but its own."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDONLY)
    # Out of the way first: the numbers given to us may be the ones we want to fill.
    channel, output, nothing = (os.dup(fd) for fd in (channel, output, nothing))
    kept = [os.dup2(nothing, 0), os.dup2(output, 1), os.dup2(output, 2)]
    kept.append(os.dup2(channel, CHANNEL, inheritable=False))
    os.closerange(len(kept), 65_536)
    os.chdir(request.folder)
    os.environ.update(request.environment)
    torch.set_num_threads(request.threads)


def _serve(channel: socket.socket, held: tuple[str, ...]) -> int:
    channel.send(wire.pack_reply(0, wire.Status.OK, " ".join(held)))
    server: Server | None = None
    while True:
        data, fds = wire.receive(channel, 5)
        if not data:
            return 0
        op, count, nonce, *drawing = wire.REQUEST.unpack(data[: wire.REQUEST.size])
        status, text, value = wire.Status.OK, "", 0
        try:
            # Serving is bounded by the judge's deadline, so nothing here needs its own.
            if op == wire.Op.CALL and server is not None:
                server.call(count)
            elif op == wire.Op.LOAD:
                plan, memory = open_plan(fds)
                server = SERVERS[plan.kind](plan, memory)
                value = server.start()
            elif op == wire.Op.BIND and server is not None:
                server.rebind(*open_plan(fds))
            elif server is not None:
                value = server.prepare(op, count, tuple(drawing), fds)
        except Fault as fault:
            status, text = fault.status, fault.text
        except BaseException as error:  # noqa: BLE001 (a kernel may raise SystemExit)
            told = Fault(*describe(error))
            status, text = told.status, told.text
        sys.stdout.flush()
        channel.send(wire.pack_reply(nonce, status, text, value))
