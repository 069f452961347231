"""What the judge, the zygote and their children say to one another.

Judge and child speak in fixed binary headers, because the child is untrusted: nothing it
sends is parsed beyond the header, and the text that may follow is only ever shown. Judge
and zygote are both ours and speak JSON. All sockets are SOCK_SEQPACKET: one message a send.
"""

from __future__ import annotations

import socket
import struct
from enum import IntEnum

from msgspec import Struct

from akg_tui.evaluate.child.layout import Layout

MESSAGE_LIMIT = 65_536
TEXT_LIMIT = 16_384
REPORT_BYTES = 4 << 20
"""Room for what a reference says of itself."""

REQUEST = struct.Struct("<IIQQII")
"""op, count, nonce, and for DRAW: the first item's seed, the first item, and what is wanted."""

REPLY = struct.Struct("<QIIQ")
"""The request's nonce, status, bytes of text that follow, and a value."""


class Op(IntEnum):
    """What the judge may ask of a child."""

    LOAD = 1  # fds: plan, report, state, inputs, places
    STATE = 2  # write the reference's weights and constructor arguments
    DRAW = 3  # count items, in a row; fds the first time: inputs, outputs, exact
    CALL = 4  # count calls, on slots 0 .. count - 1; places tell where results lie
    VARY = 5  # draw other shapes from now on; fds: a Variation
    BIND = 6  # fds as for LOAD: other shapes and memory for what is loaded


class Want(IntEnum):
    """What DRAW should leave beside the inputs, as a bit set."""

    OUTPUT = 1
    EXACT = 2
    TWICE = 4
    NUDGED = 8  # exact results for inputs changed by one rounding; twice as many exact items


KIND_SHIFT = 8
"""Above the bits of Want: which values to draw (`cases.Case`)."""


class Status(IntEnum):
    """How a child says that a request ended."""

    OK = 0
    BUILD = 1  # compiling or importing raised
    CALL = 2  # constructing or calling raised
    WRONG = 3  # a result of another type, number, shape or dtype
    TOOLCHAIN = 4  # no compiler
    REFERENCE = 5  # the reference's contract is not kept


class Plan(Struct, frozen=True, kw_only=True):
    """What a child is to be, sent once. `kind` is kernel, reference or idle.

    An idle child returns results that it made beforehand: what it takes is the fixed cost
    of a call. `slots` is 0 for a reference that only draws inputs.
    """

    kind: str
    source: str
    filename: str
    seed: int
    slots: int = 0
    arguments: Layout | None = None
    weights: Layout | None = None
    inputs: Layout | None = None
    outputs: Layout | None = None
    strides: tuple[str, ...] = ()
    """How each result may lie at worst (`layout.STRIDE_CLASSES`); empty: in any way."""
    trained: tuple[str, ...] = ()
    """Parameters of the reference's that a kernel must take over, under the same names."""
    poisoned: bool = False
    """Memory is full of rubbish when it is allocated: what was never written shows."""


class Variation(Struct, frozen=True):
    """What the inputs drawn from now on look like: a shape for each tensor, and how they lie."""

    shapes: tuple[tuple[int, ...], ...]
    strided: bool = False


class Description(Struct, frozen=True, kw_only=True):
    """What a reference says of itself: how its data lies, not the data."""

    arguments: Layout
    weights: Layout
    inputs: Layout
    outputs: Layout
    has_floats: bool
    strides: tuple[str, ...] = ()
    trained: tuple[str, ...] = ()
    """Parameters that no longer are what a model begins with."""


class Fork(Struct, frozen=True, tag=True, kw_only=True):
    """Judge to zygote, with the child's end of a socket: make a child.

    Nothing in it depends on a kernel, so a child can be made before it is known for which.
    `folder` is its own alone.
    """

    folder: str
    threads: int
    memory_bytes: int
    cpu_seconds: int


class Assignment(Struct, frozen=True):
    """Judge to a child that runs our code only: what it may write to beside its folder.

    Only what a process that `builds` writes to `cache` is there for others; it must be called on
    nothing but the sample.
    """

    cache: str
    environment: dict[str, str]
    builds: bool = False


class End(Struct, frozen=True, tag=True):
    """Judge to zygote: kill this child and all it started, and reap it."""

    number: int


class ReadOutput(Struct, frozen=True, tag=True):
    """Judge to zygote: say what this child has printed so far; it stands still."""

    number: int


class Output(Struct, frozen=True, tag=True):
    """Zygote to judge: what a child has printed so far."""

    number: int
    output: str


class Forked(Struct, frozen=True, tag=True):
    """Zygote to judge, with a pidfd: the child is there.

    `number` is how the zygote calls it; the process id that the judge sees is another one
    where the zygote has a namespace of its own.
    """

    number: int


class Ended(Struct, frozen=True, tag=True):
    """Zygote to judge: the child is gone; `status` is from wait, `output` what it printed."""

    number: int
    status: int
    output: str


class Failure(Struct, frozen=True, tag=True):
    """Zygote to judge: the request could not be served."""

    message: str


Request = Fork | End | ReadOutput
"""What the judge asks of the zygote."""

Reply = Forked | Output | Ended | Failure
"""What the zygote answers."""


def receive(channel: socket.socket, fds: int = 0) -> tuple[bytes, list[int]]:
    """Return the next message and the file descriptors it carried; empty at the end."""
    data, carried, _, _ = socket.recv_fds(channel, MESSAGE_LIMIT, fds)
    return data, list(carried)


def pack_reply(nonce: int, status: Status, text: str = "", value: int = 0) -> bytes:
    """Return a reply, its text cut to what fits."""
    body = text.encode("utf-8", "replace")[:TEXT_LIMIT]
    return REPLY.pack(nonce, status, len(body), value) + body
