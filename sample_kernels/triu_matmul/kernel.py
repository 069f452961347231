"""The product of upper triangular matrices: a plain C++ kernel, and the knobs to tune it."""

from ctypes import c_int64

import torch
from torch import nn

from akg_tui.dsl import compile_cpp, pointer

# Compiler options.
FLAGS = "-O1"  # tune: ["-O1", "-O3", "-O3 -march=native"]
# The loops: a row of the result as a sum of rows of `b`, or tiles of the result in registers.
LOOPS = "rows"  # tune: ["rows", "tiles"]
# Rows and columns of a tile, which should fit the registers: 16 of 8 floats with AVX2, 32 of 16
# with AVX-512.
ROWS = 4  # tune: [4, 6, 8, 12]
COLUMNS = 16  # tune: [16, 32, 48, 64]

SOURCE = r"""
#include <cstdint>
#include <cstdlib>
#include <cstring>

enum { rows, tiles };

// A row of the result is the sum of a[i][k] * (row k of b); both begin on the diagonal.
static void by_rows(const float* __restrict a, const float* __restrict b, float* __restrict y,
                    int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
        std::memset(y + i * n, 0, n * sizeof(float));
        for (int64_t k = i; k < n; ++k)
            for (int64_t j = k; j < n; ++j) y[i * n + j] += a[i * n + k] * b[k * n + j];
    }
}

// The floats of a register.
#if defined(__AVX512F__)
constexpr int LANES = 16;
#elif defined(__AVX__)
constexpr int LANES = 8;
#else
constexpr int LANES = 4;
#endif
constexpr int VECTORS = COLUMNS / LANES;
typedef float vec __attribute__((vector_size(4 * LANES)));
typedef float unaligned __attribute__((vector_size(4 * LANES), aligned(4)));

// sum += a[:, :depth] * panel[:depth], where `a` has rows of `stride` elements.
static inline void accumulate(vec (&sum)[ROWS][VECTORS], const float* __restrict a,
                              int64_t stride, const float* __restrict panel, int64_t depth) {
    for (int64_t k = 0; k < depth; ++k) {
        const vec* b = reinterpret_cast<const vec*>(panel + k * COLUMNS);
#pragma GCC unroll 16
        for (int r = 0; r < ROWS; ++r) {
            const float factor = a[r * stride + k];
#pragma GCC unroll 16
            for (int v = 0; v < VECTORS; ++v) sum[r][v] += factor * b[v];
        }
    }
}

// Columns `left` to `right` of rows `top` to `top` + ROWS; `panel` has these columns of b.
static void tile(const float* __restrict a, const float* __restrict panel, float* __restrict y,
                 int64_t top, int64_t left, int64_t right, int64_t n) {
    vec sum[ROWS][VECTORS] = {};
    // The square of `a` on the diagonal, with zeros below it. Columns beyond `right` have no part.
    float square[ROWS][ROWS] = {};
    const int64_t side = right - top < ROWS ? right - top : ROWS;
    for (int r = 0; r < ROWS; ++r)
        for (int64_t k = r; k < side; ++k) square[r][k] = a[(top + r) * n + top + k];
    accumulate(sum, square[0], ROWS, panel + top * COLUMNS, side);
    accumulate(sum, a + top * n + top + side, n, panel + (top + side) * COLUMNS,
               right - top - side);
    for (int r = 0; r < ROWS; ++r) {
        float* to = y + (top + r) * n + left;
        if (right - left == COLUMNS)
            for (int v = 0; v < VECTORS; ++v)
                *reinterpret_cast<unaligned*>(to + v * LANES) = sum[r][v];
        else
            std::memcpy(to, sum[r], (right - left) * sizeof(float));
    }
}

// Each panel of b, COLUMNS wide and down to the diagonal, is copied and used for all rows above.
static void by_tiles(const float* __restrict a, const float* __restrict b, float* __restrict y,
                     int64_t n) {
    const int64_t size = n * COLUMNS * sizeof(float);  // a multiple of 64
    float* panel = static_cast<float*>(std::aligned_alloc(64, size));
    for (int64_t i = 0; i < n; ++i) std::memset(y + i * n, 0, i * sizeof(float));
    for (int64_t left = 0; left < n; left += COLUMNS) {
        const int64_t right = left + COLUMNS < n ? left + COLUMNS : n;
        for (int64_t k = 0; k < right; ++k)
            for (int64_t j = 0; j < COLUMNS; ++j)
                panel[k * COLUMNS + j] =
                    left + j >= k && left + j < n ? b[k * n + left + j] : 0.0f;
        for (int64_t top = 0; top < right; top += ROWS)
            // The last rows are computed with some of those before, to be ROWS as well.
            tile(a, panel, y, top < n - ROWS ? top : n - ROWS, left, right, n);
    }
    std::free(panel);
}

extern "C" void triu_matmul(const float* a, const float* b, float* y, int64_t n) {
    if (LOOPS == rows || n < ROWS)
        by_rows(a, b, y, n);
    else
        by_tiles(a, b, y, n);
}
"""


class ModelNew(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        knobs = f"-DLOOPS={LOOPS} -DROWS={ROWS} -DCOLUMNS={COLUMNS}"
        self.triu_matmul = compile_cpp(SOURCE, f"{FLAGS} {knobs}").triu_matmul

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a, b = a.contiguous(), b.contiguous()
        y = torch.empty_like(a)
        self.triu_matmul(
            pointer(a, torch.float32, name="a"),
            pointer(b, torch.float32, name="b"),
            pointer(y, torch.float32, name="y"),
            c_int64(a.shape[0]),
        )
        return y
