"""Functions of CUDA's libdevice, called by their names."""

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

FAULT = "libdevice.asin(x)", "libdevice.sin(x)"


@triton.jit
def asin_kernel(x_ptr, y_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
    y = libdevice.asin(x) + libdevice.erf(x) + libdevice.log1p(tl.abs(x))
    tl.store(y_ptr + offsets, y, mask=mask)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        grid = lambda meta: (triton.cdiv(x.numel(), meta["BLOCK_SIZE"]),)
        asin_kernel[grid](x, y, x.numel(), BLOCK_SIZE=64)
        return y


class Model(torch.nn.Module):
    def forward(self, x):
        wide = x.float()
        return (wide.asin() + wide.erf() + wide.abs().log1p()).to(x.dtype)


def get_inputs():
    return [torch.rand(200, device="cuda").bfloat16() * 2 - 1]


def get_init_inputs():
    return []
