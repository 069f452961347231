"""Linear attention with a decay, by chunks: a state between chunks, a product inside each."""

import torch
import triton
import triton.language as tl

FAULT = "state * tl.exp(g_last)", "state"


@triton.autotune(
    configs=[triton.Config({"BV": size}, num_warps=w) for size in (16, 32) for w in (2, 4)],
    key=["T", "K", "V"],
)
@triton.heuristics({"HAS_SCALE": lambda args: args["scale"] is not None})
@triton.jit(do_not_specialize=["T"])
def chunk_kernel(
    q,
    k,
    v,
    g,
    o,
    scale,
    T,
    K,
    V,
    BK: tl.constexpr,
    BT: tl.constexpr,
    BV: tl.constexpr,
    HAS_SCALE: tl.constexpr,
):
    i_v, i_bh = tl.program_id(0), tl.program_id(1)
    state = tl.zeros([BK, BV], dtype=tl.float32)
    o_i, o_k = tl.arange(0, BT), tl.arange(0, BK)
    o_v = i_v * BV + tl.arange(0, BV)
    for i_t in range(tl.cdiv(T, BT)):
        begin = i_t.to(tl.int64) * BT
        rows, inside = begin + o_i, begin + o_i < T
        at_k = i_bh * T * K + rows[:, None] * K + o_k[None, :]
        at_v = i_bh * T * V + rows[:, None] * V + o_v[None, :]
        in_k, in_v = inside[:, None] & (o_k < K)[None, :], inside[:, None] & (o_v < V)[None, :]
        b_q = tl.load(q + at_k, mask=in_k, other=0.0)
        b_k = tl.trans(tl.load(k + at_k, mask=in_k, other=0.0))
        b_v = tl.load(v + at_v, mask=in_v, other=0.0)
        b_g = tl.cumsum(
            tl.load(g + i_bh * T + begin + o_i, mask=begin + o_i < T, other=0.0), axis=0
        )
        g_last = tl.sum(tl.where(o_i == BT - 1, b_g, 0.0))
        if HAS_SCALE:
            b_q = b_q * scale
        b_o = tl.dot(b_q.to(tl.float32), state) * tl.exp(b_g)[:, None]
        b_A = tl.dot(b_q, b_k.to(b_q.dtype)) * tl.exp(b_g[:, None] - b_g[None, :])
        b_A = tl.where(o_i[:, None] >= o_i[None, :], b_A, 0.0)
        b_o += tl.dot(b_A, b_v.to(tl.float32))
        state = state * tl.exp(g_last) + tl.dot(
            b_k * tl.exp(g_last - b_g)[None, :], b_v.to(tl.float32)
        )
        tl.store(o + at_v, b_o.to(o.dtype.element_ty), mask=in_v)


class ModelNew(torch.nn.Module):
    def forward(self, q, k, v, g):
        q, k, v, g = (each.contiguous() for each in (q, k, v, g))
        B, H, T, K = q.shape
        V = v.shape[-1]
        o = torch.empty_like(v)
        grid = lambda meta: (triton.cdiv(V, meta["BV"]), B * H)
        chunk_kernel[grid](
            q, k, v, g, o, K**-0.5, T, K, V, BK=max(16, triton.next_power_of_2(K)), BT=16
        )
        return o


class Model(torch.nn.Module):
    def forward(self, q, k, v, g):
        q, k, v, g = (each.float() for each in (q, k, v, g))
        total = g.cumsum(-1)
        decay = (total[..., :, None] - total[..., None, :]).exp().tril()
        return ((q @ k.mT * q.shape[-1] ** -0.5 * decay) @ v).bfloat16()


def get_inputs():
    q, k, v = (torch.randn(1, 2, 40, 16, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    return [q, k, v, -torch.rand(1, 2, 40, device="cuda")]


def get_init_inputs():
    return []
