import torch
from torch import nn


class Clip(nn.Module):
    def forward(self, x):
        return x.clamp(-1, 1)


class ClippedMean(nn.Module):
    def __init__(self):
        super().__init__()
        self.clip = Clip()

    def forward(self, x):
        return self.clip(x).mean(dim=1)


def get_inputs():
    torch.manual_seed(3)
    for rows in (4, 32):
        yield [torch.randn(rows, 64)]


def get_init_inputs():
    return []
