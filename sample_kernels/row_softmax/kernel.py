"""Softmax over the last dimension: a plain C++ kernel, and the knobs to tune it."""

from ctypes import c_int64

import torch
from torch import nn

from akg_tui.dsl import compile_cpp, pointer

# Compiler options.
FLAGS = "-O1"  # tune: ["-O1", "-O3", "-O3 -march=native", "-O3 -march=native -ffast-math"]
# Passes over a row, and whether an exponential is stored or computed again.
PASSES = "recompute"  # tune: ["recompute", "keep", "online"]
# The exponential: the C library's in 64 or 32 bits, or a polynomial of this degree.
EXP = "libm64"  # tune: ["libm64", "libm32", "poly3", "poly5", "poly6"]
# Independent partial maxima and sums: 1 is a chain of dependent operations.
LANES = 1  # tune: [1, 4, 8, 16, 32]
# How a row is scaled at the end.
SCALE = "divide"  # tune: ["divide", "multiply"]

SOURCE = r"""
#include <cmath>
#include <cstdint>

enum { recompute, keep, online };
enum { libm64, libm32, poly3, poly5, poly6 };
enum { divide, multiply };

constexpr float lowest = -3.0e38f;
// Floats are summed over this many columns, then added to a double: a row-long chain of float
// additions would lose digits.
constexpr int64_t chunk = 128;

// 2^n * p(r) with x = n ln2 + r, |r| <= ln2 / 2, for x <= 0. The coefficients are minimax
// fits of exp in relative error on that interval: 7e-5, 7e-8 and 2e-9 before rounding.
static inline float exp_poly(float x) {
    x = x > -87.0f ? x : -87.0f;  // below, the result would be denormal
    const int n = static_cast<int>(x * 1.44269504f - 0.5f);
    const float fn = static_cast<float>(n);
    const float r = (x - fn * 0.693359375f) + fn * 2.12194440e-4f;  // ln2 in two parts
    float p;
    if constexpr (EXP == poly3) {
        p = 0.165668413f;
        p = p * r + 0.504963279f;
        p = p * r + 1.00016415f;
        p = p * r + 0.999928057f;
    } else if constexpr (EXP == poly5) {
        p = 0.0082976548f;
        p = p * r + 0.0419153832f;
        p = p * r + 0.166675746f;
        p = p * r + 0.499988943f;
        p = p * r + 0.999999702f;
        p = p * r + 1.00000012f;
    } else {
        p = 0.00138368458f;
        p = p * r + 0.00837481581f;
        p = p * r + 0.0416682251f;
        p = p * r + 0.166664198f;
        p = p * r + 0.499999911f;
        p = p * r + 1.0f;
        p = p * r + 1.0f;
    }
    const int32_t bits = (n + 127) << 23;
    float scale;
    __builtin_memcpy(&scale, &bits, sizeof scale);
    return p * scale;
}

static inline float exponential(float x) {
    if constexpr (EXP == libm64) {
        return static_cast<float>(std::exp(static_cast<double>(x)));
    } else if constexpr (EXP == libm32) {
        return std::exp(x);
    } else {
        return exp_poly(x);
    }
}

static inline float largest(const float* __restrict x, int64_t n) {
    float lane[LANES];
    for (int l = 0; l < LANES; ++l) lane[l] = lowest;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; ++l) lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
    float result = lowest;
    for (; i < n; ++i) result = x[i] > result ? x[i] : result;
    for (int l = 0; l < LANES; ++l) result = lane[l] > result ? lane[l] : result;
    return result;
}

// The sum of exp(x - shift), with the terms left in y if asked for.
template <bool store>
static inline float exp_sum(const float* __restrict x, float* __restrict y, int64_t n,
                            float shift) {
    float lane[LANES];
    for (int l = 0; l < LANES; ++l) lane[l] = 0.0f;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; ++l) {
            const float e = exponential(x[i + l] - shift);
            if constexpr (store) y[i + l] = e;
            lane[l] += e;
        }
    float result = 0.0f;
    for (; i < n; ++i) {
        const float e = exponential(x[i] - shift);
        if constexpr (store) y[i] = e;
        result += e;
    }
    for (int l = 0; l < LANES; ++l) result += lane[l];
    return result;
}

static void softmax_row(const float* __restrict x, float* __restrict y, int64_t n) {
    // Online: maximum and sum in one pass, the sum rescaled whenever the maximum grows
    // (Milakov, Gimelshein 2018). Otherwise the maximum is known before the sum begins.
    float top = PASSES == online ? lowest : largest(x, n);
    double sum = 0.0;
    for (int64_t i = 0; i < n; i += chunk) {
        const int64_t length = n - i < chunk ? n - i : chunk;
        if constexpr (PASSES == online) {
            const float here = largest(x + i, length);
            if (here > top) {
                sum *= exponential(top - here);
                top = here;
            }
        }
        sum += exp_sum<PASSES == keep>(x + i, y + i, length, top);
    }
    const float total = static_cast<float>(sum), inverse = 1.0f / total;
    for (int64_t i = 0; i < n; ++i) {
        const float e = PASSES == keep ? y[i] : exponential(x[i] - top);
        y[i] = SCALE == divide ? e / total : e * inverse;
    }
}

extern "C" void row_softmax(const float* x, float* y, int64_t rows, int64_t columns) {
    for (int64_t r = 0; r < rows; ++r) softmax_row(x + r * columns, y + r * columns, columns);
}
"""


class ModelNew(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        knobs = f"-DPASSES={PASSES} -DEXP={EXP} -DLANES={LANES} -DSCALE={SCALE}"
        self.row_softmax = compile_cpp(SOURCE, f"{FLAGS} {knobs}").row_softmax

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        columns = x.shape[-1]
        self.row_softmax(
            pointer(x, torch.float32, name="x"),
            pointer(y, torch.float32, name="y"),
            c_int64(x.numel() // columns),
            c_int64(columns),
        )
        return y
