import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return a @ b


def get_input_groups():
    return [[torch.randn(n, 2 * n), torch.randn(2 * n, n)] for n in (32, 64, 128)]


def get_init_inputs():
    return []
