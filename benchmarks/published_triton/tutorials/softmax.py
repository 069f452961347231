"""A softmax whose programs take several rows; their number comes from the device's properties."""

import torch
import triton
import triton.language as tl
from triton.runtime import driver

FAULT = 'other=-float("inf")', "other=0.0"
DEVICE = triton.runtime.driver.active.get_active_torch_device()
properties = driver.active.utils.get_device_properties(DEVICE.index)
NUM_SM, SIZE_SMEM = properties["multiprocessor_count"], properties["max_shared_mem"]


@triton.jit
def softmax_kernel(
    output_ptr,
    input_ptr,
    input_stride,
    output_stride,
    n_rows,
    n_cols,
    BLOCK_SIZE: tl.constexpr,
    num_stages: tl.constexpr,
):
    row_start, row_step = tl.program_id(0), tl.num_programs(0)
    for row in tl.range(row_start, n_rows, row_step, num_stages=num_stages):
        cols = tl.arange(0, BLOCK_SIZE)
        inside = cols < n_cols
        x = tl.load(input_ptr + row * input_stride + cols, mask=inside, other=-float("inf"))
        x = x.to(tl.float32)
        powers = tl.exp(x - tl.max(x, axis=0))
        y = powers / tl.sum(powers, axis=0)
        tl.store(output_ptr + row * output_stride + cols, y, mask=inside)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        x = x.contiguous()
        n_rows, n_cols = x.shape
        y = torch.empty_like(x)
        size = triton.next_power_of_2(n_cols)
        kernel = softmax_kernel.warmup(
            y,
            x,
            x.stride(0),
            y.stride(0),
            n_rows,
            n_cols,
            BLOCK_SIZE=size,
            num_stages=2,
            num_warps=8,
            grid=(1,),
        )
        kernel._init_handles()
        occupancy = min(65536 // (kernel.n_regs * 32 * 8), SIZE_SMEM // kernel.metadata.shared)
        programs = min(NUM_SM * occupancy, n_rows, 5)
        kernel[(programs, 1, 1)](y, x, x.stride(0), y.stride(0), n_rows, n_cols, size, 2)
        return y


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, -1)


def get_inputs():
    return [torch.randn(23, 100, device=DEVICE, dtype=torch.bfloat16)]


def get_init_inputs():
    return []
