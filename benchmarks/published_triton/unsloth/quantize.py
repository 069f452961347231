"""Rows to eight bits with one scale each, rounded as CUDA's llrint, with absolute maxima."""

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

FAULT = "127.0 * (x / most)", "128.0 * (x / most)"


@triton.jit
def quantize_kernel(X, Y, Scale, size, BLOCK: tl.constexpr):
    pid = tl.program_id(axis=0)
    at = tl.arange(0, BLOCK)
    inside = at < size
    x = tl.load(X + pid * size + at, mask=inside)
    most = tl.maximum(tl.max(tl.where(inside, tl.abs(x), 0), axis=0).to(tl.float32), 1e-6)
    y = libdevice.llrint(127.0 * (x / most))
    tl.store(Y + pid * size + at, y.to(tl.int8), mask=inside)
    tl.store(Scale + pid, most)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, size = x.shape
        y = torch.empty(*x.shape, device="cuda", dtype=torch.int8)
        scale = torch.empty(rows, device="cuda", dtype=torch.float32)
        assert y.is_cuda and x.is_cuda
        quantize_kernel[(rows,)](x, y, scale, size, BLOCK=int(2 ** (size - 1).bit_length()))
        return y, scale


class Model(torch.nn.Module):
    def forward(self, x):
        most = x.float().abs().amax(1).clamp(min=1e-6)
        return torch.round(127.0 * (x.float() / most[:, None])).to(torch.int8), most


def get_inputs():
    return [torch.randn(9, 70, device="cuda").bfloat16()]


def get_init_inputs():
    return []
