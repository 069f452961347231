import torch


def get_inputs(param, device=None):
    return [torch.randn(int(param["rows"]), int(param["columns"]), device=device)]


def get_init_inputs(param, device=None):
    return []
