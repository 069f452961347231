"""RMS normalisation over the last dimension, with one weight a column."""

import torch
from torch import nn

ROWS = 16
COLUMNS = 512
EPSILON = 1e-5


class Model(nn.Module):
    """`y[r, c] = x[r, c] / sqrt(mean_k x[r, k]^2 + eps) * weight[c]`."""

    def __init__(self, epsilon: float) -> None:
        super().__init__()
        self.epsilon = epsilon

    def forward(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return nn.functional.rms_norm(x, (x.shape[-1],), weight, self.epsilon)


def get_inputs() -> list[torch.Tensor]:
    """Return activations and one weight per column."""
    return [torch.randn(ROWS, COLUMNS), torch.randn(COLUMNS)]


def get_init_inputs() -> list[object]:
    return [EPSILON]
