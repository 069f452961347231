"""RMS normalisation over channels: a plain C++ kernel, and the knobs to tune it."""

from ctypes import c_float, c_int64

import torch
from torch import nn

from akg_tui.dsl import compile_cpp, pointer

# Compiler options.
FLAGS = "-O1"  # tune: ["-O1", "-O3", "-O3 -march=native", "-O3 -march=native -ffast-math"]
# Neighbouring positions processed together: with 1, every step jumps a whole row of memory.
TILE = 1  # tune: [1, 8, 16, 32, 64]
# Channels added per update of the tile's sums.
UNROLL = 1  # tune: [1, 2, 4, 8]
# The type of the sum of squares.
SUM = "double"  # tune: ["double", "float", "bfloat16"]
# When the root is taken and how it is applied.
SCALE = "root_each"  # tune: ["root_each", "divide", "multiply"]

SOURCE = r"""
#include <cmath>
#include <cstdint>

enum { root_each, divide, multiply };

// The upper half of a float, rounded to nearest even: 8 bits of mantissa.
struct bfloat16 {
    uint16_t half = 0;
    bfloat16() = default;
    bfloat16(float value) {
        uint32_t bits;
        __builtin_memcpy(&bits, &value, sizeof bits);
        half = static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
    }
    operator float() const {
        const uint32_t bits = static_cast<uint32_t>(half) << 16;
        float value;
        __builtin_memcpy(&value, &bits, sizeof value);
        return value;
    }
};

// `width` neighbouring positions of one feature map: x[c * stride + p] for p < width.
template <int width>
static inline void normalise(const float* __restrict x, const float* __restrict weight,
                             float* __restrict y, int64_t channels, int64_t stride, float epsilon) {
    SUM sums[width];
    for (int p = 0; p < width; ++p) sums[p] = SUM(0.0f);
    int64_t c = 0;
    for (; c + UNROLL <= channels; c += UNROLL)
        for (int p = 0; p < width; ++p) {
            SUM several = SUM(0.0f);
            for (int u = 0; u < UNROLL; ++u) {
                const SUM value = SUM(x[(c + u) * stride + p]);
                several = SUM(several + value * value);
            }
            sums[p] = SUM(sums[p] + several);
        }
    for (; c < channels; ++c)
        for (int p = 0; p < width; ++p) {
            const SUM value = SUM(x[c * stride + p]);
            sums[p] = SUM(sums[p] + value * value);
        }

    float mean[width], root[width], inverse[width];
    for (int p = 0; p < width; ++p) {
        mean[p] = static_cast<float>(sums[p]) / static_cast<float>(channels) + epsilon;
        root[p] = std::sqrt(mean[p]);
        inverse[p] = 1.0f / root[p];
    }
    for (c = 0; c < channels; ++c)
        for (int p = 0; p < width; ++p) {
            const float value = x[c * stride + p];
            float scaled;
            if constexpr (SCALE == root_each) scaled = value / std::sqrt(mean[p]);
            if constexpr (SCALE == divide) scaled = value / root[p];
            if constexpr (SCALE == multiply) scaled = value * inverse[p];
            y[c * stride + p] = scaled * weight[c];
        }
}

extern "C" void rms_norm(const float* x, const float* weight, float* y, int64_t batch,
                         int64_t channels, int64_t positions, float epsilon) {
    for (int64_t b = 0; b < batch; ++b) {
        const int64_t map = b * channels * positions;
        int64_t p = 0;
        for (; p + TILE <= positions; p += TILE)
            normalise<TILE>(x + map + p, weight, y + map + p, channels, positions, epsilon);
        for (; p < positions; ++p)
            normalise<1>(x + map + p, weight, y + map + p, channels, positions, epsilon);
    }
}
"""


class ModelNew(nn.Module):
    def __init__(self, epsilon: float) -> None:
        super().__init__()
        self.epsilon = epsilon
        knobs = f"-DTILE={TILE} -DUNROLL={UNROLL} -DSUM={SUM} -DSCALE={SCALE}"
        self.rms_norm = compile_cpp(SOURCE, f"{FLAGS} {knobs}").rms_norm

    def forward(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        x, weight = x.contiguous(), weight.contiguous()
        y = torch.empty_like(x)
        batch, channels, positions = x.shape
        self.rms_norm(
            pointer(x, torch.float32, name="x"),
            pointer(weight, torch.float32, name="weight"),
            pointer(y, torch.float32, name="y"),
            c_int64(batch),
            c_int64(channels),
            c_int64(positions),
            c_float(self.epsilon),
        )
        return y
