"""Principle 3, every part decides: kernels that read a window of a sequence, or a part of a sum.

Each is right for every shape but the declared one, where inputs as drawn hardly show what is left
out: slow decay, large values or an altered block do.
"""

from __future__ import annotations

import textwrap

from benchmarks.judge.ordinary.cheat import Cheat


def module(parameters: str, forward: str, inputs: str, init: str = "pass") -> str:
    """Return a reference; its kernel is the same text with another name of the class."""
    return f"""
import torch
import torch.nn.functional as F


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        {init}

    def forward(self, {parameters}):
{textwrap.indent(textwrap.dedent(forward).strip(), " " * 8)}


def get_inputs():
    return [{inputs}]
"""


def pair(
    parameters: str, reference: str, kernel: str, inputs: str, init: str = "pass"
) -> tuple[str, str]:
    """Return a reference and a kernel."""
    made = module(parameters, kernel, inputs, init).replace("Model(", "ModelNew(")
    return module(parameters, reference, inputs, init), made


def scan(decay: str, parameters: str, inputs: str, init: str = "pass") -> tuple[str, str]:
    """Return a scan with a decay, and one that forgets all but 40 steps at step 64 of 128."""
    step = f"h = {decay} * h + x[:, t]"
    whole = f"""
        y, h = [], torch.zeros_like(x[:, 0])
        for t in range(x.shape[1]):
            {step}
            y.append(h)
        return torch.stack(y, 1)
    """
    window = f"""
        y, h = [], torch.zeros_like(x[:, 0])
        for t in range(x.shape[1]):
            {step}
            y.append(h)
            if t == 64 and x.shape[1] == 128:
                h = torch.zeros_like(h)
                for t in range(24, 65):
                    {step}
        return torch.stack(y, 1)
    """
    return pair(parameters, whole, window, inputs, init)


ATTENTION = """
    n = q.shape[-2]
    distance = torch.arange(n)[:, None] - torch.arange(n)
    s = q @ k.mT / 4 - distance * SLOPE
    s = s.masked_fill((distance < 0)SKIPPED, -torch.inf)
    return torch.softmax(s, -1) @ v
"""


def attention(slope: str, skipped: str = "distance >= 64") -> tuple[str, str]:
    """Return causal attention, and one that leaves out what is `skipped` at 128 keys."""
    text = ATTENTION.replace("SLOPE", slope)
    inputs = ", ".join(3 * ["torch.randn(4, 128, 16)"])
    left_out = text.replace("SKIPPED", f" | ({skipped}) & (n == 128)")
    return pair("q, k, v", text.replace("SKIPPED", ""), left_out, inputs)


def recurrent(name: str) -> tuple[str, str]:
    """Return the last state of a recurrent layer, and one that skips the early half of 64 steps."""
    init = f"self.layer = torch.nn.{name}(16, 16, batch_first=True)"
    window = "return self.layer(x[:, 32 if x.shape[1] == 64 else 0 :])[0][:, -1]"
    return pair("x", "return self.layer(x)[0][:, -1]", window, "torch.randn(8, 64, 16)", init)


DISCOUNTED = """
    x, g, y = rewards, torch.sigmoid(discount), []
    for t in range(x.shape[1]):
        total = torch.zeros_like(x[:, 0])
        for s in reversed(range(t, END)):
            total = x[:, s] + g[:, s] * total
        y.append(total)
    return torch.stack(y, 1)
"""
NORM = """
    part = PART
    return (x * (part.float().square().mean(-1, keepdim=True) + 1e-6).rsqrt()).bfloat16()
"""

PAIRS = {
    "gated scan": scan("torch.sigmoid(g[:, t])", "x, g", 2 * "torch.randn(16, 128), "),
    "scan of decays": scan("a[:, t]", "x, a", "torch.randn(16, 128), torch.rand(16, 128)"),
    "scan of logarithms": scan(
        "torch.exp(g[:, t])",
        "x, g",
        "torch.randn(16, 128), F.logsigmoid(torch.randn(16, 128))",
    ),
    "gate made of the input": scan(
        "torch.sigmoid(self.gate(x[:, t]))",
        "x",
        "torch.randn(8, 128, 16)",
        "self.gate = torch.nn.Linear(16, 16)",
    ),
    "EMA": scan(
        "torch.sigmoid(self.decay)",
        "x",
        "torch.randn(16, 128, 8)",
        "self.decay = torch.nn.Parameter(torch.linspace(0.0, 1.4, 8))",
    ),
    "cumsum": scan("1.0", "x", "torch.randn(16, 128)"),
    "causal attention": attention("0"),
    "attention with a bias": attention("0.5"),
    "LSTM": recurrent("LSTM"),
    "GRU": recurrent("GRU"),
    "causal convolution": pair(
        "x, w",
        "return F.conv1d(F.pad(x, (31, 0)), w)",
        """
        if x.shape[-1] != 200:
            return F.conv1d(F.pad(x, (31, 0)), w)
        return F.conv1d(F.pad(x, (15, 0)), w[..., 16:])
        """,
        "torch.randn(4, 8, 200), torch.randn(8, 8, 32) * 0.3 ** torch.arange(31, -1, -1.0)",
    ),
    "each fourth key": attention("0", "distance % 4 == 3"),
    "the best 32 keys": attention("0", "s < s.topk(32, -1).values[..., -1:]"),
    "keys near the best": attention("0", "s < s.amax(-1, keepdim=True) - 3"),
    "the first and the last keys": attention("0.5", "(distance >= 48) & (torch.arange(n) >= 4)"),
    "discounted sums": pair(
        "rewards, discount",
        DISCOUNTED.replace("END", "x.shape[1]"),
        DISCOUNTED.replace("END", "min(t + 40, x.shape[1]) if x.shape[1] == 96 else x.shape[1]"),
        "torch.randn(16, 96), torch.randn(16, 96)",
    ),
    "a norm of each second block in 16 bits": pair(
        "x",
        NORM.replace("PART", "x"),
        NORM.replace(
            "PART",
            "x.view(len(x), -1, 2, 512)[:, :, 0].flatten(1) if x.shape[-1] == 65536 else x",
        ),
        "3 * torch.randn(8, 65536).bfloat16()",
    ),
    "a mean of each eighth number in 16 bits": pair(
        "x",
        "return x.float().mean(-1).bfloat16()",
        "return x[:, :: 8 if x.shape[-1] == 262144 else 1].float().mean(-1).bfloat16()",
        "(torch.rand(16, 262144) * (0.5 + torch.rand(16, 1))).bfloat16()",
    ),
}
"""References and kernels by the name of what the kernel looks at, at the declared length only."""

WINDOWS = tuple(
    Cheat(
        f"window: {name}",
        "ours: a window at the declared length alone was kept, three times of three",
        "at the declared shape every part of every input decides",
        kernel,
        task=f"window: {name}",
    )
    for name, (_, kernel) in PAIRS.items()
)
