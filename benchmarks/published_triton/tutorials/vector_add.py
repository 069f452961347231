"""A sum of vectors with tuned sizes; the wrapper asserts the device."""

import torch
import triton
import triton.language as tl

FAULT = "offsets < n_elements", "offsets < n_elements - 1"
DEVICE = triton.runtime.driver.active.get_active_torch_device()


@triton.autotune([triton.Config({"BLOCK_SIZE": n}) for n in (32, 64)], key=["n_elements"])
@triton.jit
def add_kernel(x_ptr, y_ptr, output_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    output = tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask)
    tl.store(output_ptr + offsets, output, mask=mask)


class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        x, y = x.contiguous(), y.contiguous()
        output = torch.zeros_like(x)
        assert x.device == DEVICE and y.device == DEVICE and output.device == DEVICE
        grid = lambda meta: (triton.cdiv(output.numel(), meta["BLOCK_SIZE"]),)
        add_kernel[grid](x, y, output, output.numel())
        return output


class Model(torch.nn.Module):
    def forward(self, x, y):
        return x + y


def get_inputs():
    return [torch.rand(300, device=DEVICE).bfloat16() for _ in range(2)]


def get_init_inputs():
    return []
