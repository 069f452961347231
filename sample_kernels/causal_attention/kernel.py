"""Causal attention in PyTorch, and the knobs to tune it."""

import math

import torch
from torch import nn

# Queries computed together, against the keys up to the last of them; 0: all at once.
BLOCK = 0  # tune: [0, 32, 64, 128, 256]
# The mask: over all keys of a block, or over its square on the diagonal alone.
MASK = "all"  # tune: ["all", "square"]
# The scale of the scores: of the scores, or of the queries, which are fewer numbers.
SCALE = "scores"  # tune: ["scores", "queries"]
# The softmax: step by step, `torch.softmax`, or with the division after the values.
SOFTMAX = "steps"  # tune: ["steps", "library", "divide_last"]
# Heads computed together; 0: all.
HEADS = 0  # tune: [0, 1, 2]


class ModelNew(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        q, k, v = (each.contiguous() for each in (q, k, v))
        shape = q.shape
        q, k, v = (each.flatten(0, -3) for each in (q, k, v))
        y = torch.empty_like(q)
        heads = HEADS or q.shape[0]
        for at in range(0, q.shape[0], heads):
            some = slice(at, at + heads)
            self.attend(q[some], k[some], v[some], y[some])
        return y.view(shape)

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, y: torch.Tensor) -> None:
        length, scale = q.shape[-2], 1.0 / math.sqrt(q.shape[-1])
        if SCALE == "queries":
            q = q * scale
        for first in range(0, length, BLOCK or length):
            last = min(first + (BLOCK or length), length)
            scores = q[:, first:last] @ k[:, :last].transpose(-2, -1)
            if SCALE == "scores":
                scores = scores * scale
            # Key j of query first + i is later if j > first + i.
            square = scores[:, :, first:] if MASK == "square" else scores
            offset = 1 if MASK == "square" else first + 1
            later = torch.ones(square.shape[-2:], dtype=torch.bool).triu_(offset)
            square.masked_fill_(later, -math.inf)
            y[:, first:last] = weighted(scores, v[:, :last])


def weighted(scores: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Return softmax(scores) @ v."""
    if SOFTMAX == "library":
        return torch.softmax(scores, dim=-1) @ v
    powers = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
    total = powers.sum(dim=-1, keepdim=True)
    if SOFTMAX == "steps":
        return (powers / total) @ v
    return (powers @ v) / total
