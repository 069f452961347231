"""Layer normalisation over the last dimension, with weight and bias."""

import torch
from torch import nn

ROWS = 16
COLUMNS = 512
EPSILON = 1e-5


class Model(nn.Module):
    """`y[r, c] = (x[r, c] - mean_r) / sqrt(var_r + eps) * weight[c] + bias[c]`."""

    def __init__(self, epsilon: float) -> None:
        super().__init__()
        self.epsilon = epsilon

    def forward(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return nn.functional.layer_norm(x, (x.shape[-1],), weight, bias, self.epsilon)


def get_inputs() -> list[torch.Tensor]:
    """Return activations off the mean of zero, and one weight and bias per column."""
    x = 2.0 * torch.randn(ROWS, COLUMNS) + torch.randn(ROWS, 1)
    return [x, torch.randn(COLUMNS), torch.randn(COLUMNS)]


def get_init_inputs() -> list[object]:
    return [EPSILON]
