"""Causal attention, batched over heads."""

import math

import torch
from torch import nn

BATCH = 1
HEADS = 4
LENGTH = 512
DEPTH = 64


class Model(nn.Module):
    """`y = softmax(q k^T / sqrt(depth) where key <= query) v`, for each head."""

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        length = q.shape[-2]
        mask = torch.ones(length, length, dtype=torch.bool).tril()
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        return torch.softmax(scores.masked_fill(~mask, -math.inf), dim=-1) @ v


def get_inputs() -> list[torch.Tensor]:
    """Return queries, keys and values."""
    return [torch.randn(BATCH, HEADS, LENGTH, DEPTH) for _ in range(3)]


def get_init_inputs() -> list[object]:
    return []
