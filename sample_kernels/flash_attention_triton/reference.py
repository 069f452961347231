"""Attention in half precision, causal or over all keys."""

import torch
from torch import nn

BATCH = 1
HEADS = 2
LENGTH = 96
WIDTH = 32
CAUSAL = 1


class Model(nn.Module):
    """`softmax(q k^T / sqrt(width)) v`; if causal, a query sees the keys up to its own position.

    `q`, `k` and `v` have shape (batch, heads, length, width); the result has it too.
    """

    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.causal = causal

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)


def get_inputs() -> list[torch.Tensor]:
    """Return queries, keys and values."""
    return [torch.randn(BATCH, HEADS, LENGTH, WIDTH).half() for _ in range(3)]


def get_init_inputs() -> list[object]:
    return [bool(CAUSAL)]
