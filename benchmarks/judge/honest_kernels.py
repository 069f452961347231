"""Honest kernels: common operators, each added up and exponentiated in four styles of C++.

Pure text. A kernel computes in its inputs' precision, or in float32 for half precision, and rounds
its result once. Nothing is left out of any sum.
"""

from __future__ import annotations

from msgspec import Struct

STYLES = ("one by one", "pairwise", "Kahan", "fused, fast exp")
DTYPES = ("float32", "float64", "bfloat16", "float16")
SIZES = (7, 300, 4000)


class Op(Struct, frozen=True):
    """An operator: what it is called with, the reference's expression, and the kernel's.

    In `inputs` SIZE is the length of its sums. The kernel's functions over the last axis, which
    they keep, are `S` (sum), `D` (dot product) and `C` (cumulative sum); `E` is the exponential.
    """

    inputs: str
    parameters: str
    reference: str
    kernel: str
    sizes: tuple[int, ...] = SIZES

    def source(self, size: int, dtype: str) -> str:
        """Return the reference's file."""
        return REFERENCE.format(
            inputs=self.inputs.replace("SIZE", str(size)),
            parameters=self.parameters,
            expression=self.reference,
            dtype=dtype,
        )

    def written(self, style: int) -> str:
        """Return the source of a kernel."""
        flags = ["-O2", f"-DSTYLE={style}"]
        if style == STYLES.index("fused, fast exp"):
            flags += ["-O3", "-march=native", "-ffp-contract=fast"]
        return (
            KERNEL.replace("FLAGS", repr(flags))
            .replace("PARAMETERS", self.parameters)
            .replace("EXPRESSION", self.kernel)
        )


REFERENCE = """
import torch
import torch.nn.functional as F


class Model(torch.nn.Module):
    def forward(self, {parameters}):
        return {expression}


def get_inputs():
    drawn = [{inputs}]
    return [x.to(torch.{dtype}) if x.is_floating_point() else x for x in drawn]


def get_init_inputs():
    return []
"""

KERNEL = '''
import ctypes

import torch
import torch.nn.functional as F
from akg_tui.dsl import compile_cpp, pointer

SOURCE = r"""
#include <cmath>
#include <cstring>

template <class T> static T exponential(T x) { return std::exp(x); }
#if STYLE == 3
template <> float exponential(float x) {  // 2 to the power of whole and rest
  if (!(x < 88)) return std::exp(x);
  if (x < -87) return 0;
  float whole = std::floor(x * 1.44269504f + 0.5f), rest = x - whole * 0.693359375f;
  rest += whole * 2.12194440e-4f;
  float y = 1 + rest * (1 + rest * (0.5f + rest * (1.6666666e-1f + rest * (4.1666668e-2f
      + rest * (8.3333340e-3f + rest * 1.3888889e-3f)))));
  int bits = (int(whole) + 127) << 23;
  float scale;
  std::memcpy(&scale, &bits, 4);
  return y * scale;
}
#endif

template <class T, class F> static T total(F term, long from, long to) {
  if (STYLE == 1) {
    T s = 0;
    if (to - from <= 8) { for (long i = from; i < to; ++i) s += term(i); return s; }
    long middle = from + (to - from) / 2;
    return total<T>(term, from, middle) + total<T>(term, middle, to);
  }
  if (STYLE == 2) {
    volatile T s = 0, lost = 0;
    for (long i = from; i < to; ++i) {
      volatile T y = term(i) - lost, t = s + y;
      // Of an infinite sum nothing is lost.
      lost = std::isfinite(T(t)) ? (t - s) - y : 0;
      s = t;
    }
    return s;
  }
  if (STYLE == 3) {
    T s[16] = {}, all = 0;
    for (long i = from; i < to; ++i) s[i % 16] += term(i);
    for (T each : s) all += each;
    return all;
  }
  T s = 0;
  for (long i = from; i < to; ++i) s += term(i);
  return s;
}

template <class T> static void run(int what, const T* x, const T* w, T* y, long rows, long n) {
  for (long r = 0; r < rows; ++r, x += n, w += n) {
    if (what == 0) y[r] = total<T>([&](long i) { return x[i]; }, 0, n);
    if (what == 1) y[r] = total<T>([&](long i) { return x[i] * w[i]; }, 0, n);
    if (what == 2) for (long i = 0; i < n; ++i) y[r * n + i] = exponential(x[i]);
    if (what == 3) { T s = 0; for (long i = 0; i < n; ++i) y[r * n + i] = s += x[i]; }
  }
}
extern "C" void run_float(int what, const float* x, const float* w, float* y, long rows, long n) {
  run(what, x, w, y, rows, n);
}
extern "C" void run_double(
    int what, const double* x, const double* w, double* y, long rows, long n) {
  run(what, x, w, y, rows, n);
}
"""


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.library = compile_cpp(SOURCE, FLAGS)

    def run(self, what, x, w, y):
        x, w = x.contiguous(), w.contiguous()
        call = self.library.run_double if x.dtype == torch.float64 else self.library.run_float
        n = x.shape[-1] if x.dim() else 1
        rows = x.numel() // n if n else 0
        call(what, pointer(x), pointer(w), pointer(y), ctypes.c_long(rows), ctypes.c_long(n))
        return y

    def forward(self, PARAMETERS):
        def S(x):
            return self.run(0, x, x, x.new_empty((*x.shape[:-1], 1)))

        def D(x, w):
            x, w = torch.broadcast_tensors(x, w)
            return self.run(1, x, w, x.new_empty((*x.shape[:-1], 1)))

        def E(x):
            return self.run(2, x, x, torch.empty(x.shape, dtype=x.dtype))

        def C(x):
            return self.run(3, x, x, torch.empty(x.shape, dtype=x.dtype))

        def compute(PARAMETERS):
            return EXPRESSION

        given = [PARAMETERS]
        half = given[0].dtype in (torch.float16, torch.bfloat16)
        wide = [v.float() if half and v.is_floating_point() else v for v in given]
        result = compute(*wide)
        return result.to(given[0].dtype) if result.is_floating_point() else result
'''

_FLAT = "x.reshape(1, -1)"
_ROWS = "torch.randn(3, SIZE)"
_TOP = "x.amax(-1, keepdim=True)"
_FINITE_TOP = f"(lambda t: torch.where(t.abs() == torch.inf, 0, t))({_TOP})"
_TWO = "torch.randn(SIZE), torch.randn(SIZE)"

OPS = {
    "mean": Op("torch.randn(SIZE)", "x", "x.mean()", "(S(x) / x.numel()).squeeze()"),
    "mean of a matrix": Op(
        "torch.randn(4, SIZE)",
        "x",
        "x.mean()",
        f"(S({_FLAT}) / x.numel()).squeeze()",
        (7, 300, 1000),
    ),
    "sum": Op("torch.randn(2, SIZE)", "x", "x.sum(-1)", "S(x).squeeze(-1)"),
    "mse": Op(_TWO, "x, y", "F.mse_loss(x, y)", "(D(x - y, x - y) / x.numel()).squeeze()"),
    "l1": Op(_TWO, "x, y", "F.l1_loss(x, y)", "(S((x - y).abs()) / x.numel()).squeeze()"),
    "hinge": Op(
        "torch.randn(SIZE), torch.randn(SIZE).sign()",
        "x, y",
        "torch.clamp(1 - x * y, min=0).mean()",
        "(S((1 - x * y).clamp(min=0)) / x.numel()).squeeze()",
    ),
    "dot": Op(_TWO, "x, y", "torch.dot(x, y)", "D(x, y).squeeze()"),
    "norm": Op("torch.randn(2, SIZE)", "x", "x.norm(dim=-1)", "D(x, x).sqrt().squeeze(-1)"),
    "cosine": Op(
        "torch.randn(2, SIZE), torch.randn(2, SIZE)",
        "x, y",
        "F.cosine_similarity(x, y, dim=-1)",
        "(D(x, y) / (D(x, x).sqrt().clamp(min=1e-8) * D(y, y).sqrt().clamp(min=1e-8))).squeeze(-1)",
    ),
    "variance": Op(
        "torch.randn(2, SIZE)",
        "x",
        "x.var(-1)",
        "(lambda c: D(c, c) / (x.shape[-1] - 1))(x - S(x) / x.shape[-1]).squeeze(-1)",
    ),
    "logsumexp": Op(
        "torch.randn(2, SIZE)",
        "x",
        "torch.logsumexp(x, -1)",
        f"(lambda t: (t + S(E(x - t)).log()).squeeze(-1))({_FINITE_TOP})",
    ),
    "cross entropy": Op(
        "torch.randn(6, SIZE), torch.randint(SIZE, (6,))",
        "x, t",
        "F.cross_entropy(x, t)",
        f"(S(({_TOP} + S(E(x - {_TOP})).log() - x.gather(-1, t[:, None])).T) / x.shape[0])"
        ".squeeze()",
    ),
    "negative log likelihood": Op(
        "torch.randn(1, SIZE), torch.randint(SIZE, (1,))",
        "x, t",
        "F.nll_loss(torch.log_softmax(x, -1), t)",
        f"(S((S(E(x - {_TOP})).log() - (x - {_TOP}).gather(-1, t[:, None])).T) / x.shape[0])"
        ".squeeze()",
    ),
    "binary cross entropy": Op(
        "torch.randn(SIZE), torch.rand(SIZE)",
        "x, y",
        "F.binary_cross_entropy_with_logits(x, y)",
        "(S((1 - y) * x + (-x).clamp(min=0) + torch.log1p(E(-x.abs()))) / x.numel()).squeeze()",
    ),
    "divergence": Op(
        "torch.randn(2, SIZE).softmax(-1), torch.randn(2, SIZE).softmax(-1)",
        "x, y",
        "F.kl_div(x.log(), y, reduction='batchmean')",
        "(S((torch.xlogy(y, y) - y * x.log()).reshape(1, -1)) / x.shape[0]).squeeze()",
    ),
    "rms norm": Op(
        "torch.randn(1, SIZE), torch.randn(SIZE)",
        "x, w",
        "x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * w",
        "x * torch.rsqrt(D(x, x) / x.shape[-1] + 1e-5) * w",
    ),
    "layer norm": Op(
        "torch.randn(2, SIZE)",
        "x",
        "F.layer_norm(x, x.shape[-1:])",
        "(lambda c: c * torch.rsqrt(D(c, c) / x.shape[-1] + 1e-5))(x - S(x) / x.shape[-1])",
    ),
    "softmax": Op(
        "torch.randn(2, SIZE)", "x", "torch.softmax(x, -1)", f"(lambda e: e / S(e))(E(x - {_TOP}))"
    ),
    "cumsum": Op("torch.randn(1, SIZE)", "x", "x.cumsum(-1)", "C(x)"),
    "matvec": Op(
        "torch.randn(4, SIZE), torch.randn(SIZE)", "a, x", "a @ x", "D(a, x[None]).squeeze(-1)"
    ),
    "matmul": Op(
        "torch.randn(2, SIZE), torch.randn(SIZE, 3)",
        "a, b",
        "a @ b",
        "D(a[:, None], b.T[None].contiguous()).squeeze(-1)",
    ),
    "linear then mean": Op(
        "torch.randn(2, SIZE), torch.randn(5, SIZE)",
        "x, w",
        "F.linear(x, w).mean(-1)",
        "(lambda z: S(z) / z.shape[-1])(D(x[:, None], w[None]).squeeze(-1)).squeeze(-1)",
    ),
    "attention": Op(
        "torch.randn(2, 8), torch.randn(SIZE, 8), torch.randn(SIZE, 4)",
        "q, k, v",
        "torch.softmax(q @ k.T / q.shape[-1] ** 0.5, -1) @ v",
        "(lambda e: D(e[:, None], v.T[None].contiguous()).squeeze(-1) / S(e))"
        "((lambda x: E(x - x.amax(-1, keepdim=True)))"
        "(D(q[:, None], k[None]).squeeze(-1) / q.shape[-1] ** 0.5))",
    ),
    "sigmoid": Op("torch.randn(SIZE)", "x", "torch.sigmoid(x)", "1 / (1 + E(-x))", (3, 1000)),
    "silu": Op("torch.randn(SIZE)", "x", "F.silu(x)", "x / (1 + E(-x))", (3, 1000)),
    "gelu": Op(
        "torch.randn(SIZE)", "x", "F.gelu(x)", "0.5 * x * (1 + torch.erf(x * 0.5**0.5))", (3, 1000)
    ),
    "softplus": Op(
        "torch.randn(SIZE)",
        "x",
        "F.softplus(x)",
        "torch.where(x > 20, x, x.clamp(min=0) + torch.log1p(E(-x.abs())))",
        (3, 1000),
    ),
    "argmin": Op("torch.randn(4, SIZE)", "x", "x.argmin(-1)", "x.argmin(-1)"),
    "nearest code": Op(
        "torch.randn(4, 16), torch.randn(SIZE, 16)",
        "x, c",
        "(x[:, None] - c[None]).pow(2).sum(-1).argmin(-1)",
        "(lambda d: D(d, d).squeeze(-1).argmin(-1))(x[:, None] - c[None])",
    ),
}  # fmt: skip
