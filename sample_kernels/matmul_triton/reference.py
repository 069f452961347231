"""The product of two matrices in half precision."""

import torch
from torch import nn

M = 96
N = 128
K = 192


class Model(nn.Module):
    """`y = a @ b` with `a` of shape (M, K) and `b` of shape (K, N)."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(M, K, dtype=torch.float16), torch.randn(K, N, dtype=torch.float16)]


def get_init_inputs() -> list[object]:
    return []
