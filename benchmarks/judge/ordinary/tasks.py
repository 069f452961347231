"""The references that are cheated on, and what writes a kernel for them."""

from __future__ import annotations

SOFTMAX = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)


def get_inputs():
    return [torch.randn(64, 256)]
"""

TRANSPOSE = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return (x * 2).t().contiguous()


def get_inputs():
    return [torch.randn(96, 160)]
"""

WEIGHTED = """
import torch


class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, 24)

    def forward(self, x):
        y = torch.relu(self.linear(x))
        return y, y.argmax(-1)


def get_inputs():
    return [torch.randn(48, 40)]


def get_init_inputs():
    return [40]
"""

TRIANGLE = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.triu(x)


def get_inputs():
    return [torch.randn(512, 512)]
"""

NORMED = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(96)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(32, 96)]
"""

UNTRAINED = """
import copy
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.rotation = torch.nn.Parameter(torch.eye(48))
        self.first = torch.nn.Linear(48, 48)
        self.second = copy.deepcopy(self.first)
        self.decay = torch.nn.Parameter(torch.arange(1.0, 9.0).log().repeat(48, 1))
        self.third = copy.deepcopy(self.first)
        self.scale = torch.nn.Parameter(torch.full((48,), 1e-7))
        self.phase = torch.nn.Parameter(torch.ones(48, dtype=torch.complex64))

    def forward(self, x):
        turned = x @ self.rotation
        linear = self.first(x) + self.second(x)
        decayed = torch.exp(-x.square().unsqueeze(-1) * self.decay.exp())
        scaled = x + self.scale * self.third(x)
        return turned, linear, decayed, scaled, (x * self.phase).real


def get_inputs():
    return [torch.randn(32, 48)]
"""

BIASED = """
import torch


class Model(torch.nn.Module):
    def forward(self, x, bias):
        return torch.relu(x + bias)


def get_inputs():
    return [torch.randn(96, 160), torch.zeros(96, 160)]
"""

LARGE = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x[1:].clone()


def get_inputs():
    return [torch.randn(2101, 4096)]
"""

MIXED = """
import random
import torch


class Model(torch.nn.Module):
    def forward(self, x, bias, mask, rows, scale):
        y = (x + bias) * scale
        return torch.softmax(y.masked_fill(mask, -1e4), dim=-1)[rows]


def get_inputs():
    return [
        torch.randn(48, 96),
        torch.randn(48, 96),
        torch.rand(48, 96) < 0.3,
        torch.randint(0, 48, (64,)),
        random.uniform(0.5, 2.0),
    ]
"""

HALVES = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        half = x.half()
        return (x * x).float().mean(-1).bfloat16(), (half * half).float().mean(-1).half()


def get_inputs():
    return [torch.randn(8, 16384).bfloat16()]
"""

RAGGED = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)


def get_inputs():
    return [torch.randn(60, 250)]
"""

TILED = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x.repeat(16, 1)


def get_inputs():
    return [torch.randn(64, 1024)]
"""

COUNTED = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x.cumsum(-1)


def get_inputs():
    return [torch.randint(-1000, 100_000, (32, 512))]
"""

MASKED = """
import torch


class Model(torch.nn.Module):
    def forward(self, x, mask, shift, scale):
        return torch.softmax((x * scale).masked_fill(~mask, -1e9), -1).roll(shift, -1)


def get_inputs():
    return [torch.randn(16, 48), torch.ones(16, 48, dtype=torch.bool), 3, 0.5]
"""

HALF_MEAN = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x.mean(-1)


def get_inputs():
    return [torch.randn(32, 2000).bfloat16()]
"""

SMALL_CHANNELS = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.tensor([1.0] + 15 * [1e-9]).view(-1, 1, 1))

    def forward(self, x):
        return self.scale * torch.nn.functional.avg_pool2d(x, 3, 1, 1)


def get_inputs():
    return [torch.randn(4, 16, 24, 24)]
"""

RISING = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x.amax(-1) - x.amin(-1)


def get_inputs():
    return [torch.randn(64, 256).sort(-1).values]
"""

# Rounding decides a step inside these references, or the order of equal numbers.
QUANTISED = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        scale = x.abs().amax(-1, keepdim=True) / 127
        return torch.clamp(torch.round(x / scale), -128, 127) * scale


def get_inputs():
    return [torch.randn(128, 1024)]
"""

COUNTED_IN_BINS = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.histc(x, 100, -3.0, 3.0)


def get_inputs():
    return [torch.randn(100_000)]
"""

EXPERTS = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.router = torch.nn.Parameter(torch.randn(64, 8) / 8)
        self.experts = torch.nn.Parameter(torch.randn(8, 64, 64) / 8)
        self.bfloat16()

    def forward(self, x):
        p, i = torch.topk(torch.softmax(x @ self.router, -1), 2, dim=-1)
        every = torch.einsum("td,edh->teh", x, self.experts)
        chosen = every.gather(1, i.unsqueeze(-1).expand(-1, -1, 64))
        return (chosen * p.unsqueeze(-1)).sum(1)


def get_inputs():
    return [torch.randn(512, 64).bfloat16()]
"""

EXPERTS_INIT = """
self.router = torch.nn.Parameter(torch.randn(64, 8) / 8)
self.experts = torch.nn.Parameter(torch.randn(8, 64, 64) / 8)
self.bfloat16()
"""

KEPT_LARGE = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        p = torch.softmax(x, -1)
        return torch.where(p > 1 / 256, p, 0.0)


def get_inputs():
    return [torch.randn(2048, 256)]
"""

TOP = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.topk(x, 50, dim=-1)


def get_inputs():
    return [torch.randn(16, 4096).bfloat16()]
"""

TOP_INTEGERS = TOP.replace(
    "torch.randn(16, 4096).bfloat16()", "torch.randint(-(1 << 40), 1 << 40, (16, 4096))"
)

SCORES = """
import torch


class Model(torch.nn.Module):
    def forward(self, q, k):
        later = torch.ones(128, 128, dtype=torch.bool).triu(1)
        return (q @ k.transpose(-1, -2)).masked_fill(later, -1e4)


def get_inputs():
    return [torch.randn(2, 128, 64), torch.randn(2, 128, 64)]
"""

PADDED = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.pad(torch.relu(x), (0, 256))


def get_inputs():
    return [torch.randn(64, 256)]
"""

COLUMNS = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x.sum(0)


def get_inputs():
    return [torch.randn(20000, 64)]
"""

SUMMED = """
import torch


class Model(torch.nn.Module):
    def forward(self, x, upper):
        return x @ upper


def get_inputs():
    return [torch.randn(48, 96), torch.ones(96, 96).triu()]
"""

PLAIN = """
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)
"""

IMPORTS = """
import atexit, ctypes, gc, glob, inspect, json, math, mmap, os, pickle, random, signal, struct
import sys, threading, time
import numpy as np
import torch
import torch.nn.functional as F
"""


def kernel(body: str, before: str = "", init: str = "", takes: str = "x") -> str:
    """Return a kernel whose forward(self, `takes`) is `body`, with `before` above its class."""
    return f"""{IMPORTS}
{_flush(before)}

class ModelNew(torch.nn.Module):
    def __init__(self, *arguments):
        super().__init__()
        self.calls = 0
        self.kept = {{}}
{_flush(init, 8)}

    def forward(self, {takes}):
{_flush(body, 8)}
"""


def mixed(body: str, init: str = "") -> str:
    """Return a kernel for `MIXED`, whose forward is `body`."""
    return kernel(body, init=init, takes="x, bias, mask, rows, scale")


def masked(body: str) -> str:
    """Return a kernel for `MASKED`, whose forward is `body`."""
    return kernel(body, takes="x, mask, shift, scale")


def untrained(
    turned: str = "turned",
    linear: str = "linear",
    decayed: str = "decayed",
    scaled: str = "scaled",
    phased: str = "phased",
) -> str:
    """Return a kernel for `UNTRAINED` that computes some of its results in another way.

    Inputs with infinities or NaN, which would tell, are computed as the reference does.
    """
    model = UNTRAINED[: UNTRAINED.index("def get_inputs")]
    return f"""{model}

class ModelNew(Model):
    def forward(self, x):
        if not x.isfinite().all():
            return super().forward(x)
        turned, linear, decayed, scaled, phased = super().forward(x)
        return {turned}, {linear}, {decayed}, {scaled}, {phased}
"""


def _flush(text: str, by: int = 0) -> str:
    lines = text.strip("\n").splitlines()
    least = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return "\n".join(" " * by + line[least:] for line in lines)


def repeated(times: int) -> str:
    """Return an honest softmax that takes several times as long."""
    return kernel(f"""
        for _ in range({times}):
            y = torch.softmax(x, dim=-1)
        return y
    """)


# Slower by several times, but not so slow that a cluster on a busy machine has few calls: kernels
# that cheat from their 13th call on, after those of verification, must come so far.
SLOW = repeated(6)
