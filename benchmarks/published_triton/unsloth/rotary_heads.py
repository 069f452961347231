"""Rotary embedding in place by groups of heads; the same kernel turns gradients back."""

import torch
import triton
import triton.language as tl

FAULT = "sin1 = -sin1", "sin1 = sin1"
ROPE_GROUP_SIZE: int = 4


def _rope_embedding(
    Q, Q_row_stride: tl.constexpr, cos, cos_row_stride: tl.constexpr, sin,
    sin_row_stride: tl.constexpr, seqlen, head_dim: tl.constexpr, n_heads: tl.constexpr,
    BACKWARD_PASS: tl.constexpr, BLOCK_SIZE: tl.constexpr,
):  # fmt: skip
    group_size = 4
    row_position = tl.program_id(0)
    group_head_position = tl.program_id(1)
    col_offsets = tl.arange(0, BLOCK_SIZE)
    half_head_dim = head_dim // 2
    mask = col_offsets < half_head_dim
    sin1 = tl.load(sin + (row_position % seqlen) * sin_row_stride + col_offsets, mask=mask, other=0)
    cos1 = tl.load(cos + (row_position % seqlen) * cos_row_stride + col_offsets, mask=mask, other=0)
    if BACKWARD_PASS:
        sin1 = -sin1
    head_start = group_head_position * group_size
    head_end = min((head_start + group_size), n_heads)
    for k in range(head_start, head_end):
        offs_q1 = row_position * Q_row_stride + k * head_dim + col_offsets
        offs_q2 = offs_q1 + half_head_dim
        Q1 = tl.load(Q + offs_q1, mask=mask, other=0).to(sin1.dtype)
        Q2 = tl.load(Q + offs_q2, mask=mask, other=0).to(sin1.dtype)
        tl.store(Q + offs_q1, Q1 * cos1 - Q2 * sin1, mask=mask)
        tl.store(Q + offs_q2, Q2 * cos1 + Q1 * sin1, mask=mask)


_rope_embedding = triton.jit(_rope_embedding)
_rope_embedding = triton.heuristics(
    {"BACKWARD_PASS": lambda args: bool(args["BACKWARD_PASS"])}
)(_rope_embedding)  # fmt: skip


class RoPE(torch.autograd.Function):
    @staticmethod
    def forward(ctx, Q, cos, sin):
        batch, seq_len, n_heads, head_dim = Q.shape
        Q = Q.reshape(batch * seq_len, n_heads * head_dim).clone()
        div, mod = divmod(n_heads, ROPE_GROUP_SIZE)
        n_groups = div + (mod != 0)
        BLOCK_SIZE = triton.next_power_of_2(head_dim // 2)
        with torch.cuda.device(Q.device):
            _rope_embedding[(Q.shape[0], n_groups)](
                Q, Q.stride(0), cos, cos.stride(0), sin, sin.stride(0), seq_len, head_dim, n_heads,
                BACKWARD_PASS=False, BLOCK_SIZE=BLOCK_SIZE, num_warps=4,
            )  # fmt: skip
        ctx.BLOCK_SIZE, ctx.n_groups, ctx.cos, ctx.sin = BLOCK_SIZE, n_groups, cos, sin
        return Q.view(batch, seq_len, n_heads, head_dim)

    @staticmethod
    def backward(ctx, dY):
        batch, seq_len, n_heads, head_dim = dY.shape
        dY = dY.reshape(batch * seq_len, n_heads * head_dim).clone()
        _rope_embedding[(dY.shape[0], ctx.n_groups)](
            dY, dY.stride(0), ctx.cos, ctx.cos.stride(0), ctx.sin, ctx.sin.stride(0), seq_len,
            head_dim, n_heads, BACKWARD_PASS=True, BLOCK_SIZE=ctx.BLOCK_SIZE, num_warps=4,
        )  # fmt: skip
        return dY.view(batch, seq_len, n_heads, head_dim), None, None


def with_gradient(function, q, cos, sin, dy):
    with torch.enable_grad():
        q = q.detach().requires_grad_()
        y = function(q, cos, sin)
        y.backward(dy)
    return y.detach(), q.grad


class ModelNew(torch.nn.Module):
    def forward(self, q, cos, sin, dy):
        return with_gradient(RoPE.apply, q, cos.contiguous(), sin.contiguous(), dy)


def plain(q, cos, sin):
    (a, b), cos, sin = q.float().chunk(2, -1), cos[:, None], sin[:, None]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(q.dtype)


class Model(torch.nn.Module):
    def forward(self, q, cos, sin, dy):
        return with_gradient(plain, q, cos, sin, dy)


def get_inputs():
    R = lambda *shape: torch.randn(*shape, device="cuda", dtype=torch.bfloat16)
    return [R(2, 5, 6, 16), torch.randn(5, 8), torch.randn(5, 8), R(2, 5, 6, 16)]


def get_init_inputs():
    return []
