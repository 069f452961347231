"""The product of two upper triangular matrices."""

import torch
from torch import nn

N = 768


class Model(nn.Module):
    """`y = triu(a) @ triu(b)`, which is upper triangular too."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.triu(torch.matmul(torch.triu(a), torch.triu(b)))


def get_inputs() -> list[torch.Tensor]:
    """Return two square matrices, of which the upper triangles count."""
    return [torch.randn(N, N), torch.randn(N, N)]


def get_init_inputs() -> list[object]:
    return []
