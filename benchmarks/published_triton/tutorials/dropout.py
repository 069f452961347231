"""A dropout by a seed: Philox numbers are drawn in the kernel, and no mask is kept."""

import torch
import triton
import triton.language as tl

FAULT = "random > p", "random < p"


@triton.jit
def seeded_dropout(x_ptr, output_ptr, n_elements, p, seed, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    random = tl.rand(seed, offsets)
    output = tl.where(random > p, x / (1 - p), 0.0)
    tl.store(output_ptr + offsets, output, mask=mask)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        x = x.contiguous()
        output = torch.empty_like(x)
        grid = lambda meta: (triton.cdiv(x.numel(), meta["BLOCK_SIZE"]),)
        seeded_dropout[grid](x, output, x.numel(), 0.4, 123, BLOCK_SIZE=64)
        return output


def high(a, b):
    """Return the upper 32 bits of a product of 32 bits each."""
    return ((a >> 16) * b + ((a & 0xFFFF) * b >> 16)) >> 16


def philox(seed, offset):
    """Return the first of four random integers of 32 bits, after ten rounds."""
    whole = 0xFFFFFFFF
    c, k = [offset, *[torch.zeros_like(offset)] * 3], [seed & whole, seed >> 32]
    for _ in range(10):
        a, b = 0xD2511F53, 0xCD9E8D57
        c = [
            high(b, c[2]) ^ c[1] ^ k[0],
            ((b >> 16) * c[2] << 16) + (b & 0xFFFF) * c[2] & whole,
            high(a, c[0]) ^ c[3] ^ k[1],
            ((a >> 16) * c[0] << 16) + (a & 0xFFFF) * c[0] & whole,
        ]
        k = [k[0] + 0x9E3779B9 & whole, k[1] + 0xBB67AE85 & whole]
    return c[0]


class Model(torch.nn.Module):
    def forward(self, x):
        drawn = philox(123, torch.arange(x.numel())).reshape(x.shape)
        drawn = torch.where(drawn >= 1 << 31, (1 << 32) - 1 - drawn, drawn)
        return torch.where(drawn.float() * 4.6566127342e-10 > 0.4, x.float() / 0.6, 0.0).to(x.dtype)


def get_inputs():
    return [torch.randn(5, 50, device="cuda", dtype=torch.bfloat16)]


def get_init_inputs():
    return []
