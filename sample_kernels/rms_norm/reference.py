"""RMS normalisation over the channels of a feature map (channels before positions)."""

import torch
from torch import nn

BATCH = 2
CHANNELS = 1024
POSITIONS = 256
EPSILON = 1e-5


class Model(nn.Module):
    """`y[b, c, p] = x[b, c, p] / sqrt(mean_k x[b, k, p]^2 + eps) * weight[c]`."""

    def __init__(self, epsilon: float) -> None:
        super().__init__()
        self.epsilon = epsilon

    def forward(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        mean_square = x.pow(2).mean(dim=1, keepdim=True)
        return x * torch.rsqrt(mean_square + self.epsilon) * weight[:, None]


def get_inputs() -> list[torch.Tensor]:
    """Return activations and one weight per channel."""
    return [torch.randn(BATCH, CHANNELS, POSITIONS), torch.randn(CHANNELS)]


def get_init_inputs() -> list[object]:
    return [EPSILON]
