"""Honest rewrites of common operators, as a table: each is what a capable engineer may write.

Pure text. Nothing is left out and no precision is given up: sums in another order, blocks, online
and doubling forms, fused losses, packed weights, other algorithms (Winograd, Strassen, FFT).
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from msgspec import Struct

IMPORTS = """
import ctypes
import math

import torch
import torch.nn.functional as F
from torch import nn
"""


class Op(Struct, frozen=True):
    """An operator: its `forward` takes `takes` and returns the expression `reference`.

    `inputs` are the expressions of `get_inputs`, `init` are lines of the `__init__` of reference
    and kernels, and `kernels` are the bodies of `forward`, by the name of the rewrite. A body
    behind a line of ``---`` has lines of its own `__init__` before it; one that defines `ModelNew`
    is a whole file.
    """

    takes: str
    inputs: str
    reference: str
    kernels: Mapping[str, str]
    init: str = ""

    def source(self) -> str:
        """Return the reference's file."""
        body = self.reference if "return " in self.reference else f"return {self.reference}"
        inputs = f"\n\ndef get_inputs():\n    return [{self.inputs}]\n"
        return _module("Model", self.takes, self.init, body) + inputs

    def written(self, name: str) -> str:
        """Return the source of a kernel."""
        text = self.kernels[name]
        if "class ModelNew" in text:
            return IMPORTS + text
        more, _, body = text.rpartition("---\n")
        init = f"{textwrap.dedent(self.init)}\n{textwrap.dedent(more)}"
        body = textwrap.dedent(body).strip("\n")
        body = body if "return " in body else f"return {body}"
        return _module("ModelNew", self.takes, init, body)


def _module(name: str, takes: str, init: str, body: str) -> str:
    lines = textwrap.indent(textwrap.dedent(init), 8 * " ")
    forward = textwrap.indent(textwrap.dedent(body).strip("\n"), 8 * " ")
    return (
        f"{IMPORTS}\n\nclass {name}(nn.Module):\n    def __init__(self):\n"
        f"        super().__init__()\n{lines}\n\n    def forward(self, {takes}):\n{forward}\n"
    )


# A softmax over blocks of keys: the running maximum, sum and result are corrected for each block.
FLASH = """
scale, n = q.shape[-1] ** -0.5, k.shape[-2]
top = q.new_full((*q.shape[:-1], 1), -math.inf)
total, y = torch.zeros_like(top), torch.zeros_like(q)
for at in range(0, n, BLOCK):
    s = q @ k[..., at : at + BLOCK, :].transpose(-1, -2) * scale
    MASKING
    new = torch.maximum(top, s.amax(-1, keepdim=True))
    safe = torch.where(new == -math.inf, 0.0, new)
    e, kept = torch.exp(s - safe), torch.exp(top - safe)
    total = total * kept + e.sum(-1, keepdim=True)
    y = y * kept + e @ v[..., at : at + BLOCK, :]
    top = new
return y / total
"""


def flash(block: int, masking: str = "pass") -> str:
    return FLASH.replace("BLOCK", str(block)).replace("MASKING", masking)


_QKV = "*(torch.randn(2, 2, 80, 32) for _ in 'qkv')"
_CAUSAL = "torch.ones(n, n, dtype=torch.bool).tril()"
_WINOGRAD = """
b, c, h, w = x.shape
if h % 2 or w % 2:
    return F.relu(self.conv(x))
B = torch.tensor([[1.0, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]])
G = torch.tensor([[1.0, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])
A = torch.tensor([[1.0, 1, 1, 0], [0, 1, -1, -1]])
p = F.pad(x, (1, 1, 1, 1)).unfold(2, 4, 2).unfold(3, 4, 2)
V = B @ p @ B.t()
U = G @ self.conv.weight @ G.t()
M = torch.einsum("kcij,bcpqij->bkpqij", U, V)
Y = A @ M @ A.t()
y = Y.permute(0, 1, 2, 4, 3, 5).reshape(b, -1, h, w)
return F.relu(y + self.conv.bias[:, None, None])
"""
_STRASSEN = """
n = a.shape[0]
if a.shape != b.shape or n % 2 or a.shape[0] != a.shape[1]:
    return a @ b
h = n // 2
A, B, C, D = a[:h, :h], a[:h, h:], a[h:, :h], a[h:, h:]
E, G, J, K = b[:h, :h], b[:h, h:], b[h:, :h], b[h:, h:]
p1, p2, p3, p4 = A @ (G - K), (A + B) @ K, (C + D) @ E, D @ (J - E)
p5, p6, p7 = (A + D) @ (E + K), (B - D) @ (J + K), (A - C) @ (E + G)
top = torch.cat([p5 + p4 - p2 + p6, p1 + p2], 1)
return torch.cat([top, torch.cat([p3 + p4, p1 + p5 - p3 - p7], 1)], 0)
"""
_SPLIT = """
def parts(t):
    high = t.bfloat16().float()
    middle = (t - high).bfloat16().float()
    return high, middle, (t - high - middle).bfloat16().float()
ah, am, al = parts(a)
bh, bm, bl = parts(b)
"""
_CPP_GEMM = '''
from akg_tui.dsl import compile_cpp, pointer

LIB = compile_cpp(r"""
#include <cstdint>
extern "C" void gemm(const float *a, const float *b, float *y, int64_t m, int64_t k, int64_t n) {
  for (int64_t i = 0; i < m * n; ++i) y[i] = 0;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t p = 0; p < k; ++p)
      for (int64_t j = 0; j < n; ++j) y[i * n + j] += a[i * k + p] * b[p * n + j];
}
""", "-O3 -march=native -ffp-contract=fast")


class ModelNew(nn.Module):
    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        y = torch.empty(a.shape[0], b.shape[1])
        sizes = [ctypes.c_int64(n) for n in (a.shape[0], a.shape[1], b.shape[1])]
        LIB.gemm(pointer(a), pointer(b), pointer(y), *sizes)
        return y
'''

PRODUCTS: dict[str, Op] = {
    "attention": Op(
        "q, k, v", _QKV, "torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, -1) @ v",
        {
            "torch's own": "F.scaled_dot_product_attention(q, k, v)",
            "one pass, blocks of 16": flash(16),
            "one pass, blocks of 48": flash(48),
            "scaled queries": """
                q = q * q.shape[-1] ** -0.5
                return torch.softmax(q @ k.transpose(-1, -2), -1) @ v
            """,
            "divided after the product": """
                s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
                e = torch.exp(s - s.amax(-1, keepdim=True))
                return (e @ v) / e.sum(-1, keepdim=True)
            """,
            "by a logarithm of sums": """
                s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
                return torch.exp(s - s.logsumexp(-1, keepdim=True)) @ v
            """,
            "powers of two": """
                s = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 * math.log2(math.e))
                e = torch.exp2(s - s.amax(-1, keepdim=True))
                return (e / e.sum(-1, keepdim=True)) @ v
            """,
            "head by head": """
                y = torch.empty_like(q)
                for i in range(q.shape[0]):
                    for j in range(q.shape[1]):
                        s = torch.mm(q[i, j], k[i, j].t()) / math.sqrt(q.shape[-1])
                        torch.mm(torch.softmax(s, -1), v[i, j], out=y[i, j])
                return y
            """,
        },
    ),
    "causal attention": Op(
        "q, k, v", _QKV,
        f"""
        n = q.shape[-2]
        s = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        return torch.softmax(s.masked_fill(~{_CAUSAL}, -math.inf), -1) @ v
        """,
        {
            "torch's own": "F.scaled_dot_product_attention(q, k, v, is_causal=True)",
            "one pass": flash(
                32, "s = s.masked_fill(torch.arange(n)[:, None] < torch.arange(n)[at : at + 32],"
                " -math.inf)",
            ),
            "a mask that is added": f"""
                n = q.shape[-2]
                mask = torch.zeros(n, n).masked_fill(~{_CAUSAL}, -math.inf)
                return torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 + mask, -1) @ v
            """,
            "blocks of queries that see their keys only": """
                n, y = q.shape[-2], []
                for at in range(0, n, 32):
                    to = min(at + 32, n)
                    s = q[..., at:to, :] @ k[..., :to, :].transpose(-1, -2) / q.shape[-1] ** 0.5
                    later = torch.arange(to) > torch.arange(at, to)[:, None]
                    p = torch.softmax(s.masked_fill(later, -math.inf), -1)
                    y.append(p @ v[..., :to, :])
                return torch.cat(y, -2)
            """,
        },
    ),
    "attention with a mask": Op(
        "q, k, v, mask", f"{_QKV}, torch.ones(80, 80, dtype=torch.bool).tril()",
        """
        s = (q @ k.transpose(-1, -2)) / math.sqrt(q.shape[-1])
        s = s.masked_fill(~mask, float('-inf'))
        return torch.softmax(s, -1) @ v
        """,
        {
            "torch's own": "F.scaled_dot_product_attention(q, k, v, attn_mask=mask)",
            "a choice of two": """
                s = torch.where(mask, q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -math.inf)
                return torch.softmax(s, -1) @ v
            """,
            "one pass": flash(32, "s = s.masked_fill(~mask[:, at : at + 32], -math.inf)"),
        },
    ),
    "attention with a bias": Op(
        "q, k, v, bias", f"{_QKV}, torch.randn(80, 80)",
        "torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 + bias, -1) @ v",
        {
            "torch's own": "F.scaled_dot_product_attention(q, k, v, attn_mask=bias)",
            "one pass": flash(32, "s = s + bias[:, at : at + 32]"),
            "the bias in the product": """
                s = torch.baddbmm(
                    bias.expand(q.shape[0] * q.shape[1], -1, -1), q.flatten(0, 1),
                    k.flatten(0, 1).transpose(-1, -2), alpha=q.shape[-1] ** -0.5)
                return torch.softmax(s.view(*q.shape[:2], *s.shape[1:]), -1) @ v
            """,
        },
    ),
    "attention with few heads of keys": Op(
        "q, k, v", "torch.randn(2, 6, 64, 32), *(torch.randn(2, 2, 64, 32) for _ in 'kv')",
        """
        k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
        return torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, -1) @ v
        """,
        {
            "torch's own": "F.scaled_dot_product_attention(q, k, v, enable_gqa=True)",
            "groups of queries": """
                g = q.unflatten(1, (k.shape[1], -1))
                s = g @ k[:, :, None].transpose(-1, -2) / q.shape[-1] ** 0.5
                return (torch.softmax(s, -1) @ v[:, :, None]).flatten(1, 2)
            """,
        },
    ),
    "linear attention": Op(
        "q, k, v", "*(torch.randn(2, 48, 24) for _ in 'qkv')", "(q @ k.transpose(-1, -2)) @ v",
        {"keys and values first": "q @ (k.transpose(-1, -2) @ v)"},
    ),
    "matmul": Op(
        "a, b", "torch.randn(128, 128), torch.randn(128, 128)", "a @ b",
        {
            "Strassen": _STRASSEN,
            "three products in bfloat16": _SPLIT
            + "return ah @ bh + (ah @ bm + am @ bh) + (ah @ bl + am @ bm + al @ bh)",
            "sums of blocks of 32": """
                return sum(a[:, i : i + 32] @ b[i : i + 32] for i in range(0, a.shape[1], 32))
            """,
            "four parts of the sum": """
                parts = [x @ y for x, y in zip(a.chunk(4, 1), b.chunk(4, 0))]
                return (parts[0] + sum(parts[1:2])) + sum(parts[2:])
            """,
            "tiles": """
                y = a.new_empty(a.shape[0], b.shape[1])
                for i in range(0, a.shape[0], 32):
                    for j in range(0, b.shape[1], 32):
                        y[i : i + 32, j : j + 32] = a[i : i + 32] @ b[:, j : j + 32]
                return y
            """,
            "outer products": """
                y = torch.zeros(a.shape[0], b.shape[1])
                for i in range(a.shape[1]):
                    y.addr_(a[:, i], b[i])
                return y
            """,
            "einsum": "torch.einsum('ik,kj->ij', a, b)",
            "transposed": "(b.t() @ a.t()).t().contiguous()",
            "products, then sums": "(a[:, None] * b.t()[None]).sum(-1)",
            "in C++": _CPP_GEMM,
        },
    ),
    "batched matmul": Op(
        "a, b", "torch.randn(6, 40, 50), torch.randn(6, 50, 30)", "torch.bmm(a, b)",
        {
            "one by one": "torch.stack([x @ y for x, y in zip(a, b)])",
            "einsum": "torch.einsum('bik,bkj->bij', a, b)",
            "halves of the sum": """
                h = a.shape[2] // 2
                return torch.baddbmm(a[..., :h] @ b[:, :h], a[..., h:], b[:, h:])
            """,
        },
    ),
    "a chain of products": Op(
        "x, a, b", "torch.randn(4, 30, 40), torch.randn(40, 50), torch.randn(50, 20)",
        "torch.einsum('bij,jk,kl->bil', x, a, b)",
        {"from the left": "x @ a @ b", "from the right": "x @ (a @ b)"},
    ),
    "triangular product": Op(
        "a, b", "torch.randn(96, 96).tril(), torch.randn(96, 40)", "torch.tril(a) @ b",
        {
            "by blocks": """
                y = torch.empty(a.shape[0], b.shape[1])
                for i in range(0, len(a), 32):
                    to = min(i + 32, len(a))
                    y[i:to] = a[i:to, :i] @ b[:i] + a[i:to, i:to].tril() @ b[i:to]
                return y
            """,
            "row by row": """
                return torch.stack([a[i, : i + 1] @ b[: i + 1] for i in range(len(a))])
            """,
        },
    ),
    "product with a triangle": Op(
        "a, b", "torch.randn(96, 96).tril(), torch.randn(96, 40)", "a @ b",
        {
            "by blocks, without the zeros": """
                if a.shape[0] != a.shape[1]:
                    return a @ b
                return torch.cat([
                    a[i : i + 32, : i + 32] @ b[: i + 32] for i in range(0, len(a), 32)])
            """,
        },
    ),
    "linear and GELU": Op(
        "x", "torch.randn(64, 128)", "F.gelu(self.linear(x))",
        {
            "packed in __init__": """
                self.wt = self.linear.weight.detach().t().contiguous()
                ---
                return F.gelu(torch.addmm(self.linear.bias, x, self.wt))
            """,
            "packed at the first call": """
                self.wt = None
                ---
                if self.wt is None:
                    self.wt = self.linear.weight.detach().t().contiguous()
                return F.gelu(torch.addmm(self.linear.bias, x, self.wt))
            """,
            "erf written out": """
                y = x @ self.linear.weight.t() + self.linear.bias
                return 0.5 * y * (1 + torch.erf(y * 0.7071067811865476))
            """,
            "blocks of columns": """
                w, b = self.linear.weight, self.linear.bias
                parts = zip(w.chunk(4), b.chunk(4))
                return torch.cat([F.gelu(F.linear(x, u, c)) for u, c in parts], 1)
            """,
        },
        init="self.linear = nn.Linear(128, 128)",
    ),
    "GELU": Op(
        "x", "torch.randn(50, 70)", "F.gelu(x)",
        {
            "erf": "0.5 * x * (1 + torch.erf(x * math.sqrt(0.5)))",
            "erfc": "0.5 * x * torch.erfc(-x * math.sqrt(0.5))",
            "the normal distribution": "x * torch.special.ndtr(x)",
            "in double precision": "F.gelu(x.double()).float()",
        },
    ),
    "SwiGLU": Op(
        "x", "torch.randn(40, 48)", "self.down(F.silu(self.gate(x)) * self.up(x))",
        {
            "one product for both": """
                w = torch.cat([self.gate.weight, self.up.weight])
                g, u = F.linear(x, w).chunk(2, -1)
                return F.linear(g * torch.sigmoid(g) * u, self.down.weight)
            """,
            "a quotient": """
                g, u = self.gate(x), self.up(x)
                return self.down(g * u / (1 + torch.exp(-g)))
            """,
        },
        init="""
        self.gate, self.up = nn.Linear(48, 64, bias=False), nn.Linear(48, 64, bias=False)
        self.down = nn.Linear(64, 48, bias=False)
        """,
    ),
    "SiLU": Op(
        "x", "torch.randn(50, 70)", "F.silu(x)",
        {
            "sigmoid": "x * torch.sigmoid(x)",
            "tanh": "0.5 * x * (1 + torch.tanh(0.5 * x))",
            "quotient": "x / (1 + torch.exp(-x))",
        },
    ),
    "convolution and ReLU": Op(
        "x", "torch.randn(2, 8, 20, 20)", "F.relu(self.conv(x))",
        {
            "Winograd F(2x2)": _WINOGRAD,
            "columns": """
                b, _, h, w = x.shape
                columns = F.unfold(x, 3, padding=1)
                y = self.conv.weight.flatten(1) @ columns + self.conv.bias[:, None]
                return F.relu(y).view(b, -1, h, w)
            """,
            "nine products": """
                b, _, h, w = x.shape
                wide = F.pad(x, (1, 1, 1, 1))
                y = self.conv.bias[None, :, None, None].expand(b, -1, h, w)
                for i in range(3):
                    for j in range(3):
                        part = wide[:, :, i : i + h, j : j + w]
                        y = y + torch.einsum("kc,bcpq->bkpq", self.conv.weight[:, :, i, j], part)
                return F.relu(y).contiguous()
            """,
            "channels last": """
                b, c, h, w = x.shape
                p = F.pad(x, (1, 1, 1, 1)).permute(0, 2, 3, 1)
                p = p.unfold(1, 3, 1).unfold(2, 3, 1).reshape(b * h * w, -1)
                y = p @ self.conv.weight.flatten(1).t() + self.conv.bias
                return F.relu(y.view(b, h, w, -1).permute(0, 3, 1, 2)).contiguous()
            """,
            "Fourier transforms": """
                b, c, h, w = x.shape
                size = h + 2, w + 2
                f = torch.fft.rfft2(x, s=size)
                g = torch.fft.rfft2(self.conv.weight.flip(2, 3), s=size)
                y = torch.fft.irfft2(torch.einsum("bcij,kcij->bkij", f, g), s=size)
                return F.relu(y[:, :, 1 : h + 1, 1 : w + 1] + self.conv.bias[:, None, None])
            """,
        },
        init="self.conv = nn.Conv2d(8, 16, 3, padding=1)",
    ),
    "causal convolution": Op(
        "x, taps", "torch.randn(2, 12, 128), torch.randn(12, 8)",
        """
        n = taps.shape[1]
        wide = F.pad(x, (n - 1, 0))
        return F.conv1d(wide, taps.flip(1).unsqueeze(1), groups=x.shape[1])
        """,
        {
            "shifts": """
                n, T = taps.shape[1], x.shape[2]
                wide = F.pad(x, (n - 1, 0))
                return sum(
                    taps[:, i, None] * wide[..., n - 1 - i : n - 1 - i + T] for i in range(n))
            """,
            "windows": """
                wide = F.pad(x, (taps.shape[1] - 1, 0)).unfold(2, taps.shape[1], 1)
                return torch.einsum("bctn,cn->bct", wide, taps.flip(1)).contiguous()
            """,
            "Fourier transforms": """
                size = x.shape[2] + taps.shape[1]
                f = torch.fft.rfft(x, n=size) * torch.fft.rfft(taps, n=size)
                return torch.fft.irfft(f, n=size)[..., : x.shape[2]].contiguous()
            """,
        },
    ),
}  # fmt: skip
