"""Sums in every honest order meet the bounds; sums that leave terms out do not.

In half precision a kernel computes in float32 and rounds its result once.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from torch.nn import functional

from akg_tui.dsl import compile_cpp
from akg_tui.evaluate import correctness
from akg_tui.evaluate.child import unusual_values
from akg_tui.evaluate.child.input_generator import LongestReduction
from akg_tui.evaluate.child.protocol import FEW, FEW_NUDGES

SOURCE = r"""
#include <cmath>
#include <cstring>

static float fast_exp(float x) {  // x at most 0: 2 to the power of whole and rest
  x = x < -87 ? -87 : x;
  float whole = std::floor(x * 1.44269504f + 0.5f), rest = x - whole * 0.693359375f;
  rest += whole * 2.12194440e-4f;
  float y = 1 + rest * (1 + rest * (0.5f + rest * (1.6666666e-1f + rest * (4.1666668e-2f
      + rest * (8.3333340e-3f + rest * 1.3888889e-3f)))));
  int bits = (int(whole) + 127) << 23;
  float scale;
  std::memcpy(&scale, &bits, 4);
  return y * scale;
}
static float exponential(float x) { return STYLE == 3 ? fast_exp(x) : std::exp(x); }

static float low(float x) {  // how a sum in half precision is rounded
  if (LOW == 1) {
    unsigned bits;
    std::memcpy(&bits, &x, 4);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
    std::memcpy(&x, &bits, 4);
  }
#if LOW == 2
  x = float(_Float16(x));
#endif
  return x;
}

template <class F> static float total(F term, long from, long to) {
  if (LEFT_OUT == 1 && from == 0) to -= 1;
  if (LEFT_OUT == 4 && from == 0) to -= (to + 63) / 64;
  if (LEFT_OUT == 2) to -= to % 64 ? to % 64 : 64;
  long step = LEFT_OUT == 3 ? 2 : 1;
  if (STYLE == 1) {  // pairwise
    float s = 0;
    if (to - from <= 8) { for (long i = from; i < to; i += step) s += term(i); return s; }
    long middle = from + (to - from) / 2 / 2 * 2;
    return total(term, from, middle) + total(term, middle, to);
  }
  if (STYLE == 2) {  // Kahan
    volatile float s = 0, lost = 0;
    for (long i = from; i < to; i += step) {
      volatile float y = term(i) - lost, t = s + y;
      lost = (t - s) - y; s = t;
    }
    return s;
  }
  if (STYLE == 3) {  // sixteen accumulators, fused multiply-add
    float s[16] = {};
    for (long i = from; i < to; i += step) s[i / step % 16] += term(i);
    float all = 0;
    for (float each : s) all += each;
    return all;
  }
  volatile float s = 0;  // one by one
  for (long i = from; i < to; i += step) s = low(s + term(i));
  return s;
}

extern "C" void rows(int op, const float* x, const float* w, float* y, long m, long n, long k) {
  for (long r = 0; r < m; ++r, x += n) {
    auto sum = [&](auto term) { return total(term, 0L, n); };
    float top = -INFINITY;
    for (long i = 0; i < n; ++i) top = x[i] > top ? x[i] : top;
    float mean = sum([&](long i) { return x[i]; }) / n;
    auto square = [&](long i) { return x[i] * x[i]; };
    auto spread = [&](long i) { return (x[i] - mean) * (x[i] - mean); };
    auto power = [&](long i) { return exponential(x[i] - top); };
    float* out = y + r * (op >= 5 && op < 9 ? n : op == 9 ? k : 1);
    if (op == 0) *out = mean * n;
    if (op == 1) *out = mean;
    if (op == 2) *out = sum(spread) / (n - 1);
    if (op == 3) *out = std::sqrt(sum(square));
    if (op == 4) *out = top + std::log(sum(power));
    if (op == 5) { float s = 1 / std::sqrt(sum(square) / n + 1e-5f);
                   for (long i = 0; i < n; ++i) out[i] = x[i] * s; }
    if (op == 6) { float s = 1 / std::sqrt(sum(spread) / n + 1e-5f);
                   for (long i = 0; i < n; ++i) out[i] = (x[i] - mean) * s; }
    if (op == 7) { float s = sum(power); for (long i = 0; i < n; ++i) out[i] = power(i) / s; }
    if (op == 8) { float s = sum([&](long i) { return std::fabs(x[i]); });
                   for (long i = 0; i < n; ++i) out[i] = x[i] / (s > 1e-12f ? s : 1e-12f); }
    if (op == 9) for (long c = 0; c < k; ++c)
                   out[c] = sum([&](long i) { return x[i] * w[i * k + c]; });
  }
}
"""

Op = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
OPS: dict[str, Op] = {
    "sum": lambda x, _: x.sum(-1),
    "mean": lambda x, _: x.mean(-1),
    "variance": lambda x, _: x.var(-1),
    "norm": lambda x, _: torch.linalg.vector_norm(x, dim=-1),
    "logsumexp": lambda x, _: torch.logsumexp(x, -1),
    "rms norm": lambda x, _: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5),
    "layer norm": lambda x, _: functional.layer_norm(x, x.shape[-1:]),
    "softmax": lambda x, _: torch.softmax(x, -1),
    "normalize": lambda x, _: functional.normalize(x, p=1.0, dim=-1),
    "matmul": lambda x, w: x @ w,
}
STYLES = ("one by one", "pairwise", "Kahan", "fast")
LEFT_OUT = ("the last term", "a tail", "every other term", "one of 64 terms")
HALF = (torch.bfloat16, torch.float16)
SIZES = (64, 1000, 4096)
ROWS, COLUMNS, SEED = 5, 3, 7


def kernel(style: int, left_out: int = 0, low: int = 0) -> ctypes.CDLL:
    flags = ["-O2", f"-DSTYLE={style}", f"-DLEFT_OUT={left_out}", f"-DLOW={low}"]
    if style == STYLES.index("fast"):
        flags += ["-O3", "-ffast-math", "-march=native"]
    return compile_cpp(SOURCE, flags=flags)


class Case(NamedTuple):
    """One input, with the results of the reference and the bounds of a kernel's."""

    label: str
    x: torch.Tensor
    w: torch.Tensor
    native: torch.Tensor
    exact: torch.Tensor
    held: list[correctness.Bound]


@functools.lru_cache(maxsize=4)
def cases(op: str, size: int, dtype: torch.dtype) -> list[Case]:
    """Return ordinary inputs, and unusual values as the judge makes them."""
    torch.manual_seed(SEED)
    generator = torch.Generator().manual_seed(SEED)
    drawn = [torch.randn(ROWS, size).to(dtype), torch.randn(size, COLUMNS).to(dtype)]
    with LongestReduction() as longest:
        few = correctness.has_few(OPS[op](*drawn))
    pooled = usual_bounds(op, drawn, longest) if few else []
    made = []
    for kind in [
        unusual_values.ValueKind.DRAWN,
        *unusual_values.possible("finite", [dtype]),
    ]:
        given = unusual_values.apply(kind, drawn, generator)
        x, w = (each.contiguous() for each in given if isinstance(each, torch.Tensor))
        native, exact = OPS[op](x, w), OPS[op](x.double(), w.double())
        work = None, longest.terms
        if kind is unusual_values.ValueKind.DRAWN:
            held = correctness.bounds(
                [native], [exact], *work, roundings=longest.roundings, pooled=pooled
            )
        else:
            nudged = [
                [OPS[op](*(nudge(number, v) for v in (x, w)))]
                for number in range(FEW_NUDGES if few else 1)
            ]
            several = [native], [exact], nudged
            held = correctness.conditioned(*several, *work, roundings=longest.roundings) or []
        if held and correctness.all_finite([native]):
            made.append(Case(kind.label, x, w, native, exact, held))
    return made


def found(
    op: str, size: int, library: ctypes.CDLL, dtype: torch.dtype = torch.float32
) -> list[tuple[str, correctness.Comparison]]:
    """Compare the kernel on each case."""
    compared = []
    for case in cases(op, size, dtype):
        wide = [case.x.float(), case.w.float(), torch.empty_like(case.native, dtype=torch.float32)]
        pointers = [ctypes.c_void_p(each.data_ptr()) for each in wide]
        extents = [ctypes.c_long(each) for each in (ROWS, size, COLUMNS)]
        library.rows(ctypes.c_int(list(OPS).index(op)), *pointers, *extents)
        several = [wide[-1].to(dtype)], [case.native], [case.exact], case.held
        compared.append((case.label, correctness.compare(*several)))
    return compared


def usual_bounds(
    op: str, like: list[torch.Tensor], longest: LongestReduction
) -> list[correctness.Bound | None]:
    """Return the bounds of a result of few elements, from several draws as the judge makes them."""
    draws = []
    for _ in range(math.ceil(FEW / OPS[op](*like).numel())):
        x, w = (torch.randn(each.shape).to(each.dtype) for each in like)
        draws.append(([OPS[op](x, w)], [OPS[op](x.double(), w.double())]))
    return correctness.pooled_bounds(draws, None, longest.terms, roundings=longest.roundings)


def nudge(number: int, value: torch.Tensor) -> torch.Tensor:
    wide = value.double()
    if number == 0:
        found = unusual_values.nudged(wide, value)
    else:
        found = unusual_values.nudged_in_sums(wide, value)
    assert isinstance(found, torch.Tensor)
    return found


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


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("op", OPS)
def test_a_sum_in_any_order_is_right(op: str, size: int) -> None:
    for number, style in enumerate(STYLES):
        compared = found(op, size, kernel(number))
        assert len(compared) >= 5
        wrong = [(style, label, each.message) for label, each in compared if each.message]
        assert not wrong


@pytest.mark.parametrize("op", ["sum", "mean", "rms norm"])
def test_a_long_sum_of_equal_terms_one_by_one_is_right(op: str) -> None:
    size = 65536
    compared = found(op, size, kernel(STYLES.index("one by one")))
    assert "constant rows" in {label for label, _ in compared}
    assert not [(label, each.message) for label, each in compared if each.message]
    for number, what in enumerate(LEFT_OUT[1:], start=2):
        assert any(each.message for _, each in found(op, size, kernel(0, number))), what


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("op", OPS)
def test_a_sum_that_leaves_terms_out_is_wrong(op: str, size: int) -> None:
    for number, what in enumerate(LEFT_OUT, start=1):
        assert any(each.message for _, each in found(op, size, kernel(0, number))), what


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("op", OPS)
def test_in_half_precision_a_sum_in_any_order_is_right(
    op: str, size: int, dtype: torch.dtype
) -> None:
    for number, style in enumerate(STYLES):
        compared = found(op, size, kernel(number), dtype)
        assert len(compared) >= 4
        wrong = [(style, label, each.message) for label, each in compared if each.message]
        assert not wrong


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("op", OPS)
def test_in_half_precision_a_sum_that_leaves_terms_out_is_wrong(
    op: str, dtype: torch.dtype
) -> None:
    for number, what in enumerate(LEFT_OUT[1:], start=2):
        compared = found(op, 4096, kernel(0, number), dtype)
        assert any(each.message for _, each in compared), what


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("op", OPS)
def test_in_half_precision_a_long_sum_that_is_rounded_in_every_step_is_wrong(
    op: str, dtype: torch.dtype
) -> None:
    compared = found(op, 4096, kernel(0, low=1 + HALF.index(dtype)), dtype)
    assert compared[0][0] == "as drawn"
    assert compared[0][1].message
