"""Three sessions of a model as lists of kernels: what it sent, round by round, and what it swept.

A linear layer with GELU in C++, a causal attention whose seed works element by element, and a
linear layer with 8-bit weights and a layer norm in C++. Each has a wrong version, gains small and
large, versions as fast as the best and a slower one; those in C++ have one with an error.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple


class Session(NamedTuple):
    """The kernels of a session: `rounds` in their order, each with whether it is correct.

    The settings of `sweep` are compared with the seed.
    """

    name: str
    reference: str
    seed: str
    rounds: Sequence[tuple[str, bool]]
    sweep: Sequence[str]


LINEAR = """
import torch


class Model(torch.nn.Module):
    def forward(self, x, weight, bias):
        return torch.nn.functional.gelu(x @ weight + bias)


def get_inputs():
    return [torch.randn(96, 256), torch.randn(256, 256) / 16, torch.randn(256)]
"""
LINEAR_CPP = '''
from ctypes import c_int64

import torch

from akg_tui.dsl import compile_cpp, pointer

SOURCE = r"""
#include <cmath>
#include <cstdint>
extern "C" void linear(const float* x, const float* w, const float* b, float* y,
                       int64_t m, int64_t n, int64_t k) {
    for (int64_t i0 = 0; i0 < m; i0 += ROWS)
        for (int64_t j = 0; j < n; j += COLUMNS) {
            float sum[ROWS][COLUMNS] = {};
            for (int64_t p = 0; p < k; ++p)
                for (int r = 0; r < ROWS; ++r)
                    for (int c = 0; c < COLUMNS; ++c)
                        sum[r][c] += x[(i0 + r < m ? i0 + r : i0) * k + p] * w[p * n + j + c];
            for (int r = 0; r < ROWS && i0 + r < m; ++r)
                for (int c = 0; c < COLUMNS; ++c) {
                    const float s = sum[r][c] + b[j + c];
                    y[(i0 + r) * n + j + c] = 0.5f * s * (1.0f + std::erf(s * 0.70710678f));
                }
        }
}
"""


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.narrow = compile_cpp(SOURCE, "FLAGS -DROWS=4 -DCOLUMNS=1").linear
        self.wide = compile_cpp(SOURCE, "FLAGS -DROWS=@ROWS -DCOLUMNS=@COLUMNS").linear

    def forward(self, x, weight, bias):
        x, weight, bias = x.contiguous(), weight.contiguous(), bias.contiguous()
        (m, k), n = x.shape, weight.shape[1]
        y = torch.empty(m, n)
        run = self.wide if n % @COLUMNS == 0 else self.narrow
        tensors = {"x": x, "weight": weight, "bias": bias, "y": y}
        run(*(pointer(t, torch.float32, name=at) for at, t in tensors.items()),
            c_int64(m), c_int64(n), c_int64(k))
        return y
'''


def linear(flags: str = "-O1", rows: int = 1, columns: int = 1) -> str:
    """Return the linear layer in C++ with a block of `rows` and `columns` of the result."""
    text = LINEAR_CPP.replace("FLAGS", flags).replace("@ROWS", str(rows))
    return text.replace("@COLUMNS", str(columns))


FAST = "-O3 -march=native"
LINEAR_ROUNDS = (
    (linear("-O3").replace("+ b[j + c]", ""), False),
    (linear("-O3").replace("float s =", "flaot s ="), False),
    (linear("-O3", 4, 4), True),
    (linear(FAST, 4, 16), True),
    (linear("-O3", 2, 4), True),
    (linear(FAST, 4, 16) + "\n# the blocks fit in registers\n", True),
    (linear(FAST, 6, 16), True),
    (linear(FAST, 6, 32), True),
)

ATTENTION = """
import torch


class Model(torch.nn.Module):
    def forward(self, q, k, v):
        s = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        mask = torch.ones(q.shape[1], q.shape[1], dtype=torch.bool).tril()
        return torch.softmax(s.masked_fill(~mask, float("-inf")), -1) @ v


def get_inputs():
    return [torch.randn(4, 96, 32) for _ in range(3)]
"""
MATRIX_PRODUCTS = ATTENTION.partition("\n\ndef get_inputs")[0].replace("Model(", "ModelNew(")
ELEMENT_BY_ELEMENT = """
import torch


class ModelNew(torch.nn.Module):
    def forward(self, q, k, v):
        y, root = torch.empty_like(q), q.shape[-1] ** 0.5
        for b in range(q.shape[0]):
            for i in range(q.shape[1]):
                row = [torch.dot(q[b, i], k[b, j]) / root for j in range(i + 1)]
                weights, row_sum = torch.softmax(torch.stack(row), 0), torch.zeros(v.shape[-1])
                for j in range(i + 1):
                    row_sum = row_sum + weights[j] * v[b, j]
                y[b, i] = row_sum
        return y
"""
BY_HEADS = """
import torch


class ModelNew(torch.nn.Module):
    def forward(self, q, k, v):
        n = q.shape[1]
        hidden = torch.ones(n, n, dtype=torch.bool).triu(1)
        scale, parts = q.shape[-1] ** -0.5, []
        for head in range(q.shape[0]):
            s = (q[head] * scale) @ k[head].T
            parts.append(torch.softmax(s.masked_fill_(hidden, float("-inf")), -1) @ v[head])
        return torch.stack(parts)
"""
LIBRARY = """
import torch


class ModelNew(torch.nn.Module):
    def forward(self, q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
"""
ATTENTION_ROUNDS = (
    (MATRIX_PRODUCTS.replace(".tril()", ""), False),
    (MATRIX_PRODUCTS, True),
    (BY_HEADS, True),
    (ELEMENT_BY_ELEMENT, True),
    (MATRIX_PRODUCTS + "\n# masked in place\n", True),
    (LIBRARY, True),
)

INT8 = """
import torch


class Model(torch.nn.Module):
    def forward(self, x, weight, scale):
        y = x @ (weight.float() * scale[:, None]).T
        return torch.nn.functional.layer_norm(y, y.shape[-1:])


def get_inputs():
    weight = torch.randint(-127, 128, (512, 512), dtype=torch.int8)
    return [torch.randn(16, 512), weight, 0.01 * torch.rand(512) + 0.001]
"""
INT8_CPP = '''
from ctypes import c_int64

import torch

from akg_tui.dsl import compile_cpp, pointer

SOURCE = r"""
#include <cmath>
#include <cstdint>
extern "C" void int8_norm(const float* x, const int8_t* w, const float* scale, float* y,
                          int64_t m, int64_t n, int64_t k) {
    for (int64_t i = 0; i < m; ++i) {
        float* out = y + i * n;
        for (int64_t j = 0; j < n; ++j) {
            float sum[LANES] = {};
            int64_t p = 0;
            for (; p + LANES <= k; p += LANES)
                for (int l = 0; l < LANES; ++l)
                    sum[l] += x[i * k + p + l] * static_cast<float>(w[j * k + p + l]);
            for (; p < k; ++p) sum[0] += x[i * k + p] * static_cast<float>(w[j * k + p]);
            double whole = 0.0;
            for (int l = 0; l < LANES; ++l) whole += sum[l];
            out[j] = static_cast<float>(whole) * scale[j];
        }
        double mean = 0.0, square = 0.0;
        for (int64_t j = 0; j < n; ++j) mean += out[j];
        mean /= n;
        for (int64_t j = 0; j < n; ++j) square += (out[j] - mean) * (out[j] - mean);
        const double over = 1.0 / std::sqrt(square / n + 1e-5);
        for (int64_t j = 0; j < n; ++j) out[j] = static_cast<float>((out[j] - mean) * over);
    }
}
"""


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.int8_norm = compile_cpp(SOURCE, "FLAGS -DLANES=@LANES").int8_norm

    def forward(self, x, weight, scale):
        x, weight, scale = x.contiguous(), weight.contiguous(), scale.contiguous()
        (m, k), n = x.shape, weight.shape[0]
        y = torch.empty(m, n)
        self.int8_norm(
            pointer(x, torch.float32, name="x"), pointer(weight, torch.int8, name="weight"),
            pointer(scale, torch.float32, name="scale"), pointer(y, torch.float32, name="y"),
            c_int64(m), c_int64(n), c_int64(k))
        return y
'''


def int8(flags: str = "-O1", lanes: int = 1) -> str:
    """Return the layer with 8-bit weights in C++ with `lanes` partial sums."""
    return INT8_CPP.replace("FLAGS", flags).replace("@LANES", str(lanes))


INT8_ROUNDS = (
    (int8("-O3").replace(" * scale[j]", ""), False),
    (int8("-O3", 8), True),
    (int8("-O3").replace("int64_t p = 0;", ""), False),
    (int8(FAST, 16), True),
    (int8("-O1", 4), True),
    (int8(FAST, 16) + "\n# one row of weights at a time\n", True),
    (int8(FAST, 32), True),
    (int8(FAST, 64), True),
)

SESSIONS = (
    Session(
        "linear_gelu",
        LINEAR,
        linear(),
        LINEAR_ROUNDS,
        [linear(FAST, rows, columns) for rows, columns in
         itertools.product((2, 4, 6), (8, 16, 32, 64))],
    ),
    Session(
        "causal_attention",
        ATTENTION,
        ELEMENT_BY_ELEMENT,
        ATTENTION_ROUNDS,
        [f"{BY_HEADS}\n# setting {number}\n" for number in range(12)],
    ),
    Session(
        "int8_layer_norm",
        INT8,
        int8(),
        INT8_ROUNDS,
        [int8(flags, lanes) for flags, lanes in
         itertools.product(("-O1", "-O2", "-O3", FAST), (8, 16, 32))],
    ),
)  # fmt: skip
