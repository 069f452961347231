"""GELU after a bias: a plain C++ kernel, and the knobs to tune it."""

from ctypes import c_int64

import torch
from torch import nn

from akg_tui.dsl import compile_cpp, pointer

# Compiler options.
FLAGS = "-O1"  # tune: ["-O1", "-O3", "-O3 -march=native", "-O3 -march=native -ffast-math"]
# The tanh: the C library's in 64 or 32 bits, by an exponential, a ratio of polynomials, or none:
# (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u)), which cancels no digits.
TANH = "libm64"  # tune: ["libm64", "libm32", "exponential", "rational", "sigmoid"]
# The cube: the library's power function, or two multiplications.
CUBE = "power"  # tune: ["power", "multiply"]
# Columns processed by one loop, so that the bias stays in registers or in the first cache.
BLOCK = 0  # tune: [0, 64, 256, 1024]

SOURCE = r"""
#include <cmath>
#include <cstdint>

enum { libm64, libm32, exponential, rational, sigmoid };
enum { power, multiply };

// exp(x) for |x| <= 80: 2^n * p(r) with x = n ln2 + r, |r| <= ln2 / 2, and the minimax polynomial
// of degree 5 for exp in relative error (7e-8).
static inline float exp_poly(float x) {
    const float fn = static_cast<float>(static_cast<int>(x * 1.44269504f + (x > 0 ? 0.5f : -0.5f)));
    const float r = (x - fn * 0.693359375f) + fn * 2.12194440e-4f;
    float p = 0.0082976548f;
    p = p * r + 0.0419153832f;
    p = p * r + 0.166675746f;
    p = p * r + 0.499988943f;
    p = p * r + 0.999999702f;
    p = p * r + 1.00000012f;
    const int32_t bits = (static_cast<int>(fn) + 127) << 23;
    float scale;
    __builtin_memcpy(&scale, &bits, sizeof scale);
    return p * scale;
}

static inline float tanh_of(float x) {
    if constexpr (TANH == libm64) {
        return static_cast<float>(std::tanh(static_cast<double>(x)));
    } else if constexpr (TANH == libm32) {
        return std::tanh(x);
    } else {
        float t = x < 9.0f ? x : 9.0f;  // beyond, tanh is 1 in 32 bits
        t = t > -9.0f ? t : -9.0f;
        if constexpr (TANH == exponential) {
            const float e = exp_poly(2.0f * t);
            return (e - 1.0f) / (e + 1.0f);
        }
        // The ratio of polynomials that Eigen uses for tanh in 32 bits (Pade with 13 over 6).
        const float s = t * t;
        float p = -2.76076847742355e-16f;
        p = p * s + 2.00018790482477e-13f;
        p = p * s - 8.60467152213735e-11f;
        p = p * s + 5.12229709037114e-08f;
        p = p * s + 1.48572235717979e-05f;
        p = p * s + 6.37261928875436e-04f;
        p = p * s + 4.89352455891786e-03f;
        float q = 1.19825839466702e-06f;
        q = q * s + 1.18534705686654e-04f;
        q = q * s + 2.26843463243900e-03f;
        q = q * s + 4.89352518554385e-03f;
        return t * p / q;
    }
}

static inline float gelu(float z) {
    const float cube = CUBE == power ? std::pow(z, 3.0f) : z * z * z;
    const float inner = 0.797884561f * (z + 0.044715f * cube);
    if constexpr (TANH == sigmoid) {
        float u = -2.0f * inner;
        u = u < 80.0f ? u : 80.0f;
        u = u > -80.0f ? u : -80.0f;
        return z / (1.0f + exp_poly(u));
    }
    return 0.5f * z * (1.0f + tanh_of(inner));
}

extern "C" void gelu_bias(const float* __restrict x, const float* __restrict bias,
                          float* __restrict y, int64_t rows, int64_t columns) {
    const int64_t block = BLOCK > 0 ? BLOCK : columns;
    for (int64_t from = 0; from < columns; from += block) {
        const int64_t to = from + block < columns ? from + block : columns;
        for (int64_t r = 0; r < rows; ++r)
            for (int64_t c = from; c < to; ++c)
                y[r * columns + c] = gelu(x[r * columns + c] + bias[c]);
    }
}
"""


class ModelNew(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        knobs = f"-DTANH={TANH} -DCUBE={CUBE} -DBLOCK={BLOCK}"
        self.gelu_bias = compile_cpp(SOURCE, f"{FLAGS} {knobs}").gelu_bias

    def forward(self, x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        x, bias = x.contiguous(), bias.contiguous()
        y = torch.empty_like(x)
        columns = x.shape[-1]
        self.gelu_bias(
            pointer(x, torch.float32, name="x"),
            pointer(bias, torch.float32, name="bias"),
            pointer(y, torch.float32, name="y"),
            c_int64(x.numel() // columns),
            c_int64(columns),
        )
        return y
