"""Tasks in half precision: a kernel that rounds once is right, one that rounds often is not."""

from __future__ import annotations

import msgspec
import pytest

from akg_tui.core.measurement import FailureKind, Measurement, Outcome
from akg_tui.core.task import Correctness
from tests.evaluate.conftest import Evaluated, quick_task

INPUTS = {
    "softmax": "torch.randn(24, 512)",
    "rms norm": "torch.randn(24, 512), torch.randn(512)",
    "attention": "torch.randn(2, 64, 32), torch.randn(2, 64, 32), torch.randn(2, 64, 32)",
    "loss": "torch.randn(200), torch.randn(200)",
    "linear": "torch.randn(16, 768), torch.randn(768, 24), torch.randn(24)",
    # Like an error function whose result for infinity is NaN in single precision alone.
    "limit": "torch.randn(24, 64)",
    # In half precision several codes are equally near.
    "nearest code": "torch.randn(40, 16), torch.randn(300, 16)",
}
REFERENCES = {
    "softmax": ("x", "return torch.softmax(x, -1)"),
    "rms norm": ("x, w", "return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * w"),
    "attention": ("q, k, v", "return torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1) @ v"),
    "loss": ("x, y", "return (x - y).pow(2).mean()"),
    "linear": ("x, w, b", "return torch.nn.functional.gelu(x @ w + b)"),
    "nearest code": ("x, c", "return (x[:, None] - c).pow(2).sum(-1).argmin(-1)"),
    "limit": ("x", "return 2 * x + (0 * x if x.dtype == torch.float32 else 0)"),
}
HONEST = {
    "softmax": "return torch.softmax(x.float(), -1).to(x.dtype)",
    "rms norm": "z = x.float()\n        z = z * torch.rsqrt(z.square().sum(-1, True) / z.shape[-1] "
    "+ 1e-5) * w.float()\n        return z.to(x.dtype)",
    "attention": "s = q.float() @ k.float().mT * q.shape[-1] ** -0.5\n"
    "        p = torch.exp(s - s.amax(-1, keepdim=True))\n"
    "        return (p.to(q.dtype).float() @ v.float() / p.sum(-1, True)).to(q.dtype)",
    "loss": "return (x.float() - y.float()).square().mean().to(x.dtype)",
    "linear": "return torch.nn.functional.gelu(x.float() @ w.float() + b.float()).to(x.dtype)",
    "nearest code": "return (x.float()[:, None] - c.float()).pow(2).sum(-1).argmin(-1)",
    "limit": "return (2 * x.float() + 0 * x.float()).to(x.dtype)",
}
WRONG = {
    "softmax": "e = torch.exp(x - x.amax(-1, keepdim=True))\n        s = 0 * e[..., :1]\n"
    "        for i in range(e.shape[-1]):\n            s = s + e[..., i : i + 1]\n"
    "        return e / s",
    "rms norm": "half = x[..., ::2].float().square().mean(-1, True)\n"
    "        return (x * torch.rsqrt(half + 1e-5) * w).to(x.dtype)",
    "nearest code": "half = x[:, None, ::2].float() - c[:, ::2].float()\n"
    "        return half.pow(2).sum(-1).argmin(-1)",
    "loss": "return (x - y)[: -x.shape[0] // 8].pow(2).mean()",
}


def task(name: str, dtype: str) -> str:
    parameters, body = REFERENCES[name]
    return f"""
import torch


class Model(torch.nn.Module):
    def forward(self, {parameters}):
        {body}


def get_inputs():
    return [value.to(torch.{dtype}) for value in ({INPUTS[name]},)]
"""


def judged(evaluated: Evaluated, name: str, dtype: str, body: str) -> Measurement:
    reference = task(name, dtype)
    kernel = reference.replace("Model(", "ModelNew(").replace(REFERENCES[name][1], body)
    rules = Correctness(trials=2)
    checked = msgspec.structs.replace(quick_task(), correctness=rules)
    return evaluated(checked, reference, kernel, timed=False)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", HONEST)
def test_a_kernel_that_computes_in_single_precision_is_right(
    evaluated: Evaluated, name: str, dtype: str
) -> None:
    found = judged(evaluated, name, dtype, HONEST[name])
    assert found.outcome is Outcome.CORRECT, found
    assert found.tolerance is not None
    assert found.tolerance_from


@pytest.mark.parametrize("name", WRONG)
def test_a_kernel_that_rounds_in_every_step_or_leaves_terms_out_is_wrong(
    evaluated: Evaluated, name: str
) -> None:
    found = judged(evaluated, name, "bfloat16", WRONG[name])
    assert (found.outcome, found.failure) == (Outcome.FAILED, FailureKind.WRONG), found
