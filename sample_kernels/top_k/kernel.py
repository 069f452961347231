"""The K largest values of a row: a plain C++ kernel, and the knobs to tune it."""

from ctypes import c_int64

import torch
from torch import nn

from akg_tui.dsl import compile_cpp, pointer

# Compiler options.
FLAGS = "-O1"  # tune: ["-O1", "-O3", "-O3 -march=native"]
# How the largest are kept: the whole row sorted partly, a heap, or a sorted list.
KEPT = "partial_sort"  # tune: ["partial_sort", "heap", "list"]
# Columns that are skipped at once if none exceeds the smallest value kept; 1: each is looked at.
SKIP = 1  # tune: [1, 8, 16, 32, 64]
# The first threshold: none, or the least of the largest values of K parts of the row.
START = "none"  # tune: ["none", "parts"]

SOURCE = r"""
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>

enum { partial_sort, heap, list };
enum { none, parts };

static inline float largest(const float* __restrict x, int64_t n) {
    float top = x[0];
    for (int64_t i = 1; i < n; ++i) top = x[i] > top ? x[i] : top;
    return top;
}

// Put a value that exceeds the smallest one of `kept` in its place.
static inline void keep(float* kept, int64_t k, float value) {
    if constexpr (KEPT == heap) {
        std::pop_heap(kept, kept + k, std::greater<float>());
        kept[k - 1] = value;
        std::push_heap(kept, kept + k, std::greater<float>());
    } else {
        int64_t at = k - 1;
        for (; at > 0 && kept[at - 1] < value; --at) kept[at] = kept[at - 1];
        kept[at] = value;
    }
}

static void top(const float* __restrict x, float* __restrict kept, float* __restrict scratch,
                int64_t n, int64_t k) {
    if constexpr (KEPT == partial_sort) {
        std::copy(x, x + n, scratch);
        std::partial_sort(scratch, scratch + k, scratch + n, std::greater<float>());
        std::copy(scratch, scratch + k, kept);
        return;
    }
    std::fill(kept, kept + k, -std::numeric_limits<float>::max());
    float least = kept[0];
    if (START == parts && n >= 8 * k) {
        // At least k values are as large as the smallest of these maxima.
        const int64_t part = n / k;
        least = std::numeric_limits<float>::max();
        for (int64_t p = 0; p < k; ++p) least = std::min(least, largest(x + p * part, part));
        least = std::nextafter(least, -std::numeric_limits<float>::max());
    }
    const auto smallest = [&] { return KEPT == heap ? kept[0] : kept[k - 1]; };
    int64_t i = 0;
    for (; i + SKIP <= n; i += SKIP) {
        if (SKIP > 1) {
            float over = x[i];
            for (int l = 1; l < SKIP; ++l) over = x[i + l] > over ? x[i + l] : over;
            if (!(over > least)) continue;
        }
        for (int l = 0; l < SKIP; ++l)
            if (x[i + l] > least) {
                keep(kept, k, x[i + l]);
                least = std::max(least, smallest());
            }
    }
    for (; i < n; ++i)
        if (x[i] > least) {
            keep(kept, k, x[i]);
            least = std::max(least, smallest());
        }
    if constexpr (KEPT == heap) std::sort(kept, kept + k, std::greater<float>());
}

extern "C" void top_k(const float* x, float* y, float* scratch, int64_t rows, int64_t columns,
                      int64_t k) {
    for (int64_t r = 0; r < rows; ++r) top(x + r * columns, y + r * k, scratch, columns, k);
}
"""


class ModelNew(nn.Module):
    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k
        knobs = f"-DKEPT={KEPT} -DSKIP={SKIP} -DSTART={START}"
        self.top_k = compile_cpp(SOURCE, f"{FLAGS} {knobs}").top_k

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        rows, columns = x.shape
        y = torch.empty(rows, self.k)
        scratch = torch.empty(columns)
        self.top_k(
            pointer(x, torch.float32, name="x"),
            pointer(y, torch.float32, name="y"),
            pointer(scratch, torch.float32, name="scratch"),
            c_int64(rows),
            c_int64(columns),
            c_int64(self.k),
        )
        return y
