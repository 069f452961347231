"""Principle 3 where a reference changes its arguments: what a kernel leaves out, or does too."""

from __future__ import annotations

from benchmarks.judge.ordinary.cheat import Cheat
from benchmarks.judge.ordinary.tasks import kernel

OPTIMIZER = """
import torch


class Model(torch.nn.Module):
    def forward(self, params, grads, state, *, lr):
        for p, g, m in zip(params, grads, state["m"]):
            m.mul_(0.9).add_(g, alpha=0.1)
            p.sub_(lr * state["scale"] * m)


def get_inputs():
    def draw():
        return [torch.randn(24, 40), torch.randn(17)]

    state = {"m": draw(), "scale": torch.rand(1) + 0.5}
    return {"params": draw(), "grads": draw(), "state": state, "lr": 0.25}


def get_init_inputs():
    return []
"""
"""A multi-tensor optimizer: nested arguments, passed by name, and changed in place."""

TAKES = "params, grads, state, *, lr"

_STEP = """
for p, g, m in zip(params, grads, state["m"]):
    m.mul_(0.9).add_(g, alpha=0.1)
    p.sub_(lr * state["scale"] * m)
"""

HONEST_STEP = kernel(
    """
    for p, g, m in zip(params, grads, state["m"]):
        torch.add(m * 0.9, g * 0.1, out=m)
        p -= state["scale"] * m * lr
    """,
    takes=TAKES,
)


def stepped(more: str, step: str = _STEP) -> str:
    """Return a kernel that takes the step, and does more after it."""
    return kernel(step + "\n" + more, takes=TAKES)


CHANGED_ARGUMENTS = (
    Cheat(
        "arguments left as they are", "ours: the result is in the argument's memory",
        "what the arguments are after the call is compared", kernel("return None", takes=TAKES),
        says="argument params[0]: ", task="optimizer",
    ),
    Cheat(
        "one of the changed arguments left as it is", "ours: momentum costs a store",
        "each changed argument is a result",
        stepped("", _STEP.replace("m.mul_(0.9).add_", "m = m.mul(0.9).add_")),
        says="argument state.m[0]: ", task="optimizer",
    ),
    Cheat(
        "another argument used as scratch", "KB PR 82",
        "arguments that the reference does not change are compared with what they were",
        stepped("grads[1].zero_()"), says="changed its inputs", task="optimizer",
    ),
    Cheat(
        "new tensors in place of the arguments", "ours: a caller keeps the old ones",
        "the memory of the arguments is read",
        stepped("", _STEP.replace("p.sub_(", "params[params.index(p)] = p.sub(")
                .replace("params.index(p)", "[q is p for q in params].index(True)")),
        says="was replaced", task="optimizer",
    ),
    Cheat(
        "arguments remembered from the last call", "ours: state that lasts",
        "each call gets fresh copies, of the judge's own data",
        kernel("""
            if not self.kept:
                self.kept = {0: [p.clone() for p in params]}
                for p, g, m in zip(params, grads, state["m"]):
                    m.mul_(0.9).add_(g, alpha=0.1)
                    p.sub_(lr * state["scale"] * m)
                self.kept[1] = [(p.clone(), m.clone()) for p, m in zip(params, state["m"])]
                return
            for p, m, (old, other) in zip(params, state["m"], self.kept[1]):
                if p.shape == old.shape:
                    p.copy_(old)
                    m.copy_(other)
        """, takes=TAKES), task="optimizer",
    ),
)  # fmt: skip
"""Cheats of a task whose reference changes its arguments."""
