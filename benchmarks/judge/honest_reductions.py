"""Honest rewrites of reductions, scans, losses and half precision. Pure text."""

from __future__ import annotations

import textwrap

from benchmarks.judge.honest_rewrites import PRODUCTS, Op, flash

_CPP_SOFTMAX = '''
from akg_tui.dsl import compile_cpp

SRC = r"""
#include <cmath>
#include <cstdint>
#include <cstring>
static inline float fexp(float x) {  // 2^n * p(f), relative error about 1e-7
    x = x < -87.0f ? -87.0f : x;
    float t = x * 1.44269504f, n = std::floor(t + 0.5f);
    float r = x - n * 0.693359375f; r = r + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f; p = p * r + 8.3334519073e-3f; p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f; p = p * r + 5.0000001201e-1f; p = p * r * r + r + 1.0f;
    int32_t i = ((int32_t)n + 127) << 23; float s; std::memcpy(&s, &i, 4);
    return p * s;
}
extern "C" void softmax(const float* x, float* y, int64_t rows, int64_t n) {
    for (int64_t r = 0; r < rows; ++r, x += n, y += n) {
        float m = -INFINITY; bool bad = false;
        for (int64_t i = 0; i < n; ++i) { m = x[i] > m ? x[i] : m; bad |= x[i] != x[i]; }
        if (bad || m == INFINITY || m == -INFINITY) {
          for (int64_t i = 0; i < n; ++i) y[i] = NAN;
          continue;
        }
        float s = 0;
        for (int64_t i = 0; i < n; ++i) { float e = fexp(x[i] - m); y[i] = e; s += e; }
        s = 1 / s;
        for (int64_t i = 0; i < n; ++i) y[i] *= s;
    }
}
"""
LIB = compile_cpp(
    SRC, "-O3 -march=native -fno-math-errno -fno-trapping-math -fassociative-math -fno-signed-zeros"
)
LIB.softmax.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64]
LIB.softmax.restype = None


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        LIB.softmax(x.data_ptr(), y.data_ptr(), x.numel() // x.shape[-1], x.shape[-1])
        return y
'''
_CPP_NORM = '''
from akg_tui.dsl import compile_cpp, pointer

LIB = compile_cpp(r"""
#include <cmath>
#include <cstdint>
extern "C" void norm(const float *x, const float *w, const float *b, float *y, int64_t rows,
                     int64_t n) {
  for (int64_t r = 0; r < rows; ++r, x += n, y += n) {
    float mean = 0, square = 0;  // Welford
    for (int64_t i = 0; i < n; ++i) {
      float d = x[i] - mean;
      mean += d / (i + 1);
      square += d * (x[i] - mean);
    }
    float s = 1 / std::sqrt(square / n + 1e-5f);
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * s * w[i] + b[i];
  }
}
""", "-O2")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(384)

    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        given = (x, self.norm.weight, self.norm.bias, y)
        sizes = (ctypes.c_int64(x.numel() // 384), ctypes.c_int64(384))
        LIB.norm(*(pointer(t.detach()) for t in given), *sizes)
        return y
'''
_DOUBLING = """
a = torch.sigmoid(g)
h, c, s, T = x.clone(), a.clone(), 1, x.shape[1]
while s < T:
    h[:, s:] = h[:, s:] + c[:, s:] * h[:, :-s].clone()
    c[:, s:] = c[:, s:] * c[:, :-s].clone()
    s *= 2
return h
"""
_BLOCKED = """
a, y, h = torch.sigmoid(g), [], torch.zeros_like(x[:, 0])
for at in range(0, x.shape[1], 16):
    inside, part, total = torch.zeros_like(h), [], torch.ones_like(h)
    for t in range(at, min(at + 16, x.shape[1])):
        inside = a[:, t] * inside + x[:, t]
        total = total * a[:, t]
        part.append(inside + total * h)
    y += part
    h = part[-1]
return torch.stack(y, 1)
"""
_MOE_INIT = """
self.router = nn.Linear(32, 6, bias=False)
self.up = nn.Parameter(torch.randn(6, 32, 48) / 6)
self.down = nn.Parameter(torch.randn(6, 48, 32) / 7)
"""

REDUCTIONS: dict[str, Op] = {
    "softmax": Op(
        "x", "torch.randn(40, 300)", "torch.softmax(x, -1)",
        {
            "online, blocks of 64": """
                top, total = x.new_full((*x.shape[:-1], 1), -math.inf), 0.0
                for part in x.split(64, -1):
                    new = torch.maximum(top, part.amax(-1, keepdim=True))
                    total = total * torch.exp(top - new)
                    total = total + torch.exp(part - new).sum(-1, keepdim=True)
                    top = new
                return torch.exp(x - top) / total
            """,
            "powers of two": """
                x = x * math.log2(math.e)
                e = torch.exp2(x - x.amax(-1, keepdim=True))
                return e / e.sum(-1, keepdim=True)
            """,
            "a product with the reciprocal": """
                e = torch.exp(x - x.amax(-1, keepdim=True))
                return e * (1 / e.sum(-1, keepdim=True))
            """,
            "by a logarithm of sums": "torch.exp(x - x.logsumexp(-1, keepdim=True))",
            "in C++ with a fast exponential": _CPP_SOFTMAX,
        },
    ),
    "logsumexp": Op(
        "x", "torch.randn(40, 300)", "torch.logsumexp(x, -1)",
        {
            "below the maximum": """
                top = x.amax(-1, keepdim=True)
                return (top + torch.exp(x - top).sum(-1, keepdim=True).log()).squeeze(-1)
            """,
            "in pairs": """
                while x.shape[-1] > 1:
                    odd = x[..., x.shape[-1] // 2 * 2 :]
                    x = torch.cat([torch.logaddexp(x[..., 0:-1:2], x[..., 1::2]), odd], -1)
                return x.squeeze(-1)
            """,
        },
    ),
    "cross entropy": Op(
        "x, target", "torch.randn(48, 200), torch.randint(0, 200, (48,))",
        "F.cross_entropy(x, target)",
        {
            "fused": "(x.logsumexp(-1) - x.gather(1, target[:, None])[:, 0]).mean()",
            "below the maximum": """
                x = x - x.amax(-1, keepdim=True)
                return (torch.exp(x).sum(-1).log() - x.gather(1, target[:, None])[:, 0]).mean()
            """,
            "one-hot rows": """
                hot = F.one_hot(target, x.shape[1])
                return (x.logsumexp(-1) - (x * hot).sum(-1)).sum() / len(x)
            """,
            "online, in blocks": """
                top, total = x.new_full((len(x),), -math.inf), torch.zeros(len(x))
                for part in x.split(64, 1):
                    new = torch.maximum(top, part.amax(1))
                    total = total * torch.exp(top - new) + torch.exp(part - new[:, None]).sum(1)
                    top = new
                return (total.log() + top - x[torch.arange(len(x)), target]).mean()
            """,
        },
    ),
    "binary cross entropy": Op(
        "x, y", "torch.randn(60, 50), torch.rand(60, 50)",
        "F.binary_cross_entropy_with_logits(x, y)",
        {
            "softplus": "(F.softplus(x) - x * y).mean()",
            "the absolute value": """
                return (x.clamp(min=0) - x * y + torch.log1p(torch.exp(-x.abs()))).mean()
            """,
        },
    ),
    "Huber loss": Op(
        "x, y", "torch.randn(60, 50), torch.randn(60, 50)", "F.smooth_l1_loss(x, y)",
        {
            "a limit": """
                d = (x - y).abs()
                c = d.clamp(max=1)
                return (c * (d - 0.5 * c)).mean()
            """,
            "a choice of two": """
                d = (x - y).abs()
                return torch.where(d < 1, 0.5 * d * d, d - 0.5).mean()
            """,
        },
    ),
    "cosine similarity": Op(
        "x, y", "torch.randn(40, 96), torch.randn(40, 96)", "F.cosine_similarity(x, y)",
        {
            "unit vectors": """
                return (F.normalize(x, dim=1, eps=1e-8) * F.normalize(y, dim=1, eps=1e-8)).sum(1)
            """,
            "one quotient": """
                dot = torch.linalg.vecdot(x, y)
                return dot / (x.norm(dim=1).clamp(min=1e-8) * y.norm(dim=1).clamp(min=1e-8))
            """,
        },
    ),
    "layer norm": Op(
        "x", "torch.randn(48, 384)", "self.norm(x)",
        {
            "two passes": """
                c = x - x.mean(-1, keepdim=True)
                s = torch.rsqrt((c * c).mean(-1, keepdim=True) + 1e-5)
                return c * s * self.norm.weight + self.norm.bias
            """,
            "Chan's sums of blocks": """
                count, mean, square = 0, 0.0, 0.0
                for part in x.split(64, -1):
                    n, m = part.shape[-1], part.mean(-1, keepdim=True)
                    d = m - mean
                    square = square + (part - m).square().sum(-1, keepdim=True)
                    square = square + d * d * count * n / (count + n)
                    mean = mean + d * n / (count + n)
                    count += n
                y = (x - mean) * torch.rsqrt(square / count + 1e-5)
                return y * self.norm.weight + self.norm.bias
            """,
            "sums of squares in double precision": """
                d = x.double()
                mean = d.mean(-1, keepdim=True)
                s = torch.rsqrt(d.square().mean(-1, keepdim=True) - mean * mean + 1e-5)
                return ((d - mean) * s).float() * self.norm.weight + self.norm.bias
            """,
            "Welford in C++": _CPP_NORM,
        },
        init="self.norm = nn.LayerNorm(384)",
    ),
    "group norm": Op(
        "x", "torch.randn(3, 12, 10, 10)", "self.norm(x)",
        {
            "as a layer norm": """
                y = F.layer_norm(x.reshape(len(x), 3, -1), x.reshape(len(x), 3, -1).shape[2:])
                y = y.view_as(x)
                return y * self.norm.weight[:, None, None] + self.norm.bias[:, None, None]
            """,
            "two passes": """
                g = x.reshape(len(x), 3, -1)
                c = g - g.mean(-1, keepdim=True)
                y = (c / (c.square().mean(-1, keepdim=True) + 1e-5).sqrt()).view_as(x)
                w, b = (t[:, None, None] for t in (self.norm.weight, self.norm.bias))
                return torch.addcmul(b, y, w)
            """,
        },
        init="self.norm = nn.GroupNorm(3, 12)",
    ),
    "RMS norm": Op(
        "x, w", "torch.randn(40, 256), torch.randn(256)",
        "x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w",
        {
            "torch's own": "F.rms_norm(x, x.shape[-1:], w, 1e-6)",
            "a norm": "x / (x.norm(dim=-1, keepdim=True).square() / x.shape[-1] + 1e-6).sqrt() * w",
            "a product with itself": """
                s = torch.linalg.vecdot(x, x)[..., None] / x.shape[-1]
                return x * (torch.rsqrt(s + 1e-6) * w)
            """,
        },
    ),
    "batch norm of a trained model": Op(
        "x", "torch.randn(8, 12, 9, 9)", "self.norm(x)",
        {
            "one factor and one term": """
                n = self.norm
                s = n.weight * torch.rsqrt(n.running_var + n.eps)
                t = n.bias - n.running_mean * s
                return torch.addcmul(t[:, None, None], x, s[:, None, None])
            """,
        },
        init="""
        self.norm = nn.BatchNorm2d(12)
        self.norm.eval()
        """,
    ),
    "variance": Op(
        "x", "torch.randn(40, 500)", "x.var(-1)",
        {
            "two passes": "(x - x.mean(-1, keepdim=True)).square().sum(-1) / (x.shape[-1] - 1)",
            "shifted by the first": """
                d = (x - x[:, :1]).double()
                n = x.shape[-1]
                return ((d.square().sum(-1) - d.sum(-1) ** 2 / n) / (n - 1)).float()
            """,
        },
    ),
    "linear, then a sum": Op(
        "x", "torch.randn(40, 96)", "self.linear(x).sum(-1)",
        {
            "the sum of the weights": """
                return x @ self.linear.weight.sum(0) + self.linear.bias.sum()
            """,
            "a product with ones": "self.linear(x) @ torch.ones(64)",
        },
        init="self.linear = nn.Linear(96, 64)",
    ),
    "a product, then a sum of rows": Op(
        "a, b", "torch.randn(50, 60), torch.randn(60, 40)", "(a @ b).sum(0)",
        {"the sum first": "a.sum(0) @ b"},
    ),
    "cumulative sum": Op(
        "x", "torch.randn(24, 256)", "x.cumsum(-1)",
        {
            "doubling": """
                s = 1
                while s < x.shape[-1]:
                    x = x + F.pad(x, (s, 0))[..., : x.shape[-1]]
                    s *= 2
                return x
            """,
            "in blocks": """
                y, before = [], 0.0
                for part in x.split(32, -1):
                    y.append(part.cumsum(-1) + before)
                    before = y[-1][..., -1:]
                return torch.cat(y, -1)
            """,
            "a product with a triangle": "x @ torch.ones(x.shape[-1], x.shape[-1]).triu()",
            "in double precision": "x.double().cumsum(-1).float()",
        },
    ),
    "gated scan": Op(
        "x, g", "torch.randn(32, 96), torch.randn(32, 96)",
        """
        a, y, h = torch.sigmoid(g), [], torch.zeros_like(x[:, 0])
        for t in range(x.shape[1]):
            h = a[:, t] * h + x[:, t]
            y.append(h)
        return torch.stack(y, 1)
        """,
        {"doubling": _DOUBLING, "in blocks": _BLOCKED},
    ),
    "moving average": Op(
        "x", "torch.randn(16, 128)",
        """
        y, h = [], torch.zeros_like(x[:, 0])
        for t in range(x.shape[1]):
            h = 0.9 * h + 0.1 * x[:, t]
            y.append(h)
        return torch.stack(y, 1)
        """,
        {
            "a product with powers": """
                at = torch.arange(x.shape[1], dtype=torch.float64)
                far = at[None] - at[:, None]
                w = torch.where(far >= 0, 0.1 * 0.9 ** far.clamp(min=0), 0.0)
                return x @ w.float()
            """,
            "doubling": """
                h, c, s = 0.1 * x, 0.9, 1
                while s < x.shape[1]:
                    h = h + c * F.pad(h, (s, 0))[:, : x.shape[1]]
                    c, s = c * c, 2 * s
                return h
            """,
        },
    ),
    "LSTM cell": Op(
        "x, h, c", "torch.randn(24, 32), torch.randn(24, 40), torch.randn(24, 40)",
        "self.cell(x, (h, c))",
        {
            "one product": """
                n = self.cell
                w = torch.cat([n.weight_ih, n.weight_hh], 1)
                g = F.linear(torch.cat([x, h], 1), w, n.bias_ih + n.bias_hh)
                i, f, z, o = g.chunk(4, 1)
                c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(z)
                return torch.sigmoid(o) * torch.tanh(c), c
            """,
            "sigmoid by tanh": """
                n = self.cell
                g = F.linear(x, n.weight_ih, n.bias_ih) + F.linear(h, n.weight_hh, n.bias_hh)
                i, f, z, o = g.chunk(4, 1)
                def sigmoid(t):
                    return 0.5 + 0.5 * torch.tanh(0.5 * t)
                c = torch.addcmul(sigmoid(i) * torch.tanh(z), sigmoid(f), c)
                return sigmoid(o) * torch.tanh(c), c
            """,
        },
        init="self.cell = nn.LSTMCell(32, 40)",
    ),
    "GRU cell": Op(
        "x, h", "torch.randn(24, 32), torch.randn(24, 40)", "self.cell(x, h)",
        {
            "written out": """
                n = self.cell
                a, b = F.linear(x, n.weight_ih, n.bias_ih), F.linear(h, n.weight_hh, n.bias_hh)
                (ar, az, an), (br, bz, bn) = a.chunk(3, 1), b.chunk(3, 1)
                r, z = torch.sigmoid(ar + br), torch.sigmoid(az + bz)
                new = torch.tanh(an + r * bn)
                return new + z * (h - new)
            """,
        },
        init="self.cell = nn.GRUCell(32, 40)",
    ),
    "mixture of experts": Op(
        "x", "torch.randn(64, 32)",
        """
        p, i = torch.softmax(self.router(x), -1).topk(2, -1)
        hidden = F.relu(torch.einsum("td,edh->eth", x, self.up))
        every = torch.einsum("eth,ehd->etd", hidden, self.down)
        chosen = every.transpose(0, 1).gather(1, i[..., None].expand(-1, -1, x.shape[1]))
        return (chosen * p[..., None]).sum(1)
        """,
        {
            "tokens of each expert": """
                p, i = torch.softmax(self.router(x), -1).topk(2, -1)
                y = torch.zeros_like(x)
                for e in range(6):
                    token, slot = (i == e).nonzero(as_tuple=True)
                    if len(token):
                        part = F.relu(x[token] @ self.up[e]) @ self.down[e]
                        y.index_add_(0, token, part * p[token, slot, None])
                return y
            """,
            "sorted by expert": """
                p, i = torch.softmax(self.router(x), -1).topk(2, -1)
                order = i.flatten().argsort(stable=True)
                counts = i.flatten().bincount(minlength=6).tolist()
                rows, at, parts = x[order // 2], 0, []
                for e, n in enumerate(counts):
                    parts.append(F.relu(rows[at : at + n] @ self.up[e]) @ self.down[e])
                    at += n
                parts = torch.cat(parts) * p.flatten()[order, None]
                return torch.zeros_like(x).index_add_(0, order // 2, parts)
            """,
        },
        init=_MOE_INIT,
    ),
    "embedding": Op(
        "at", "torch.randint(0, 90, (12, 20))", "self.table(at)",
        {
            "gathered": "self.table.weight[at]",
            "index_select": """
                return self.table.weight.index_select(0, at.flatten()).view(*at.shape, -1)
            """,
            "one-hot rows": "F.one_hot(at, 90).float() @ self.table.weight",
        },
        init="self.table = nn.Embedding(90, 24)",
    ),
    "sums of segments": Op(
        "x, at", "torch.randn(300, 16), torch.randint(0, 20, (300,))",
        "torch.zeros(20, x.shape[1]).index_add(0, at, x)",
        {
            "one-hot rows": "F.one_hot(at, 20).t().float() @ x",
            "scatter_add": """
                return torch.zeros(20, x.shape[1]).scatter_add_(0, at[:, None].expand_as(x), x)
            """,
        },
    ),
    "top k": Op(
        "x", "torch.randn(20, 300)", "torch.topk(x, 10, -1)",
        {
            "sorted": """
                v, i = torch.sort(x, dim=-1, descending=True, stable=True)
                return v[:, :10].contiguous(), i[:, :10].contiguous()
            """,
            "the maximum ten times": """
                x, values, places = x.clone(), [], []
                for _ in range(10):
                    at = x.argmax(-1, keepdim=True)
                    values.append(x.gather(-1, at))
                    places.append(at)
                    x.scatter_(-1, at, -math.inf)
                return torch.cat(values, -1), torch.cat(places, -1)
            """,
        },
    ),
    "argsort": Op(
        "x", "torch.randn(20, 100)", "torch.argsort(x, -1)",
        {
            "counted ranks": """
                less = (x[:, None] < x[:, :, None]).sum(-1)
                n = x.shape[-1]
                tie = (x[:, None] == x[:, :, None]) & torch.ones(n, n, dtype=torch.bool).tril(-1)
                rank = less + tie.sum(-1)
                return torch.empty_like(rank).scatter_(-1, rank, torch.arange(n).expand_as(rank))
            """,
        },
    ),
    "histogram": Op(
        "x", "torch.randn(5000)", "torch.histc(x, 50, -3.0, 3.0)",
        {
            "bins by a product": """
                x = x[(x >= -3) & (x <= 3)]
                at = ((x + 3) * (50 / 6)).long().clamp_(max=49)
                return torch.bincount(at, minlength=50).float()
            """,
        },
    ),
    "quantised rows": Op(
        "x", "torch.randn(40, 128)",
        """
        s = x.abs().amax(-1, keepdim=True) / 127
        return torch.clamp(torch.round(x / s), -128, 127) * s
        """,
        {
            "a product with the reciprocal": """
                top = x.abs().amax(-1, keepdim=True)
                return torch.clamp(torch.round(x * (127 / top)), -128, 127) * (top / 127)
            """,
            "through integers": """
                s = x.abs().amax(-1, keepdim=True) / 127
                return (x / s).round().clamp(-128, 127).to(torch.int8).float() * s
            """,
        },
    ),
    "largest of windows": Op(
        "x", "torch.randn(3, 6, 18, 18)", "F.max_pool2d(x, 3, 2, 1)",
        {
            "rows, then columns": """
                wide = F.pad(x, (1, 1, 1, 1), value=-math.inf)
                wide = wide.unfold(2, 3, 2).amax(-1)
                return wide.unfold(3, 3, 2).amax(-1)
            """,
        },
    ),
    "mean of windows": Op(
        "x", "torch.randn(3, 6, 18, 18)", "F.avg_pool2d(x, 3, 1, 1)",
        {
            "nine sums": """
                wide, (h, w) = F.pad(x, (1, 1, 1, 1)), x.shape[2:]
                parts = [wide[:, :, i : i + h, j : j + w] for i in range(3) for j in range(3)]
                return sum(parts) / 9
            """,
            "a convolution": """
                w = torch.full((x.shape[1], 1, 3, 3), 1 / 9)
                return F.conv2d(x, w, padding=1, groups=x.shape[1])
            """,
        },
    ),
    "rotary embedding": Op(
        "x", "torch.randn(2, 4, 40, 16)",
        """
        n, d = x.shape[-2:]
        rates = 10000 ** (-torch.arange(0, d, 2) / d)
        angle = torch.arange(n)[:, None] * rates
        a, b = x[..., 0::2], x[..., 1::2]
        y = [a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()]
        return torch.stack(y, -1).flatten(-2)
        """,
        {
            "complex numbers": """
                n, d = x.shape[-2:]
                rates = 10000 ** (-torch.arange(0, d, 2) / d)
                turn = torch.polar(torch.ones(n, d // 2), torch.arange(n)[:, None] * rates)
                z = torch.view_as_complex(x.contiguous().unflatten(-1, (-1, 2))) * turn
                return torch.view_as_real(z).flatten(-2)
            """,
        },
    ),
    "upsampling": Op(
        "x", "torch.randn(2, 6, 12, 12)",
        "F.interpolate(x, scale_factor=2, mode='bilinear', align_corners=False)",
        {
            "products with two matrices": """
                def matrix(n):
                    at = ((torch.arange(2 * n) + 0.5) / 2 - 0.5).clamp(min=0)
                    low = at.long().clamp(max=n - 1)
                    high, part = (low + 1).clamp(max=n - 1), at - low
                    m, rows = torch.zeros(2 * n, n), torch.arange(2 * n)
                    m.index_put_((rows, low), 1 - part, accumulate=True)
                    return m.index_put_((rows, high), part, accumulate=True)
                return matrix(x.shape[2]) @ x @ matrix(x.shape[3]).t()
            """,
        },
    ),
    "a polynomial": Op(
        "x", "torch.randn(50, 60)", "1 + x + x**2 / 2 + x**3 / 6 + x**4 / 24",
        {"Horner": "1 + x * (1 + x * (0.5 + x * (1 / 6 + x * (1 / 24))))"},
    ),
    "distances": Op(
        "a, b", "torch.randn(30, 16), torch.randn(40, 16)",
        "(a[:, None] - b[None]).square().sum(-1).sqrt()",
        {
            "torch's own": "torch.cdist(a, b, compute_mode='donot_use_mm_for_euclid_dist')",
            "blocks": """
                return torch.cat([(part[:, None] - b).norm(dim=-1) for part in a.split(8)])
            """,
        },
    ),
    "mean of a masked sequence": Op(
        "x, mask", "torch.randn(12, 40, 16), (torch.rand(12, 40) < 0.7).float()",
        "(x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)",
        {"a product": """
            y = torch.bmm(mask[:, None], x)[:, 0]
            return y / mask.sum(1, keepdim=True).clamp(min=1)
        """},
    ),
}  # fmt: skip


def _half(dtype: str) -> dict[str, Op]:
    """Return operators in half precision, whose kernels compute in float32 and round once."""
    qkv = f"*(torch.randn(2, 2, 64, 32).{dtype}() for _ in 'qkv')"
    init = f"self.linear = nn.Linear(128, 96).{dtype}()"
    softmax = "e = torch.exp(x - x.amax(-1, keepdim=True))"
    return {
        f"attention in {dtype}": Op(
            "q, k, v", qkv, "F.scaled_dot_product_attention(q, k, v)",
            {
                "in single precision": f"""
                    q, k, v = q.float(), k.float(), v.float()
                    s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
                    return (torch.softmax(s, -1) @ v).{dtype}()
                """,
                "one pass": f"""
                    q, k, v = q.float(), k.float(), v.float()
                    {textwrap.indent(flash(16), 20 * " ").strip()}
                """.replace("return y / total", f"return (y / total).{dtype}()"),
            },
        ),
        f"softmax in {dtype}": Op(
            "x", f"torch.randn(40, 300).{dtype}()", "torch.softmax(x, -1)",
            {
                "in single precision": f"torch.softmax(x.float(), -1).{dtype}()",
                "written out": f"""
                    x = x.float()
                    {softmax}
                    return (e / e.sum(-1, keepdim=True)).{dtype}()
                """,
            },
        ),
        f"layer norm in {dtype}": Op(
            "x", f"torch.randn(40, 256).{dtype}()", "F.layer_norm(x, (x.shape[-1],))",
            {
                "two passes": f"""
                    x = x.float()
                    c = x - x.mean(-1, keepdim=True)
                    return (c * torch.rsqrt(c.square().mean(-1, keepdim=True) + 1e-5)).{dtype}()
                """,
            },
        ),
        f"matmul in {dtype}": Op(
            "a, b", f"torch.randn(64, 96).{dtype}(), torch.randn(96, 48).{dtype}()", "a @ b",
            {
                "in single precision": f"(a.float() @ b.float()).{dtype}()",
                "sums of blocks": f"""
                    a, b = a.float(), b.float()
                    parts = [a[:, i : i + 32] @ b[i : i + 32] for i in range(0, a.shape[1], 32)]
                    return sum(parts).{dtype}()
                """,
            },
        ),
        f"linear and GELU in {dtype}": Op(
            "x", f"torch.randn(40, 128).{dtype}()", "F.gelu(self.linear(x))",
            {
                "in single precision": f"""
                    w, b = self.linear.weight.float(), self.linear.bias.float()
                    return F.gelu(F.linear(x.float(), w, b)).{dtype}()
                """,
            },
            init=init,
        ),
        f"RMS norm in {dtype}": Op(
            "x, w", f"torch.randn(40, 256).{dtype}(), torch.randn(256).{dtype}()",
            "F.rms_norm(x, x.shape[-1:], w, 1e-5)",
            {
                "in single precision": f"""
                    f = x.float()
                    s = torch.rsqrt(f.square().mean(-1, keepdim=True) + 1e-5)
                    return (f * s * w.float()).{dtype}()
                """,
            },
        ),
        f"sum in {dtype}": Op(
            "x", f"torch.randn(40, 400).{dtype}()", "x.sum(-1)",
            {"in single precision": f"x.float().sum(-1).{dtype}()"},
        ),
    }  # fmt: skip


OPS = {**PRODUCTS, **REDUCTIONS, **_half("bfloat16"), **_half("half")}
