import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super(Model, self).__init__()

    def forward(self, a, b):
        return torch.bmm(a, b)


batch_size = 128
m = 128 * 4
k = 256 * 4
n = 512 * 4


def get_inputs():
    a = torch.rand(batch_size, m, k)
    b = torch.rand(batch_size, k, n)
    return [a, b]


def get_init_inputs():
    return []
