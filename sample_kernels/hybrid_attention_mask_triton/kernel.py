"""Attention with a hybrid mask in Triton: online softmax, and three things to improve."""

import math

import torch
import triton
import triton.language as tl
from torch import nn

# Queries of one program, and keys per step.
BLOCK_QUERIES = 32  # tune: [16, 32, 64]
BLOCK_KEYS = 32  # tune: [16, 32, 64]
# Rows of q, k and v are read in two halves that are joined, or in one merged access.
ACCESS = "halves"  # tune: ["halves", "merged"]
# How the mask is made: by index arithmetic in each program, or from triangles of ones, once.
MASK_FROM = "arange"  # tune: ["arange", "triangle"]
# The mask is made for every block of keys, or left out where all queries see all keys.
MASK_FOR = "every block"  # tune: ["every block", "edges"]
# The score of a hidden key. With -inf every block checks for rows without a visible key so far.
HIDDEN = "-inf"  # tune: ["-inf", "finite"]
# Blocks of keys in the gap between prefix and window are skipped, or masked like the others.
SKIP_GAP = True  # tune: [True, False]
# Warps per program, and pipeline stages. They matter only on a GPU.
WARPS = 4  # tune: [2, 4, 8]
STAGES = 2  # tune: [1, 2, 3]


@triton.jit
def load_rows(
    pointer,
    row,
    length,
    WIDTH: tl.constexpr,
    PADDED: tl.constexpr,
    ROWS: tl.constexpr,
    MERGED: tl.constexpr,
):
    """Return rows of a contiguous matrix; they and the padding are zero beyond its end."""
    start_of, rows_in = (row * WIDTH)[:, None], (row < length)[:, None]
    if MERGED:
        width = tl.arange(0, PADDED)[None, :]
        tile = tl.load(pointer + start_of + width, mask=rows_in & (width < WIDTH), other=0.0)
    else:
        width = tl.arange(0, PADDED // 2)[None, :]
        left = tl.load(pointer + start_of + width, mask=rows_in & (width < WIDTH), other=0.0)
        width += PADDED // 2
        right = tl.load(pointer + start_of + width, mask=rows_in & (width < WIDTH), other=0.0)
        tile = tl.reshape(tl.permute(tl.join(left, right), (0, 2, 1)), (ROWS, PADDED))
    return tile


@triton.jit
def attend(
    q_ptr,
    k_ptr,
    v_ptr,
    mask_ptr,
    out_ptr,
    length,
    window,
    prefix,
    scale,
    WIDTH: tl.constexpr,
    PADDED: tl.constexpr,
    BLOCK_QUERIES: tl.constexpr,
    BLOCK_KEYS: tl.constexpr,
    MERGED: tl.constexpr,
    LOAD_MASK: tl.constexpr,
    EDGES: tl.constexpr,
    FINITE: tl.constexpr,
    SKIP_GAP: tl.constexpr,
):
    # All tensors are contiguous: (batch x heads, length, WIDTH).
    head = tl.program_id(1) * length * WIDTH
    first = tl.program_id(0) * BLOCK_QUERIES
    row = first + tl.arange(0, BLOCK_QUERIES)
    # Block sizes are powers of two: columns beyond the width are zero and add nothing.
    q = load_rows(q_ptr + head, row, length, WIDTH, PADDED, BLOCK_QUERIES, MERGED)
    hidden: tl.constexpr = -1e30 if FINITE else -float("inf")
    high = tl.full((BLOCK_QUERIES,), hidden, tl.float32)
    total = tl.zeros((BLOCK_QUERIES,), tl.float32)
    kept = tl.zeros((BLOCK_QUERIES, PADDED), tl.float32)
    for start in range(0, tl.minimum(first + BLOCK_QUERIES, length), BLOCK_KEYS):
        in_gap = (start >= prefix) & (start + BLOCK_KEYS <= first - window + 1)
        if not (SKIP_GAP and in_gap):
            column = start + tl.arange(0, BLOCK_KEYS)
            k = load_rows(k_ptr + head, column, length, WIDTH, PADDED, BLOCK_KEYS, MERGED)
            v = load_rows(v_ptr + head, column, length, WIDTH, PADDED, BLOCK_KEYS, MERGED)
            # Full float32 precision; tensor cores round to TF32 otherwise.
            scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
            last = first + BLOCK_QUERIES - 1
            near = (last - start < window) | (start + BLOCK_KEYS <= prefix)
            if not (EDGES and (start + BLOCK_KEYS <= first + 1) & near):
                columns_in = (column < length)[None, :]
                if LOAD_MASK:
                    at = row[:, None] * length + column[None, :]
                    inside = (row < length)[:, None] & columns_in
                    seen = tl.load(mask_ptr + at, mask=inside, other=0) != 0
                else:
                    behind = row[:, None] - column[None, :]
                    seen = (behind >= 0) & ((behind < window) | (column[None, :] < prefix))
                    seen = seen & columns_in
                scores = tl.where(seen, scores, hidden)
            higher = tl.maximum(high, tl.max(scores, axis=1))
            base = higher
            if not FINITE:
                # A row without a visible key so far keeps -inf, and -inf - -inf is NaN.
                base = tl.where(higher == hidden, 0.0, higher)
            powers = tl.exp(scores - base[:, None])
            shrink = tl.exp(high - base)
            total = total * shrink + tl.sum(powers, axis=1)
            kept = kept * shrink[:, None] + tl.dot(powers, v, input_precision="ieee")
            high = higher
    width = tl.arange(0, PADDED)[None, :]
    mine = (row < length)[:, None] & (width < WIDTH)
    # Rows beyond the length may have no visible key: their sum is not divided by.
    out = kept / tl.where(total == 0.0, 1.0, total)[:, None]
    tl.store(out_ptr + head + row[:, None] * WIDTH + width, out, mask=mine)


class ModelNew(nn.Module):
    def __init__(self, window: int, prefix: int) -> None:
        super().__init__()
        self.window = window
        self.prefix = prefix
        self.masks: dict[tuple[int, torch.device], torch.Tensor] = {}

    def mask(self, length: int, device: torch.device) -> torch.Tensor:
        """Return one byte for each query and key, made once for a length."""
        if (length, device) not in self.masks:
            ones = torch.ones(length, length, dtype=torch.int8, device=device)
            seen = ones.triu(1 - self.window)
            seen[:, : self.prefix] = 1
            self.masks[length, device] = seen.tril()
        return self.masks[length, device]

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        batch, heads, length, width = q.shape
        out = torch.empty_like(q)
        grid = (triton.cdiv(length, BLOCK_QUERIES), batch * heads)
        attend[grid](
            q,
            k,
            v,
            self.mask(length, q.device) if MASK_FROM == "triangle" else None,
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
            MERGED=ACCESS == "merged",
            LOAD_MASK=MASK_FROM == "triangle",
            EDGES=MASK_FOR == "edges",
            FINITE=HIDDEN == "finite",
            SKIP_GAP=SKIP_GAP,
            num_warps=WARPS,
            num_stages=STAGES,
        )
        return out
