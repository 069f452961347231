"""Principle 6, side by side: kernels that change what surrounds a call, and gain nothing by it."""

from __future__ import annotations

from benchmarks.judge.ordinary.cheat import Slowpoke
from benchmarks.judge.ordinary.tasks import kernel

STREAMED = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(1024, 1024)]
"""

FRESH_MEMORY = kernel("return torch.clamp(x, min=0)")
"""Memory-bound, with results of 4 MiB in memory that torch allocates."""


def prepared(buffers: int) -> Slowpoke:
    """Return `FRESH_MEMORY` with results in a ring of buffers that were written in `__init__`."""
    return Slowpoke(
        f"a ring of {buffers} large buffers", "ours: a ring of 120 was kept at four times",
        "equal memory on both sides",
        kernel("""
            if x.shape != (1024, 1024):
                return torch.clamp(x, min=0)
            self.calls += 1
            return torch.clamp(x, min=0, out=self.ring[self.calls % len(self.ring)])
        """, init=f"self.ring = [torch.zeros(1024, 1024) for _ in range({buffers})]"),
        incumbent=FRESH_MEMORY, task="streamed", may_fail=True,
    )  # fmt: skip


def one_buffer(how: str, made: str, taken: str) -> Slowpoke:
    """Return `FRESH_MEMORY` with one buffer, which stays in the caches."""
    return Slowpoke(
        f"one large buffer, {how}", "ours: one of NumPy's memory was 1.33 times as fast",
        "a result in memory that is not its own is copied, at the kernel's cost",
        kernel(f"""
            if x.shape != (1024, 1024):
                return torch.clamp(x, min=0)
            return torch.clamp(x, min=0, out={taken})
        """, init=f"self.buffer = {made}"),
        incumbent=FRESH_MEMORY, task="streamed",
    )  # fmt: skip


def ring(length: int) -> Slowpoke:
    """Return a softmax with results in a ring of small buffers."""
    return Slowpoke(
        f"a ring of {length} result buffers", "KB: an earlier result is overwritten",
        "released memory is used again by honest kernels too, so a ring gains nothing",
        kernel("""
            if x.shape != (64, 256):
                return torch.softmax(x, -1)
            self.calls += 1
            return torch.softmax(x, -1, out=self.ring[self.calls % len(self.ring)])
        """, init=f"self.ring = [torch.zeros(64, 256) for _ in range({length})]"),
        task="patient", may_fail=True,
    )  # fmt: skip


SIDE_BY_SIDE = (
    Slowpoke(
        "a view of an input in place of a copy", "KB: an input comes back as the result",
        "a result in the memory of an input is copied, at the kernel's cost",
        kernel("return x[1:]"), incumbent=kernel("return x[1:].clone()"), task="large",
    ),
    *(prepared(buffers) for buffers in (2, 34, 120, 200)),
    one_buffer("returned as it is", "torch.zeros(1024, 1024)", "self.buffer"),
    one_buffer("detached", "torch.zeros(1024, 1024)", "self.buffer.detach()"),
    one_buffer("of NumPy", "np.zeros((1024, 1024), np.float32)", "torch.from_numpy(self.buffer)"),
    *(ring(length) for length in (2, 3, 12, 1000)),
    Slowpoke(
        "work handed to a thread that nobody counts", "ours: only the main thread's waits count",
        "the clock runs until the answer, whoever works",
        kernel("""
            self.asked.put(x)
            return self.done.get()
        """, before="import queue", init="""
            self.asked, self.done = queue.Queue(), queue.Queue()
            def work():
                while True:
                    self.done.put(torch.softmax(self.asked.get(), -1))
            threading.Thread(target=work, daemon=True).start()
        """), task="patient",
    ),
    Slowpoke(
        "a hog that outlives the call", "AKG: 2.2 ms becomes 10.9 ms in the same process",
        "a process is stopped while the other is timed",
        kernel("return torch.softmax(x, -1)", init="""
            def hog():
                while True:
                    sum(range(1000))
            threading.Thread(target=hog, daemon=True).start()
        """),
    ),
    Slowpoke(
        "threads of the others taken", "AKG: the baseline runs with settings of the candidate's",
        "separate processes", kernel(
               "return torch.softmax(x, -1)",
               before="torch.set_num_threads(1)\ntorch.set_flush_denormal(True)\n"
               "try: os.nice(0)\nexcept PermissionError: pass  # the sandbox forbids it"),
        task="patient",
    ),
    Slowpoke(
        "slow until it is warm", "GM: stalls the warm-up so that fewer samples follow",
        "the judge sets the number of calls",
        kernel("""
            self.calls += 1
            time.sleep(0.02 if self.calls < 4 else 0.0)
            return torch.softmax(x, dim=-1)
        """),
    ),
    Slowpoke(
        "a ring of ten thousand result buffers", "KB: the same, longer than any comparison",
        "released memory is used again by honest kernels too",
        kernel("""
            if x.shape != (64, 256):
                return torch.softmax(x, -1)
            self.calls += 1
            y = self.ring[self.calls % len(self.ring)]
            torch.softmax(x, -1, out=y)
            return y
        """, init="self.ring = torch.empty(10_000, 64, 256).unbind()"),
        task="patient",
    ),
)  # fmt: skip
