"""A depthwise convolution of 3 x 3 with padding 1, as in mobile networks."""

import torch
from torch import nn

BATCH = 2
CHANNELS = 64
HEIGHT = 56
WIDTH = 56


class Model(nn.Module):
    """`y[n, c, i, j] = sum_kl x[n, c, i + k - 1, j + l - 1] * weight[c, 0, k, l]`."""

    def forward(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return nn.functional.conv2d(x, weight, padding=1, groups=x.shape[1])


def get_inputs() -> list[torch.Tensor]:
    """Return feature maps, and a filter for each channel."""
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH), torch.randn(CHANNELS, 1, 3, 3)]


def get_init_inputs() -> list[object]:
    return []
