"""Attention with a hybrid mask: causal, within a window or in a global prefix."""

import math

import torch
from torch import nn

BATCH = 1
HEADS = 2
LENGTH = 100
WIDTH = 32
WINDOW = 24
PREFIX = 8


class Model(nn.Module):
    """Query `i` sees key `j` if `j <= i` and (`i - j < window` or `j < prefix`).

    `q`, `k` and `v` have shape (batch, heads, length, width); the result has it too.
    """

    def __init__(self, window: int, prefix: int) -> None:
        super().__init__()
        self.window = window
        self.prefix = prefix

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        row = torch.arange(q.shape[-2], device=q.device)[:, None]
        column = torch.arange(q.shape[-2], device=q.device)[None, :]
        allowed = (column <= row) & ((row - column < self.window) | (column < self.prefix))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        return torch.softmax(scores.masked_fill(~allowed, -math.inf), dim=-1) @ v


def get_inputs() -> list[torch.Tensor]:
    shape = (BATCH, HEADS, LENGTH, WIDTH)
    return [torch.randn(shape), torch.randn(shape), torch.randn(shape)]


def get_init_inputs() -> list[object]:
    return [WINDOW, PREFIX]
