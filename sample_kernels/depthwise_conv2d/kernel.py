"""Depthwise convolution of 3 x 3: a plain C++ kernel, and the knobs to tune it."""

from ctypes import c_int64

import torch
from torch import nn

from akg_tui.dsl import compile_cpp, pointer

# Compiler options.
FLAGS = "-O1"  # tune: ["-O1", "-O3", "-O3 -march=native", "-O3 -march=native -ffast-math"]
# The border: a test for each element, or separate code for it around a loop without tests.
BORDER = "test"  # tune: ["test", "separate"]
# The loops: the nine taps inside (a sum in a register), or outside (nine passes over a row).
TAPS = "inside"  # tune: ["inside", "outside"]
# Elements of a row computed together; the last ones of a row are computed twice, without a loop
# for the rest. 1: the compiler's own loop, which treats the rest one by one.
WIDTH = 1  # tune: [1, 4, 8, 16]
# Rows of the result computed together: a row of the input is then loaded once for several of them.
ROWS = 1  # tune: [1, 2, 4]

SOURCE = r"""
#include <cstdint>
#include <initializer_list>

enum { test, separate };
enum { inside, outside };

// One element, with tests for the border.
static inline float element(const float* __restrict x, const float* __restrict w, int64_t i,
                            int64_t j, int64_t height, int64_t width) {
    float sum = 0.0f;
    for (int64_t k = 0; k < 3; ++k)
        for (int64_t l = 0; l < 3; ++l) {
            const int64_t a = i + k - 1, b = j + l - 1;
            if (a >= 0 && a < height && b >= 0 && b < width)
                sum += x[a * width + b] * w[k * 3 + l];
        }
    return sum;
}

typedef float vec __attribute__((vector_size(4 * WIDTH), aligned(4)));

// WIDTH elements of each of `rows` rows, from column `j`.
template <int rows>
static inline void taps(const float* __restrict above, const float* __restrict w,
                        float* __restrict out, int64_t j, int64_t width) {
    vec sum[rows] = {};
    for (int a = 0; a < rows + 2; ++a) {
        const float* from = above + a * width + j;
        const vec left = *reinterpret_cast<const vec*>(from - 1);
        const vec middle = *reinterpret_cast<const vec*>(from);
        const vec right = *reinterpret_cast<const vec*>(from + 1);
        for (int r = 0; r < rows; ++r) {
            const int k = a - r;
            if (k >= 0 && k < 3)
                sum[r] += left * w[k * 3] + middle * w[k * 3 + 1] + right * w[k * 3 + 2];
        }
    }
    for (int r = 0; r < rows; ++r) *reinterpret_cast<vec*>(out + r * width + j) = sum[r];
}

// `rows` rows from row `i`, none of which touches the upper or the lower border.
template <int rows>
static inline void inner(const float* __restrict x, const float* __restrict w,
                         float* __restrict y, int64_t i, int64_t height, int64_t width) {
    const float* above = x + (i - 1) * width;
    float* out = y + i * width;
    if constexpr (TAPS == inside) {
        if (WIDTH > 1 && width - 2 >= WIDTH) {
            const int64_t last = width - 1 - WIDTH;
            for (int64_t j = 1; j < width - 1; j += WIDTH)
                taps<rows>(above, w, out, j < last ? j : last, width);
        } else {
            for (int64_t j = 1; j < width - 1; ++j)
                for (int r = 0; r < rows; ++r) {
                    const float* from = above + r * width + j;
                    float sum = 0.0f;
                    for (int k = 0; k < 3; ++k)
                        for (int l = 0; l < 3; ++l) sum += from[k * width + l - 1] * w[k * 3 + l];
                    out[r * width + j] = sum;
                }
        }
    } else {
        for (int r = 0; r < rows; ++r) {
            for (int64_t j = 1; j < width - 1; ++j) out[r * width + j] = 0.0f;
            for (int k = 0; k < 3; ++k)
                for (int l = 0; l < 3; ++l) {
                    const float tap = w[k * 3 + l];
                    const float* from = above + (r + k) * width + l - 1;
                    for (int64_t j = 1; j < width - 1; ++j) out[r * width + j] += from[j] * tap;
                }
        }
    }
    for (int r = 0; r < rows; ++r) {
        out[r * width] = element(x, w, i + r, 0, height, width);
        out[r * width + width - 1] = element(x, w, i + r, width - 1, height, width);
    }
}

static void map(const float* __restrict x, const float* __restrict w, float* __restrict y,
                int64_t height, int64_t width) {
    if (BORDER == test || height < 3 || width < 3) {
        for (int64_t i = 0; i < height; ++i)
            for (int64_t j = 0; j < width; ++j)
                y[i * width + j] = element(x, w, i, j, height, width);
        return;
    }
    for (int64_t i : {int64_t(0), height - 1})
        for (int64_t j = 0; j < width; ++j)
            y[i * width + j] = element(x, w, i, j, height, width);
    int64_t i = 1;
    for (; i + ROWS <= height - 1; i += ROWS) inner<ROWS>(x, w, y, i, height, width);
    for (; i < height - 1; ++i) inner<1>(x, w, y, i, height, width);
}

extern "C" void depthwise(const float* x, const float* w, float* y, int64_t batch,
                          int64_t channels, int64_t height, int64_t width) {
    const int64_t size = height * width;
    for (int64_t n = 0; n < batch * channels; ++n)
        map(x + n * size, w + n % channels * 9, y + n * size, height, width);
}
"""


class ModelNew(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        knobs = f"-DBORDER={BORDER} -DTAPS={TAPS} -DWIDTH={WIDTH} -DROWS={ROWS}"
        self.depthwise = compile_cpp(SOURCE, f"{FLAGS} {knobs}").depthwise

    def forward(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        if weight.shape[2:] != (3, 3):
            return nn.functional.conv2d(x, weight, padding=1, groups=x.shape[1])
        x, weight = x.contiguous(), weight.contiguous()
        y = torch.empty_like(x)
        batch, channels, height, width = x.shape
        self.depthwise(
            pointer(x, torch.float32, name="x"),
            pointer(weight, torch.float32, name="weight"),
            pointer(y, torch.float32, name="y"),
            c_int64(batch),
            c_int64(channels),
            c_int64(height),
            c_int64(width),
        )
        return y
