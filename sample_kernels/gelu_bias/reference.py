"""The GELU of GPT-2 (a tanh) after the bias of a linear layer."""

import math

import torch
from torch import nn

TOKENS = 256
HIDDEN = 3072


class Model(nn.Module):
    """`z = x + bias; y = z / 2 * (1 + tanh(sqrt(2 / pi) * (z + 0.044715 z^3)))`."""

    def forward(self, x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        z = x + bias
        inner = math.sqrt(2.0 / math.pi) * (z + 0.044715 * torch.pow(z, 3.0))
        return 0.5 * z * (1.0 + torch.tanh(inner))


def get_inputs() -> list[torch.Tensor]:
    """Return the product of a linear layer, and its bias."""
    return [2.0 * torch.randn(TOKENS, HIDDEN), torch.randn(HIDDEN)]


def get_init_inputs() -> list[object]:
    return []
