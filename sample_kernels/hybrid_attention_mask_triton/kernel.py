"""Attention with a hybrid mask in Triton: online softmax, invisible blocks are skipped."""

import math

import torch
import triton
import triton.language as tl
from torch import nn

# Queries of one program, and keys per step.
BLOCK_QUERIES = 32  # tune: [16, 32, 64]
BLOCK_KEYS = 32  # tune: [16, 32, 64]
# Blocks of keys in the gap between prefix and window are skipped, or masked like the others.
SKIP_GAP = True  # tune: [True, False]
# Warps per program, and pipeline stages. They matter only on a GPU.
WARPS = 4  # tune: [2, 4, 8]
STAGES = 2  # tune: [1, 2, 3]


@triton.jit
def attend(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    length,
    window,
    prefix,
    scale,
    WIDTH: tl.constexpr,
    PADDED: tl.constexpr,
    BLOCK_QUERIES: tl.constexpr,
    BLOCK_KEYS: tl.constexpr,
    SKIP_GAP: tl.constexpr,
):
    # All tensors are contiguous: (batch x heads, length, WIDTH).
    head = tl.program_id(1) * length * WIDTH
    first = tl.program_id(0) * BLOCK_QUERIES
    row = first + tl.arange(0, BLOCK_QUERIES)
    # Block sizes are powers of two: columns beyond the width are zero and add nothing.
    width = tl.arange(0, PADDED)[None, :]
    inside = width < WIDTH
    mine = (row < length)[:, None] & inside
    q = tl.load(q_ptr + head + row[:, None] * WIDTH + width, mask=mine, other=0.0)
    high = tl.full((BLOCK_QUERIES,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK_QUERIES,), tl.float32)
    kept = tl.zeros((BLOCK_QUERIES, PADDED), tl.float32)
    for start in range(0, tl.minimum(first + BLOCK_QUERIES, length), BLOCK_KEYS):
        in_gap = (start >= prefix) & (start + BLOCK_KEYS <= first - window + 1)
        if not (SKIP_GAP and in_gap):
            column = start + tl.arange(0, BLOCK_KEYS)
            columns_in = column < length
            where = head + column[:, None] * WIDTH + width
            theirs = columns_in[:, None] & inside
            k = tl.load(k_ptr + where, mask=theirs, other=0.0)
            v = tl.load(v_ptr + where, mask=theirs, other=0.0)
            # Full float32 precision; tensor cores round to TF32 otherwise.
            scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
            behind = row[:, None] - column[None, :]
            seen = (behind >= 0) & ((behind < window) | (column[None, :] < prefix))
            scores = tl.where(seen & columns_in[None, :], scores, -float("inf"))
            higher = tl.maximum(high, tl.max(scores, axis=1))
            # A row without a visible key so far keeps -inf, and -inf - -inf is NaN.
            base = tl.where(higher == -float("inf"), 0.0, higher)
            powers = tl.exp(scores - base[:, None])
            shrink = tl.exp(high - base)
            total = total * shrink + tl.sum(powers, axis=1)
            kept = kept * shrink[:, None] + tl.dot(powers, v, input_precision="ieee")
            high = higher
    tl.store(out_ptr + head + row[:, None] * WIDTH + width, kept / total[:, None], mask=mine)


class ModelNew(nn.Module):
    def __init__(self, window: int, prefix: int) -> None:
        super().__init__()
        self.window = window
        self.prefix = prefix

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        batch, heads, length, width = q.shape
        out = torch.empty_like(q)
        grid = (triton.cdiv(length, BLOCK_QUERIES), batch * heads)
        attend[grid](
            q,
            k,
            v,
            out,
            length,
            self.window,
            self.prefix,
            1.0 / math.sqrt(width),
            WIDTH=width,
            # The smallest side that tensor cores accept is 16.
            PADDED=max(16, triton.next_power_of_2(width)),
            BLOCK_QUERIES=BLOCK_QUERIES,
            BLOCK_KEYS=BLOCK_KEYS,
            SKIP_GAP=SKIP_GAP,
            num_warps=WARPS,
            num_stages=STAGES,
        )
        return out
