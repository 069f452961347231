"""A linear layer with 8-bit weights: a plain C++ kernel, and the knobs to tune it."""

from ctypes import c_int64

import torch
from torch import nn

from akg_tui.dsl import compile_cpp, pointer

# Compiler options.
FLAGS = "-O1"  # tune: ["-O1", "-O3", "-O3 -march=native"]
# When the scale is applied: to each weight, or once to the sum.
SCALE = "each"  # tune: ["each", "once"]
# Independent partial sums: 1 is a chain of dependent additions.
LANES = 1  # tune: [1, 8, 16, 32, 64]
# How 8 bits become a float: by the compiler, or by vector instructions of x86 (8 at a time).
CONVERT = "compiler"  # tune: ["compiler", "vector"]
# Tokens that share one pass over the weights.
TOKENS = 1  # tune: [1, 2, 4, 8]

SOURCE = r"""
#include <cstdint>
#ifdef __AVX2__
#include <immintrin.h>
#endif

enum { each, once };
enum { compiler, vector };

// The partial sums of one token are added in 32 bits: the rounding errors of LANES short chains
// are smaller than those of one long chain.
template <int tokens>
static inline void row(const float* __restrict x, const int8_t* __restrict weight, float scale,
                       float* __restrict y, int64_t in, int64_t out) {
    float sum[tokens][LANES] = {};
    int64_t i = 0;
#ifdef __AVX2__
    if constexpr (CONVERT == vector && LANES >= 8) {
        __m256 wide[tokens][LANES / 8];
        for (int t = 0; t < tokens; ++t)
            for (int c = 0; c < LANES / 8; ++c) wide[t][c] = _mm256_setzero_ps();
        const __m256 factor = _mm256_set1_ps(scale);
        for (; i + LANES <= in; i += LANES)
            for (int c = 0; c < LANES / 8; ++c) {
                const auto bytes = reinterpret_cast<const __m128i*>(weight + i + c * 8);
                __m256 w = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(bytes)));
                if constexpr (SCALE == each) w = _mm256_mul_ps(w, factor);
                for (int t = 0; t < tokens; ++t)
                    wide[t][c] += _mm256_loadu_ps(x + t * in + i + c * 8) * w;
            }
        for (int t = 0; t < tokens; ++t)
            for (int c = 0; c < LANES / 8; ++c) _mm256_storeu_ps(sum[t] + c * 8, wide[t][c]);
    }
#endif
    for (; i + LANES <= in; i += LANES)
        for (int t = 0; t < tokens; ++t)
            for (int l = 0; l < LANES; ++l) {
                const float w = static_cast<float>(weight[i + l]);
                sum[t][l] += x[t * in + i + l] * (SCALE == each ? w * scale : w);
            }
    for (; i < in; ++i)
        for (int t = 0; t < tokens; ++t)
            sum[t][0] += x[t * in + i] * (SCALE == each ? weight[i] * scale : weight[i]);
    for (int t = 0; t < tokens; ++t) {
        float whole = 0.0f;
        for (int l = 0; l < LANES; ++l) whole += sum[t][l];
        y[t * out] = SCALE == each ? whole : whole * scale;
    }
}

extern "C" void int8_matmul(const float* x, const int8_t* weight, const float* scale, float* y,
                            int64_t tokens, int64_t out, int64_t in) {
    int64_t t = 0;
    for (; t + TOKENS <= tokens; t += TOKENS)
        for (int64_t o = 0; o < out; ++o)
            row<TOKENS>(x + t * in, weight + o * in, scale[o], y + t * out + o, in, out);
    for (; t < tokens; ++t)
        for (int64_t o = 0; o < out; ++o)
            row<1>(x + t * in, weight + o * in, scale[o], y + t * out + o, in, out);
}
"""


class ModelNew(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        knobs = f"-DSCALE={SCALE} -DLANES={LANES} -DCONVERT={CONVERT} -DTOKENS={TOKENS}"
        self.int8_matmul = compile_cpp(SOURCE, f"{FLAGS} {knobs}").int8_matmul

    def forward(self, x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        x, weight, scale = x.contiguous(), weight.contiguous(), scale.contiguous()
        tokens, out = x.shape[0], weight.shape[0]
        y = torch.empty(tokens, out)
        self.int8_matmul(
            pointer(x, torch.float32, name="x"),
            pointer(weight, torch.int8, name="weight"),
            pointer(scale, torch.float32, name="scale"),
            pointer(y, torch.float32, name="y"),
            c_int64(tokens),
            c_int64(out),
            c_int64(x.shape[1]),
        )
        return y
