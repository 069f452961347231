"""Matrix product in Triton: tiles of the result, programs that share operands side by side."""

import torch
import triton
import triton.language as tl
from torch import nn

# The tile of the result that a program computes, and the depth of a step.
BLOCK_M = 32  # tune: [16, 32, 64, 128]
BLOCK_N = 32  # tune: [32, 64, 128, 256]
BLOCK_K = 32  # tune: [16, 32, 64]
# Rows of tiles whose programs follow each other, so that tiles of b are still in the L2 cache.
GROUP = 1  # tune: [1, 4, 8]
# Every step masks the depth, or none does where the depth is a multiple of BLOCK_K.
MASK_DEPTH = "always"  # tune: ["always", "where needed"]
# Warps per program, and pipeline stages. They matter only on a GPU.
WARPS = 4  # tune: [2, 4, 8]
STAGES = 2  # tune: [1, 2, 3, 4]


@triton.jit
def multiply(
    a_ptr,
    b_ptr,
    y_ptr,
    m,
    n,
    k,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
    WHOLE: tl.constexpr,
):
    # All matrices are contiguous. Programs go down a group of rows before the next column.
    program = tl.program_id(0)
    down, across = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    first = program // (GROUP * across) * GROUP
    high = tl.minimum(down - first, GROUP)
    within = program % (GROUP * across)
    row = (first + within % high) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = within // high * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    rows_in, columns_in = (row < m)[:, None], (column < n)[None, :]
    a_at = a_ptr + row[:, None].to(tl.int64) * k + depth[None, :]
    b_at = b_ptr + depth[:, None].to(tl.int64) * n + column[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, k, BLOCK_K):
        if WHOLE:
            a = tl.load(a_at, mask=rows_in, other=0.0)
            b = tl.load(b_at, mask=columns_in, other=0.0)
        else:
            a = tl.load(a_at, mask=rows_in & (depth < k - start)[None, :], other=0.0)
            b = tl.load(b_at, mask=(depth < k - start)[:, None] & columns_in, other=0.0)
        total = tl.dot(a, b, total, input_precision="ieee")
        a_at += BLOCK_K
        b_at += BLOCK_K * n
    y = total.to(y_ptr.dtype.element_ty)
    y_at = y_ptr + row[:, None].to(tl.int64) * n + column[None, :]
    tl.store(y_at, y, mask=rows_in & columns_in)


class ModelNew(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a, b = a.contiguous(), b.contiguous()
        (m, k), n = a.shape, b.shape[1]
        y = torch.empty((m, n), dtype=a.dtype, device=a.device)
        multiply[(triton.cdiv(m, BLOCK_M) * triton.cdiv(n, BLOCK_N),)](
            a,
            b,
            y,
            m,
            n,
            k,
            BLOCK_M=BLOCK_M,
            BLOCK_N=BLOCK_N,
            BLOCK_K=BLOCK_K,
            GROUP=GROUP,
            WHOLE=MASK_DEPTH == "where needed" and k % BLOCK_K == 0,
            num_warps=WARPS,
            num_stages=STAGES,
        )
        return y
