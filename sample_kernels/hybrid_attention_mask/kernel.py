"""Attention with a hybrid mask: a plain PyTorch kernel, and the knobs to tune it."""

import math

import torch
from torch import nn

# How often the mask is made: for every head, for every call, or once per length.
MASK_MADE = "per_head"  # tune: ["per_head", "per_call", "once"]
# How the mask is made: index arithmetic in 64-bit integers, or triangles of ones.
MASK_FROM = "arange"  # tune: ["arange", "triangle"]
# How the mask is applied: one `where` per condition, one in-place fill, or one addition of -inf.
MASK_BY = "where"  # tune: ["where", "fill", "add"]
# How q, k and v are unpacked: three copies, one merged copy, or strided views.
LOADS = "separate"  # tune: ["separate", "merged", "views"]
# The product of queries and keys: scaled afterwards, scaled beforehand, or in 16 bits.
SCORES = "scale_after"  # tune: ["scale_after", "scale_before", "bfloat16"]
# The softmax: step by step, `torch.softmax`, or with the division after the values.
SOFTMAX = "steps"  # tune: ["steps", "library", "divide_last"]
# Queries processed together, against the keys that they can see; 0: all queries and all keys.
BLOCK = 0  # tune: [0, 32, 64, 128, 256]


class ModelNew(nn.Module):
    def __init__(self, window: int, prefix: int) -> None:
        super().__init__()
        self.window = window
        self.prefix = prefix
        self.kept_masks: dict[int, tuple[torch.Tensor, ...]] = {}

    def forward(self, qkv: torch.Tensor) -> torch.Tensor:
        q, k, v = self.unpack(qkv)
        if MASK_MADE == "per_head":
            heads = range(q.shape[0])
            outputs = [self.attend(q[h : h + 1], k[h : h + 1], v[h : h + 1]) for h in heads]
            out = torch.cat(outputs)
        else:
            out = self.attend(q, k, v)
        batch, length, _, heads_each, width = qkv.shape
        return out.view(batch, heads_each, length, width)

    def unpack(self, qkv: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return q, k and v, each of shape (batch x heads, length, width)."""
        if LOADS == "separate":
            q, k, v = (qkv[:, :, i].transpose(1, 2).contiguous().flatten(0, 1) for i in range(3))
        elif LOADS == "merged":
            q, k, v = qkv.permute(2, 0, 3, 1, 4).contiguous().flatten(1, 2)
        else:
            q, k, v = qkv.permute(2, 0, 3, 1, 4).flatten(1, 2)
        return q, k, v

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        length = q.shape[1]
        mask = self.mask(length)
        if not BLOCK:
            return self.attend_all(q, k, v, mask)
        out = torch.empty(q.shape)  # contiguous, whatever the strides of q
        for first in range(0, length, BLOCK):
            last = min(first + BLOCK, length)
            near = first - self.window + 1
            if near <= self.prefix:
                keys, values = k[:, :last], v[:, :last]
                part = tuple(m[first:last, :last] for m in mask)
            else:
                # Only the prefix and the window of the block; the gap is not computed.
                keys = torch.cat((k[:, : self.prefix], k[:, near:last]), dim=1)
                values = torch.cat((v[:, : self.prefix], v[:, near:last]), dim=1)
                part = tuple(
                    torch.cat((m[first:last, : self.prefix], m[first:last, near:last]), dim=1)
                    for m in mask
                )
            out[:, first:last] = self.attend_all(q[:, first:last], keys, values, part)
        return out

    def attend_all(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: tuple[torch.Tensor, ...]
    ) -> torch.Tensor:
        scale = 1.0 / math.sqrt(q.shape[-1])
        if SCORES == "scale_after":
            scores = (q @ k.transpose(-2, -1)) * scale
        elif SCORES == "scale_before":
            scores = (q * scale) @ k.transpose(-2, -1)
        else:
            scores = ((q * scale).bfloat16() @ k.bfloat16().transpose(-2, -1)).float()
        return weighted(masked(scores, mask), v)

    def mask(self, length: int) -> tuple[torch.Tensor, ...]:
        if MASK_MADE != "once":
            return self.make_mask(length)
        if length not in self.kept_masks:
            self.kept_masks[length] = self.make_mask(length)
        return self.kept_masks[length]

    def make_mask(self, length: int) -> tuple[torch.Tensor, ...]:
        """Return the mask for `masked`: two conditions, or one tensor that combines both."""
        if MASK_FROM == "arange":
            row = torch.arange(length)[:, None]
            column = torch.arange(length)[None, :]
            causal = column <= row
            local = (row - column < self.window) | (column < self.prefix)
        else:
            ones = torch.ones(length, length, dtype=torch.bool)
            causal = ones.tril()
            local = ones.triu(1 - self.window)
            local[:, : self.prefix] = True
        if MASK_BY == "where":
            return causal, local
        forbidden = (causal & local).logical_not_()
        if MASK_BY == "fill":
            return (forbidden,)
        return (torch.zeros(length, length).masked_fill_(forbidden, -math.inf),)


def masked(scores: torch.Tensor, mask: tuple[torch.Tensor, ...]) -> torch.Tensor:
    if MASK_BY == "where":
        for condition in mask:
            scores = torch.where(condition, scores, -math.inf)
        return scores
    if MASK_BY == "fill":
        return scores.masked_fill_(mask[0], -math.inf)
    return scores.add_(mask[0])


def weighted(scores: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Return softmax(scores) @ v."""
    if SOFTMAX == "library":
        return torch.softmax(scores, dim=-1) @ v
    powers = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
    total = powers.sum(dim=-1, keepdim=True)
    if SOFTMAX == "steps":
        return (powers / total) @ v
    return (powers @ v) / total
