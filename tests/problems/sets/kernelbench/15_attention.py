import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super(Model, self).__init__()

    def forward(self, q, k, v):
        return nn.functional.scaled_dot_product_attention(q, k, v)


batch_size = 32
num_heads = 32
sequence_length = 512
embedding_dimension = 1024


def get_inputs():
    q = torch.rand(batch_size, num_heads, sequence_length, embedding_dimension)
    k = torch.rand(batch_size, num_heads, sequence_length, embedding_dimension)
    v = torch.rand(batch_size, num_heads, sequence_length, embedding_dimension)
    return [q, k, v]


def get_init_inputs():
    return []
