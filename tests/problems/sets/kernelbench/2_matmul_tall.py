import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super(Model, self).__init__()

    def forward(self, a, b):
        return torch.matmul(a, b.T)


M, K, N = 16384 * 2, 1024, 16


def get_inputs():
    a = torch.rand(M, K)
    b = torch.rand(N, K)
    return [a, b]


def get_init_inputs():
    return []
