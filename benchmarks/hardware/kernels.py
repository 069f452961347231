"""Two tasks for an accelerator, and honest kernels for them.

Their texts name no device, so they run on hardware as on the device of the tests. `spin` keeps a
stream busy.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from akg_tui.core.measurement import FailureKind
from akg_tui.core.task import Correctness, Guard, Target, Task, Timing

TASK = Task(
    op="softmax",
    target=Target(backend="cuda", dsl="torch"),
    correctness=Correctness(trials=2, fixed_shape=True, values="drawn"),
    guard=Guard(level="warn"),
    timing=Timing(budget_s=0.5, call_timeout_s=3.0),
)
"""For hardware its backend is replaced. The guard refuses nothing: judge and device must."""

SOFTMAX = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.rand(256) + 0.5)

    def forward(self, x, factor):
        return torch.softmax(x * self.scale * factor, dim=-1)

def get_inputs():
    return [torch.randn(64, 256), float(torch.rand(()) + 0.5)]

def get_init_inputs():
    return []
"""

ROWS = """
import torch

class Model(torch.nn.Module):
    def forward(self, x, index):
        rows = x.index_select(0, index)
        return rows * 2 + 1, rows.float().sum(-1)

def get_inputs():
    return [torch.randn(64, 128).to(torch.bfloat16), torch.randperm(64)]

def get_init_inputs():
    return []
"""
"""Has two results, one of them in bfloat16, and a tensor of integers."""

_HEAD = """
import ctypes
import torch
device = torch.get_device_module()

def spin(seconds):
    if hasattr(device, "spin"):
        device.spin(seconds)
    else:
        device._sleep(int(seconds * 2e9))  # clocks of a GPU, in PyTorch's own tests
"""

_CLASSES = {
    SOFTMAX: """
class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(256))
        self.kept = {}
        self.side = torch.Stream()

    def right(self, x, factor):
        return torch.softmax(x * self.scale * factor, dim=-1)

    def forward(self, x, factor):
""",
    ROWS: """
class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = {}
        self.side = torch.Stream()

    def right(self, x, index):
        rows = x.index_select(0, index)
        return rows * 2 + 1, rows.float().sum(-1)

    def forward(self, x, index):
""",
}


def kernel(body: str, before: str = "", *, task: str = SOFTMAX) -> str:
    """Return a kernel with a body of `forward`, and statements at its top level."""
    lines = textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8)
    return _HEAD + textwrap.dedent(before).strip("\n") + "\n" + _CLASSES[task] + lines + "\n"


@dataclass(frozen=True)
class Honest:
    """A kernel that is correct on the device."""

    name: str
    text: str
    task: str = SOFTMAX


@dataclass(frozen=True)
class Refused:
    """A kernel that must fail, with the kinds of its failure and words of the message."""

    name: str
    text: str
    fails: tuple[FailureKind, ...]
    says: str = ""
    timed: bool = False
    """Whether only the comparison of times shows it."""
    task: str = SOFTMAX
    portable: bool = True
    """Whether it can be run on hardware: it uses no fault that only the tests' device has."""


PLAIN = kernel("return self.right(x, factor)")

HONEST = (
    Honest("plain", PLAIN),
    Honest("in place on a copy", kernel("""
        y = x.clone().mul_(self.scale).mul_(factor)
        y -= y.amax(-1, keepdim=True)
        y.exp_()
        return y.div_(y.sum(-1, keepdim=True))
    """)),
    Honest("on a stream of its own", kernel("""
        begun, done = torch.Event(), torch.Event()
        begun.record()
        with self.side:
            begun.wait()
            y = self.right(x, factor)
            done.record()
        done.wait()
        return y
    """)),
    Honest("two streams that wait for each other by events", kernel("""
        begun, done = torch.Event(), torch.Event()
        doubled = x * 2
        begun.record()
        with self.side:
            begun.wait()
            spin(0.02)
            scaled = doubled * self.scale * (factor / 2)
            done.record()
        done.wait()
        return torch.softmax(scaled, -1)
    """)),
    Honest("one buffer for all results", kernel("""
        if x.shape not in self.kept:
            self.kept[x.shape] = torch.empty_like(x)
        return self.kept[x.shape].copy_(self.right(x, factor))
    """)),
    Honest("replayed on buffers of its own, like a graph", kernel("""
        if x.shape not in self.kept:
            self.kept[x.shape] = torch.empty_like(x), torch.empty_like(x)
        given, out = self.kept[x.shape]
        given.copy_(x)
        given.mul_(self.scale).mul_(factor)
        return out.copy_(torch.softmax(given, -1))
    """)),
    Honest("scratch memory that is kept", kernel("""
        if x.shape not in self.kept:
            self.kept[x.shape] = torch.empty_like(x)
        scratch = self.kept[x.shape]
        torch.mul(x, self.scale, out=scratch)
        return torch.softmax(scratch.mul_(factor), -1)
    """)),
    Honest("a part of a larger buffer", kernel("""
        whole = torch.empty(x.shape[0] + 1, x.shape[1], device=x.device)
        whole[1:].copy_(self.right(x, factor))
        return whole[1:]
    """)),
    Honest("a few rows at a time", kernel("""
        return torch.cat([self.right(part, factor) for part in x.split(16)])
    """)),
    Honest("weights that are folded at the first call", kernel("""
        if "scale" not in self.kept:
            self.kept["scale"] = self.scale.detach().double()
        return torch.softmax(x.double() * self.kept["scale"] * factor, -1).float()
    """)),
    Honest("with descriptors of its own", kernel("""
        if not self.kept:
            self.kept["reading"], self.kept["writing"] = os.pipe()
        os.write(self.kept["writing"], b"x")
        os.read(self.kept["reading"], 1)
        return self.right(x, factor)
    """, "import os")),
    Honest("in inference mode", kernel("""
        with torch.inference_mode():
            return self.right(x, factor)
    """)),
    Honest("through the host", kernel("""
        y = torch.softmax(x.cpu() * self.scale.cpu() * factor, -1)
        return y.to(x.device)
    """)),
    Honest("several results", kernel("return self.right(x, index)", task=ROWS), ROWS),
    Honest("several results in place on scratch memory", kernel("""
        rows = x.index_select(0, index)
        sums = rows.float().sum(-1)
        rows.mul_(2)
        return rows.add_(1), sums
    """, task=ROWS), ROWS),
    Honest("several results on two streams", kernel("""
        begun, done = torch.Event(), torch.Event()
        begun.record()
        with self.side:
            begun.wait()
            sums = x.float().sum(-1).index_select(0, index)
            done.record()
        wide = x.index_select(0, index) * 2 + 1
        done.wait()
        return wide, sums
    """, task=ROWS), ROWS),
    Honest("a buffer for each result", kernel("""
        if not self.kept:
            self.kept = [torch.empty_like(made) for made in self.right(x, index)]
        return [kept.copy_(made) for kept, made in zip(self.kept, self.right(x, index))]
    """, task=ROWS), ROWS),
)  # fmt: skip
