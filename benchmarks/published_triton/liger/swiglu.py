"""SwiGLU with a float of the launch that is used as a tensor, on two-dimensional tiles."""

import torch
import triton
import triton.language as tl

FAULT = "tl.sigmoid(g * slope)", "tl.sigmoid(g)"


@triton.jit
def silu(x, slope):
    return x * tl.sigmoid(x.to(tl.float32) * slope)


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": m, "BLOCK_N": 64}, num_warps=w) for m in (1, 4) for w in (1, 2)
    ],
    key=["M", "N"],
)
@triton.jit
def swiglu_kernel(A, B, C, M, N, stride, alpha, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    inside = rows < M and cols < N
    a = tl.load(A + rows * stride + cols, mask=inside, other=0)
    b = tl.load(B + rows * stride + cols, mask=inside, other=0)
    slope = alpha.to(tl.float32)
    g = a.to(tl.float32)
    gate = (g * tl.sigmoid(g * slope)).to(b.dtype)
    tl.store(C + rows * stride + cols, gate * b, mask=inside)


class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        c = torch.empty_like(a)
        M, N = a.shape
        grid = lambda meta: (triton.cdiv(M, meta["BLOCK_M"]), triton.cdiv(N, meta["BLOCK_N"]))
        swiglu_kernel[grid](a, b, c, M, N, a.stride(0), 1.7)
        return c


class Model(torch.nn.Module):
    def forward(self, a, b):
        wide = a.float()
        return (wide * torch.sigmoid(1.7 * wide)).to(a.dtype) * b


def get_inputs():
    return [torch.randn(7, 90, device="cuda", dtype=torch.bfloat16) for _ in range(2)]


def get_init_inputs():
    return []
