"""Rotary embedding of queries and keys, several heads a program, for both halves of a head."""

import torch
import triton
import triton.language as tl

FAULT = "second * cos + first * sin", "second * cos - first * sin"


@triton.jit
def rope_kernel(
    Q,
    O,
    stride_b,
    stride_s,
    cos_ptr,
    sin_ptr,
    length,
    HEADS: tl.constexpr,
    SIZE: tl.constexpr,
    HEADS_2: tl.constexpr,
    HALF_2: tl.constexpr,
):
    program = tl.program_id(0).to(tl.int64)
    batch, place = program // length, program % length
    base = batch * stride_b + place * stride_s
    half = SIZE // 2
    cols = tl.arange(0, HALF_2)
    cos = tl.load(cos_ptr + place * half + cols, mask=cols < half, other=0)
    sin = tl.load(sin_ptr + place * half + cols, mask=cols < half, other=0)
    heads = tl.arange(0, HEADS_2)
    at = heads[:, None] * SIZE + cols[None, :]
    inside = (heads[:, None] < HEADS) and (cols[None, :] < half)
    first = tl.load(Q + base + at, mask=inside, other=0).to(sin.dtype)
    second = tl.load(Q + base + at + half, mask=inside, other=0).to(sin.dtype)
    tl.store(O + base + at, first * cos - second * sin, mask=inside)
    tl.store(O + base + at + half, second * cos + first * sin, mask=inside)


class ModelNew(torch.nn.Module):
    def forward(self, q, cos, sin):
        q, cos, sin = q.contiguous(), cos.contiguous(), sin.contiguous()
        batch, length, heads, size = q.shape
        out = torch.empty_like(q)
        rope_kernel[(batch * length,)](
            q,
            out,
            q.stride(0),
            q.stride(1),
            cos,
            sin,
            length,
            heads,
            size,
            triton.next_power_of_2(heads),
            triton.next_power_of_2(size // 2),
        )
        return out


class Model(torch.nn.Module):
    def forward(self, q, cos, sin):
        first, second = q.float().chunk(2, -1)
        cos, sin = (each.float()[None, :, None, :] for each in (cos, sin))
        return torch.cat((first * cos - second * sin, second * cos + first * sin), -1).to(q.dtype)


def get_inputs():
    angles = torch.rand(7, 12, device="cuda") * 6
    q = torch.randn(2, 7, 3, 24, device="cuda", dtype=torch.bfloat16)
    return [q, angles.cos().bfloat16(), angles.sin().bfloat16()]


def get_init_inputs():
    return []
