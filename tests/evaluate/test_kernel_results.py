"""Results are read where a kernel put them: as they lie, and nowhere else."""

from __future__ import annotations

import os
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.measurement import FailureKind
from akg_tui.evaluate.child.faults import Fault
from akg_tui.evaluate.child.kernel_server import (
    POISON,
    IdleServer,
    ResultForm,
    Server,
    checked_results,
)
from akg_tui.evaluate.processes.shared_memory import SharedMemory
from akg_tui.evaluate.processes.worker import ChildFailed, Worker
from akg_tui.evaluate.protocol import tensor_layout as layouts
from akg_tui.evaluate.protocol.child_protocol import Plan
from akg_tui.evaluate.targets.cpu import Cpu
from akg_tui.evaluate.timing_samples import Results
from tests.evaluate.kernels import REFERENCE, kernel
from tests.judging import Evaluated, quick_task

DTYPES = [torch.float32, torch.float16, torch.int64, torch.bool, torch.complex64]


@pytest.fixture(scope="module")
def ourselves() -> Iterator[Worker]:
    """A worker whose memory is that of this process; it can be read, and nothing else."""
    worker = Worker.__new__(Worker)
    worker._memory = os.open("/proc/self/mem", os.O_RDONLY)
    yield worker
    os.close(worker._memory)


def told(tensors: Sequence[torch.Tensor]) -> tuple[Results, SharedMemory]:
    """Return what reads results like these, and the region that tells where they lie."""
    outputs = layouts.result_layout(layouts.lay_out([t.contiguous() for t in tensors]))
    addresses = layouts.address_format(outputs)
    block = SharedMemory(addresses.size)
    words = [n for tensor in tensors for n in (tensor.data_ptr(), *tensor.stride())]
    addresses.pack_into(block.map, 0, *words)
    return Results(outputs), block


@given(
    shape=st.lists(st.integers(0, 4), max_size=4),
    dtype=st.sampled_from(DTYPES),
    order=st.randoms(use_true_random=False),
)
def test_what_lies_dense_in_any_order_is_read_as_it_is(
    ourselves: Worker,
    shape: list[int],
    dtype: torch.dtype,
    order: object,
) -> None:
    axes = list(range(len(shape)))
    order.shuffle(axes)  # type: ignore[attr-defined]
    generator = torch.Generator().manual_seed(3)
    tensors = []
    for _ in range(2):
        lying = torch.randint(0, 100, [shape[axis] for axis in axes], generator=generator)
        back = [axes.index(axis) for axis in range(len(shape))]
        tensors.append(lying.to(dtype).permute(back))
    results, block = told(tensors)
    found = results.read(ourselves, block)
    assert [f.shape for f in found] == [t.shape for t in tensors]
    assert all(torch.equal(f, t) for f, t in zip(found, tensors, strict=True))
    assert all(f.dtype == dtype for f in found)


@pytest.mark.parametrize("address", [0, 4096, (1 << 63) - 4, (1 << 64) - 1])
def test_where_there_is_nothing_there_is_no_result(ourselves: Worker, address: int) -> None:
    results, block = told([torch.ones(5)])
    block.map[:8] = address.to_bytes(8, "little")
    with pytest.raises(ChildFailed, match="nothing to be read") as failed:
        results.read(ourselves, block)
    assert failed.value.kind is FailureKind.WRONG


@pytest.mark.parametrize("strides", [(0, 0), (1, 1), (-4, -1), (8, 1), (1 << 60, 1)])
def test_strides_with_gaps_or_overlaps_are_refused(
    ourselves: Worker, strides: tuple[int, int]
) -> None:
    results, block = told([torch.ones(3, 4)])
    for place, stride in enumerate(strides, 1):
        block.map[8 * place : 8 * place + 8] = stride.to_bytes(8, "little", signed=True)
    with pytest.raises(ChildFailed, match="strides that have no meaning"):
        results.read(ourselves, block)


@pytest.mark.parametrize("worst", layouts.STRIDE_CLASSES)
def test_the_judge_looks_itself_how_a_result_lies(ourselves: Worker, worst: str) -> None:
    turned = torch.arange(12.0).reshape(4, 3).t()
    _, block = told([turned])
    outputs = layouts.result_layout(layouts.lay_out([turned.contiguous()]))
    results = Results(outputs, (worst,))
    if worst == "contiguous":
        with pytest.raises(ChildFailed, match="output 0 is dense, the reference's is contiguous"):
            results.read(ourselves, block)
    else:
        assert torch.equal(results.read(ourselves, block)[0], turned)


RUBBISH = f"""
for count in (1 << 12, 1 << 22):
    assert (torch.empty(count, dtype=torch.uint8) == {POISON}).all(), count
    assert not torch.zeros(count).any(), count
raise ValueError("it is full of rubbish")
"""


def test_memory_is_full_of_rubbish_where_a_kernel_is_built(evaluated: Evaluated) -> None:
    found = evaluated(quick_task(), REFERENCE, kernel("return x", before=RUBBISH), timed=False)
    assert found.message.endswith("ValueError: it is full of rubbish"), found


HEAP = """
import resource, torch
from akg_tui.evaluate.child.kernel_server import POISON, warm_heap
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
SIZE = 8 << 20
# Its code has pages too. It stays: free, it could become a part of a result.
kept = torch.empty(1 << 20, dtype=torch.uint8).add_(1)

warm_heap(SIZE)
before = faults()
results = [torch.empty(SIZE, dtype=torch.uint8).add_(1) for _ in range(5)]
print(faults() - before)
assert all((result[4096:] == POISON + 1).all() for result in results)

warm_heap(SIZE)
for _ in range(20):
    before = faults()
    result = other = None
    result = torch.empty(SIZE, dtype=torch.uint8).fill_(1)
    other = torch.empty(SIZE // 2, dtype=torch.uint8).fill_(1)
    print(faults() - before)
"""


def test_large_results_lie_in_memory_whose_pages_exist_and_stay_when_it_is_freed() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HEAP],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **Cpu().environment(1)},
    )
    first, *again = map(int, done.stdout.split())
    # The largest page has 2 MiB, so that memory without pages costs 20 faults.
    assert first < 5
    assert len(again) == 20
    assert sum(again[3:]) < 4


def test_what_lies_there_at_the_next_look_only_is_computed_before_it_is_told() -> None:
    value = torch.tensor([1 + 2j, 3 - 4j])
    form = (ResultForm(value.shape, value.dtype),)
    (conjugated,) = checked_results([value.conj()], form)
    assert not conjugated.is_conj()
    (negated,) = checked_results([value.conj().imag], (ResultForm(value.shape, torch.float32),))
    assert not negated.is_neg()
    assert negated.tolist() == [-2.0, 4.0]


def test_gaps_are_closed_and_permuted_results_left_alone() -> None:
    wide = torch.arange(24.0).reshape(4, 6)
    (closed,) = checked_results([wide[:, ::2]], (ResultForm(torch.Size([4, 3]), wide.dtype),))
    assert closed.is_contiguous()
    assert torch.equal(closed, wide[:, ::2])
    (turned,) = checked_results([wide.t()], (ResultForm(torch.Size([6, 4]), wide.dtype),))
    assert turned.data_ptr() == wide.data_ptr()


def test_a_sparse_result_is_refused() -> None:
    with pytest.raises(Fault, match=r"expected torch\.strided"):
        checked_results(
            [torch.eye(3).to_sparse()], (ResultForm(torch.Size([3, 3]), torch.float32),)
        )


class _OneBuffer(Server):
    """Returns the same memory at every call."""

    def start(self) -> int:
        self.bind()
        kept = torch.empty(4)
        self.model = lambda x: torch.add(x, 1.0, out=kept)
        return 0


class _Fresh(Server):
    """Returns new memory at every call, and notes which of its results are alive."""

    def start(self) -> int:
        self.bind()
        self.made: list[weakref.ref[torch.Tensor]] = []
        self.alive: list[list[bool]] = []

        def add(x: torch.Tensor) -> torch.Tensor:
            self.alive.append([ref() is not None for ref in self.made])
            y = torch.add(x, 1.0)
            self.made.append(weakref.ref(y))
            return y

        self.model = add  # type: ignore[assignment]
        return 0


def _served(kind: type[Server]) -> tuple[Server, Results, torch.Tensor, SharedMemory]:
    layout = layouts.lay_out([torch.empty(4)])
    inputs = SharedMemory(layout.size)
    addresses = SharedMemory(layouts.address_format(layout).size)
    plan = Plan(kind="kernel", files=KernelFiles({"k": ""}), seed=0, inputs=layout, outputs=layout)
    server = kind(plan, {"inputs": inputs.map, "addresses": addresses.map})
    server.start()
    return server, Results(layout), layouts.views(layout, inputs.map, 0)[0], addresses


@pytest.mark.parametrize("kind", [_OneBuffer, _Fresh])
def test_each_result_is_read_before_the_next_call(ourselves: Worker, kind: type[Server]) -> None:
    server, results, given_x, addresses = _served(kind)
    for call in range(5):
        given_x.fill_(call)
        server.call()
        assert results.read(ourselves, addresses)[0].tolist() == [call + 1.0] * 4


def test_a_result_stays_until_the_next_call_and_is_dropped_before_the_model_runs() -> None:
    server, *_ = _served(_Fresh)
    assert isinstance(server, _Fresh)
    for _ in range(3):
        server.call()
    assert server.alive == [[], [False], [False, False]]
    assert server.made[-1]() is not None


BUFFER = torch.zeros(4)
RING = [torch.zeros(4) for _ in range(2)]
OF_NUMPY = np.zeros(4, np.float32)
KEPT: list[torch.Tensor] = []


def _kept(x: torch.Tensor) -> torch.Tensor:
    KEPT.append(x + 1)
    return KEPT[-1]


@pytest.mark.parametrize(
    ("model", "copied"),
    [
        (lambda x: x + 1, False),
        (lambda x: torch.cat([x, x + 1])[4:], False),
        (lambda x: (x + 1).detach(), False),
        (lambda x: torch.add(x, 1, out=BUFFER), True),
        (lambda x: torch.add(x, 1, out=BUFFER).detach(), True),
        (lambda x: torch.add(x, 1, out=BUFFER[:]), True),
        (lambda x: torch.add(x, 1, out=RING[int(x[0]) % 2]), True),
        (lambda x: torch.add(x, 1, out=torch.from_numpy(OF_NUMPY)), True),
        (_kept, True),
        (lambda x: x.add_(1), True),
    ],
)
def test_a_result_in_memory_that_is_not_its_own_is_copied(
    ourselves: Worker, model: Callable[[torch.Tensor], torch.Tensor], *, copied: bool
) -> None:
    made: list[int] = []

    def noted(x: torch.Tensor) -> torch.Tensor:
        y = model(x)
        made.append(y.data_ptr())
        return y

    server, results, given_x, addresses = _served(_Fresh)
    server.model = noted
    for call in range(4):
        given_x.fill_(call)
        server.call()
        # From the second call on: memory that outlives its result is seen by then.
        told = server.results[0].data_ptr()
        assert call == 0 or (told != made[-1]) is copied
        assert results.read(ourselves, addresses)[0].tolist() == [call + 1.0] * 4


def test_waking_tells_the_last_results_again(ourselves: Worker) -> None:
    server, results, given_x, addresses = _served(_OneBuffer)
    server.wake()  # before any call there is nothing to tell
    given_x.fill_(1)
    server.call()
    before = addresses.map[:]
    addresses.map[:8] = bytes(8)
    server.wake()
    assert addresses.map[:] == before
    assert results.read(ourselves, addresses)[0].tolist() == [2.0] * 4


def test_an_idle_process_returns_the_same_memory_at_every_call() -> None:
    server, _, _, addresses = _served(IdleServer)
    server.call()
    first = addresses.map[:]
    assert any(first)
    server.call()
    assert addresses.map[:] == first
