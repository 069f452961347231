"""Tasks with floats of 8 bits: kernels get them as they are, and may return them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from akg_tui.core.measurement import FailureKind, Measurement, Outcome
from benchmarks.judge.ordinary.windows import module
from tests.judging import AS_DRAWN, Evaluated, quick_task

EIGHT = "torch.randn{0}.to(torch.{1})"


def of(dtype: str, *shapes: tuple[int, ...]) -> str:
    return ", ".join(EIGHT.format(shape, dtype) for shape in shapes)


PRODUCT = module(
    "x, w, scale",
    "y = x.to(torch.float32) @ (w.to(torch.float32) * scale[:, None]).T\n"
    "return y.to(torch.bfloat16)",
    of("float8_e4m3fn", (24, 64), (16, 64)) + ", 0.1 * (torch.rand(16) + 0.5)",
)
GATED = module(
    "x, gate",
    "return (torch.sigmoid(gate.float()) * x.float()).to(x.dtype)",
    of("float8_e5m2", (24, 96), (24, 96)),
)
QUANTIZED = module(
    "x",
    "scale = x.abs().amax(-1, keepdim=True) / 448\n"
    "return (x / scale).to(torch.float8_e4m3fn), scale",
    "torch.randn(24, 96) * torch.rand(24, 1)",
)
SCALED = module(
    "x, w, a, b",
    "return torch._scaled_mm(x, w.t(), a, b, out_dtype=torch.bfloat16)",
    of("float8_e4m3fn", (32, 64), (16, 64)) + ", torch.rand(()) + 0.5, torch.rand(()) + 0.5",
)

WEIGHTED = module(
    "x",
    "return (x.to(torch.float32) @ self.weight.to(torch.float32)).to(torch.float8_e4m3fn)",
    "torch.randn(8, 32).to(torch.float8_e4m3fn)",
    'self.register_buffer("weight", torch.randn(32).to(torch.float8_e5m2))',
)

IN_CPP = '''
import ctypes

import torch

from akg_tui.dsl import compile_cpp, pointer

SOURCE = r"""
#include <cmath>
#include <cstdint>
static float wide(uint8_t bits) {
  int power = bits >> 3 & 15, part = bits & 7;
  float value = power ? std::ldexp(8 + part, power - 10) : std::ldexp(part, -9);
  if ((bits & 127) == 127) value = NAN;
  return bits & 128 ? -value : value;
}
extern "C" void product(const uint8_t* x, const uint8_t* w, const float* scale, float* y,
                        long rows, long columns, long length) {
  for (long r = 0; r < rows; ++r)
    for (long c = 0; c < columns; ++c) {
      double sum = 0;
      for (long k = 0; k < length; ++k)
        sum += double(wide(x[r * length + k])) * wide(w[c * length + k]);
      y[r * columns + c] = sum * scale[c];
    }
}
"""
library = compile_cpp(SOURCE, ("-O2",))


class ModelNew(torch.nn.Module):
    def forward(self, x, w, scale):
        y = torch.empty(x.shape[0], w.shape[0])
        sizes = map(ctypes.c_long, (x.shape[0], w.shape[0], x.shape[1]))
        x, w, scale = x.contiguous(), w.contiguous(), scale.contiguous()
        library.product(pointer(x), pointer(w), pointer(scale), pointer(y), *sizes)
        return y.to(torch.bfloat16)
'''


def judged(evaluated: Evaluated, reference: str, kernel: str) -> Measurement:
    return evaluated(quick_task(), reference, kernel.replace("Model(", "ModelNew("), timed=False)


HONEST = {
    "a product in C++": (PRODUCT, IN_CPP),
    "a result in 8 bits": (GATED, GATED.replace("torch.sigmoid(", "1 / (1 + torch.exp(-")
    .replace("gate.float())", "gate.float()))")),
    "a quantization": (QUANTIZED, QUANTIZED.replace("(x / scale)", "(x * (1 / scale))")),
    "weights, and a result of few elements": (
        WEIGHTED,
        WEIGHTED.replace("x.to(torch.float32)", "x.double()").replace("weight.to(torch.float32)",
                                                                   "weight.double()"),
    ),
    "an operator for 8 bits": (
        SCALED,
        SCALED.replace(
            "torch._scaled_mm(x, w.t(), a, b, out_dtype=torch.bfloat16)",
            "(x.float() @ w.float().t() * (a * b)).bfloat16()",
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_kernel_is_right(evaluated: Evaluated, name: str) -> None:
    found = judged(evaluated, *HONEST[name])
    assert found.outcome is Outcome.CORRECT, (found.message, found.detail)
    skipped = [each for each in found.errors if each.error is None]
    assert len(skipped) < len(found.errors) / 2, skipped


WRONG = {
    "an input is ignored": (GATED, GATED.replace("torch.sigmoid(gate.float())", "0.5")),
    "a scale is ignored": (PRODUCT, PRODUCT.replace("scale[:, None]", "0.1")),
    "a rounding is wrong by three steps": (
        QUANTIZED,
        QUANTIZED.replace(
            "return (x / scale).to(torch.float8_e4m3fn), scale",
            "bits = (x / scale).to(torch.float8_e4m3fn).view(torch.uint8)\n"
            "        bits.view(-1)[x.abs().argmax()] -= 3\n"
            "        return bits.view(torch.float8_e4m3fn), scale",
        ),
    ),
    "too few bits": (
        PRODUCT,
        PRODUCT.replace("y.to(torch.bfloat16)", "y.to(torch.float8_e4m3fn).to(torch.bfloat16)"),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_kernel_fails(evaluated: Evaluated, name: str) -> None:
    found = judged(evaluated, *WRONG[name])
    assert (found.outcome, found.failure) == (Outcome.FAILED, FailureKind.WRONG), found


def test_other_bits_of_the_same_input_are_found_where_a_task_demands_equal_ones(
    evaluated: Evaluated,
) -> None:
    checked = quick_task(replace(AS_DRAWN, deterministic=True))
    moving = QUANTIZED.replace(
        "return (x / scale).to", "return (x / scale * (1 + torch.rand(1) * 2e-2)).to"
    ).replace("Model(", "ModelNew(")
    honest = QUANTIZED.replace("Model(", "ModelNew(")
    assert evaluated(checked, QUANTIZED, honest, timed=False).outcome is Outcome.CORRECT
    found = evaluated(checked, QUANTIZED, moving, timed=False)
    assert found.outcome is Outcome.FAILED, found
    assert "not deterministic" in found.message


def test_a_kernel_that_gets_8_bits_is_timed(evaluated: Evaluated) -> None:
    task = quick_task(budget_s=0.3)
    found = evaluated(task, PRODUCT, PRODUCT.replace("Model(", "ModelNew("))
    assert found.outcome is Outcome.CORRECT, (found.message, found.detail)
    assert found.ratio is not None
