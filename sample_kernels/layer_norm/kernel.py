"""Layer normalisation: a plain C++ kernel, and the knobs to tune it."""

from ctypes import c_float, c_int64

import torch
from torch import nn

from akg_tui.dsl import compile_cpp, pointer

# Compiler options.
FLAGS = "-O1"  # tune: ["-O1", "-O3", "-O3 -march=native", "-O3 -march=native -ffast-math"]
# Mean and variance: two passes, sums of the values and their squares in one, or Welford's update.
MOMENTS = "welford"  # tune: ["welford", "two_pass", "one_pass"]
# Floats in a vector, and vectors that are summed independently.
WIDTH = 1  # tune: [1, 4, 8, 16]
CHAINS = 1  # tune: [1, 2, 4]
# How a row is scaled: a division for each element, or one reciprocal for the row.
SCALE = "divide"  # tune: ["divide", "multiply"]

SOURCE = r"""
#include <cmath>
#include <cstdint>

enum { welford, two_pass, one_pass };
enum { divide, multiply };

typedef float vec __attribute__((vector_size(4 * WIDTH), aligned(4)));

// Floats are summed over this many columns, then added to a double: a row-long chain of float
// additions would lose digits.
constexpr int64_t chunk = 512;
constexpr int64_t step = WIDTH * CHAINS;

// The sums of x - shift and of (x - shift)^2 over n columns.
static inline void sums(const float* __restrict x, int64_t n, float shift, double& sum,
                        double& squares) {
    sum = squares = 0.0;
    const vec away = vec{} + shift;
    for (int64_t from = 0; from < n; from += chunk) {
        const int64_t to = from + chunk < n ? from + chunk : n;
        vec s[CHAINS] = {}, q[CHAINS] = {};
        int64_t i = from;
        for (; i + step <= to; i += step)
            for (int c = 0; c < CHAINS; ++c) {
                const vec d = *reinterpret_cast<const vec*>(x + i + c * WIDTH) - away;
                s[c] += d;
                q[c] += d * d;
            }
        float ss = 0.0f, qq = 0.0f;
        for (; i < to; ++i) {
            const float d = x[i] - shift;
            ss += d;
            qq += d * d;
        }
        for (int c = 0; c < CHAINS; ++c)
            for (int l = 0; l < WIDTH; ++l) ss += s[c][l], qq += q[c][l];
        sum += ss;
        squares += qq;
    }
}

static void row(const float* __restrict x, const float* __restrict weight,
                const float* __restrict bias, float* __restrict y, int64_t n, float epsilon) {
    double mean = 0.0, variance = 0.0, unused;
    const double count = static_cast<double>(n);
    if constexpr (MOMENTS == welford) {
        for (int64_t i = 0; i < n; ++i) {
            const double move = x[i] - mean;
            mean += move / static_cast<double>(i + 1);
            variance += move * (x[i] - mean);
        }
        variance /= count;
    } else if constexpr (MOMENTS == two_pass) {
        sums(x, n, 0.0f, mean, unused);
        mean /= count;
        sums(x, n, static_cast<float>(mean), unused, variance);
        variance /= count;
    } else {
        // Around the first element, so that a mean far from zero costs no digits.
        double sum, squares;
        sums(x, n, x[0], sum, squares);
        mean = x[0] + sum / count;
        variance = squares / count - (sum / count) * (sum / count);
        variance = variance > 0.0 ? variance : 0.0;
    }
    const float root = std::sqrt(static_cast<float>(variance) + epsilon), inverse = 1.0f / root;
    const float middle = static_cast<float>(mean);
    for (int64_t i = 0; i < n; ++i) {
        const float centred = x[i] - middle;
        const float scaled = SCALE == divide ? centred / root : centred * inverse;
        y[i] = scaled * weight[i] + bias[i];
    }
}

extern "C" void layer_norm(const float* x, const float* weight, const float* bias, float* y,
                           int64_t rows, int64_t columns, float epsilon) {
    for (int64_t r = 0; r < rows; ++r)
        row(x + r * columns, weight, bias, y + r * columns, columns, epsilon);
}
"""


class ModelNew(nn.Module):
    def __init__(self, epsilon: float) -> None:
        super().__init__()
        self.epsilon = epsilon
        knobs = f"-DMOMENTS={MOMENTS} -DWIDTH={WIDTH} -DCHAINS={CHAINS} -DSCALE={SCALE}"
        self.layer_norm = compile_cpp(SOURCE, f"{FLAGS} {knobs}").layer_norm

    def forward(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        x, weight, bias = x.contiguous(), weight.contiguous(), bias.contiguous()
        y = torch.empty_like(x)
        columns = x.shape[-1]
        self.layer_norm(
            pointer(x, torch.float32, name="x"),
            pointer(weight, torch.float32, name="weight"),
            pointer(bias, torch.float32, name="bias"),
            pointer(y, torch.float32, name="y"),
            c_int64(x.numel() // columns),
            c_int64(columns),
            c_float(self.epsilon),
        )
        return y
