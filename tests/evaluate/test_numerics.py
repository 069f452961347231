"""Honest numerics are right at default settings; work in fewer bits, or on fewer terms, is not.

A part of `python -m benchmarks honest`, and what must not pass beside it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

from akg_tui.core.measurement import FailureKind, Outcome
from akg_tui.core.task import Task
from akg_tui.evaluate.child.input_generator import LongestReduction
from benchmarks.judge import honest_kernels
from benchmarks.judge.honest_reductions import OPS
from tests.judging import Evaluated

TASK = Task(op="honest")
REWRITES = {
    "attention with a mask": ("torch's own", "one pass"),
    "matmul": ("Strassen", "three products in bfloat16"),
    "linear and GELU": ("packed in __init__", "erf written out"),
    "convolution and ReLU": ("Winograd F(2x2)", "Fourier transforms"),
    "softmax": ("online, blocks of 64", "in C++ with a fast exponential"),
    "variance": ("shifted by the first",),
    "linear, then a sum": ("the sum of the weights",),
    "attention in bfloat16": ("one pass",),
    "softmax in half": ("written out",),
    "layer norm in bfloat16": ("two passes",),
    "matmul in half": ("sums of blocks",),
    "sum in bfloat16": ("in single precision",),
}
SUMS = [
    ("layer norm", "float32", "one by one"),
    ("layer norm", "float32", "fused, fast exp"),
    ("cosine", "float16", "pairwise"),
    ("cosine", "float16", "Kahan"),
]


def test_the_table_has_a_hundred_rewrites_that_parse() -> None:
    assert len(OPS) >= 15
    assert sum(len(op.kernels) for op in OPS.values()) >= 100
    for op in OPS.values():
        for source in (op.source(), *(op.written(name) for name in op.kernels)):
            ast.parse(source)


@pytest.mark.parametrize(
    ("op", "name"), [(op, name) for op, names in REWRITES.items() for name in names]
)
def test_an_honest_rewrite_is_correct(evaluated: Evaluated, op: str, name: str) -> None:
    found = evaluated(TASK, OPS[op].source(), OPS[op].written(name), timed=False)
    assert found.outcome is Outcome.CORRECT, f"{found.message}\n{found.detail}\n{found.errors}"
    assert found.tolerance is not None
    assert found.tolerance_from


@pytest.mark.parametrize(("op", "dtype", "style"), SUMS)
def test_a_sum_in_any_order_is_correct(
    evaluated: Evaluated, op: str, dtype: str, style: str
) -> None:
    summed = honest_kernels.OPS[op]
    kernel = summed.written(honest_kernels.STYLES.index(style))
    found = evaluated(TASK, summed.source(4000, dtype), kernel, timed=False)
    assert found.outcome is Outcome.CORRECT, found


def model(parameters: str, body: str, inputs: str) -> str:
    return f"""
import torch
import torch.nn.functional as F


def tf32(value):
    return (value.view(torch.int32) + 0x1000 & ~0x1FFF).view(torch.float32)


def one_by_one(terms):
    total = torch.zeros_like(terms[..., 0])
    for term in terms.unbind(-1):
        total = total + term
    return total


class Model(torch.nn.Module):
    def forward(self, {parameters}):
        return {body}


def get_inputs():
    return [{inputs}]
"""


MATRICES = "torch.randn(192, 192), torch.randn(192, 192)"
ROWS = "torch.randn(12, 1000)"
HALF = "torch.randn(24, 4096).bfloat16()"
HEADS = "torch.randn(2, 96, 32), torch.randn(2, 96, 32), torch.randn(2, 96, 32)"
ATTENTION = "torch.softmax(q @ k.mT / 32**0.5, -1) @ v"
IN_BFLOAT16 = "(torch.softmax(q.bfloat16() @ k.bfloat16().mT / 32**0.5, -1) @ v.bfloat16()).float()"
LAYERS = "torch.randn(128, 256), torch.randn(64, 256) / 16, torch.randn(64)"
WRONG = {
    "a product in bfloat16": ("a, b", "a @ b", "(a.bfloat16() @ b.bfloat16()).float()", MATRICES),
    "a product in TF32": ("a, b", "a @ b", "tf32(a) @ tf32(b)", MATRICES),
    "positive numbers in TF32": (
        "a, b", "a @ b", "tf32(a) @ tf32(b)", MATRICES.replace("randn", "rand"),
    ),
    "a product without its last term": ("a, b", "a @ b", "a[:, :-1] @ b[:-1]", MATRICES),
    "attention in bfloat16": ("q, k, v", ATTENTION, IN_BFLOAT16, HEADS),
    "GELU by tanh": ("x", "F.gelu(x)", "F.gelu(x, approximate='tanh')", ROWS),
    "softmax in float16": (
        "x", "torch.softmax(x, -1)", "torch.softmax(x.half(), -1).float()", ROWS,
    ),
    "a mean of a half": ("x", "x.mean(-1)", "x[:, ::2].mean(-1)", ROWS),
    "a sum without its last term": ("x", "x.sum(-1)", "x[:, :-1].sum(-1)", ROWS),
    "a sum without a term of 64": (
        "x", "x.sum(-1)", "x[:, x.shape[-1] // 64 + 1 :].sum(-1)", HALF,
    ),
    "no bias": ("x, w, b", "F.linear(x, w, b)", "F.linear(x, w)", LAYERS),
    "a sum rounded in every step": ("x", "x.sum(-1)", "one_by_one(x)", HALF),
    "a softmax rounded in every step": (
        "x",
        "torch.softmax(x, -1)",
        "(e := torch.exp(x - x.amax(-1, keepdim=True))) / one_by_one(e)[..., None]",
        HALF.replace("4096", "512"),
    ),
    "an RMS norm of a half in half precision": (
        "x",
        "x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)",
        "(x * torch.rsqrt(x[..., ::2].float().square().mean(-1, True) + 1e-5)).to(x.dtype)",
        HALF,
    ),
    "the nearest code of a half": (
        "x, c",
        "(x[:, None] - c).pow(2).sum(-1).argmin(-1)",
        "(x[:, None, ::2].float() - c[:, ::2].float()).pow(2).sum(-1).argmin(-1)",
        "torch.randn(40, 16).bfloat16(), torch.randn(300, 16).bfloat16()",
    ),
    "a loss of seven eighths": (
        "x, y",
        "(x - y).pow(2).mean()",
        "(x - y)[: -x.shape[0] // 8].pow(2).mean()",
        "torch.randn(200).bfloat16(), torch.randn(200).bfloat16()",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("parameters", "body", "wrong", "inputs"), WRONG.values(), ids=WRONG)
def test_fewer_bits_and_terms_left_out_are_wrong(
    evaluated: Evaluated, parameters: str, body: str, wrong: str, inputs: str
) -> None:
    kernel = model(parameters, wrong, inputs).replace("Model(", "ModelNew(")
    found = evaluated(TASK, model(parameters, body, inputs), kernel, timed=False)
    assert (found.outcome, found.failure) == (Outcome.FAILED, FailureKind.WRONG), found


# Like an error function whose result for infinity is NaN in single precision alone.
LIMIT = "2 * x + (0 * x if x.dtype == torch.float32 else 0)"


def test_a_special_value_that_hangs_on_the_precision_is_not_held_against_a_kernel(
    evaluated: Evaluated,
) -> None:
    reference = model("x", LIMIT, HALF)
    kernel = model("x", "(2 * x.float() + 0 * x.float()).to(x.dtype)", HALF)
    found = evaluated(TASK, reference, kernel.replace("Model(", "ModelNew("), timed=False)
    assert found.outcome is Outcome.CORRECT, f"{found.message}\n{found.detail}\n{found.errors}"


X, IMAGE = torch.ones(4, 6), torch.ones(2, 4, 5, 5)
STATISTICS = (torch.zeros(4), torch.ones(4))
CLASSES = torch.zeros(4, dtype=torch.long)


@pytest.mark.parametrize(
    ("terms", "call"),
    [
        (1, lambda: X + X),
        (1, lambda: torch.empty(0, 3).sum()),
        (1, lambda: torch.addmm(X, torch.empty(4, 0), torch.empty(0, 6))),
        (1, lambda: functional.batch_norm(IMAGE, *STATISTICS)),
        (6, lambda: X @ X.T),
        (6, lambda: torch.addmm(torch.ones(4), X, X.T)),
        (6, lambda: X.cumsum(1)),
        (6, lambda: torch.einsum("ik,jk->ij", X, X)),
        (24, X.norm),
        (24, lambda: functional.layer_norm(X, (4, 6))),
        (36, lambda: functional.conv2d(IMAGE, torch.ones(8, 4, 3, 3))),
        (6, lambda: functional.cross_entropy(X, CLASSES)),
        (6, lambda: functional.cross_entropy(X.T, torch.zeros(6, dtype=torch.long))),
        (4, lambda: functional.cross_entropy(X.T, X[0].long(), reduction="none")),
        (6, lambda: functional.cross_entropy(X[0], torch.tensor(1))),
        (50, lambda: functional.group_norm(IMAGE, 2)),
        (50, lambda: functional.batch_norm(IMAGE, *STATISTICS, training=True)),
    ],
)
def test_the_longest_sum_of_a_reference_is_found(terms: int, call: Callable[[], object]) -> None:
    with LongestReduction() as longest:
        call()
    assert longest.terms == terms
