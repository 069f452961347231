from typing import List

import torch
import torch_npu
from torch_npu.contrib import transfer_to_npu
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, alpha):
        super(Model, self).__init__()
        self.alpha = alpha

    def forward(self, input1: torch.Tensor, input2: torch.Tensor) -> torch.Tensor:
        return torch.add(input1, input2, alpha=self.alpha)


class ModelNew(nn.Module):
    def forward(self, input1, input2):
        import kernel_gen_ops
        return kernel_gen_ops.scaled_add(input1, input2)
