"""Depthwise convolution of 3 x 3: a plain C++ kernel, and the knobs to tune it."""

from ctypes import c_int64

import torch
from torch import nn

from akg_tui.dsl import compile_cpp, pointer

# Compiler options.
FLAGS = "-O1"  # tune: ["-O1", "-O3", "-O3 -march=native", "-O3 -march=native -ffast-math"]
# The border: a test for each product, or vectors of their own at both ends of a row.
BORDER = "test"  # tune: ["test", "vectors"]
# Elements of a row computed together, in a vector; maps that are narrower take the next smaller.
WIDTH = 4  # tune: [4, 8, 16]
# Rows of the result computed together: a row of the input is then loaded once for several of them.
ROWS = 1  # tune: [1, 2, 4, 7]

SOURCE = r"""
#include <cstdint>
#include <utility>

enum { test, vectors };

static void map_by_tests(const float* __restrict x, const float* __restrict w,
                         float* __restrict y, int64_t height, int64_t width) {
    for (int64_t i = 0; i < height; ++i)
        for (int64_t j = 0; j < width; ++j) {
            float sum = 0.0f;
            for (int64_t k = 0; k < 3; ++k)
                for (int64_t l = 0; l < 3; ++l) {
                    const int64_t a = i + k - 1, b = j + l - 1;
                    if (a >= 0 && a < height && b >= 0 && b < width)
                        sum += x[a * width + b] * w[k * 3 + l];
                }
            y[i * width + j] = sum;
        }
}

template <int lanes>
struct Vector {
    typedef float type __attribute__((vector_size(4 * lanes), aligned(4)));
};
template <int lanes>
using vec = typename Vector<lanes>::type;

// The vectors one element to the left and to the right of `v`, where the row has only zeros.
template <int lanes, int... l>
static inline vec<lanes> left_end(vec<lanes> v, std::integer_sequence<int, l...>) {
    return vec<lanes>{(l > 0 ? v[l > 0 ? l - 1 : 0] : 0.0f)...};
}
template <int lanes, int... l>
static inline vec<lanes> right_end(vec<lanes> v, std::integer_sequence<int, l...>) {
    return vec<lanes>{(l < lanes - 1 ? v[l < lanes - 1 ? l + 1 : 0] : 0.0f)...};
}

enum { neither = 0, left = 1, right = 2, both = 3 };

// `lanes` elements of each of `rows` rows, from row `i` and column `j`, at these ends of a row.
template <int rows, int lanes, int ends>
static inline void block(const float* __restrict x, const float* __restrict w,
                         float* __restrict y, int64_t i, int64_t j, int64_t height,
                         int64_t width) {
    constexpr auto all = std::make_integer_sequence<int, lanes>();
    vec<lanes> sum[rows] = {};
#pragma GCC unroll 16
    for (int a = 0; a < rows + 2; ++a) {
        if ((a == 0 && i == 0) || (a == rows + 1 && i + rows == height)) continue;
        const float* from = x + (i + a - 1) * width + j;
        const auto at = [&](int l) { return *reinterpret_cast<const vec<lanes>*>(from + l); };
        const vec<lanes> middle = at(0);
        vec<lanes> before, after;
        if constexpr ((ends & left) != 0) before = left_end<lanes>(middle, all);
        else before = at(-1);
        if constexpr ((ends & right) != 0) after = right_end<lanes>(middle, all);
        else after = at(1);
#pragma GCC unroll 16
        for (int r = 0; r < rows; ++r) {
            const int k = a - r;
            if (k < 0 || k > 2) continue;
            sum[r] += before * w[k * 3];
            sum[r] += middle * w[k * 3 + 1];
            sum[r] += after * w[k * 3 + 2];
        }
    }
    for (int r = 0; r < rows; ++r)
        *reinterpret_cast<vec<lanes>*>(y + (i + r) * width + j) = sum[r];
}

// The last rows and columns are computed together with some of those before them.
template <int rows, int lanes>
static void map_by_vectors(const float* __restrict x, const float* __restrict w,
                           float* __restrict y, int64_t height, int64_t width) {
    if constexpr (lanes > 1)
        if (width < lanes) return map_by_vectors<rows, lanes / 2>(x, w, y, height, width);
    if constexpr (rows > 1)
        if (height < rows) return map_by_vectors<1, lanes>(x, w, y, height, width);
    for (int64_t top = 0; top < height; top += rows) {
        const int64_t i = top < height - rows ? top : height - rows, last = width - lanes;
        if (last == 0) {
            block<rows, lanes, both>(x, w, y, i, 0, height, width);
            continue;
        }
        block<rows, lanes, left>(x, w, y, i, 0, height, width);
        for (int64_t j = lanes; j < last; j += lanes)
            block<rows, lanes, neither>(x, w, y, i, j, height, width);
        block<rows, lanes, right>(x, w, y, i, last, height, width);
    }
}

extern "C" void depthwise(const float* x, const float* w, float* y, int64_t batch,
                          int64_t channels, int64_t height, int64_t width) {
    constexpr auto map = BORDER == test ? map_by_tests : map_by_vectors<ROWS, WIDTH>;
    const int64_t size = height * width;
    for (int64_t n = 0; n < batch * channels; ++n)
        map(x + n * size, w + n % channels * 9, y + n * size, height, width);
}
"""


class ModelNew(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        knobs = f"-DBORDER={BORDER} -DWIDTH={WIDTH} -DROWS={ROWS}"
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
