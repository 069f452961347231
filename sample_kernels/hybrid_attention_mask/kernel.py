"""Attention with a hybrid mask: a plain C++ kernel, and the knobs to tune it."""

from ctypes import c_int64

import torch
from torch import nn

from akg_tui.dsl import compile_cpp, pointer

# Compiler options.
FLAGS = "-O1"  # tune: ["-O1", "-O3", "-O3 -march=native"]
# The keys that are computed for a query: all of them, or none that the mask hides.
KEYS = "all"  # tune: ["all", "visible"]
# The loops: a query after the other, or several at once, each in its lane of a vector.
LOOPS = "queries"  # tune: ["queries", "lanes"]
# The queries at once.
QUERIES = 8  # tune: [8, 16]
# Keys whose scores are summed together: each has a sum in a register.
SUMS = 2  # tune: [2, 4, 8]
# The exponential: the C library's, or a polynomial of degree 3 or 5.
EXP = "libm"  # tune: ["libm", "poly3", "poly5"]

SOURCE = r"""
#include <cmath>
#include <cstdint>
#include <cstdlib>

enum { all, visible };
enum { queries, lanes };
enum { libm, poly3, poly5 };

// One head: row i of the queries, keys and values is at i * stride.
struct Head {
    const float *q, *k, *v;
    float* out;
    int64_t length, stride, width, window, prefix;
    float scale;
};

struct Range {
    int64_t from, to;
};

// The keys that are computed for the queries `first` to `last` - 1, as two ranges.
struct Keys {
    Range ranges[2];

    Keys(const Head& head, int64_t first, int64_t last) : ranges{{0, 0}, {0, head.length}} {
        if (KEYS == all) return;
        ranges[1].to = last;
        const int64_t near = first - head.window + 1;
        if (near <= head.prefix) return;
        ranges[0].to = head.prefix;
        ranges[1].from = near;
    }
};

// 2^n * p(r) with x = n ln2 + r, |r| <= ln2 / 2, for x <= 0. The coefficients are minimax
// fits of exp in relative error on that interval: 7e-5 and 7e-8 before rounding.
static inline float exp_of(float x) {
    if constexpr (EXP == libm) return std::exp(x);
    x = x > -87.0f ? x : -87.0f;  // below, the result would be denormal
    const int32_t n = static_cast<int32_t>(x * 1.44269504f - 0.5f);
    const float fn = static_cast<float>(n);
    const float r = (x - fn * 0.693359375f) + fn * 2.12194440e-4f;  // ln2 in two parts
    float p;
    if constexpr (EXP == poly3) {
        p = 0.165668413f;
        p = p * r + 0.504963279f;
        p = p * r + 1.00016415f;
        p = p * r + 0.999928057f;
    } else {
        p = 0.0082976548f;
        p = p * r + 0.0419153832f;
        p = p * r + 0.166675746f;
        p = p * r + 0.499988943f;
        p = p * r + 0.999999702f;
        p = p * r + 1.00000012f;
    }
    const int32_t bits = (n + 127) << 23;
    float power;
    __builtin_memcpy(&power, &bits, sizeof power);
    return p * power;
}

static void by_queries(const Head& head, float* __restrict scores) {
    for (int64_t i = 0; i < head.length; ++i) {
        const Keys keys(head, i, i + 1);
        float largest = -INFINITY, total = 0.0f;
        for (const Range& range : keys.ranges)
            for (int64_t j = range.from; j < range.to; ++j) {
                float sum = 0.0f;
                for (int64_t d = 0; d < head.width; ++d)
                    sum += head.q[i * head.stride + d] * head.k[j * head.stride + d];
                const bool seen = j <= i && (i - j < head.window || j < head.prefix);
                scores[j] = seen ? sum * head.scale : -INFINITY;
                largest = scores[j] > largest ? scores[j] : largest;
            }
        float* __restrict out = head.out + i * head.width;
        for (int64_t d = 0; d < head.width; ++d) out[d] = 0.0f;
        for (const Range& range : keys.ranges)
            for (int64_t j = range.from; j < range.to; ++j) {
                const float weight = exp_of(scores[j] - largest);
                total += weight;
                for (int64_t d = 0; d < head.width; ++d)
                    out[d] += weight * head.v[j * head.stride + d];
            }
        for (int64_t d = 0; d < head.width; ++d) out[d] /= total;
    }
}

// A value for each of QUERIES queries.
typedef float vec __attribute__((vector_size(4 * QUERIES)));
typedef int32_t ivec __attribute__((vector_size(4 * QUERIES)));

// The scores of `count` keys from `key`, for all lanes; `q` holds the queries, scaled: a vector
// for each element.
template <int count>
static inline void score(const Head& head, const vec* __restrict q, int64_t key,
                         vec* __restrict scores) {
    vec sum[count] = {};
    const float* k = head.k + key * head.stride;
    for (int64_t d = 0; d < head.width; ++d)
#pragma GCC unroll 16
        for (int t = 0; t < count; ++t) sum[t] += k[t * head.stride + d] * q[d];
    for (int t = 0; t < count; ++t) scores[t] = sum[t];
}

// TILE of the lanes from `lane`, and PART elements of the values from `d`: sums over the keys, in
// registers, of which AVX-512 has 32 of 16 floats, AVX2 16 of 8.
#ifdef __AVX512F__
constexpr int WIDTH = 16, TILE = 8, PART = 32;
#else
constexpr int WIDTH = 8, TILE = 4, PART = 16;
#endif
typedef float part __attribute__((vector_size(4 * WIDTH)));
typedef float unaligned __attribute__((vector_size(4 * WIDTH), aligned(4)));

static inline void sum_values(const Head& head, const Keys& keys, const vec* __restrict weights,
                              const float* factor, int64_t first, int64_t lane, int64_t d) {
    part sum[TILE][PART / WIDTH] = {};
    const float* w = reinterpret_cast<const float*>(weights) + lane;
    for (const Range& range : keys.ranges)
        for (int64_t j = range.from; j < range.to; ++j, w += QUERIES) {
            const auto* v = reinterpret_cast<const unaligned*>(head.v + j * head.stride + d);
#pragma GCC unroll 16
            for (int t = 0; t < TILE; ++t)
#pragma GCC unroll 16
                for (int p = 0; p < PART / WIDTH; ++p) sum[t][p] += w[t] * v[p];
        }
    for (int64_t t = 0; t < TILE && first + lane + t < head.length; ++t)
        for (int p = 0; p < PART / WIDTH; ++p) {
            float* to = head.out + (first + lane + t) * head.width + d + p * WIDTH;
            *reinterpret_cast<unaligned*>(to) = sum[t][p] * factor[lane + t];
        }
}

static void by_lanes(const Head& head, vec* __restrict q, vec* __restrict scores) {
    ivec lane;
    for (int t = 0; t < QUERIES; ++t) lane[t] = t;
    for (int64_t first = 0; first < head.length; first += QUERIES) {
        const int64_t last = first + QUERIES < head.length ? first + QUERIES : head.length;
        for (int64_t t = 0; t < QUERIES; ++t) {
            // Lanes beyond the last query do what it does; their results are not stored.
            const int64_t i = first + t < last ? first + t : last - 1;
            float* to = reinterpret_cast<float*>(q) + t;
            for (int64_t d = 0; d < head.width; ++d)
                to[d * QUERIES] = head.q[i * head.stride + d] * head.scale;
        }
        const ivec query = lane + static_cast<int32_t>(first);
        const Keys keys(head, first, last);
        vec* end = scores;
        vec largest = vec{} - INFINITY;
        for (const Range& range : keys.ranges) {
            int64_t j = range.from;
            for (; j + SUMS <= range.to; j += SUMS) score<SUMS>(head, q, j, end + j - range.from);
            for (; j < range.to; ++j) score<1>(head, q, j, end + j - range.from);
            for (j = range.from; j < range.to; ++j, ++end) {
                const int32_t key = static_cast<int32_t>(j);
                ivec seen = query >= key;
                if (key >= head.prefix) seen &= query - key < static_cast<int32_t>(head.window);
                *end = seen ? *end : vec{} - INFINITY;
                largest = *end > largest ? *end : largest;
            }
        }
        vec total = {};
        for (vec* each = scores; each < end; ++each) {
            vec weight = *each - largest;
            for (int t = 0; t < QUERIES; ++t) weight[t] = exp_of(weight[t]);
            *each = weight;
            total += weight;
        }
        float factor[QUERIES];
        for (int t = 0; t < QUERIES; ++t) factor[t] = 1.0f / total[t];
        for (int64_t t = 0; t < QUERIES; t += TILE)
            for (int64_t d = 0; d < head.width; d += PART)
                sum_values(head, keys, scores, factor, first, t, d);
    }
}

// `qkv` has the shape (batch, length, 3, heads, width); `out` (batch, heads, length, width).
extern "C" void attention(const float* qkv, float* out, int64_t batch, int64_t length,
                          int64_t heads, int64_t width, int64_t window, int64_t prefix) {
    const int64_t part = heads * width, size = (width + length) * sizeof(vec);
    vec* scratch = static_cast<vec*>(std::aligned_alloc(sizeof(vec), size));
    for (int64_t n = 0; n < batch * heads; ++n) {
        const float* q = qkv + n / heads * length * 3 * part + n % heads * width;
        const Head head = {q, q + part, q + 2 * part, out + n * length * width,
                           length, 3 * part, width, window, prefix,
                           1.0f / std::sqrt(static_cast<float>(width))};
        if (LOOPS == queries || width % PART != 0)
            by_queries(head, reinterpret_cast<float*>(scratch));
        else
            by_lanes(head, scratch, scratch + width);
    }
    std::free(scratch);
}
"""


class ModelNew(nn.Module):
    def __init__(self, window: int, prefix: int) -> None:
        super().__init__()
        self.window = window
        self.prefix = prefix
        knobs = f"-DKEYS={KEYS} -DLOOPS={LOOPS} -DQUERIES={QUERIES} -DSUMS={SUMS} -DEXP={EXP}"
        self.attention = compile_cpp(SOURCE, f"{FLAGS} {knobs}").attention

    def forward(self, qkv: torch.Tensor) -> torch.Tensor:
        qkv = qkv.contiguous()
        batch, length, _, heads, width = qkv.shape
        out = torch.empty(batch, heads, length, width)
        self.attention(
            pointer(qkv, torch.float32, name="qkv"),
            pointer(out, torch.float32, name="out"),
            c_int64(batch),
            c_int64(length),
            c_int64(heads),
            c_int64(width),
            c_int64(self.window),
            c_int64(self.prefix),
        )
        return out
