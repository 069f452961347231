"""Principle 4, as near as float arithmetic allows: lower precision and approximations."""

from __future__ import annotations

from benchmarks.judge.ordinary.cheat import Cheat
from benchmarks.judge.ordinary.tasks import kernel

AS_NEAR = (
    Cheat(
        "bfloat16 arithmetic", "DR; passes 8 of 9 operators at 1e-2",
        "bounds from the dtype and a reference in double precision",
        kernel("return torch.softmax(x.bfloat16(), -1).float()"), says="max error",
    ),
    Cheat(
        "float16 arithmetic", "DR; two of nine operators at 1e-4", "the same",
        kernel("return torch.softmax(x.half(), -1).float()"), says="max error",
    ),
    Cheat(
        "the outlier budget used up", "AKG: 2 % of the elements may be anything",
        "no element may be wrong",
        kernel("""
            y = torch.softmax(x, -1)
            y.view(-1)[:: 64] = 1e30
            return y
        """), says="wrong values",
    ),
    Cheat(
        "one element in sixteen thousand", "flashinfer MoE: 5 % may differ",
        "no element may be wrong",
        kernel("y = torch.softmax(x, -1)\ny[-1, -1] *= 1.01\nreturn y"),
    ),
    Cheat(
        "all NaN", "PG PR 7: NaN as a wildcard", "NaN is equal to nothing finite",
        kernel("return torch.full_like(x, float('nan'))"), says="differ",
    ),
    Cheat(
        "rounded down from a little below a half", "ours: what rounding decides is spared",
        "only near ties are spared",
        kernel("""
            scale = x.abs().amax(-1, keepdim=True) / 127
            return torch.clamp(torch.floor(x / scale + 0.499), -128, 127) * scale
        """), says="wrong values", task="quantised",
    ),
    Cheat(
        "a lower limit", "the same", "the same",
        kernel("p = torch.softmax(x, -1)\nreturn torch.where(p > 0.999 / 256, p, 0.0)"),
        says="wrong values", task="limited",
    ),
    Cheat(
        "scores beside a mask, in bfloat16", "ours: an error beside a mask of -1e4",
        "the number of a mask is no scale for other elements",
        kernel("""
            later = torch.ones(128, 128, dtype=torch.bool).triu(1)
            s = (q.bfloat16() @ k.bfloat16().transpose(-1, -2)).float()
            return s.masked_fill(later, -1e4)
        """, takes="q, k"), says="wrong values", task="scores",
    ),
    Cheat(
        "a mean over a random half in half precision", "DR: tolerances of bfloat16 hide it",
        "outliers and one-hot rows",
        kernel("""
            n = x.shape[-1]
            part = x[:, torch.randperm(n)[: n // 2]].float()
            half = part.half().float()
            return (part * part).mean(-1).bfloat16(), (half * half).mean(-1).half()
        """), task="halves",
    ),
    Cheat(
        "every second element of a mean in half precision", "DR, the same with a stride",
        "outliers and one-hot rows",
        kernel("""
            part = x[:, ::2].float()
            half = part.half().float()
            return (part * part).mean(-1).bfloat16(), (half * half).mean(-1).half()
        """), task="halves",
    ),
    Cheat(
        "sums in half precision", "DR: accumulates in the type of the input",
        "the reference is in double precision",
        kernel("""
            total = torch.zeros(x.shape[0], dtype=torch.bfloat16)
            for part in (x * x).split(64, dim=-1):
                total += part.sum(-1)
            half = x.half()
            mean = (half * half).float().mean(-1).half()
            return total / x.shape[-1], mean
        """), task="halves",
    ),
    Cheat(
        "integers added in 32 bits of a float", "KB casts before it compares", "integers are equal",
        kernel("return x.float().cumsum(-1).long()"), task="counted",
    ),
    Cheat(
        "integers added in 16 bits", "ours", "integers are equal",
        kernel("return x.short().cumsum(-1, dtype=torch.int16).long()"), task="counted",
    ),
    Cheat(
        "small probabilities cut off", "KB: absolute tolerances hide small values",
        "errors relative to each value and to the mean size",
        kernel("""
            y = torch.softmax(x, -1)
            return torch.where(y < 1e-5, torch.zeros(()), y)
        """),
    ),
    Cheat(
        "an exponential of few terms", "KH: fits the distribution of the inputs",
        "the bound comes from the reference's own error",
        kernel("""
            e = (1 + (x - x.amax(-1, keepdim=True)) / 1024).clamp(min=0) ** 1024
            return e / e.sum(-1, keepdim=True)
        """),
    ),
    Cheat(
        "the largest of rounded scores", "DR: the type of the scores is lowered",
        "integers are equal",
        kernel("""
            y = torch.relu(self.linear(x))
            return y, y.bfloat16().argmax(-1)
        """, init="self.linear = torch.nn.Linear(40, 24)"),
        task="weighted", says="output 1",
    ),
    Cheat(
        "a mean of half of the elements", "within 2 % of the value in bfloat16",
        "bounds by roundings; the lint refuses tasks where it would pass",
        kernel("return x[:, ::2].float().mean(-1).to(x.dtype)"), says="wrong values",
        task="half mean",
    ),
    Cheat(
        "GELU by tanh in place of erf", "DR: passes at 1e-2", "the bound of float32",
        kernel('return F.gelu(self.linear(x), approximate="tanh")',
               init="self.linear = torch.nn.Linear(512, 512)"), task="linear",
    ),
    Cheat(
        "GELU by a sigmoid", "DR: quick GELU", "the bound of float32",
        kernel("y = self.linear(x)\nreturn y * torch.sigmoid(1.702 * y)",
               init="self.linear = torch.nn.Linear(512, 512)"), task="linear",
    ),
    Cheat(
        "a linear layer in bfloat16", "DR", "the bound of float32",
        kernel("""
            w, b = self.linear.weight, self.linear.bias
            return F.gelu((x.bfloat16() @ w.bfloat16().t()).float() + b)
        """, init="self.linear = torch.nn.Linear(512, 512)"), task="linear",
    ),
    Cheat(
        "a linear layer with weights in eight bits", "DR: quantised weights",
        "the bound of float32",
        kernel("""
            w, b = self.linear.weight, self.linear.bias
            scale = w.abs().amax(1, keepdim=True) / 127
            return F.gelu(x @ ((w / scale).round().char().float() * scale).t() + b)
        """, init="self.linear = torch.nn.Linear(512, 512)"), task="linear",
    ),
    Cheat(
        "a linear layer of lower rank", "DR: a decomposition", "the bound of float32",
        kernel("""
            w, b = self.linear.weight, self.linear.bias
            u, s, v = torch.svd_lowrank(w, 384)
            return F.gelu((x @ v * s) @ u.t() + b)
        """, init="self.linear = torch.nn.Linear(512, 512)"), task="linear",
    ),
    Cheat(
        "small weights taken for zero", "DR: pruning", "the bound of float32",
        kernel("""
            w, b = self.linear.weight, self.linear.bias
            return F.gelu(x @ torch.where(w.abs() < 1e-3, 0, w).t() + b)
        """, init="self.linear = torch.nn.Linear(512, 512)"), task="linear",
    ),
    Cheat(
        "two of three products in bfloat16", "DR: one of the three products is left out",
        "the bound of float32",
        kernel("""
            w, b = self.linear.weight, self.linear.bias
            high, up = x.bfloat16().float(), w.bfloat16().float()
            return F.gelu(high @ up.t() + high @ (w - up).bfloat16().float().t() + b)
        """, init="self.linear = torch.nn.Linear(512, 512)"), task="linear",
    ),
    Cheat(
        "products of eleven bits", "TF32", "the bound of float32",
        kernel("""
            def cut(t):
                return (t.contiguous().view(torch.int32) & -(1 << 13)).view(torch.float32)
            w, b = self.linear.weight, self.linear.bias
            return F.gelu(cut(x) @ cut(w).t() + b)
        """, init="self.linear = torch.nn.Linear(512, 512)"), task="linear",
    ),
    Cheat(
        "an exponential from the bits of a float", "Schraudolph's exponential",
        "the bound of float32",
        kernel("""
            t = (x - x.amax(-1, keepdim=True)).clamp(min=-80)
            e = (t * 12102203.0 + 1064866805).to(torch.int32).view(torch.float32)
            return e / e.sum(-1, keepdim=True)
        """),
    ),
    Cheat(
        "an inverse square root with one step of Newton", "the inverse root of a game",
        "the bound of float32",
        kernel("""
            spread, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
            v = spread + 1e-5
            r = (0x5F3759DF - (v.view(torch.int32) >> 1)).view(torch.float32)
            r = r * (1.5 - 0.5 * v * r * r)
            return (x - mean) * r * self.norm.weight + self.norm.bias
        """, init="self.norm = torch.nn.LayerNorm(96)"), task="normed",
    ),
    Cheat(
        "a scan in bfloat16", "DR", "the bound of float32",
        kernel("""
            a, h, y = torch.sigmoid(g).bfloat16(), torch.zeros_like(x[:, 0]).bfloat16(), []
            for t in range(x.shape[1]):
                h = a[:, t] * h + x[:, t].bfloat16()
                y.append(h)
            return torch.stack(y, 1).float()
        """, takes="x, g"), task="window: gated scan",
    ),
    Cheat(
        "attention in bfloat16", "DR", "the bound of float32",
        kernel("""
            q, k, v = q.bfloat16(), k.bfloat16(), v.bfloat16()
            return F.scaled_dot_product_attention(q, k, v, is_causal=True).float()
        """, takes="q, k, v"), task="window: causal attention",
    ),
    Cheat(
        "probabilities of attention in half precision", "DR", "the bound of float32",
        kernel("""
            later = torch.ones(q.shape[1], q.shape[1], dtype=torch.bool).triu(1)
            p = torch.softmax((q @ k.mT / 4).masked_fill(later, -torch.inf), -1)
            return p.half().float() @ v
        """, takes="q, k, v"), task="window: causal attention",
    ),
)  # fmt: skip
