"""Cross entropy: a plain C++ kernel, and the knobs to tune it."""

from ctypes import c_int64

import torch
from torch import nn

from akg_tui.dsl import compile_cpp, pointer

# Compiler options.
FLAGS = "-O1"  # tune: ["-O1", "-O3", "-O3 -march=native", "-O3 -march=native -ffast-math"]
# Passes over a row: one for the maximum and one for the sum, or both in one, with rescaling.
PASSES = "two"  # tune: ["two", "online"]
# The exponential: the C library's in 64 or 32 bits, or a polynomial of this degree.
EXP = "libm64"  # tune: ["libm64", "libm32", "poly3", "poly5"]
# Independent partial maxima and sums: 1 is a chain of dependent operations.
LANES = 1  # tune: [1, 4, 8, 16, 32]

SOURCE = r"""
#include <cmath>
#include <cstdint>

enum { two, online };
enum { libm64, libm32, poly3, poly5 };

constexpr float lowest = -3.0e38f;
constexpr int64_t chunk = 256;

// 2^n * p(r) with x = n ln2 + r, |r| <= ln2 / 2, for x <= 0. The coefficients are minimax
// fits of exp in relative error on that interval: 7e-5 and 7e-8 before rounding.
static inline float exponential(float x) {
    if constexpr (EXP == libm64) return static_cast<float>(std::exp(static_cast<double>(x)));
    if constexpr (EXP == libm32) return std::exp(x);
    x = x > -87.0f ? x : -87.0f;  // below, the result would be denormal
    const int n = static_cast<int>(x * 1.44269504f - 0.5f);
    const float fn = static_cast<float>(n);
    const float r = (x - fn * 0.693359375f) + fn * 2.12194440e-4f;
    float p;
    if constexpr (EXP == poly3) {
        p = 0.165668413f;
        p = p * r + 0.504963279f;
        p = p * r + 1.00016415f;
        p = p * r + 0.999928057f;
    } else {
        p = 0.0082976548f;
        p = p * r + 0.0419153832f;
        p = p * r + 0.166675746f;
        p = p * r + 0.499988943f;
        p = p * r + 0.999999702f;
        p = p * r + 1.00000012f;
    }
    const int32_t bits = (n + 127) << 23;
    float scale;
    __builtin_memcpy(&scale, &bits, sizeof scale);
    return p * scale;
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

static inline float exp_sum(const float* __restrict x, int64_t n, float shift) {
    float lane[LANES];
    for (int l = 0; l < LANES; ++l) lane[l] = 0.0f;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; ++l) lane[l] += exponential(x[i + l] - shift);
    float result = 0.0f;
    for (; i < n; ++i) result += exponential(x[i] - shift);
    for (int l = 0; l < LANES; ++l) result += lane[l];
    return result;
}

static float loss(const float* __restrict x, int64_t target, int64_t n) {
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
        sum += exp_sum(x + i, length, top);
    }
    return static_cast<float>(std::log(sum)) + (top - x[target]);
}

extern "C" void cross_entropy(const float* x, const int64_t* target, float* y, int64_t rows,
                              int64_t classes) {
    for (int64_t r = 0; r < rows; ++r) y[r] = loss(x + r * classes, target[r], classes);
}
"""


class ModelNew(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        knobs = f"-DPASSES={PASSES} -DEXP={EXP} -DLANES={LANES}"
        self.cross_entropy = compile_cpp(SOURCE, f"{FLAGS} {knobs}").cross_entropy

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        x, target = x.contiguous(), target.contiguous()
        rows, classes = x.shape
        y = torch.empty(rows)
        self.cross_entropy(
            pointer(x, torch.float32, name="x"),
            pointer(target, torch.int64, name="target"),
            pointer(y, torch.float32, name="y"),
            c_int64(rows),
            c_int64(classes),
        )
        return y
