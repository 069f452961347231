"""Attention with a hybrid mask: causal, within a window or in a global prefix."""

import math

import torch
from torch import nn

BATCH = 1
HEADS = 4
LENGTH = 384
WIDTH = 64
WINDOW = 64
PREFIX = 32


class Model(nn.Module):
    """Query `i` sees key `j` if `j <= i` and (`i - j < window` or `j < prefix`).

    `qkv` has shape (batch, length, 3, heads, width), the output of one projection; the result
    has shape (batch, heads, length, width).
    """

    def __init__(self, window: int, prefix: int) -> None:
        super().__init__()
        self.window = window
        self.prefix = prefix

    def forward(self, qkv: torch.Tensor) -> torch.Tensor:
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        row = torch.arange(q.shape[-2])[:, None]
        column = torch.arange(q.shape[-2])[None, :]
        allowed = (column <= row) & ((row - column < self.window) | (column < self.prefix))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        return torch.softmax(scores.masked_fill(~allowed, -math.inf), dim=-1) @ v


def get_inputs() -> list[torch.Tensor]:
    """Return queries, keys and values packed in one tensor, the output of one projection."""
    return [torch.randn(BATCH, LENGTH, 3, HEADS, WIDTH)]


def get_init_inputs() -> list[object]:
    return [WINDOW, PREFIX]
