"""The running sum of the elements that a mask lets through, along each row."""

import torch
from torch import nn

ROWS = 128
LENGTH = 4000


class Model(nn.Module):
    """`y[r, t] = sum over s <= t of x[r, s] where mask[r, s]`."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(x * mask, dim=1)


def get_inputs() -> list[torch.Tensor]:
    """Return values, and a mask that lets half of them through."""
    return [torch.randn(ROWS, LENGTH), torch.rand(ROWS, LENGTH) < 0.5]


def get_init_inputs() -> list[object]:
    return []
