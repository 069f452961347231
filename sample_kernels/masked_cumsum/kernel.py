"""Masked running sums: a plain C++ kernel, and the knobs to tune it."""

from ctypes import c_int64

import torch
from torch import nn

from akg_tui.dsl import compile_cpp, pointer

# Compiler options.
FLAGS = "-O1"  # tune: ["-O1", "-O3", "-O3 -march=native", "-O3 -march=native -ffast-math"]
# How the mask is applied: a branch, a multiplication, or a bitwise and.
MASK = "branch"  # tune: ["branch", "multiply", "bits"]
# Elements of a row that are summed as a tree; 1: one after the other, a chain of additions.
WIDTH = 1  # tune: [1, 4, 8]
# Rows that are summed at the same time, so that their chains of additions overlap.
ROWS = 1  # tune: [1, 2, 4, 8]
# The type of the running sum.
SUM = "double"  # tune: ["double", "float"]

SOURCE = r"""
#include <cstdint>

enum { branch, multiply, bits };

static inline float masked(float x, uint8_t mask) {
    if constexpr (MASK == branch) {
        if (mask) return x;
        return 0.0f;
    } else if constexpr (MASK == multiply) {
        return x * static_cast<float>(mask);
    } else {
        uint32_t word;
        __builtin_memcpy(&word, &x, sizeof word);
        word &= 0u - static_cast<uint32_t>(mask);
        __builtin_memcpy(&x, &word, sizeof x);
        return x;
    }
}

// Hillis and Steele: after steps of 1, 2, 4 … every lane has the sum of all lanes up to it.
template <int width>
static inline void prefix(const float* __restrict x, const uint8_t* __restrict mask,
                          float* __restrict y, SUM& sum) {
    float lane[width], moved[width];
    for (int l = 0; l < width; ++l) lane[l] = masked(x[l], mask[l]);
    for (int step = 1; step < width; step *= 2) {
        for (int l = 0; l < width; ++l) moved[l] = l < step ? 0.0f : lane[l - step];
        for (int l = 0; l < width; ++l) lane[l] += moved[l];
    }
    const float before = static_cast<float>(sum);
    for (int l = 0; l < width; ++l) y[l] = before + lane[l];
    sum += lane[width - 1];
}

template <int rows>
static void sums(const float* __restrict x, const uint8_t* __restrict mask, float* __restrict y,
                 int64_t length) {
    SUM sum[rows] = {};
    int64_t t = 0;
    for (; t + WIDTH <= length; t += WIDTH)
        for (int r = 0; r < rows; ++r)
            prefix<WIDTH>(x + r * length + t, mask + r * length + t, y + r * length + t, sum[r]);
    for (; t < length; ++t)
        for (int r = 0; r < rows; ++r)
            prefix<1>(x + r * length + t, mask + r * length + t, y + r * length + t, sum[r]);
}

extern "C" void masked_cumsum(const float* x, const uint8_t* mask, float* y, int64_t rows,
                              int64_t length) {
    int64_t r = 0;
    for (; r + ROWS <= rows; r += ROWS)
        sums<ROWS>(x + r * length, mask + r * length, y + r * length, length);
    for (; r < rows; ++r) sums<1>(x + r * length, mask + r * length, y + r * length, length);
}
"""


class ModelNew(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        knobs = f"-DMASK={MASK} -DWIDTH={WIDTH} -DROWS={ROWS} -DSUM={SUM}"
        self.masked_cumsum = compile_cpp(SOURCE, f"{FLAGS} {knobs}").masked_cumsum

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x, mask = x.contiguous(), mask.contiguous()
        y = torch.empty_like(x)
        rows, length = x.shape
        self.masked_cumsum(
            pointer(x, torch.float32, name="x"),
            pointer(mask, torch.bool, name="mask"),
            pointer(y, torch.float32, name="y"),
            c_int64(rows),
            c_int64(length),
        )
        return y
