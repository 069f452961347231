"""Weights of four bits by a table of 16 normal quantiles, with scales that are themselves bytes."""

import torch
import triton
import triton.language as tl

FAULT = "packed >> 4", "packed & 0xF"
CODE = (
    -1.0, -0.696, -0.525, -0.395, -0.284, -0.185, -0.091, 0.0, 0.080, 0.161, 0.246, 0.338, 0.441,
    0.563, 0.723, 1.0,
)  # fmt: skip


@triton.autotune(
    [triton.Config({"BLOCK_SIZE": n}, num_warps=4) for n in (32, 128)], key=["n_bytes"]
)
@triton.jit
def dequantize_kernel(
    packed_ptr, code_ptr, absmax_ptr, absmax_code_ptr, absmax2_ptr, offset_ptr, out_ptr, n_bytes,
    SIZE: tl.constexpr, SIZE_2: tl.constexpr, BLOCK_SIZE: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = at < n_bytes
    packed = tl.load(packed_ptr + at, mask=mask, other=0, eviction_policy="evict_first")
    block = at * 2 // SIZE
    scale = tl.load(absmax_ptr + block, mask=mask, other=0)
    absmax2 = tl.load(absmax2_ptr + block // SIZE_2, mask=mask, other=0.0)
    absmax = tl.load(absmax_code_ptr + scale.to(tl.int32)) * absmax2 + tl.load(offset_ptr)
    high = tl.load(code_ptr + (packed >> 4))
    low = tl.load(code_ptr + (packed & 0xF))
    both = tl.interleave(high * absmax, low * absmax)
    at = tl.program_id(0) * BLOCK_SIZE * 2 + tl.arange(0, BLOCK_SIZE * 2)
    tl.store(out_ptr + at, both.to(tl.bfloat16), mask=at < n_bytes * 2)


class ModelNew(torch.nn.Module):
    def forward(self, packed, absmax, absmax_code, absmax2, offset):
        out = torch.empty(packed.numel() * 2, dtype=torch.bfloat16, device="cuda:0")
        code = torch.tensor(CODE, dtype=torch.float32, device="cuda:0")
        grid = lambda meta: (triton.cdiv(packed.numel(), meta["BLOCK_SIZE"]),)
        with torch.cuda.stream(torch.cuda.current_stream(packed.device)):
            dequantize_kernel[grid](
                packed, code, absmax, absmax_code, absmax2, offset, out, packed.numel(), 16, 8
            )
        return out


class Model(torch.nn.Module):
    def forward(self, packed, absmax, absmax_code, absmax2, offset):
        whole = torch.stack((packed >> 4, packed & 0xF), 1).flatten().long()
        scale = absmax_code[absmax.long()] * absmax2.repeat_interleave(8)[: absmax.numel()] + offset
        return (torch.tensor(CODE)[whole] * scale.repeat_interleave(16)).bfloat16()


def get_inputs():
    packed = torch.randint(0, 256, (200,), device="cuda", dtype=torch.uint8)
    absmax = torch.randint(0, 256, (25,), device="cuda", dtype=torch.uint8)
    R = lambda size: torch.rand(size, device="cuda") + 0.1
    return [packed, absmax, R(256), R(4), R(1)]


def get_init_inputs():
    return []


FIXED_SHAPE = True
