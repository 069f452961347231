"""Flash attention, forward, in Triton: online softmax over blocks of keys, causal or not."""

import math

import torch
import triton
import triton.language as tl
from torch import nn

# Queries of one program, and keys per step.
BLOCK_QUERIES = 32  # tune: [16, 32, 64, 128]
BLOCK_KEYS = 32  # tune: [16, 32, 64, 128]
# Every block of keys is masked, or only those at the diagonal and at the end.
MASKED = "every block"  # tune: ["every block", "edges"]
# Whose programs start first: those of the last queries have the most keys if causal.
ORDER = "first"  # tune: ["first", "last"]
# Warps per program, and pipeline stages. They matter only on a GPU.
WARPS = 4  # tune: [2, 4, 8]
STAGES = 2  # tune: [1, 2, 3, 4]


@triton.jit
def over_keys(
    q,
    high,
    total,
    kept,
    k_ptr,
    v_ptr,
    row,
    start_at,
    end_at,
    length,
    scale,
    WIDTH: tl.constexpr,
    PADDED: tl.constexpr,
    BLOCK_KEYS: tl.constexpr,
    MASKED: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    """Return maximum, sum and weighted values after the blocks of keys of a range."""
    width = tl.arange(0, PADDED)[None, :]
    inside = width < WIDTH
    for start in range(start_at, end_at, BLOCK_KEYS):
        column = start + tl.arange(0, BLOCK_KEYS)
        where = column[:, None] * WIDTH + width
        theirs = inside
        if MASKED:
            theirs = theirs & (column < length)[:, None]
        k = tl.load(k_ptr + where, mask=theirs, other=0.0)
        v = tl.load(v_ptr + where, mask=theirs, other=0.0)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        if MASKED:
            seen = (column < length)[None, :]
            if CAUSAL:
                seen = seen & (column[None, :] <= row[:, None])
            scores = tl.where(seen, scores, -float("inf"))
        # The first block has a key for each query, so that no maximum is -inf.
        higher = tl.maximum(high, tl.max(scores, axis=1))
        powers = tl.exp2(scores - higher[:, None])
        shrink = tl.exp2(high - higher)
        total = total * shrink + tl.sum(powers, axis=1)
        kept = tl.dot(powers.to(v.dtype), v, kept * shrink[:, None], input_precision="ieee")
        high = higher
    return high, total, kept


@triton.jit
def attend(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    length,
    scale,
    WIDTH: tl.constexpr,
    PADDED: tl.constexpr,
    BLOCK_QUERIES: tl.constexpr,
    BLOCK_KEYS: tl.constexpr,
    EDGES: tl.constexpr,
    LAST_FIRST: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    # All tensors are contiguous: (batch x heads, length, WIDTH).
    block = tl.program_id(0)
    if LAST_FIRST:
        block = tl.num_programs(0) - 1 - block
    head = tl.program_id(1).to(tl.int64) * length * WIDTH
    first = block * BLOCK_QUERIES
    row = first + tl.arange(0, BLOCK_QUERIES)
    # Block sizes are powers of two: columns beyond the width are zero and add nothing.
    width = tl.arange(0, PADDED)[None, :]
    mine = (row < length)[:, None] & (width < WIDTH)
    q = tl.load(q_ptr + head + row[:, None] * WIDTH + width, mask=mine, other=0.0)
    high = tl.full((BLOCK_QUERIES,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK_QUERIES,), tl.float32)
    kept = tl.zeros((BLOCK_QUERIES, PADDED), tl.float32)
    end = length
    whole = length // BLOCK_KEYS * BLOCK_KEYS
    if CAUSAL:
        end = tl.minimum(first + BLOCK_QUERIES, length)
        # Keys up to the first query are seen by all queries of the program.
        whole = tl.minimum(whole, (first + 1) // BLOCK_KEYS * BLOCK_KEYS)
    if EDGES:
        high, total, kept = over_keys(
            q, high, total, kept, k_ptr + head, v_ptr + head, row, 0, whole, length, scale,
            WIDTH, PADDED, BLOCK_KEYS, False, CAUSAL,
        )  # fmt: skip
        high, total, kept = over_keys(
            q, high, total, kept, k_ptr + head, v_ptr + head, row, whole, end, length, scale,
            WIDTH, PADDED, BLOCK_KEYS, True, CAUSAL,
        )  # fmt: skip
    else:
        high, total, kept = over_keys(
            q, high, total, kept, k_ptr + head, v_ptr + head, row, 0, end, length, scale,
            WIDTH, PADDED, BLOCK_KEYS, True, CAUSAL,
        )  # fmt: skip
    out = (kept / total[:, None]).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + head + row[:, None] * WIDTH + width, out, mask=mine)


class ModelNew(nn.Module):
    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.causal = causal

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        batch, heads, length, width = q.shape
        out = torch.empty_like(q)
        attend[(triton.cdiv(length, BLOCK_QUERIES), batch * heads)](
            q,
            k,
            v,
            out,
            length,
            # The exponential of base two is one instruction.
            math.log2(math.e) / math.sqrt(width),
            WIDTH=width,
            # The smallest side that tensor cores accept is 16.
            PADDED=max(16, triton.next_power_of_2(width)),
            BLOCK_QUERIES=BLOCK_QUERIES,
            BLOCK_KEYS=BLOCK_KEYS,
            EDGES=MASKED == "edges",
            LAST_FIRST=ORDER == "last",
            CAUSAL=self.causal,
            num_warps=WARPS,
            num_stages=STAGES,
        )
        return out
