"""The loop in C answers calls as the server in Python does, and leaves everything else to it."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import weakref
from collections.abc import Callable, Iterator, Sequence

import pytest
import torch

from akg_tui.evaluate.child import call_loop, protocol
from akg_tui.evaluate.child import tensor_layout as layouts
from akg_tui.evaluate.child.call_loop import Requests
from akg_tui.evaluate.child.faults import Fault
from akg_tui.evaluate.child.kernel_server import Server
from akg_tui.evaluate.child.protocol import Op, Plan
from akg_tui.evaluate.processes.shared_memory import SharedMemory

Model = Callable[..., object]
pytestmark = pytest.mark.skipif(call_loop.library() is None, reason="there is no compiler")


class Ends:
    """Both ends of a child's channel in one process, with a server of a model."""

    def __init__(self, model: Model, inputs: Sequence[object], outputs: Sequence[object]) -> None:
        layout, form = layouts.lay_out(inputs), layouts.lay_out(outputs)
        self.block = SharedMemory(layout.size)
        self.addresses = SharedMemory(layouts.address_format(form).size)
        self._form = layouts.address_format(form)
        plan = Plan(kind="kernel", source="", filename="k", seed=0, inputs=layout, outputs=form)
        memory = {"inputs": self.block.map, "addresses": self.addresses.map}
        self.server = Server(plan, memory)
        self.server.model = model
        self.server.bind()
        self.layout = layout
        self.judge, channel = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel = channel
        self.requests = Requests(channel)

    def close(self) -> None:
        self.judge.close()
        self._channel.close()

    def fill(self, *values: object) -> None:
        layouts.store(self.layout, values, self.block.map, 0)

    def told(self) -> tuple[int, ...]:
        return tuple(self._form.unpack_from(self.addresses.map, 0))

    def first_call(self, held: int = 0) -> None:
        """Call as Python does, and arm the loop."""
        self.server.call(held, 0)
        self.requests.arm(self.server)

    def ask(self, op: Op, held: int = 0, pinned: int = 0) -> int:
        nonce = random.getrandbits(63)
        self.judge.send(protocol.REQUEST.pack(op, held, nonce, 0, pinned, 0))
        return nonce

    def answered(self) -> list[int]:
        """Return the nonces of all answers so far."""
        found = []
        self.judge.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                nonce, *rest = protocol.REPLY.unpack(self.judge.recv(64))
                assert rest == [0, 0, 0]
                found.append(nonce)
        return found


@pytest.fixture
def ends() -> Iterator[Callable[..., Ends]]:
    made: list[Ends] = []

    def make(model: Model, inputs: Sequence[object], outputs: Sequence[object]) -> Ends:
        made.append(Ends(model, inputs, outputs))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_calls_are_answered_and_their_results_stay_as_long_as_asked(
    ends: Callable[..., Ends],
) -> None:
    made: list[weakref.ref[torch.Tensor]] = []

    def model(x: torch.Tensor) -> torch.Tensor:
        y = x + 1.0
        made.append(weakref.ref(y))
        return y

    both = ends(model, [torch.empty(3, 4)], [torch.empty(3, 4)])
    both.first_call(held=2)
    asked = [both.ask(Op.CALL, 2, 3) for _ in range(7)]
    both.ask(Op.DRAW)
    data, fds, outcome = both.requests.receive()
    assert protocol.REQUEST.unpack(data)[0] == Op.DRAW
    assert both.answered() == asked
    assert (fds, outcome, both.server.calls) == ([], None, 8)
    assert list(both.server.results) == [3, 6, 7, 8]
    assert [ref() is not None for ref in made] == [n in (3, 6, 7, 8) for n in range(1, 9)]
    last = both.server.results[8][0]
    assert both.told() == (last.data_ptr(), 4, 1)
    both.server.results.clear()
    del last
    assert not any(ref() is not None for ref in made)


def test_numbers_are_read_for_each_call_and_several_results_are_told(
    ends: Callable[..., Ends],
) -> None:
    seen = []

    def model(x: torch.Tensor, n: int, scale: float, *, _: int = 0) -> list[torch.Tensor]:
        seen.append((n, scale))
        return [x * scale, torch.tensor(n)]

    both = ends(model, [torch.empty(2), 3, 0.5], [torch.empty(2), torch.tensor(1)])
    both.fill(torch.ones(2), 3, 0.5)
    both.first_call()
    both.fill(torch.ones(2), -4, 2.5)
    both.ask(Op.CALL)
    both.ask(Op.DRAW)
    both.requests.receive()
    assert seen == [(3, 0.5), (-4, 2.5)]
    scaled, number = both.server.results[2]
    assert scaled.tolist() == [2.5, 2.5]
    assert both.told() == (scaled.data_ptr(), 1, number.data_ptr())


@pytest.mark.parametrize(
    "odd",
    [lambda x: x.t().contiguous().t(), lambda x: (x, x), lambda x: None, lambda x: x.numpy()],
    ids=["other strides", "a tensor too many", "nothing", "no tensor"],
)
def test_a_result_of_another_form_comes_to_python(ends: Callable[..., Ends], odd: Model) -> None:
    returned = []

    def model(x: torch.Tensor) -> object:
        returned.append(x + 1 if not returned else odd(x + 1))
        return returned[-1]

    both = ends(model, [torch.empty(2, 3)], [torch.empty(2, 3)])
    both.first_call()
    asked = both.ask(Op.CALL)
    data, _, outcome = both.requests.receive()
    assert protocol.REQUEST.unpack(data)[2] == asked
    assert not both.answered()
    assert outcome is not None
    assert outcome() is returned[-1]
    # The model is not called again.
    with contextlib.suppress(Fault):
        both.server.call(0, 0, outcome)
    assert len(returned) == both.server.calls == 2


def test_memory_that_a_model_uses_again_is_found_and_then_copied(
    ends: Callable[..., Ends],
) -> None:
    buffer = torch.empty(4)
    both = ends(lambda x: torch.add(x, 1.0, out=buffer), [torch.empty(4)], [torch.empty(4)])
    both.fill(torch.zeros(4))
    both.first_call(held=3)
    both.ask(Op.CALL, 3)
    _, _, outcome = both.requests.receive()
    both.server.call(3, 0, outcome)
    both.requests.arm(both.server)
    both.fill(torch.ones(4))
    asked = [both.ask(Op.CALL, 3), both.ask(Op.CALL, 3)]
    both.ask(Op.DRAW)
    both.requests.receive()
    assert both.answered() == asked
    kept = {call: tensors[0] for call, tensors in both.server.results.items()}
    assert both.told()[0] == kept[4].data_ptr()
    assert len({tensor.data_ptr() for tensor in (buffer, *kept.values())}) == 4
    assert [kept[call].tolist() for call in (2, 3, 4)] == [[1.0] * 4, [2.0] * 4, [2.0] * 4]


def test_an_error_of_the_model_is_raised_where_python_expects_it(
    ends: Callable[..., Ends],
) -> None:
    calls = iter([lambda x: x + 1])

    def model(x: torch.Tensor) -> torch.Tensor:
        for call in calls:
            return call(x)
        raise SystemExit(3)

    both = ends(model, [torch.empty(2)], [torch.empty(2)])
    both.first_call()
    both.ask(Op.CALL)
    _, _, outcome = both.requests.receive()
    with pytest.raises(Fault, match="SystemExit"):
        both.server.call(0, 0, outcome)


def test_waking_tells_the_last_results_again(ends: Callable[..., Ends]) -> None:
    both = ends(lambda x: x + 1, [torch.empty(2)], [torch.empty(2)])
    both.first_call()
    before = both.told()
    both.addresses.map[:8] = bytes(8)
    asked = both.ask(Op.WAKE)
    both.ask(Op.DRAW)
    both.requests.receive()
    assert both.answered() == [asked]
    assert both.told() == before


def test_descriptors_arrive_with_their_request(ends: Callable[..., Ends]) -> None:
    both = ends(lambda x: x + 1, [torch.empty(2)], [torch.empty(2)])
    reading, writing = os.pipe()
    message = protocol.REQUEST.pack(Op.DRAW, 1, 2, 3, 4, 5)
    socket.send_fds(both.judge, [message], [writing, reading])
    data, fds, _ = both.requests.receive()
    assert data == message
    os.write(fds[0], b"x")
    assert os.read(fds[1], 1) == b"x"
    for fd in (reading, writing, *fds):
        os.close(fd)
    both.judge.close()
    assert both.requests.receive()[0] == b""


def test_without_a_compiler_python_serves_every_call(
    ends: Callable[..., Ends], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_loop, "library", lambda: None)
    both = ends(lambda x: x + 1, [torch.empty(2)], [torch.empty(2)])
    both.first_call()
    asked = both.ask(Op.CALL, 2, 1)
    data, fds, outcome = both.requests.receive()
    assert protocol.REQUEST.unpack(data) == (Op.CALL, 2, asked, 0, 1, 0)
    assert (fds, outcome) == ([], None)
