"""The hybrid attention mask in Triton, before and after what an agent found on an Ascend NPU.

Three findings, one after the other: accesses that lie next to one another are merged and a branch
that is always taken is dropped; the mask is made once from `torch.ones` and `triu`, and not in each
program from `arange`s; what of the mask's work changes nothing is dropped. Step 0 is the seed, each
further step has one finding more. `tests/evidence/recorded_hivm.zip` has their programs in HIVM for
Ascend910B1, by triton-ascend 3.2.0 and ascendnpu-ir 1.2.0.
"""

from __future__ import annotations

FINDINGS = ("MERGED", "TRIU", "LEAN")
STEPS = range(len(FINDINGS) + 1)


def kernel(step: int) -> str:
    """Return the kernel's file of a step."""
    text = KERNEL
    for name in FINDINGS[:step]:
        text = text.replace(f"{name} = False\n", f"{name} = True\n")
    return text


KERNEL = """
import math

import torch
import triton
import triton.language as tl
from torch import nn

BLOCK = 32
MERGED = False
TRIU = False
LEAN = False


@triton.jit
def rows_of(pointer, at, length, width, WIDTH: tl.constexpr):
    inside = (at < length)[:, None] & (width < WIDTH)[None, :]
    return tl.load(pointer + at[:, None] * WIDTH + width[None, :], mask=inside, other=0.0)


@triton.jit
def attend(
    q_ptr,
    k_ptr,
    v_ptr,
    hidden_ptr,
    out_ptr,
    length,
    window,
    prefix,
    scale,
    WIDTH: tl.constexpr,
    PADDED: tl.constexpr,
    BLOCK: tl.constexpr,
    MERGED: tl.constexpr,
    TRIU: tl.constexpr,
    LEAN: tl.constexpr,
):
    head = tl.program_id(1) * length * WIDTH
    first = tl.program_id(0) * BLOCK
    row = first + tl.arange(0, BLOCK)
    PIECE: tl.constexpr = PADDED if MERGED else PADDED // 2
    width = tl.arange(0, PIECE)
    width_high = width + PIECE
    q = rows_of(q_ptr + head, row, length, width, WIDTH)
    if not MERGED:
        q_high = rows_of(q_ptr + head, row, length, width_high, WIDTH)
    high = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    kept = tl.zeros((BLOCK, PIECE), tl.float32)
    kept_high = tl.zeros((BLOCK, PIECE), tl.float32)
    for start in range(0, tl.minimum(first + BLOCK, length), BLOCK):
        # Every block begins before the end, so that the branch is never left out.
        if MERGED or start < length:
            column = start + tl.arange(0, BLOCK)
            k = rows_of(k_ptr + head, column, length, width, WIDTH)
            v = rows_of(v_ptr + head, column, length, width, WIDTH)
            scores = tl.dot(q, tl.trans(k), input_precision="ieee")
            if not MERGED:
                k_high = rows_of(k_ptr + head, column, length, width_high, WIDTH)
                v_high = rows_of(v_ptr + head, column, length, width_high, WIDTH)
                scores += tl.dot(q_high, tl.trans(k_high), input_precision="ieee")
            scores = scores * scale
            if TRIU:
                inside = (row < length)[:, None] & (column < length)[None, :]
                scores += tl.load(
                    hidden_ptr + row[:, None] * length + column[None, :], mask=inside, other=-1e30
                )
            else:
                behind = row[:, None] - column[None, :]
                seen = (behind >= 0) & ((behind < window) | (column[None, :] < prefix))
                scores = tl.where(seen, scores, -float("inf"))
            if not LEAN:
                # Keys past the end, which no query that is stored sees.
                scores = tl.where((column < length)[None, :], scores, -float("inf"))
            higher = tl.maximum(high, tl.max(scores, axis=1))
            if LEAN:
                # What is hidden has a finite score, so that no maximum is infinite.
                base = higher
            else:
                base = tl.where(higher == -float("inf"), 0.0, higher)
            powers = tl.exp(scores - base[:, None])
            shrink = tl.exp(high - base)
            total = total * shrink + tl.sum(powers, axis=1)
            kept = kept * shrink[:, None] + tl.dot(powers, v, input_precision="ieee")
            if not MERGED:
                kept_high = kept_high * shrink[:, None] + tl.dot(
                    powers, v_high, input_precision="ieee"
                )
            high = higher
    where = out_ptr + head + row[:, None] * WIDTH
    mine = (row < length)[:, None]
    tl.store(where + width[None, :], kept / total[:, None], mask=mine & (width < WIDTH)[None, :])
    if not MERGED:
        inside = mine & (width_high < WIDTH)[None, :]
        tl.store(where + width_high[None, :], kept_high / total[:, None], mask=inside)


class ModelNew(nn.Module):
    def __init__(self, window: int, prefix: int) -> None:
        super().__init__()
        self.window = window
        self.prefix = prefix

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        batch, heads, length, width = q.shape
        out = torch.empty_like(q)
        ones = torch.ones(length, length)
        old = ones.tril(-self.window)
        old[:, : self.prefix] = 0.0
        hidden = (ones.triu(1) + old) * -1e30
        attend[(triton.cdiv(length, BLOCK), batch * heads)](
            q,
            k,
            v,
            hidden,
            out,
            length,
            self.window,
            self.prefix,
            1.0 / math.sqrt(width),
            WIDTH=width,
            PADDED=max(16, triton.next_power_of_2(width)),
            BLOCK=BLOCK,
            MERGED=MERGED,
            TRIU=TRIU,
            LEAN=LEAN,
        )
        return out
"""
