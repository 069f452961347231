"""The K largest values of each row, in descending order."""

import torch
from torch import nn

ROWS = 128
COLUMNS = 4096
K = 8


class Model(nn.Module):
    """`y[r, :]` are the `k` largest of `x[r, :]`, the largest one first."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.topk(x, self.k, dim=-1).values


def get_inputs() -> list[torch.Tensor]:
    """Return scores."""
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs() -> list[object]:
    return [K]
