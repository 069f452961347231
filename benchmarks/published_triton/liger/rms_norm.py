"""An RMS norm with an offset of its weights, which are bfloat16; one program a row."""

import torch
import triton
import triton.language as tl
from triton.language.extra.libdevice import rsqrt

FAULT = "/ n_cols + eps", "/ BLOCK + eps"


@triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["n_cols"])})
@triton.jit
def rms_kernel(
    Y, y_stride, X, x_stride, W, R, n_cols, eps, offset, GEMMA: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < n_cols
    x = tl.load(X + row * x_stride + at, mask=inside, other=0)
    kind = x.dtype
    w = tl.load(W + at, mask=inside, other=0)
    if not GEMMA:
        x = x.to(tl.float32)
        w = w.to(tl.float32)
    else:
        x = x.to(tl.float32)
    rstd = rsqrt(tl.sum(x * x, axis=0) / n_cols + eps)
    tl.store(R + row, rstd)
    x = x * rstd
    if not GEMMA:
        x = x.to(kind)
    y = x * (offset + w)
    tl.store(Y + row * y_stride + at, y.to(kind), mask=inside)


class ModelNew(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(size, dtype=torch.bfloat16, device="cuda"))

    def forward(self, x):
        shape = x.shape
        x = x.reshape(-1, shape[-1])
        y = torch.empty_like(x)
        r = torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
        rms_kernel[(x.shape[0],)](
            y,
            y.stride(0),
            x,
            x.stride(0),
            self.weight,
            r,
            x.shape[1],
            1e-6,
            1.0,
            GEMMA=False,
            num_warps=4,
        )
        return y.view(*shape)


class Model(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(size, dtype=torch.bfloat16))

    def forward(self, x):
        wide = x.float()
        scaled = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)
        return (scaled * (1.0 + self.weight.float())).to(x.dtype)


def get_inputs():
    return [torch.randn(2, 6, 48, dtype=torch.bfloat16, device="cuda")]


def get_init_inputs():
    return [48]
