"""Results are read where a kernel put them: as they lie, and nowhere else."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from akg_tui.core.measurement import FailureKind
from akg_tui.evaluate.child import tensor_layout as layouts
from akg_tui.evaluate.child.faults import Fault
from akg_tui.evaluate.child.kernel_server import IdleServer, ResultForm, Server, checked_results
from akg_tui.evaluate.child.protocol import Plan
from akg_tui.evaluate.processes.shared_memory import SharedMemory
from akg_tui.evaluate.processes.worker import ChildFailed, Worker
from akg_tui.evaluate.targets.cpu import Cpu
from akg_tui.evaluate.timing_samples import Results

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


def test_memory_is_full_of_rubbish_after_it_was_poisoned() -> None:
    # In a process of its own: there is no way back.
    program = (
        "import torch\n"
        "from akg_tui.evaluate.child.kernel_server import POISON, poison\n"
        "poison()\n"
        "for count in (1 << 12, 1 << 22):\n"
        "    assert (torch.empty(count, dtype=torch.uint8) == POISON).all(), count\n"
        "    assert not torch.zeros(count).any(), count\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_the_first_large_results_lie_in_memory_whose_pages_exist() -> None:
    program = (
        "import resource, torch\n"
        "from akg_tui.evaluate.child.kernel_server import POISON, warm_heap\n"
        # Its code has pages too. It stays: free, it could become a part of the first result.
        "kept = torch.empty(1 << 20, dtype=torch.uint8).add_(1)\n"
        "warm_heap(8 << 20)\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "results = [torch.empty(8 << 20, dtype=torch.uint8).add_(1) for _ in range(5)]\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)\n"
        "assert all((result[4096:] == POISON + 1).all() for result in results)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **Cpu().environment(1)},
    )
    # The largest page has 2 MiB, so that memory without pages costs 20 faults.
    assert int(done.stdout) < 5


def test_what_lies_there_at_the_next_look_only_is_computed_before_it_is_told() -> None:
    value = torch.tensor([1 + 2j, 3 - 4j])
    form = (ResultForm(value.shape, value.dtype),)
    (conjugated,) = checked_results(value.conj(), form)
    assert not conjugated.is_conj()
    (negated,) = checked_results(value.conj().imag, (ResultForm(value.shape, torch.float32),))
    assert not negated.is_neg()
    assert negated.tolist() == [-2.0, 4.0]


def test_gaps_are_closed_and_permuted_results_left_alone() -> None:
    wide = torch.arange(24.0).reshape(4, 6)
    (closed,) = checked_results(wide[:, ::2], (ResultForm(torch.Size([4, 3]), wide.dtype),))
    assert closed.is_contiguous()
    assert torch.equal(closed, wide[:, ::2])
    (turned,) = checked_results(wide.t(), (ResultForm(torch.Size([6, 4]), wide.dtype),))
    assert turned.data_ptr() == wide.data_ptr()


def test_a_sparse_result_is_refused() -> None:
    with pytest.raises(Fault, match=r"expected torch\.strided"):
        checked_results(torch.eye(3).to_sparse(), (ResultForm(torch.Size([3, 3]), torch.float32),))


class _OneBuffer(Server):
    """Returns the same memory at every call."""

    def start(self) -> int:
        self.bind()
        kept = torch.empty(4)

        def add(x: torch.Tensor) -> torch.Tensor:
            return torch.add(x, 1.0, out=kept)

        self.model = add  # type: ignore[assignment]
        return 0


def _served(kind: type[Server]) -> tuple[Server, Results, torch.Tensor, SharedMemory]:
    layout = layouts.lay_out([torch.empty(4)])
    inputs = SharedMemory(layout.size)
    addresses = SharedMemory(layouts.address_format(layout).size)
    plan = Plan(kind="kernel", source="", filename="k", seed=0, inputs=layout, outputs=layout)
    server = kind(plan, {"inputs": inputs.map, "addresses": addresses.map})
    server.start()
    return server, Results(layout), layouts.views(layout, inputs.map, 0)[0], addresses


def test_a_kernel_that_uses_its_memory_again_has_each_result_kept(ourselves: Worker) -> None:
    server, results, given_x, addresses = _served(_OneBuffer)
    places = []
    for call in range(1, 6):
        given_x.fill_(call)
        server.call(3, 0)
        assert results.read(ourselves, addresses)[0].tolist() == [call + 1.0] * 4
        places.append(results.places(addresses)[0])
    # The first result is the one that showed it.
    for call, (address, size) in enumerate(places[1:-1], 2):
        kept = bytearray(size)
        ourselves.copy_out(address, memoryview(kept))
        assert torch.frombuffer(kept, dtype=torch.float32).tolist() == [call + 1.0] * 4


class _ThreeBuffers(Server):
    """Returns three pieces of memory in turn."""

    def start(self) -> int:
        self.bind()
        kept = itertools.cycle([torch.empty(4) for _ in range(3)])
        self.model = lambda x: torch.add(x, 1.0, out=next(kept))
        return 0


def test_buffers_in_turn_are_refused_when_a_kept_result_is_overwritten() -> None:
    server, *_ = _served(_ThreeBuffers)
    for _ in range(3):
        server.call(3, 0)
    with pytest.raises(Fault, match="result of an earlier call changed"):
        server.call(3, 0)


def test_a_result_that_must_stay_to_the_end_is_not_released(ourselves: Worker) -> None:
    server, results, given_x, addresses = _served(_Fresh)
    places = []
    for call in range(8):
        given_x.fill_(call)
        server.call(1, 3)
        places.append(results.places(addresses)[0])
    address, size = places[2]
    kept = bytearray(size)
    ourselves.copy_out(address, memoryview(kept))
    assert torch.frombuffer(kept, dtype=torch.float32).tolist() == [3.0] * 4
    assert len(server.results) == 3  # the last, the one before it, and number 3


class _Fresh(Server):
    """Returns new memory at every call."""

    def start(self) -> int:
        self.bind()
        self.model = lambda x: torch.add(x, 1.0)
        return 0


def test_waking_tells_the_last_results_again(ourselves: Worker) -> None:
    server, results, given_x, addresses = _served(_OneBuffer)
    server.wake()  # before any call there is nothing to tell
    given_x.fill_(1)
    for _ in range(3):
        server.call(2, 0)
    before = addresses.map[:]
    addresses.map[:8] = bytes(8)
    server.wake()
    assert addresses.map[:] == before
    assert results.read(ourselves, addresses)[0].tolist() == [2.0] * 4


def test_a_process_that_computes_nothing_copies_nothing() -> None:
    server, _, _, addresses = _served(IdleServer)
    server.call(0, 0)
    first = addresses.map[:]
    assert any(first)
    server.call(0, 0)
    assert addresses.map[:] == first
