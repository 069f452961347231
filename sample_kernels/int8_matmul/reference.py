"""A linear layer whose weights are stored as 8-bit integers with a scale for each output."""

import torch
from torch import nn

TOKENS = 1
OUT = 1024
IN = 1024


class Model(nn.Module):
    """`y[t, o] = scale[o] * sum_i x[t, i] * weight[o, i]`."""

    def forward(self, x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return x @ (weight.float() * scale[:, None]).T


def get_inputs() -> list[torch.Tensor]:
    """Return activations, weights from -127 to 127, and their scales."""
    weight = torch.randint(-127, 128, (OUT, IN), dtype=torch.int8)
    return [torch.randn(TOKENS, IN), weight, 0.01 * torch.rand(OUT) + 0.001]


def get_init_inputs() -> list[object]:
    return []
