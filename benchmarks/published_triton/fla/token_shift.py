"""The difference from the token before, in packed sequences, and its gradient."""

import torch
import triton
import triton.language as tl

FAULT = "is_first = i_t == bos", "is_first = i_t == 0"


@triton.heuristics({"IS_VARLEN": lambda args: args["cu_seqlens"] is not None})
@triton.autotune(
    [triton.Config({"BD": d}, num_warps=w) for d in (16, 64) for w in (1, 2)], key=["D"]
)
@triton.jit
def forward_kernel(
    x, y, cu_seqlens, T, N, D: tl.constexpr, BD: tl.constexpr, IS_VARLEN: tl.constexpr
):
    i_b, i_t, i_d = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    bos = 0
    if IS_VARLEN:
        for i in range(N):
            begin = tl.load(cu_seqlens + i).to(tl.int32)
            bos = tl.where(begin <= i_t, begin, bos)
    is_first = i_t == bos
    o_d = i_d * BD + tl.arange(0, BD)
    mask = o_d < D
    at = (i_b * T + i_t) * D + o_d
    b_x = tl.load(x + at, mask=mask).to(tl.float32)
    if is_first:
        tl.store(y + at, -b_x, mask=mask)
    else:
        tl.store(y + at, tl.load(x + at - D, mask=mask).to(tl.float32) - b_x, mask=mask)


@triton.heuristics({"IS_VARLEN": lambda args: args["cu_seqlens"] is not None})
@triton.jit
def backward_kernel(
    dy, dx, cu_seqlens, T, N, D: tl.constexpr, BD: tl.constexpr, IS_VARLEN: tl.constexpr
):
    i_b, i_t, i_d = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    eos = T
    if IS_VARLEN:
        for i in tl.range(N, 0, -1):
            end = tl.load(cu_seqlens + i).to(tl.int32)
            eos = tl.where(end > i_t, end, eos)
    o_d = i_d * BD + tl.arange(0, BD)
    at = (i_b * T + i_t) * D + o_d
    b_dx = -tl.load(dy + at, mask=o_d < D).to(tl.float32)
    if i_t != eos - 1:
        b_dx += tl.load(dy + at + D, mask=o_d < D).to(tl.float32)
    tl.store(dx + at, b_dx, mask=o_d < D)


class TokenShift(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, cu_seqlens):
        (B, T, D), N = x.shape, len(cu_seqlens) - 1
        x, y = x.contiguous(), torch.empty_like(x, memory_format=torch.contiguous_format)
        forward_kernel[lambda meta: (B, T, triton.cdiv(D, meta["BD"]))](x, y, cu_seqlens, T, N, D)
        ctx.cu_seqlens = cu_seqlens
        return y

    @staticmethod
    def backward(ctx, dy):
        (B, T, D), cu_seqlens = dy.shape, ctx.cu_seqlens
        dy, dx = dy.contiguous(), torch.empty_like(dy, memory_format=torch.contiguous_format)
        N = len(cu_seqlens) - 1
        backward_kernel[(B, T, triton.cdiv(D, 32))](dy, dx, cu_seqlens, T, N, D=D, BD=32)
        return dx, None


def with_gradient(function, x, dy):
    ends = torch.tensor([0, x.shape[1] // 3, x.shape[1]], dtype=torch.int32, device="cuda")
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        y = function(x, ends)
        y.backward(dy)
    return y.detach(), x.grad


class ModelNew(torch.nn.Module):
    def forward(self, x, dy):
        return with_gradient(TokenShift.apply, x, dy)


def plain(x, ends):
    parts = [x[:, a:b].float() for a, b in zip(ends.tolist(), ends.tolist()[1:]) if b > a]
    parts = [torch.nn.functional.pad(part, (0, 0, 1, 0))[:, :-1] - part for part in parts]
    return torch.cat(parts, 1).to(x.dtype)


class Model(torch.nn.Module):
    def forward(self, x, dy):
        return with_gradient(plain, x, dy)


def get_inputs():
    return [torch.randn(1, 12, 40, device="cuda", dtype=torch.bfloat16) for _ in range(2)]


def get_init_inputs():
    return []
