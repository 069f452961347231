"""Runs a reference once to find what it needs: bytes, work, and the time of one call.

With fake tensors nothing is allocated: a reference of any size is sized in an instant. If a
reference looks at values (`.item()`), only its inputs are sized like that; a real call under the
memory limit finds the rest. The figures choose sizes; no verdict depends on them.
"""

from __future__ import annotations

import contextlib
import time
import traceback
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from akg_tui.evaluate.child import faults
from akg_tui.evaluate.child.input_generator import ReferenceServer
from akg_tui.evaluate.child.model_call import copies
from akg_tui.evaluate.protocol import tensor_layout as layouts
from akg_tui.evaluate.reference_fault import Fault, FaultKind
from akg_tui.sizing.needs import Answer, Empty, Needs

SHAPES, FAKE, REAL = "shapes", "sizes", "measured sizes"
"""The kinds of plan that this server serves."""

TORCH_OUT_OF_MEMORY = ("can't allocate", "size calculation overflowed")
"""Parts of what torch says: on the host its error has no class of its own."""
TRITON_DRIVER = "triton.runtime.driver"
"""The module of Triton that looks for a GPU."""

AGAIN_S = 1.0
"""A call shorter than this is repeated: the first one also allocates and starts threads."""


class SizeServer(ReferenceServer):
    """Reports the `Needs` of a reference and then has nothing more to serve."""

    def start(self) -> int:
        """Load and call the reference; return the size of the report."""
        try:
            answer = Answer(self._needs())
        except faults.Fault as error:
            answer = Answer(refused=self._told(error))
        text = msgspec.json.encode(answer)
        self.memory["report"][: len(text)] = text
        return len(text)

    def _needs(self) -> Needs:
        # Its checks look at values, which fake tensors do not have.
        torch.distributions.Distribution.set_default_validate_args(False)
        cost = _Cost()
        fake = self.plan.kind != REAL
        with _faked(cost) if fake else contextlib.nullcontext():
            self.execute()
            self.load_model()
            inputs = self.draw_inputs()
            for given in (self.given, self.inputs):
                self._check_types(given.values, given.names)
            if self.plan.kind == SHAPES:
                return Needs(
                    inputs=_bytes(inputs),
                    results=0,
                    weights=self._weight_bytes(),
                    shapes=_shapes(inputs),
                )
            cost.restart(inputs)
            # A single thread's CPU time, which other work on the machine does not lengthen.
            clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
            start = clock()
            failed = None
            results: Sequence[torch.Tensor] = ()
            try:
                _, results, names = self.observe()
                self._check_types(results, names)
            except faults.Fault as error:
                if not fake:
                    raise
                failed = self._told(error)
            call_s = clock() - start
        if not fake and call_s < AGAIN_S:
            again = copies(inputs)
            start = clock()
            self._called_on(self.model, again)
            call_s = min(call_s, clock() - start)
        return Needs(
            inputs=_bytes(inputs),
            results=_bytes(results),
            weights=self._weight_bytes(),
            peak=cost.peak,
            moved=cost.moved,
            operations=sum(cost.by_dtype.values()),
            arithmetic=max(cost.by_dtype, key=cost.by_dtype.__getitem__, default=""),
            call_s=None if fake else call_s,
            cpu_s=time.process_time(),
            empty=_empty(inputs, results),
            failed=failed,
            shapes=_shapes(inputs),
            elements=sum(result.numel() for result in results),
        )

    def _weight_bytes(self) -> int:
        if not isinstance(self.model, torch.nn.Module):
            return 0
        return _bytes(list(self.model.state_dict().values()))

    def _told(self, error: faults.Fault) -> Fault:
        line = error.place.line if error.place else 0
        return Fault(reason=error.what, kind=_kind(error.__cause__), line=line or None)

    def _check_types(self, values: Sequence[object], names: Sequence[str]) -> None:
        """Refuse values that cannot be passed to a kernel before sizes are searched for them."""
        try:
            layouts.lay_out(values, names)
        except layouts.Unsupported as error:
            raise self._complaint(str(error)) from error


def _kind(error: BaseException | None) -> FaultKind:
    """Return the kind of a fault of a call."""
    said = str(error)
    if isinstance(error, MemoryError) or any(part in said for part in TORCH_OUT_OF_MEMORY):
        return FaultKind.MEMORY
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__ if error else None)]
    raised_in = frames[-1].f_globals.get("__name__") if frames else ""
    return FaultKind.NO_GPU if raised_in == TRITON_DRIVER else FaultKind.OTHER


def preload() -> None:
    """Import what fake tensors import at first use, before the sandbox forbids it.

    Computes nothing, so no thread is started.
    """
    with _faked(_Cost()):
        torch.nn.Conv2d(1, 1, 1)(torch.rand(1, 1, 2, 2)).softmax(-1).sum()
        torch.nn.LSTM(1, 1)(torch.rand(1, 1, 1))


class _Cost(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the operations of a call, the bytes of their results, and the most bytes alive."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.moved = self.peak = self._live = 0
        self.by_dtype: dict[str, int] = {}
        """The operations of the call, by the dtype that they compute."""
        self._known: weakref.WeakKeyDictionary[torch.UntypedStorage, int] = (
            weakref.WeakKeyDictionary()
        )

    def restart(self, inputs: Sequence[object]) -> None:
        """Begin to count the work of the model's call, to which `inputs` are read."""
        self.moved = _bytes(inputs)
        self.by_dtype.clear()

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        """Call an operator of torch and count it."""
        result = func(*args, **(kwargs or {}))
        count = flop_registry.get(getattr(func, "_overloadpacket", None))
        if count is not None:
            counted = int(count(*args, **(kwargs or {}), out_val=result))
        else:
            counted = _operations(func, args, result)
        if counted:
            dtype = _dtype(args, result)
            self.by_dtype[dtype] = self.by_dtype.get(dtype, 0) + counted
        for value in tree_leaves(result):
            if isinstance(value, torch.Tensor):
                self.moved += value.numel() * value.element_size()
                self._follow(value.untyped_storage())
        return result

    def _follow(self, storage: torch.UntypedStorage) -> None:
        if storage not in self._known:
            size = self._known[storage] = storage.nbytes()
            self._live += size
            self.peak = max(self.peak, self._live)
            weakref.finalize(storage, self._drop, size)

    def _drop(self, size: int) -> None:
        self._live -= size


_WITHOUT_ARITHMETIC = frozenset({"clone", "where", "masked_fill", "masked_fill_", "isnan", "isinf"})
"""Operators that torch calls pointwise and that only move elements, by their names."""

_AN_ELEMENT = {
    # The least that each needs for an element of its first argument.
    "_softmax": 4, "_log_softmax": 4, "native_layer_norm": 7, "native_group_norm": 7,
    "native_batch_norm": 6, "cumsum": 1, "cumprod": 1, "logcumsumexp": 3, "topk": 1, "sort": 1,
    "max_pool2d_with_indices": 1, "avg_pool2d": 1, "logsumexp": 3, "_fused_rms_norm": 4,
}  # fmt: skip
"""The operations an element of operators that torch gives no tag, by their names."""


def _operations(func: object, args: tuple[object, ...], result: object) -> int:
    """Return the operations of an operator that torch's own counter does not know.

    What exp, tanh and the like cost depends on the accuracy that the task demands: they count as
    one.
    """
    name = str(getattr(getattr(func, "_overloadpacket", None), "__name__", ""))
    tags = getattr(func, "tags", ())
    given = [v.numel() for v in tree_leaves(args) if isinstance(v, torch.Tensor)]
    made = [v.numel() for v in tree_leaves(result) if isinstance(v, torch.Tensor)]
    if name in _AN_ELEMENT:
        return _AN_ELEMENT[name] * max(given, default=0)
    if torch.Tag.reduction in tags:
        return max(given, default=0)
    if torch.Tag.pointwise in tags and name not in _WITHOUT_ARITHMETIC:
        return max(made, default=0)
    return 0


def _dtype(args: tuple[object, ...], result: object) -> str:
    """Return the type of the numbers that an operator computes with."""
    values = [v for v in tree_leaves((args, result)) if isinstance(v, torch.Tensor)]
    floats = [v for v in values if v.is_floating_point()]
    return str((floats or values)[0].dtype).removeprefix("torch.")


@contextlib.contextmanager
def _faked(cost: _Cost) -> Iterator[None]:
    with FakeTensorMode(allow_non_fake_inputs=True), cost:
        yield


def _bytes(values: Sequence[object]) -> int:
    return sum(v.numel() * v.element_size() for v in values if isinstance(v, torch.Tensor))


def _shapes(values: Sequence[object]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(v.shape) for v in values if isinstance(v, torch.Tensor))


def _empty(inputs: Sequence[object], results: Sequence[torch.Tensor]) -> Empty | None:
    """Return the first tensor without elements, or None."""
    tensors: tuple[tuple[Literal["input", "output"], Sequence[object]], ...]
    tensors = (("input", inputs), ("output", results))
    for name, values in tensors:
        for index, value in enumerate(values):
            if isinstance(value, torch.Tensor) and not value.numel():
                return Empty(name, index, tuple(value.shape))
    return None
