import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, input_size, hidden_size, num_layers):
        super().__init__()
        self.lstm = nn.LSTM(input_size, hidden_size, num_layers, batch_first=True, dropout=0.0)

    def forward(self, x, h0, c0):
        out, state = self.lstm(x, (h0, c0))
        return out[:, -1, :]


batch_size = 10
sequence_length = 512
input_size = 128
hidden_size = 256
num_layers = 3


def get_inputs():
    return [
        torch.rand(batch_size, sequence_length, input_size),
        torch.rand((num_layers, batch_size, hidden_size)),
        torch.rand((num_layers, batch_size, hidden_size)),
    ]


def get_init_inputs():
    return [input_size, hidden_size, num_layers]
