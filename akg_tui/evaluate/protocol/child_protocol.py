"""The messages between judge, zygote and children, and how values lie in shared memory.

Judge and child use fixed binary headers, because the child is untrusted: nothing it sends is parsed
beyond the header, and text that follows is only shown. Judge and zygote are trusted and use JSON.
All sockets are SOCK_SEQPACKET: each send carries one message.
"""

from __future__ import annotations

import math
import socket
import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import ClassVar, Literal, TypeAlias

from msgspec import Struct

from akg_tui.core.kernel.kernel_files import KernelFiles, Place

MESSAGE_LIMIT = 65_536
TEXT_LIMIT = 16_384
SEPARATOR = "\0"
"""Separates the one line and the detail in a reply's text."""
LINE_BITS = 32
REPORT_BYTES = 4 << 20
"""The largest description of a reference, as JSON."""

REMARK_BYTES = 2048
"""The largest remark of a kernel's process on its weights."""

FEW = 64
"""A result of fewer elements is sometimes small, or nearly exact, by luck."""

FEW_NUDGES = 5
"""The nudged inputs for which the results of few elements are computed; otherwise one."""

TIES = 6
"""The nudged inputs for which indices and other integers made from floats are computed: two pairs
of opposite changes, and one pair that sets the order of equal numbers by their place."""

DECISIONS = 2
"""The nudged inputs, a pair of opposite changes, for which results are computed that depend on a
decision inside the reference: on `round`, on a comparison, on the largest of some numbers."""

REQUEST = struct.Struct("<IIQQII")
"""op, count, nonce, and for DRAW: seed, first item, and `Want` bits with a `ValueKind`.

For CALL the count is the number of the configuration that tuners take.

For ALTER the count is the input's position, and above the bits are `Alteration` and axis."""

REPLY = struct.Struct("<QIIQ")
"""The request's nonce, status, bytes of text that follow, and a value.

The value of a failure is its place (`pack_place`); its text is what is wrong, and a detail."""


class Op(IntEnum):
    """The requests of the judge to a child."""

    LOAD = 1  # fds: plan, report, state, inputs, addresses
    STATE = 2  # write the reference's weights and constructor arguments
    DRAW = 3  # count items, in a row; fds the first time: inputs, outputs, exact
    CALL = 4  # call the model once; the child writes the results' addresses
    VARY = 5  # all later draws have other shapes; fds: a Variation
    BIND = 6  # fds as for LOAD: other shapes and memory for the loaded model
    WAKE = 7  # only the idle process: run the code around a call, which warms it
    ALTER = 8  # write the last item of the declared shapes with one input altered; fds as for DRAW
    PLACE = 9  # on a device: copy the sealed input there
    RUN = 10  # on a device: unseal it with the key that is the seed, and call the model once
    FETCH = 11  # on a device: copy the results and the arguments to the host
    MEASURE = 12  # the metrics of count items; fds: inputs, results, reference's results, kernel
    QUEUE = 13  # on a device: queue a call that waits there for the key in shared memory
    SETTLE = 14  # on a device: wait for all its work, and tell of the call that was queued
    CHECK = 15  # the task's check; fds: `Checked`, inputs, reference's results, kernel's results


class Want(IntEnum):
    """The data that DRAW writes in addition to the inputs, as a bit set."""

    OUTPUT = 1
    EXACT = 2
    TWICE = 4
    UNALTERED = 8  # the answer if no input can change as it is wanted
    UNUSUAL = 16  # of an unusual item: exact results for inputs changed by a rounding, too


KIND_SHIFT = 8
VARIANT_SHIFT = 16
"""The lowest bits above the Want bits: of the values to draw (`unusual_values.ValueKind`), and of
the position of the input that alone has them, plus 1; or of the `unusual_values.Alteration` and its
axis."""


class Status(IntEnum):
    """The outcome of a request, as the child reports it."""

    OK = 0
    BUILD = 1  # compiling or importing raised
    CALL = 2  # constructing or calling raised
    WRONG = 3  # a result of another type, number, shape or dtype
    TOOLCHAIN = 4  # no compiler
    REFERENCE = 5  # the reference's contract is not kept
    GUARD = 6  # the kernel leaves its work to others, where the task forbids that
    UNSUPPORTED = 7  # only the device that the kernel is written for can run it


ALIGNMENT = 64
SIZE_LIMIT = 16 << 30
ITEM_BYTES = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "complex64": 8, "complex128": 16,
    "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1, "bool": 1,
    "float8_e4m3fn": 1, "float8_e4m3fnuz": 1, "float8_e5m2": 1,
}  # fmt: skip
"""The size of an element, by the dtype's name in torch. Only these dtypes can be passed."""


class TensorSlot(Struct, frozen=True, tag="tensor"):
    """A tensor at `offset` bytes into its item; `stride` in elements."""

    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"

    @property
    def bytes(self) -> int:
        """Bytes from the first to the last element."""
        if 0 in self.shape:
            return 0
        last = sum((n - 1) * step for n, step in zip(self.shape, self.stride, strict=True))
        return (last + 1) * ITEM_BYTES[self.dtype]


class ScalarSlot(Struct, frozen=True, tag="scalar"):
    """A Python number that may differ between items, eight bytes wide."""

    kind: Literal["int", "float", "bool"]
    offset: int
    bytes: ClassVar[int] = 8


class ConstantSlot(Struct, frozen=True, tag="constant"):
    """A value that is equal in all items, as JSON text."""

    text: str


Slot: TypeAlias = TensorSlot | ScalarSlot | ConstantSlot


class Layout(Struct, frozen=True):
    """The slots of one item and its size in bytes, a multiple of `ALIGNMENT`."""

    slots: tuple[Slot, ...]
    size: int
    names: tuple[str, ...] = ()

    @property
    def tensors(self) -> tuple[TensorSlot, ...]:
        """The tensor slots, in order."""
        return tuple(slot for slot in self.slots if isinstance(slot, TensorSlot))

    def check(self) -> None:
        """Raise ValueError unless every slot lies inside the item."""
        if not 0 <= self.size <= SIZE_LIMIT or self.size % ALIGNMENT:
            raise ValueError(f"an item of {self.size} bytes is not allowed")
        for slot in self.slots:
            if isinstance(slot, ConstantSlot):
                continue
            if isinstance(slot, TensorSlot) and (
                slot.dtype not in ITEM_BYTES
                or len(slot.shape) != len(slot.stride)
                or min((*slot.shape, *slot.stride), default=0) < 0
            ):
                raise ValueError(f"not a tensor's description: {slot}")
            if slot.offset < 0 or slot.offset % 8 or slot.offset + slot.bytes > self.size:
                raise ValueError("a value lies outside of its item")


class Group(Struct, frozen=True):
    """Values that hold others, or the arguments of a call. An item that is None is a single value.

    `keys` are those of a dictionary, the fields of a record, or the names of arguments ("" for one
    that is passed by position). `name` is that of a record's class. `none`: a result is None.
    """

    kind: Literal["arguments", "list", "tuple", "dict", "named tuple", "dataclass", "none"]
    items: tuple[Group | None, ...] = ()
    keys: tuple[str | int, ...] = ()
    name: str = ""


class Contract(Struct, frozen=True):
    """How a model is called with the values of a flat list, and which tensors are its results.

    Results are the returned tensors, in order, then those that the reference adds to containers of
    its arguments, and then the inputs that it changes.
    """

    inputs: Group | None = None
    """How the inputs are nested; None: each is passed by position."""
    returned: Group | None = None
    """How the returned tensors are nested; None: it is one tensor."""
    changed: tuple[int, ...] = ()
    """The positions of the inputs that the reference changes."""
    replaced: tuple[int, ...] = ()
    """Those of `changed` in whose place a container holds another tensor after the call."""
    after: Group | None = None
    """How the inputs are nested after the call, where containers hold more or fewer values then."""
    kept: tuple[int, ...] = ()
    """With `after`: for each value then, the position of the input that it is; -1 for a result."""
    aliased: tuple[int, ...] = ()
    """The positions of returned tensors that are changed inputs, or views of them."""
    gradients: bool = False
    """Whether the model is called with gradients."""
    differentiable: tuple[int, ...] = ()
    """The positions of the inputs that require a gradient."""


class Plan(Struct, frozen=True, kw_only=True):
    """The content of a LOAD request. `kind` is kernel, reference, metrics, check or idle.

    An idle child returns results made beforehand, to measure the fixed cost of a call. A plan
    without `inputs` is of a reference that only draws them.
    """

    kind: str
    files: KernelFiles
    seed: int
    function: str = ""
    """The function of the file that a process of metrics or of a check calls."""
    arguments: Layout | None = None
    constructor: Group | None = None
    """How the constructor's `arguments` are nested."""
    weights: Layout | None = None
    inputs: Layout | None = None
    outputs: Layout | None = None
    contract: Contract = Contract()
    strides: tuple[str, ...] = ()
    """The worst stride class of each result (`layout.STRIDE_CLASSES`); empty: any."""
    trained: tuple[str, ...] = ()
    """Parameters of the reference that a kernel must have under equal names."""
    poisoned: bool = False
    """Fill allocated memory with a byte pattern, so that results never written are found, and guard
    the ends of arguments and results."""
    device: str = ""
    """The type of PyTorch's device that the model is called on; "": the host."""
    sealing: str = ""
    """The module that unseals and digests on that device."""
    results_on: str = ""
    """The type of the device that long expected results are computed on; "": the host."""
    threads: int = 0
    """The threads of a call, or of drawing inputs; 0: as many as a timed call may use."""
    watched: bool = False
    """Whether one call is refused if others than the kernel do its work."""
    queues: bool = False
    """Whether calls can be queued on that device, behind a wait for their key."""

    @property
    def filename(self) -> str:
        """The file that is loaded."""
        return self.files.main


class Checked(Struct, frozen=True):
    """The results that a check judges: those of an item of these layouts."""

    inputs: Layout
    outputs: Layout
    item: int
    nesting: Group | None = None
    """How the inputs are nested."""


class Variation(Struct, frozen=True):
    """The shapes of all inputs drawn later, one for each tensor, and whether strided.

    `structures` are the words for the structure of each input, which all changed inputs keep.
    """

    shapes: tuple[tuple[int, ...], ...]
    strided: bool = False
    structures: tuple[tuple[str, ...], ...] = ()


class Description(Struct, frozen=True, kw_only=True):
    """The memory layout of a reference's data; not the data itself."""

    arguments: Layout
    weights: Layout
    inputs: Layout
    outputs: Layout
    has_floats: bool
    constructor: Group | None = None
    contract: Contract = Contract()
    strides: tuple[str, ...] = ()
    trained: tuple[str, ...] = ()
    """Parameters whose initial values were changed."""
    stateful: tuple[str, ...] = ()
    """The buffers that a call changes."""
    terms: int = 1
    """The most terms that one of the reference's operators adds for an element of its result."""
    decides: bool = False
    """Whether rounding may decide a step inside the reference, which inexact results then show."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the inputs in `forward`, such as `state.m[0]`; "" for one without a name."""
        return self.inputs.names

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of the tensors that a kernel is called with."""
        return tuple(slot.shape for slot in self.inputs.tensors)

    @property
    def ties(self) -> int:
        """The number of further exact results that show which integers rounding may decide."""
        given = (*self.inputs.tensors, *self.weights.tensors)
        decided = any(not _is_inexact(slot) for slot in self.outputs.tensors)
        return TIES if decided and any(map(_is_inexact, given)) else 0

    @property
    def decisions(self) -> int:
        """The number of further exact results that show which decisions depend on rounding."""
        return DECISIONS if self.decides else 0

    @property
    def nudges(self) -> int:
        """The number of exact results that show the effect of rounding unusual inputs."""
        few = any(0 < math.prod(slot.shape) < FEW for slot in self.outputs.tensors)
        return FEW_NUDGES if few else 1


def _is_inexact(slot: TensorSlot) -> bool:
    return slot.dtype.startswith(("float", "bfloat", "complex"))


class Fork(Struct, frozen=True, tag=True, kw_only=True):
    """Judge to zygote, with the child's end of a socket: fork a child.

    Independent of any kernel, so children can be forked ahead. `folder` belongs to this child.
    """

    folder: str
    threads: int
    memory_bytes: int


class Assignment(Struct, frozen=True):
    """Judge to a child without a kernel: the kernel's build cache and environment.

    Other processes see only the files that a process with `builds` writes to `cache`; it must be
    called on the sample only.
    """

    cache: str
    environment: dict[str, str]
    builds: bool = False


class End(Struct, frozen=True, tag=True):
    """Judge to zygote: kill this child and its descendants, and reap it."""

    number: int


class Keep(Struct, frozen=True, tag=True):
    """Judge to zygote, with a descriptor: keep it open until the zygote ends, or another comes."""


class Forked(Struct, frozen=True, tag=True):
    """Zygote to judge, with a pidfd: the child was forked.

    `number` is its process id in the zygote's pid namespace; the judge may see another id.
    """

    number: int


class Ended(Struct, frozen=True, tag=True):
    """Zygote to judge: the child has ended, with the `status` of waitpid and its output."""

    number: int
    status: int
    output: str


class Failure(Struct, frozen=True, tag=True):
    """Zygote to judge: the request could not be served."""

    message: str


Request = Fork | End | Keep
"""A message from judge to zygote."""

Reply = Forked | Ended | Failure
"""A message from zygote to judge."""


def receive(
    channel: socket.socket, fds: int = 0, limit: int = MESSAGE_LIMIT
) -> tuple[bytes, list[int]]:
    """Return the next message, of at most `limit` bytes, and the file descriptors in it.

    The message is empty at end of file.
    """
    data, carried, _, _ = socket.recv_fds(channel, limit, fds)
    return data, list(carried)


def pack_place(names: Sequence[str], place: Place | None) -> int:
    """Return the place of a failure in one of a plan's files as a reply's value; 0 for none."""
    if place is None or place.file not in names:
        return 0
    return (names.index(place.file) + 1) << LINE_BITS | place.line % (1 << LINE_BITS)


def unpack_place(names: Sequence[str], value: int) -> Place | None:
    """Return the place that `pack_place` made a value of; None if it is none of these files."""
    number, line = divmod(value, 1 << LINE_BITS)
    return Place(names[number - 1], line) if 0 < number <= len(names) else None


def pack_reply(nonce: int, status: Status, text: str = "", value: int = 0) -> bytes:
    """Return a reply whose text is cut to the size limit of a message."""
    body = text.encode("utf-8", "replace")[:TEXT_LIMIT]
    return REPLY.pack(nonce, status, len(body), value) + body
