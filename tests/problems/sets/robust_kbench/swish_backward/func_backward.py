import torch
import torch.nn as nn


def backward_fn(grad_output: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    s = torch.sigmoid(x)
    return grad_output * (s + x * s * (1 - s))


class Model(nn.Module):
    def forward(self, grad_output, x, fn=backward_fn):
        return fn(grad_output, x)


def get_inputs(rows: int = 64, columns: int = 128):
    return [torch.randn(rows, columns), torch.randn(rows, columns)]
